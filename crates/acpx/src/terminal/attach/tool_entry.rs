//! A tool call in the conversation: its title and state, then its command, diff or output.

use acpx_core::acp::block_words;
use acpx_core::model::TerminalTexts;
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use serde_json::{Map, Value};

use crate::output::{Detail, clean, command_line, first_named, on_one_line, unified_diff, without_fence};
use crate::terminal::render::wrap::{Prefix, wrap, wrap_code};

/// How many lines of an output are shown: the last ones, because errors are at the end.
const OUTPUT_LINES: usize = 8;
/// How many lines of a diff are shown.
const DIFF_LINES: usize = 40;

/// A tool call with its merged fields.
#[derive(Debug, Default)]
pub(super) struct ToolEntry {
    fields: Map<String, Value>,
}

impl ToolEntry {
    /// Merges an update; a null field is unchanged.
    pub(super) fn merge(&mut self, fields: &str) {
        if let Ok(Value::Object(update)) = serde_json::from_str(fields) {
            self.fields.extend(update.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }

    /// Whether it has ended.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.text("status"), Some("completed" | "failed" | "cancelled"))
    }

    /// Its lines. One that has not ended in a turn that has, was given up. A pending request shows the diffs itself.
    pub(super) fn lines(
        &self,
        terminals: &TerminalTexts,
        width: usize,
        is_over: bool,
        detail: Detail,
        has_diffs: bool,
    ) -> Vec<Line<'static>> {
        let (mark, color) = match self.text("status") {
            Some("completed") => ("✓", Color::Green),
            Some("failed") => ("✗", Color::Red),
            _ if is_over => ("–", Color::DarkGray),
            _ => ("●", Color::Yellow),
        };
        let title = self.text("title").or_else(|| self.text("toolCallId")).unwrap_or("tool");
        let title = on_one_line(title);
        let prefix = Prefix { first: vec![mark.fg(color), " ".into()], rest: vec!["  ".into()] };
        let mut lines = wrap(&[title.clone().bold()], &prefix, width);
        let input = self.fields.get("rawInput");
        let command = input.and_then(command_line);
        match &command {
            Some(command) if *command != title => lines.extend(indented("$ ", command, Style::new(), width)),
            None => {
                let subject = input.and_then(first_named).filter(|subject| !title.contains(subject.as_str()));
                lines.extend(subject.iter().flat_map(|subject| indented("", subject, dim(), width)));
            }
            Some(_) => {}
        }
        lines.extend(self.content(terminals, width, detail, has_diffs));
        lines
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    fn content(
        &self,
        terminals: &TerminalTexts,
        width: usize,
        detail: Detail,
        has_diffs: bool,
    ) -> Vec<Line<'static>> {
        let content = self.fields.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut lines = Vec::new();
        for item in content {
            let text = |name: &str| item.get(name).and_then(Value::as_str);
            match text("type") {
                Some("diff") if !has_diffs => {}
                Some("diff") => {
                    let (path, new) = (text("path").unwrap_or("-"), text("newText").unwrap_or_default());
                    lines.extend(diff(&unified_diff(path, text("oldText"), new, detail), width, detail));
                }
                Some("terminal") => {
                    let terminal = text("terminalId").and_then(|id| terminals.get(id));
                    lines.extend(
                        terminal.into_iter().flat_map(|terminal| output(&terminal.output, width, detail)),
                    );
                }
                Some("content") => {
                    let words = item.get("content").map_or_else(String::new, block_words);
                    lines.extend(output(without_fence(words.trim()), width, detail));
                }
                _ => {}
            }
        }
        lines
    }
}

/// The output of a tool.
fn output(text: &str, width: usize, detail: Detail) -> Vec<Line<'static>> {
    let text = clean(text.trim_end()).replace('\t', "    ");
    let all: Vec<&str> = text.lines().collect();
    let skipped = all.len().saturating_sub(detail.limit(OUTPUT_LINES, usize::MAX));
    let more = (skipped > 0).then(|| format!("… {skipped} lines above"));
    let shown = all.into_iter().skip(skipped);
    let lines = more.iter().map(String::as_str).chain(shown);
    lines.flat_map(|line| indented("", line, dim(), width)).collect()
}

/// A diff, with colours; without the lines that only name the file if the title does.
pub(super) fn diff(unified: &str, width: usize, detail: Detail) -> Vec<Line<'static>> {
    let all: Vec<&str> = unified.lines().collect();
    let most = detail.limit(DIFF_LINES, usize::MAX);
    let more = all.len().saturating_sub(most);
    let line = |line: &&str| {
        let style = match line.chars().next() {
            _ if line.starts_with("---") || line.starts_with("+++") => dim(),
            Some('+') => Style::new().fg(Color::Green),
            Some('-') => Style::new().fg(Color::Red),
            Some('@') => Style::new().fg(Color::Cyan),
            _ => Style::new(),
        };
        indented("", &clean(line).replace('\t', "    "), style, width)
    };
    let mut lines: Vec<Line<'static>> = all.iter().take(most).flat_map(line).collect();
    if more > 0 {
        lines.extend(indented("", &format!("… {more} more lines"), dim(), width));
    }
    lines
}

fn indented(mark: &str, text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    let prefix = Prefix { first: vec![format!("  {mark}").dim()], rest: vec!["    ".into()] };
    text.lines().flat_map(|line| wrap_code(&[Span::styled(line.to_owned(), style)], &prefix, width)).collect()
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(fields: &Value, width: usize) -> Vec<String> {
        let mut entry = ToolEntry::default();
        entry.merge(&fields.to_string());
        let lines = entry.lines(&TerminalTexts::default(), width, false, Detail::Short, true);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn command_is_shown_with_the_end_of_its_output() {
        let output: Vec<String> = (1..=10).map(|number| format!("line {number}")).collect();
        let output = output.join("\n");
        let fields = json!({
            "title": "Run tests", "status": "completed", "rawInput": { "command": "cargo test" },
            "content": [{ "type": "content", "content": { "type": "text", "text": format!("```console\n{output}\n```") } }],
        });
        let mut expected =
            vec!["✓ Run tests".to_owned(), "  $ cargo test".into(), "  … 2 lines above".into()];
        expected.extend((3..=10).map(|number| format!("  line {number}")));
        assert_eq!(texts(&fields, 40), expected);
    }

    #[test]
    fn edit_is_shown_as_a_diff_and_controls_are_left_out() {
        let fields = json!({
            "title": "Edit\u{1b}[31m a.txt", "status": "in_progress",
            "content": [{ "type": "diff", "path": "a.txt", "oldText": "one\n", "newText": "two\u{7}\n" }],
        });
        let expected =
            ["● Edit[31m a.txt", "  --- a.txt", "  +++ a.txt", "  @@ -1,1 +1,1 @@", "  -one", "  +two"];
        assert_eq!(texts(&fields, 40), expected);
    }
}
