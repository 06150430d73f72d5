//! Renders an edit as a unified diff of bounded length: a person must see the change before approving it, and a large
//! file must not flood the terminal. Omissions are named.

use std::fmt::Write;

use imara_diff::{Algorithm, Diff, InternedInput};

use super::sanitize::shorten;

/// How many context lines surround a change.
const CONTEXT: usize = 3;
/// How much is shown of what a tool call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Detail {
    /// A part that fits a terminal.
    #[default]
    Short,
    /// Everything, up to a size that a person can still scroll through.
    Whole,
}

impl Detail {
    /// One of two limits.
    pub(crate) fn limit(self, short: usize, whole: usize) -> usize {
        match self {
            Self::Short => short,
            Self::Whole => whole,
        }
    }

    fn diff_lines(self) -> usize {
        self.limit(80, 20_000)
    }

    fn diff_width(self) -> usize {
        self.limit(240, 10_000)
    }
}

/// One line of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffLine<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The diff between two texts of a file; without an old text the file is new.
pub(crate) fn unified(path: &str, old: Option<&str>, new: &str, detail: Detail) -> String {
    let from = if old.is_some() { path } else { "/dev/null" };
    let mut shown = format!("--- {from}\n+++ {path}\n");
    let lines =
        compare(&old.unwrap_or_default().lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let hunks = hunks(&lines);
    let total: usize = hunks.iter().map(|hunk| hunk.len() + 1).sum();
    let (mut room, mut left_out) = (detail.diff_lines(), total);
    for hunk in hunks {
        if room < 2 {
            break;
        }
        let before = &lines[..hunk.start];
        let (old_at, new_at) = (count(before, is_old) + 1, count(before, is_new) + 1);
        let within = &lines[hunk.clone()];
        // Writing to a string cannot fail.
        let _ =
            writeln!(shown, "@@ -{old_at},{} +{new_at},{} @@", count(within, is_old), count(within, is_new));
        (room, left_out) = (room - 1, left_out - 1);
        // If not everything fits, removed lines must not crowd out the added ones.
        let mut removed_left = if within.len() > room { room / 2 } else { within.len() };
        for line in within {
            let (sign, text) = match line {
                DiffLine::Removed(_) if removed_left == 0 => continue,
                DiffLine::Removed(text) => ('-', text),
                DiffLine::Same(text) => (' ', text),
                DiffLine::Added(text) => ('+', text),
            };
            if room == 0 {
                break;
            }
            removed_left -= usize::from(sign == '-');
            (room, left_out) = (room - 1, left_out - 1);
            let _ = writeln!(shown, "{sign}{}", shorten(text, detail.diff_width()));
        }
    }
    if left_out > 0 {
        let _ = writeln!(shown, "... ({left_out} more lines)");
    }
    shown
}

fn is_old(line: &DiffLine<'_>) -> bool {
    !matches!(line, DiffLine::Added(_))
}

fn is_new(line: &DiffLine<'_>) -> bool {
    !matches!(line, DiffLine::Removed(_))
}

fn count(lines: &[DiffLine<'_>], which: fn(&DiffLine<'_>) -> bool) -> usize {
    lines.iter().filter(|line| which(line)).count()
}

/// The changes with their context; changes near each other share a hunk.
fn hunks(lines: &[DiffLine<'_>]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| !matches!(line, DiffLine::Same(_))) {
        let (start, end) = (index.saturating_sub(CONTEXT), (index + 1 + CONTEXT).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

/// Both texts line by line.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let mut input = InternedInput::default();
    input.update_before(old.iter().copied());
    input.update_after(new.iter().copied());
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_no_heuristic(&input);
    let line_index = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let (mut lines, mut at) = (Vec::with_capacity(new.len()), 0);
    for hunk in diff.hunks() {
        let (before, after) = (
            line_index(hunk.before.start)..line_index(hunk.before.end),
            line_index(hunk.after.start)..line_index(hunk.after.end),
        );
        lines.extend(old[at..before.start].iter().copied().map(DiffLine::Same));
        at = before.end;
        lines.extend(old[before].iter().copied().map(DiffLine::Removed));
        lines.extend(new[after].iter().copied().map(DiffLine::Added));
    }
    lines.extend(old[at..].iter().copied().map(DiffLine::Same));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn short(path: &str, old: Option<&str>, new: &str) -> String {
        unified(path, old, new, Detail::Short)
    }

    #[test]
    fn diff_shows_a_change_with_its_context() {
        let old: Vec<String> = (1..=20).map(|number| format!("line {number}")).collect();
        let new = old.join("\n").replace("line 5\n", "line five\nand more\n").replace("line 17\n", "");
        let expected = "\
--- a.txt
+++ a.txt
@@ -2,7 +2,8 @@
 line 2
 line 3
 line 4
-line 5
+line five
+and more
 line 6
 line 7
 line 8
@@ -14,7 +15,6 @@
 line 14
 line 15
 line 16
-line 17
 line 18
 line 19
 line 20
";
        assert_eq!(short("a.txt", Some(&old.join("\n")), &new), expected);
    }

    #[test]
    fn diff_of_a_new_file_is_added_lines_only() {
        assert_eq!(short("a", None, "x\ny\n"), "--- /dev/null\n+++ a\n@@ -1,0 +1,2 @@\n+x\n+y\n");
        assert_eq!(short("a", Some("x\n"), "x\n"), "--- a\n+++ a\n");
    }

    #[test]
    fn long_diff_is_cut_and_marked() {
        let long = "x".repeat(Detail::Short.diff_width() + 7);
        assert!(short("a", None, &long).contains("... (7 more characters)\n"));
        let shown = short("a", None, &"line\n".repeat(100_000));
        let most = Detail::Short.diff_lines();
        assert_eq!(shown.lines().count(), 2 + most + 1);
        assert!(shown.ends_with(&format!("... ({} more lines)\n", 100_001 - most)));
    }

    #[test]
    fn diff_shows_added_lines_of_a_long_file() {
        let numbers =
            |from: usize| (from..from + 3000).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
        let shown = short("a", Some(&numbers(0)), &numbers(9000));
        assert!(shown.contains("@@ -1,3000 +1,3000 @@\n-0\n-1\n"), "{shown}");
        assert!(
            shown.contains("\n-38\n+9000\n+9001\n") && shown.ends_with("... (5921 more lines)\n"),
            "{shown}"
        );
        let edited = numbers(0).replacen("0\n", "first\n", 1).replace("\n2995\n", "\nlast\n");
        let expected = "\
--- a
+++ a
@@ -1,4 +1,4 @@
-0
+first
 1
 2
 3
@@ -2993,7 +2993,7 @@
 2992
 2993
 2994
-2995
+last
 2996
 2997
 2998
";
        assert_eq!(short("a", Some(&numbers(0)), &edited), expected);
    }

    proptest! {
        #[test]
        fn diff_has_all_old_and_all_new_lines_in_order(
            old in prop::collection::vec("[abc]", 0..12), new in prop::collection::vec("[abc]", 0..12),
        ) {
            let (old, new): (Vec<&str>, Vec<&str>) =
                (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
            let lines = compare(&old, &new);
            let text = |which: fn(&DiffLine<'_>) -> bool| -> Vec<&str> {
                lines.iter().filter(|line| which(line)).map(|line| match line {
                    DiffLine::Same(text) | DiffLine::Removed(text) | DiffLine::Added(text) => *text,
                }).collect()
            };
            prop_assert_eq!(text(is_old), old);
            prop_assert_eq!(text(is_new), new);
        }
    }
}
