//! Diffs. Version 1 sends a file's whole text before and after; version 2 lists the changed files and may add a Git
//! patch. A patch made here has the whole file as its only hunk, so both texts can be read back exactly; a new, empty
//! file has no hunk.

use std::fmt::Write as _;

/// What Git writes after a last line without a newline.
const NO_NEWLINE: &str = "\\ No newline at end of file";

/// A patch for one file; `old` is `None` for a new file.
pub(super) fn of_texts(path: &str, old: Option<&str>, new: &str) -> String {
    let (from, to) = (quoted(&format!("a{}", rooted(path))), quoted(&format!("b{}", rooted(path))));
    let mut text = format!("diff --git {from} {to}\n");
    if old.is_some() {
        write_line(&mut text, "--- ", &from);
    } else {
        text.push_str("new file mode 100644\n");
        if new.is_empty() {
            // Git writes no hunk for an empty file, and rejects an empty hunk.
            return text;
        }
        write_line(&mut text, "--- ", "/dev/null");
    }
    write_line(&mut text, "+++ ", &to);
    let (old, new) = (lines(old.unwrap_or_default()), lines(new));
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - before;
    let after = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let start = |lines: &[&str]| usize::from(!lines.is_empty());
    // Writing to a text cannot fail.
    let _written = writeln!(text, "@@ -{},{} +{},{} @@", start(&old), old.len(), start(&new), new.len());
    let (old_middle, new_middle) = (before..old.len() - after, before..new.len() - after);
    for line in old.get(..before).unwrap_or_default() {
        hunk_line(&mut text, ' ', line);
    }
    for line in old.get(old_middle).unwrap_or_default() {
        hunk_line(&mut text, '-', line);
    }
    for line in new.get(new_middle).unwrap_or_default() {
        hunk_line(&mut text, '+', line);
    }
    for line in old.get(old.len() - after..).unwrap_or_default() {
        hunk_line(&mut text, ' ', line);
    }
    text
}

fn write_line(patch: &mut String, head: &str, rest: &str) {
    patch.push_str(head);
    patch.push_str(rest);
    patch.push('\n');
}

fn hunk_line(patch: &mut String, mark: char, line: &str) {
    patch.push(mark);
    patch.push_str(line);
    if !line.ends_with('\n') {
        patch.push('\n');
        write_line(patch, NO_NEWLINE, "");
    }
}

/// The lines of a text, each with its newline.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn rooted(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// A path as Git writes it: quoted if it contains characters that would end the line or the path.
fn quoted(path: &str) -> String {
    if !path.chars().any(|char| char.is_control() || char == '"' || char == '\\') {
        return path.to_owned();
    }
    let mut text = String::from("\"");
    for char in path.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            char if char.is_control() => {
                let mut bytes = [0; 4];
                for byte in char.encode_utf8(&mut bytes).bytes() {
                    // Writing to a text cannot fail.
                    let _written = write!(text, "\\{byte:03o}");
                }
            }
            char => text.push(char),
        }
    }
    text.push('"');
    text
}

/// One file's part of a patch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Section<'a> {
    /// The text after `diff --git ` in its first line.
    both: &'a str,
    /// The text after `+++ ` and `--- ` in its headers.
    names: Vec<&'a str>,
    /// Whether it is a new text file.
    is_new: bool,
    /// The text before and after, for each hunk.
    pub(super) hunks: Vec<(String, String)>,
}

impl Section<'_> {
    /// Whether its headers name this file.
    pub(super) fn is_of(&self, path: &str) -> bool {
        let names = ["a", "b"].map(|side| quoted(&format!("{side}{}", rooted(path))));
        let [from, to] = &names;
        self.both == format!("{from} {to}")
            || self.names.iter().any(|name| names.iter().any(|known| known == name))
    }
}

/// The files of a patch. Lines outside of hunks are skipped, so any text can be read.
pub(super) fn sections(patch: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    // How many lines the current hunk still has on either side.
    let mut remaining = (0_usize, 0_usize);
    let mut last = ' ';
    for line in patch.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        let is_hunks = remaining != (0, 0) || (bare == NO_NEWLINE && last != ' ');
        if is_hunks && let Some((old, new)) = sections.last_mut().and_then(|section| section.hunks.last_mut())
        {
            last = read_line(line, bare, last, (old, new), &mut remaining);
            continue;
        }
        last = ' ';
        if let Some(both) = bare.strip_prefix("diff --git ") {
            sections.push(Section { both, ..Section::default() });
        } else if bare.starts_with("new file mode ") || bare.starts_with("Binary files ") {
            let is_new = bare.starts_with('n');
            sections.last_mut().into_iter().for_each(|section| section.is_new = is_new);
        } else if let Some(name) = bare.strip_prefix("+++ ").or_else(|| bare.strip_prefix("--- ")) {
            let is_first = sections.last().is_none_or(|section| section.names.len() > 1);
            if is_first {
                sections.push(Section::default());
            }
            if let Some(section) = sections.last_mut() {
                section.names.push(name);
            }
        } else if let (Some(counts), Some(section)) = (hunk_counts(bare), sections.last_mut()) {
            remaining = counts;
            section.hunks.push((String::new(), String::new()));
        }
    }
    for section in sections.iter_mut().filter(|section| section.is_new && section.hunks.is_empty()) {
        section.hunks.push((String::new(), String::new()));
    }
    sections
}

