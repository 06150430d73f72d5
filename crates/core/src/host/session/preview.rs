//! The preview of a message in a list: its words on one line, without Markdown and code blocks.

/// How many characters a preview has at most.
const LONGEST: usize = 200;

/// The beginning of a text on one line.
pub(super) fn on_one_line(text: &str) -> String {
    let line = words(beginning(text));
    if line.chars().count() > LONGEST {
        line.chars().take(LONGEST - 1).chain(['…']).collect()
    } else {
        line
    }
}

/// The beginning of a Markdown text. A text that has nothing but code is shown as it is.
pub(super) fn of_message(markdown: &str) -> String {
    let plain = plain(beginning(markdown), false);
    on_one_line(if plain.is_empty() { markdown } else { &plain })
}

/// The end of a Markdown text of which the beginning is missing. It starts with a whole sentence, line or word.
pub(super) fn of_message_end(markdown: &str) -> String {
    let starts_in_code = starts_in_code(markdown);
    let plain = Some(plain(markdown, starts_in_code)).filter(|plain| !plain.is_empty());
    let is_shown_as_it_is = plain.is_none();
    let text = plain.unwrap_or_else(|| markdown.trim().to_owned());
    let left_out = text.chars().count().saturating_sub(LONGEST - 1);
    let end: String = text.chars().skip(left_out).collect();
    let starts_whole = starts_in_code && !is_shown_as_it_is && left_out == 0;
    let line = words(if starts_whole { &end } else { from_whole(&end) });
    if line.is_empty() { line } else { format!("…{line}") }
}

/// As much of a text as a preview may need: the rest of a long text is not read.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(LONGEST * 8).map_or(text, |(end, _)| &text[..end])
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("```").or_else(|| line.strip_prefix("~~~"))
}

/// Whether a text without its beginning starts within a code block: the first fence closes the block, so it has no
/// language, and it has no partner.
fn starts_in_code(markdown: &str) -> bool {
    let mut fences = markdown.lines().filter_map(fence);
    let first_may_close = fences.next().is_some_and(|language| language.trim().is_empty());
    first_may_close && fences.count().is_multiple_of(2)
}

/// The lines of a Markdown text without code blocks, rules, and the usual marks.
fn plain(markdown: &str, mut in_code: bool) -> String {
    let mut lines = Vec::new();
    for line in markdown.lines() {
        if fence(line).is_some() {
            in_code = !in_code;
        } else if !in_code {
            let line = line.trim().trim_matches('|').trim_start_matches(['>', ' ']);
            let line = line.trim_start_matches('#').strip_prefix(' ').unwrap_or(line);
            let line = without_prefix(line, ["- ", "* ", "+ "]);
            let line = without_prefix(line, ["[ ] ", "[x] ", "[X] "]);
            let is_rule = line.chars().all(|sign| " -:|=*_".contains(sign));
            if !is_rule {
                lines.push(without_targets(line).replace("***", "").replace("**", "").replace('`', ""));
            }
        }
    }
    lines.join("\n")
}

fn without_prefix<'a>(line: &'a str, prefixes: [&str; 3]) -> &'a str {
    prefixes.into_iter().find_map(|prefix| line.strip_prefix(prefix)).unwrap_or(line)
}

/// A line with the labels of its links only.
fn without_targets(mut line: &str) -> String {
    let mut labels = String::new();
    while let Some((before, target)) = line.split_once("](")
        && let Some((text, label)) = before.rsplit_once('[')
        && let Some((_, after)) = target.split_once(')')
    {
        labels.extend([text, label]);
        line = after;
    }
    labels + line
}

/// A text from its first whole sentence or line on, or else from its first whole word on.
fn from_whole(text: &str) -> &str {
    let ends = ["\n", ". ", "? ", "! "].into_iter().filter_map(|end| Some(text.find(end)? + end.len()));
    let sentence = ends.min().map(|start| text[start..].trim());
    let word = || text.split_once(char::is_whitespace).map(|(_, rest)| rest);
    sentence.filter(|rest| !rest.is_empty()).or_else(word).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preview_of_a_message_has_no_markdown() {
        let message = "## What changes\n\n- [x] **`watch`** keeps [its rule](https://example.com)\n\n|a|b|\n|--|:-:|\n\n```rust\nfn a() {}\n```\nDone.";
        assert_eq!(of_message(message), "What changes watch keeps its rule a|b Done.");
        assert_eq!(of_message("```\nls -l\n```"), "``` ls -l ```");
        assert_eq!(of_message("#5: 2 * 3, a_b, [x] and C#"), "#5: 2 * 3, a_b, [x] and C#");
        assert_eq!(of_message(&"word ".repeat(100)).chars().count(), LONGEST);
    }

    #[test]
    fn preview_of_a_message_end_starts_with_a_whole_sentence() {
        assert_eq!(of_message_end("et start = 1;\n```\n\nShall I go on?"), "…Shall I go on?");
        assert_eq!(of_message_end("f it. The **rest** follows."), "…The rest follows.");
        assert_eq!(of_message_end("f the last item\n- another item"), "…another item");
        assert_eq!(of_message_end("nd here:\n```sh\nls\n"), "…here:");
        assert_eq!(of_message_end("lf words only"), "…words only");
        assert_eq!(of_message_end("word"), "…word");
        assert_eq!(of_message_end(" \n"), "");
    }
}
