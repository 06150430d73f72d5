//! The words and styles of a turn on a terminal: sentences, symbols and a summary. In a pipe the lines are those of npm
//! acpx, in `text`, `tool` and `tool_io`.

use std::time::Duration;

use acpx_core::acp::block_words;
use acpx_core::model::{SessionUsage, TerminalText, TerminalTexts};
use serde_json::Value;

use super::result::{UsageTracker, cost, money};
use super::tool::{self, ToolCallView, command_line};
use super::{PromptResult, TurnStatus};
use crate::output::agent_request::{AgentRequest, RequestOutcome, RequestSubject};
use crate::output::diff::{Detail, unified};
use crate::output::sanitize::{WORDS, agent_text, ellipsize, on_one_line, one_line};
use crate::output::style::{Style, StyledText};

/// How many lines of output or of a diff are shown.
const LINES: usize = 28;
/// How much of an output is shown.
const CHARS: usize = 4000;
/// How much of a title or a command is shown.
const TITLE_CHARS: usize = 200;

/// The line of a tool call that has begun.
pub(super) fn begun_tool(tool: &ToolCallView) -> StyledText {
    StyledText::default().with(Style::Dim, format!("• {}\n", title(tool)))
}

/// A tool call that has ended: its title, then its command, diffs and output.
pub(super) fn ended_tool(tool: &ToolCallView, terminals: &TerminalTexts) -> StyledText {
    let is_failed = tool.text("status") == Some("failed");
    let title = title(tool);
    let mut shown = head(if is_failed { Mark::Failed } else { Mark::Done }, &title);
    let command = tool.fields.get("rawInput").and_then(command_line).map(|line| on_one_line(&line));
    if let Some(command) = command.filter(|command| !title.contains(command.as_str())) {
        shown = shown.with(Style::Dim, format!("  $ {}\n", ellipsize(&command, TITLE_CHARS)));
    }
    let content = tool.fields.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if content.is_empty() {
        return shown.then(block(&tool.fields.get("rawOutput").map(raw_output).unwrap_or_default()));
    }
    content.iter().fold(shown, |shown, item| shown.then(part(item, terminals)))
}

/// A tool call that did not end with its turn.
pub(super) fn unfinished_tool(tool: &ToolCallView) -> StyledText {
    head(Mark::Open, &format!("{} (not finished)", title(tool)))
}

/// The title of a tool call.
pub(super) fn title(tool: &ToolCallView) -> String {
    let title = tool.text("title").or_else(|| tool.text("toolCallId")).unwrap_or("a tool call");
    ellipsize(on_one_line(title).trim().trim_matches('`'), TITLE_CHARS)
}

/// How something stands.
#[derive(Debug, Clone, Copy)]
enum Mark {
    Done,
    Failed,
    Open,
}

fn head(mark: Mark, title: &str) -> StyledText {
    let (style, symbol) = match mark {
        Mark::Done => (Style::Good, "✓ "),
        Mark::Failed => (Style::Bad, "✗ "),
        Mark::Open => (Style::Dim, "• "),
    };
    StyledText::default().with(style, symbol).with(Style::Bold, format!("{title}\n"))
}

/// One part of a tool's content.
fn part(content: &Value, terminals: &TerminalTexts) -> StyledText {
    let text = |name: &str| content.get(name).and_then(Value::as_str);
    match text("type") {
        Some("content") => block(&content.get("content").map_or_else(String::new, block_words)),
        Some("diff") => {
            let path = agent_text(text("path").unwrap_or("-"));
            diff(&unified(&path, text("oldText"), text("newText").unwrap_or_default(), Detail::Short))
        }
        Some("terminal") => {
            terminals.get(text("terminalId").unwrap_or("-")).map(terminal).unwrap_or_default()
        }
        _ => StyledText::default(),
    }
}

