//! What an edit would change, as a unified diff of a bounded length: a person who is asked about it must see it, and a
//! file of any size must not flood the terminal. What is left out is said.

use std::fmt::Write;

/// How many lines stand around a change.
const CONTEXT: usize = 3;
/// How many lines are shown.
const LINES: usize = 80;
/// How long a line may be.
const WIDTH: usize = 240;
/// How many pairs of lines are compared. Where there are more, all of the old is shown as gone and all of the new as
/// come.
const PAIRS: usize = 1 << 20;

/// One line of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    Come(&'a str),
}

/// The difference between two texts of a file; without an old one the file is new.
pub(super) fn unified(path: &str, old: Option<&str>, new: &str) -> String {
    let from = if old.is_some() { path } else { "/dev/null" };
    let mut shown = format!("--- {from}\n+++ {path}\n");
    let lines =
        compare(&old.unwrap_or_default().lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let hunks = hunks(&lines);
    let total: usize = hunks.iter().map(|hunk| hunk.len() + 1).sum();
    let mut room = LINES;
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
        room -= 1;
        for line in within.iter().take(room) {
            let (sign, text) = match line {
                Line::Same(text) => (' ', text),
                Line::Gone(text) => ('-', text),
                Line::Come(text) => ('+', text),
            };
            let _ = writeln!(shown, "{sign}{}", cut(text));
        }
        room = room.saturating_sub(within.len());
    }
    if total > LINES {
        let _ = writeln!(shown, "... ({} more lines)", total - LINES);
    }
    shown
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}... ({} more characters)", &line[..end], line[end..].chars().count()),
        None => line.to_owned(),
    }
}

fn is_old(line: &Line<'_>) -> bool {
    !matches!(line, Line::Come(_))
}

fn is_new(line: &Line<'_>) -> bool {
    !matches!(line, Line::Gone(_))
}

fn count(lines: &[Line<'_>], which: fn(&Line<'_>) -> bool) -> usize {
    lines.iter().filter(|line| which(line)).count()
}

/// The changes with what stands around them; those that are near each other are one.
fn hunks(lines: &[Line<'_>]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| !matches!(line, Line::Same(_))) {
        let (start, end) = (index.saturating_sub(CONTEXT), (index + 1 + CONTEXT).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

/// Both texts line by line. What is the same at both ends need not be compared.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_rest, end) = old_rest.split_at(old_rest.len() - tail);
    let new_rest = &new_rest[..new_rest.len() - tail];
    let same = |lines: &[&'a str]| lines.iter().copied().map(Line::Same).collect::<Vec<_>>();
    [same(&old[..head]), between(old_rest, new_rest), same(end)].concat()
}

/// The shortest way from one to the other, by the longest run of lines that both have in order.
fn between<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let gone = |lines: &[&'a str]| lines.iter().copied().map(Line::Gone).collect::<Vec<_>>();
    let come = |lines: &[&'a str]| lines.iter().copied().map(Line::Come).collect::<Vec<_>>();
    let width = new.len() + 1;
    if old.is_empty() || new.is_empty() || old.len().saturating_mul(new.len()) > PAIRS {
        return [gone(old), come(new)].concat();
    }
    // How many lines both have in common from a pair of places on.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
            lines.push(Line::Gone(old[i]));
            i += 1;
        } else {
            lines.push(Line::Come(new[j]));
            j += 1;
        }
    }
    lines.extend(gone(&old[i..]));
    lines.extend(come(&new[j..]));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_is_shown_with_what_stands_around_it() {
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
        assert_eq!(unified("a.txt", Some(&old.join("\n")), &new), expected);
    }

    #[test]
    fn a_new_file_is_all_new_and_one_that_stays_as_it_is_shows_nothing() {
        assert_eq!(unified("a", None, "x\ny\n"), "--- /dev/null\n+++ a\n@@ -1,0 +1,2 @@\n+x\n+y\n");
        assert_eq!(unified("a", Some("x\n"), "x\n"), "--- a\n+++ a\n");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let long = "x".repeat(WIDTH + 7);
        assert!(unified("a", None, &long).contains("... (7 more characters)\n"));
        let shown = unified("a", None, &"line\n".repeat(100_000));
        assert_eq!(shown.lines().count(), 2 + LINES + 1);
        assert!(shown.ends_with(&format!("... ({} more lines)\n", 100_001 - LINES)));
        // Too much to be compared: the old goes and the new comes.
        let numbers =
            |from: usize| (from..from + 3000).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
        let shown = unified("a", Some(&numbers(0)), &numbers(9000));
        assert!(shown.contains("@@ -1,3000 +1,3000 @@\n-0\n-1\n"));
    }

    proptest! {
        #[test]
        fn a_diff_has_all_of_the_old_and_all_of_the_new_in_order(
            old in prop::collection::vec("[abc]", 0..12), new in prop::collection::vec("[abc]", 0..12),
        ) {
            let (old, new): (Vec<&str>, Vec<&str>) =
                (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
            let lines = compare(&old, &new);
            let text = |which: fn(&Line<'_>) -> bool| -> Vec<&str> {
                lines.iter().filter(|line| which(line)).map(|line| match line {
                    Line::Same(text) | Line::Gone(text) | Line::Come(text) => *text,
                }).collect()
            };
            prop_assert_eq!(text(is_old), old);
            prop_assert_eq!(text(is_new), new);
        }
    }
}