/// Takes a line of a hunk, and returns its mark.
fn read_line(
    line: &str,
    bare: &str,
    last: char,
    (old, new): (&mut String, &mut String),
    remaining: &mut (usize, usize),
) -> char {
    if bare == NO_NEWLINE {
        for (text, mark) in [(old, '-'), (new, '+')] {
            if (last == mark || last == '=') && text.ends_with('\n') {
                text.pop();
            }
        }
        return ' ';
    }
    let ended = |text: &mut String, rest: &str| {
        text.push_str(rest);
        if !rest.ends_with('\n') {
            text.push('\n');
        }
    };
    let mark = if bare.is_empty() { ' ' } else { line.chars().next().unwrap_or(' ') };
    let rest = line.strip_prefix(mark).unwrap_or(line);
    match mark {
        '-' => {
            ended(old, rest);
            remaining.0 = remaining.0.saturating_sub(1);
            '-'
        }
        '+' => {
            ended(new, rest);
            remaining.1 = remaining.1.saturating_sub(1);
            '+'
        }
        _ => {
            ended(old, rest);
            ended(new, rest);
            *remaining = (remaining.0.saturating_sub(1), remaining.1.saturating_sub(1));
            '='
        }
    }
}

/// The line counts in `@@ -1,2 +3,4 @@`; an omitted count is one.
fn hunk_counts(line: &str) -> Option<(usize, usize)> {
    let ranges = line.strip_prefix("@@ -")?.split(" @@").next()?;
    let (old, new) = ranges.split_once(" +")?;
    let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok());
    Some((count(old)?, count(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_reads_as_git_writes_it() {
        let patch = of_texts("/a/b", Some("same\nold\nend"), "same\nnew\nend");
        let expected = "diff --git a/a/b b/a/b\n--- a/a/b\n+++ b/a/b\n@@ -1,3 +1,3 @@\n same\n-old\n+new\n end\n\\ No newline at end of file\n";
        assert_eq!(patch, expected);
        let added = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+x\n";
        assert_eq!(of_texts("/n", None, "x\n"), added);
        assert_eq!(of_texts("/n", None, ""), "diff --git a/n b/n\nnew file mode 100644\n");
    }

    #[test]
    fn the_hunks_of_a_foreign_patch_are_read_one_by_one() {
        let patch = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@ fn a\n-a\n+b\n@@ -9,2 +9 @@\n c\n-+++ d\ndiff --git a/y b/y\nnew file mode 100644\nindex 0..1\nBinary files /dev/null and b/y differ\n";
        let texts = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
        };
        let sections = sections(patch);
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[0].hunks, texts(&[("a\n", "b\n"), ("c\n+++ d\n", "c\n")]));
        assert!(sections[0].is_of("/x") && sections[0].is_of("x") && !sections[0].is_of("/y"));
        assert!(sections[1].is_of("/y") && sections[1].hunks.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn both_texts_can_be_read_back_from_a_patch(
            path in "/[a-z\"\\\\ \n\t]{1,8}",
            old in proptest::option::of("([ab+@-]{0,2}\n?){0,6}"),
            new in "([ab+@-]{0,2}\n?){0,6}",
        ) {
            let patch = of_texts(&path, old.as_deref(), &new);
            let sections = sections(&patch);
            proptest::prop_assert_eq!(sections.len(), 1);
            proptest::prop_assert!(sections[0].is_of(&path));
            let whole = vec![(old.unwrap_or_default(), new)];
            proptest::prop_assert_eq!(&sections[0].hunks, &whole);
        }

        #[test]
        fn any_text_is_read_as_a_patch_and_nothing_panics(text in "([-+ @\\\\]?[-+,0-9a @]{0,9}\n?){0,9}") {
            let read: usize = sections(&text).iter().map(|section| section.hunks.len()).sum();
            proptest::prop_assert!(read <= text.lines().count());
        }
    }
}