/// The output in a raw result: its text, or what agents name so.
fn raw_output(output: &Value) -> String {
    let named = ["formatted_output", "aggregated_output", "output", "stdout"];
    let text = output.as_str().or_else(|| named.iter().find_map(|name| output.get(*name)?.as_str()));
    text.map_or_else(|| one_line(&output.to_string(), WORDS), str::to_owned)
}

/// The lines of a command in a terminal.
fn terminal(text: &TerminalText) -> StyledText {
    block(&tool::terminal(text))
}

/// Output, indented and shortened, without the fence that some agents put around it.
fn block(text: &str) -> StyledText {
    let text = ellipsize(without_fence(text.trim_end()), CHARS);
    limited(text.lines(), |line| (Style::Dim, line))
}

/// A diff, indented and shortened.
fn diff(text: &str) -> StyledText {
    limited(text.lines(), |line| match line.as_bytes().first() {
        _ if line.starts_with("---") || line.starts_with("+++") => (Style::Dim, line),
        Some(b'+') => (Style::Good, line),
        Some(b'-') => (Style::Bad, line),
        Some(b'@') => (Style::Accent, line),
        _ => (Style::Plain, line),
    })
}

fn limited<'a>(
    mut lines: impl Iterator<Item = &'a str>,
    styled: impl Fn(&'a str) -> (Style, &'a str),
) -> StyledText {
    let mut shown = StyledText::default();
    for (style, line) in lines.by_ref().take(LINES).map(styled) {
        shown = shown.with(style, format!("  {line}\n"));
    }
    match lines.count() {
        0 => shown,
        more => shown.with(Style::Dim, format!("  … ({more} more lines)\n")),
    }
}

/// A text without the Markdown fence around all of it.
pub(crate) fn without_fence(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((language, inner)) if !language.contains('`') && !inner.contains("```") => inner.trim_end(),
        _ => text,
    }
}

/// A plan with the state of its entries.
pub(super) fn plan(entries: &[Value]) -> StyledText {
    let mut shown = StyledText::default().with(Style::Bold, "Plan\n");
    for entry in entries {
        let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("-");
        let (style, symbol) = match field("status") {
            "completed" => (Style::Good, "  ✓ "),
            "in_progress" => (Style::Accent, "  ▸ "),
            _ => (Style::Dim, "  ○ "),
        };
        shown = shown.with(style, symbol).with(Style::Plain, format!("{}\n", agent_text(field("content"))));
    }
    shown
}

/// A request of the agent that waits for an answer; `None` for one that acpx answers at once.
pub(super) fn open_request(request: &AgentRequest) -> Option<StyledText> {
    let words = match &request.subject {
        RequestSubject::Permission(title, _) => format!("The agent asks for permission: {title}\n"),
        RequestSubject::Other if request.method == super::ELICITATION => {
            "The agent asks with a form\n".to_owned()
        }
        RequestSubject::Other => format!("The agent requests {}\n", request.method),
        RequestSubject::File(_) | RequestSubject::Command(_) | RequestSubject::Terminal(_) => return None,
    };
    Some(StyledText::default().with(Style::Warning, words))
}

/// How a request of the agent was answered.
pub(super) fn answered_request(request: &AgentRequest, end: &RequestOutcome) -> StyledText {
    let what = match &request.subject {
        RequestSubject::Permission(title, _) => {
            let words = format!("{}: {title}\n", capitalized(&request.permission_outcome(end)));
            return StyledText::default().with(Style::Dim, words);
        }
        RequestSubject::File(path) if request.method == "fs/read_text_file" => format!("Read {path}"),
        RequestSubject::File(path) => format!("Write {path}"),
        RequestSubject::Command(line) => format!("Run {line}"),
        RequestSubject::Terminal(_) | RequestSubject::Other => format!("Request {}", request.method),
    };
    let is_done = matches!(end, RequestOutcome::Done(_)) && end.word() == "completed";
    let what = if is_done { what } else { format!("{what} ({})", end.word()) };
    let head = head(if is_done { Mark::Done } else { Mark::Failed }, &what);
    match end.error() {
        Some(error) => head.with(Style::Dim, format!("  {error}\n")),
        None => head,
    }
}

/// A command of the agent that no tool call shows, with its output.
pub(super) fn command(text: &TerminalText) -> StyledText {
    let what = ellipsize(&on_one_line(&text.command), TITLE_CHARS);
    let mark = if text.exit.is_some() { Mark::Done } else { Mark::Open };
    let exit = text.exit.as_ref().map(|exit| format!("\n[{exit}]")).unwrap_or_default();
    head(mark, &format!("Run {what}")).then(block(&format!("{}{exit}", text.output.trim_end())))
}

fn capitalized(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Why an agent stopped, in words that fit before a time.
pub(crate) fn stop_words(reason: Option<&str>) -> String {
    match reason {
        None | Some("end_turn") => "done".to_owned(),
        Some("cancelled") => "cancelled".to_owned(),
        Some("refusal") => "the agent refused to go on".to_owned(),
        Some("max_tokens") => "stopped at the limit of tokens".to_owned(),
        Some("max_turn_requests") => "stopped at the limit of requests in a turn".to_owned(),
        Some(other) => format!("stopped ({})", agent_text(other)),
    }
}

/// The last line of a turn: how it ended, and what it used as far as known.
pub(super) fn summary(result: &PromptResult, usage: &UsageTracker) -> String {
    let time = result.duration_ms.map(|ms| seconds(Duration::from_millis(ms)));
    let ended = result.error.is_none() || result.status == TurnStatus::Completed;
    let ended = ended.then(|| {
        let words = stop_words(result.stop_reason.as_deref());
        match (&time, words.as_str()) {
            (Some(time), "done") => format!("done in {time}"),
            (Some(time), _) => format!("{words} after {time}"),
            (None, _) => words,
        }
    });
    let turn = usage.turn_cost(result);
    let context = usage.last().map(|usage| format!("context {} %", percent(usage)));
    let session = usage.last().and_then(|usage| usage.cost.as_ref());
    // The first turn is all that its session has cost.
    let session = session.filter(|session| turn.is_none() || session.money() != turn);
    let session = session.map(|session| format!("session {}", cost(session)));
    let turn = turn.map(|turn| format!("this turn {}", money(&turn)));
    let parts =
        [ended, result.usage.as_deref().and_then(|usage| tokens(usage.get())), turn, session, context];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The tokens of a turn.
fn tokens(usage: &str) -> Option<String> {
    let usage: Value = serde_json::from_str(usage).ok()?;
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).map(thousands);
    match (count("inputTokens"), count("outputTokens"), count("totalTokens")) {
        (Some(input), Some(output), _) => Some(format!("{input} tokens in, {output} out")),
        (_, _, total) => Some(format!("{} tokens", total?)),
    }
}

/// How much of the context is used.
pub(crate) fn percent(usage: &SessionUsage) -> u64 {
    usage.used.saturating_mul(100) / usage.size.max(1)
}

/// A number with commas between its thousands.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A time in seconds, with a decimal below ten, and in milliseconds where that would be nothing.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0 if time.as_millis() < 100 => format!("{} ms", time.as_millis()),
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_and_times_are_short() {
        let shown: Vec<String> = [0, 999, 1000, 1_234_567].map(thousands).to_vec();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        let shown: Vec<String> = [40, 4240, 12_900, 72_000].map(Duration::from_millis).map(seconds).to_vec();
        assert_eq!(shown, ["40 ms", "4.2 s", "12 s", "1 min 12 s"]);
    }

    #[test]
    fn fence_around_the_whole_output_is_removed() {
        let cases = [
            ("```console\nhi\n```", "hi"),
            ("```\na\nb\n```", "a\nb"),
            ("```a\n```\nb\n```c\n```", "```a\n```\nb\n```c\n```"),
            ("text ```x```", "text ```x```"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_fence(text), expected);
        }
    }
}
