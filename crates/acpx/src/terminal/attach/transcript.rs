//! The conversation as entries: what is finished is printed once, the rest is drawn until it is.
//!
//! Events arrive in the order of the record, and every client folds the same ones, so all of them show the same.

use std::collections::VecDeque;

use acpx_core::acp::block_words;
use acpx_core::model::{
    ChunkContent, ClientName, Direction, Fact, MessageKind, SessionUsage, TerminalTexts, TurnId, Update,
};
use acpx_core::protocol::WatchedEvent;
use acpx_core::wire::RpcMessage;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::tool_entry::ToolEntry;
use crate::error::cli_hint;
use crate::output::{
    AgentRequest, Detail, MessageKey, MessageTracker, RequestOutcome, RequestSubject, UnansweredRequests,
    UpdateReader, clean, cut_end, detail_of_fact, knows_before, on_one_line, prompt_of_event, stop_words,
};
use crate::terminal::render::markdown;
use crate::terminal::render::wrap::{Prefix, wrap};

/// A conversation that is being shown.
#[derive(Debug, Default)]
pub(crate) struct ConversationView {
    updates: UpdateReader,
    message: MessageTracker,
    terminals: TerminalTexts,
    requests: UnansweredRequests<AgentRequest>,
    /// The entries that are not completely printed.
    entries: VecDeque<TranscriptEntry>,
    /// What was printed last, which decides whether a blank line follows.
    printed: Option<Spacing>,
    /// The turn that runs, and its client if known.
    running: Option<(TurnId, Option<ClientName>)>,
    /// The facts that a status line shows.
    pub(crate) facts: SessionFacts,
    detail: Detail,
}

/// What the agent has reported about itself.
#[derive(Debug, Default)]
pub(crate) struct SessionFacts {
    /// Its context and its cost.
    pub(crate) usage: Option<SessionUsage>,
    /// Its commands, with their descriptions.
    pub(crate) commands: Vec<(String, String)>,
    /// The prompts that were sent, in order.
    pub(crate) prompts: Vec<String>,
}

#[derive(Debug)]
enum TranscriptEntry {
    Prompt {
        label: String,
        text: String,
    },
    /// Words of the agent, and how many bytes of them are printed.
    Words {
        text: String,
        printed: usize,
    },
    Thought(String),
    Tool {
        call: Box<str>,
        tool: ToolEntry,
        is_over: bool,
    },
    Plan(String),
    Note(String, Style),
}

/// How an entry is separated from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spacing {
    Block,
    /// A note or a thought follows another without a blank line.
    Note,
}

impl ConversationView {
    /// A view that shows thoughts, outputs and diffs whole.
    pub(crate) fn whole() -> Self {
        Self { detail: Detail::Whole, ..Self::default() }
    }

    /// Takes the next event.
    pub(crate) fn event(&mut self, event: &WatchedEvent) {
        if event.direction == Direction::Ours {
            if let Some(fact) = Fact::from_body(event.message.get()) {
                self.fact(&fact);
            }
            return;
        }
        let Ok(message) = RpcMessage::parse(event.message.get()) else { return };
        match (message.method(), message.id(), event.direction) {
            (Some("session/update"), ..) => {
                self.commands(&message);
                for update in self.updates.read(event, &message) {
                    self.update(update, event.turn);
                }
            }
            (Some("session/prompt"), ..) => {
                if let Some(words) = prompt_of_event(event, &message) {
                    self.prompt(event.turn, &words);
                }
            }
            (Some(method), Some(id), Direction::FromAgent) => {
                self.requests.begin(id, Some(AgentRequest::read(method, message.params())));
            }
            (None, Some(_), Direction::ToAgent) => self.answered(&message),
            _ => {}
        }
    }

    /// Whether a turn runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a request of the agent waits for a person.
    pub(crate) fn has_open_request(&self) -> bool {
        self.requests.iter().any(|request| {
            matches!(request.subject, RequestSubject::Permission(..))
                || request.method.starts_with("elicitation/")
        })
    }

    /// The lines that are finished since the last call, for the scrollback.
    pub(crate) fn take_finished(&mut self, width: usize) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        loop {
            let is_last = self.entries.len() == 1;
            let Some(first) = self.entries.front_mut() else { break };
            if first.is_finished(is_last) {
                let Some(entry) = self.entries.pop_front() else { break };
                self.print(&entry, width, &mut lines);
            } else {
                if let TranscriptEntry::Words { text, printed } = first {
                    let part = markdown::finished_part(&text[*printed..]);
                    if part > 0 {
                        let words = text[*printed..*printed + part].to_owned();
                        *printed += part;
                        self.print(&TranscriptEntry::Words { text: words, printed: 0 }, width, &mut lines);
                    }
                }
                break;
            }
        }
        lines
    }

    /// The last of the lines that are not finished: at least so many if there are, and no entry before them is laid
    /// out. The diffs of one tool call can be left out, because its pending request shows them.
    pub(crate) fn live(&self, width: usize, rows: usize, requested: Option<&str>) -> Vec<Line<'static>> {
        let mut blocks: Vec<(Spacing, Vec<Line<'static>>)> = Vec::new();
        let mut count = 0;
        for entry in self.entries.iter().rev() {
            if count >= rows {
                break;
            }
            let shown = entry.lines(&self.terminals, width, self.detail, requested);
            if !shown.is_empty() {
                count += shown.len();
                blocks.push((entry.spacing(), shown));
            }
        }
        let (mut lines, mut last) = (Vec::new(), self.printed);
        for (spacing, shown) in blocks.into_iter().rev() {
            separate(&mut lines, last, spacing);
            lines.extend(shown);
            last = Some(spacing);
        }
        lines
    }

    /// Adds a note of the client's own.
    pub(crate) fn note(&mut self, text: &str) {
        self.push(TranscriptEntry::Note(clean(text), Style::new().dim()));
    }

    /// Adds an error and its hint.
    pub(crate) fn error(&mut self, message: &str, hint: Option<&str>) {
        let text = on_one_line(&format!("error: {message}"));
        self.push(TranscriptEntry::Note(text, Style::new().fg(Color::Red)));
        if let Some(hint) = hint {
            self.note(&format!("hint: {hint}"));
        }
    }

    fn print(&mut self, entry: &TranscriptEntry, width: usize, lines: &mut Vec<Line<'static>>) {
        let shown = entry.lines(&self.terminals, width, self.detail, None);
        if shown.is_empty() {
            return;
        }
        separate(lines, self.printed, entry.spacing());
        lines.extend(shown);
        self.printed = Some(entry.spacing());
    }

    fn push(&mut self, entry: TranscriptEntry) {
        self.entries.push_back(entry);
    }

    fn prompt(&mut self, turn: Option<TurnId>, words: &str) {
        let client = self.running.as_ref().filter(|(running, _)| Some(*running) == turn);
        let client = client.and_then(|(_, client)| client.as_ref()?.unless_shell()).map(on_one_line);
        self.facts.prompts.push(words.to_owned());
        self.push(TranscriptEntry::Prompt { label: client.unwrap_or_default(), text: clean(words) });
    }

    fn update(&mut self, update: Update, turn: Option<TurnId>) {
        match update {
            Update::Chunk { kind, message_id, content } => {
                let text = match content {
                    ChunkContent::Text(text) => text.into_string(),
                    ChunkContent::Block(block) => serde_json::from_str::<Value>(&block)
                        .map(|block| block_words(&block))
                        .unwrap_or_default(),
                };
                let begins = self.message.begins(MessageKey { kind, turn, id: message_id });
                self.chunk(kind, turn, &clean(&text), begins);
            }
            Update::Tool { call, fields } => self.tool(call, &fields),
            Update::Plan { fields } => {
                let plan = TranscriptEntry::Plan(fields.into_string());
                match self.entries.back_mut() {
                    Some(last @ TranscriptEntry::Plan(_)) => *last = plan,
                    _ => self.push(plan),
                }
            }
            Update::Notice { title, description, .. } => {
                let more = description.map(|words| format!(": {words}")).unwrap_or_default();
                self.note(&on_one_line(&format!("{title}{more}")));
            }
            Update::Compaction { status, .. } if *status == *"completed" => {
                self.note("the agent remembers a summary of what came before");
            }
            Update::Usage { usage, cost_stands } => {
                self.facts.usage = Some(usage.after(self.facts.usage.as_ref(), cost_stands));
            }
            _ => {}
        }
    }

    fn chunk(&mut self, kind: MessageKind, turn: Option<TurnId>, words: &str, begins: bool) {
        match (kind, self.entries.back_mut()) {
            (MessageKind::Agent, Some(TranscriptEntry::Words { text, .. })) if !begins => {
                text.push_str(words);
            }
            (MessageKind::Agent, _) => {
                self.push(TranscriptEntry::Words { text: words.to_owned(), printed: 0 });
            }
            (MessageKind::Thought, Some(TranscriptEntry::Thought(text))) => text.push_str(words),
            (MessageKind::Thought, _) => self.push(TranscriptEntry::Thought(words.to_owned())),
            // In a turn of acpx the prompt is shown already: agents echo it.
            (MessageKind::User, _) if turn.is_some() => {}
            (MessageKind::User, Some(TranscriptEntry::Prompt { text, .. })) if !begins => {
                text.push_str(words);
            }
            (MessageKind::User, _) => {
                self.push(TranscriptEntry::Prompt { label: String::new(), text: words.to_owned() });
            }
        }
    }

    fn tool(&mut self, call: Box<str>, fields: &str) {
        let known = self.entries.iter_mut().rev().find_map(|entry| match entry {
            TranscriptEntry::Tool { call: known, tool, .. } if *known == call => Some(tool),
            _ => None,
        });
        if let Some(tool) = known {
            tool.merge(fields);
        } else {
            let mut tool = ToolEntry::default();
            tool.merge(fields);
            self.push(TranscriptEntry::Tool { call, tool, is_over: false });
        }
    }

    fn answered(&mut self, answer: &RpcMessage) {
        let Some(request) = self.requests.end(answer) else { return };
        let outcome = RequestOutcome::read(answer);
        match &request.subject {
            RequestSubject::Permission(title, _) => {
                self.note(&format!("{title}: {}", request.permission_outcome(&outcome)));
            }
            _ => {
                if let Some(error) = outcome.error() {
                    let subject = request.labelled_subject().map_or("", |(_, subject)| subject);
                    self.note(&format!("{} {subject}: {error}", request.method));
                }
            }
        }
    }

    fn fact(&mut self, fact: &Fact) {
        self.terminals.apply(fact);
        match fact {
            Fact::TurnStarted { turn, client, .. } => self.running = Some((TurnId(*turn), client.clone())),
            // A queued prompt that was dropped ends no turn.
            Fact::TurnEnded { turn, .. } if self.running.as_ref().is_none_or(|(id, _)| id.0 != *turn) => {}
            Fact::TurnEnded { stop_reason, error, .. } => {
                self.running = None;
                self.requests.clear();
                for entry in &mut self.entries {
                    if let TranscriptEntry::Tool { is_over, .. } = entry {
                        *is_over = true;
                    }
                }
                match (error, stop_reason.as_deref()) {
                    (Some(error), _) => {
                        self.error(&error.message, cli_hint(&error.code, error.code.hint()).as_deref());
                    }
                    (None, Some("end_turn") | None) => {}
                    (None, reason) => self.note(&on_one_line(&stop_words(reason))),
                }
                // An empty note ends the last entry of the turn.
                self.push(TranscriptEntry::Note(String::new(), Style::new()));
            }
            Fact::SessionReset { reason, announced: true, carried, .. } => {
                let text =
                    format!("{}: from here on the agent {}", on_one_line(reason), knows_before(*carried));
                self.push(TranscriptEntry::Note(text, Style::new().fg(Color::Yellow)));
            }
            Fact::Restored { .. } => self.note("the agent was started again and has the session"),
            Fact::SessionReturned { .. } => self.note("the agent returned to an earlier session"),
            Fact::Closed {} => self.note("the session is closed; a prompt opens it again"),
            Fact::AgentEnded { .. } if self.running.is_none() => {}
            other => {
                if let Some(text) = detail_of_fact(other) {
                    self.note(&on_one_line(&text));
                }
            }
        }
    }

    /// Reads the agent's commands, which the conversation itself does not need.
    fn commands(&mut self, message: &RpcMessage) {
        let Some(params) = message.params().filter(|params| params.contains("available_commands_update"))
        else {
            return;
        };
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        if params.pointer("/update/sessionUpdate") != Some(&Value::from("available_commands_update")) {
            return;
        }
        let commands = ["availableCommands", "commands"];
        let listed = commands.iter().find_map(|name| params["update"].get(name)?.as_array());
        let text = |command: &Value, name: &str| on_one_line(command[name].as_str().unwrap_or_default());
        let command = |command: &Value| (text(command, "name"), text(command, "description"));
        self.facts.commands = listed.into_iter().flatten().map(command).collect();
    }
}

/// A terminal that is not told where its tab stops are cannot show tabs.
fn without_tabs(text: &str) -> String {
    text.replace('\t', "    ")
}

/// Adds a blank line where one belongs.
fn separate(lines: &mut Vec<Line<'static>>, last: Option<Spacing>, next: Spacing) {
    if last.is_some_and(|last| last == Spacing::Block || next == Spacing::Block) {
        lines.push(Line::default());
    }
}

impl TranscriptEntry {
    /// Whether nothing about it changes any more.
    fn is_finished(&self, is_last: bool) -> bool {
        match self {
            Self::Prompt { .. } | Self::Note(..) => true,
            Self::Tool { tool, is_over, .. } => *is_over || tool.is_ended(),
            Self::Words { .. } | Self::Thought(_) | Self::Plan(_) => !is_last,
        }
    }

    fn spacing(&self) -> Spacing {
        match self {
            Self::Note(..) | Self::Thought(_) => Spacing::Note,
            Self::Prompt { .. } | Self::Words { .. } | Self::Tool { .. } | Self::Plan(_) => Spacing::Block,
        }
    }

    fn lines(
        &self,
        terminals: &TerminalTexts,
        width: usize,
        detail: Detail,
        requested: Option<&str>,
    ) -> Vec<Line<'static>> {
        match self {
            Self::Prompt { label, text } => {
                let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
                let prefix = Prefix { first: vec!["> ".bold().cyan(), label.dim()], rest: vec!["  ".into()] };
                let mut lines: Vec<Line<'static>> = Vec::new();
                for (index, line) in without_tabs(text.trim_end()).lines().enumerate() {
                    let rest = Prefix { first: prefix.rest.clone(), rest: prefix.rest.clone() };
                    let prefix = if index == 0 { &prefix } else { &rest };
                    lines.extend(wrap(&[line.to_owned().cyan()], prefix, width));
                }
                lines
            }
            Self::Words { text, printed } => {
                markdown::render(&without_tabs(text[*printed..].trim_end()), width)
            }
            Self::Thought(text) => {
                let text = match detail {
                    Detail::Short => cut_end(on_one_line(text).trim(), width),
                    Detail::Whole => text.trim().to_owned(),
                };
                let line = |line: &str| wrap(&[line.to_owned().dim().italic()], &Prefix::default(), width);
                text.lines().flat_map(line).collect()
            }
            Self::Tool { call, tool, is_over } => {
                tool.lines(terminals, width, *is_over, detail, requested != Some(&**call))
            }
            Self::Plan(fields) => plan(fields, width),
            Self::Note(text, _) if text.is_empty() => Vec::new(),
            Self::Note(text, style) => wrap(&[Span::styled(text.clone(), *style)], &Prefix::default(), width),
        }
    }
}

fn plan(fields: &str, width: usize) -> Vec<Line<'static>> {
    let fields: Value = serde_json::from_str(fields).unwrap_or_default();
    let entries = fields.get("entries").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let line = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let (mark, style) = match text("status") {
            "completed" => ("[x] ", Style::new().dim()),
            "in_progress" => ("[>] ", Style::new().bold()),
            _ => ("[ ] ", Style::new()),
        };
        let prefix = Prefix { first: vec![mark.into()], rest: vec!["    ".into()] };
        wrap(&[Span::styled(on_one_line(text("content")), style)], &prefix, width)
    };
    entries.iter().flat_map(line).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use acpx_core::model::{ProtocolVersion, Seq, Timestamp};
    use serde_json::json;

    use super::*;

    /// An event of turn 1.
    pub(in crate::terminal::attach) fn event(direction: Direction, message: &Value) -> WatchedEvent {
        WatchedEvent {
            seq: Seq::FIRST,
            at: Timestamp::since_1970(std::time::Duration::ZERO),
            direction,
            turn: Some(TurnId(1)),
            version: ProtocolVersion::V1,
            is_outside_conversation: false,
            message: serde_json::value::to_raw_value(message).unwrap(),
        }
    }

    fn update(fields: &Value) -> WatchedEvent {
        let params = json!({ "sessionId": "s", "update": fields });
        event(
            Direction::FromAgent,
            &json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }),
        )
    }

    fn chunk(kind: &str, text: &str) -> WatchedEvent {
        update(&json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }))
    }

    fn prompt(text: &str) -> WatchedEvent {
        let params = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": text }] });
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params });
        event(Direction::ToAgent, &line)
    }

    fn fact(fact: &Value) -> WatchedEvent {
        event(Direction::Ours, fact)
    }

    fn texts(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn streamed_words_are_printed_block_by_block_and_once() {
        let mut transcript = ConversationView::default();
        transcript.event(&fact(&json!({ "fact": "turn_started", "turn": 1, "requestId": "r" })));
        transcript.event(&prompt("hello"));
        transcript.event(&chunk("agent_thought_chunk", "Hm, let me\nsee."));
        transcript.event(&chunk("agent_message_chunk", "First *block*.\n\nSec"));
        assert_eq!(
            texts(&transcript.take_finished(40)),
            ["> hello", "", "Hm, let me see.", "", "First block."]
        );
        assert_eq!(texts(&transcript.live(40, 20, None)), ["", "Sec"]);
        transcript.event(&chunk("agent_message_chunk", "ond."));
        assert_eq!(texts(&transcript.take_finished(40)), [""; 0]);
        assert_eq!(texts(&transcript.live(40, 20, None)), ["", "Second."]);
        transcript.event(&fact(&json!({ "fact": "turn_ended", "turn": 1, "stopReason": "end_turn" })));
        assert_eq!(texts(&transcript.take_finished(40)), ["", "Second."]);
        assert!(!transcript.is_running());
        assert_eq!(texts(&transcript.live(40, 20, None)), [""; 0]);
    }

    #[test]
    fn running_tool_is_live_and_what_follows_it_waits() {
        let mut transcript = ConversationView::default();
        transcript.event(&fact(&json!({ "fact": "turn_started", "turn": 1, "requestId": "r" })));
        transcript
            .event(&update(&json!({ "sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read a" })));
        transcript.event(&chunk("agent_message_chunk", "Meanwhile."));
        assert_eq!(texts(&transcript.take_finished(40)), [""; 0]);
        assert_eq!(texts(&transcript.live(40, 20, None)), ["● Read a", "", "Meanwhile."]);
        transcript.event(&update(&json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed",
        })));
        assert_eq!(texts(&transcript.take_finished(40)), ["✓ Read a"]);
        let error = json!({ "code": "AGENT_EXITED", "message": "it ended" });
        transcript.event(&fact(&json!({ "fact": "turn_ended", "turn": 1, "error": error })));
        let expected = ["", "Meanwhile.", "", "error: it ended"];
        assert_eq!(texts(&transcript.take_finished(40)), expected);
    }

    #[test]
    fn answered_permission_is_a_note_and_controls_are_left_out() {
        let mut transcript = ConversationView::default();
        let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
        let params =
            json!({ "toolCall": { "toolCallId": "1", "title": "rm \u{1b}[2J x" }, "options": options });
        let request =
            json!({ "jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params });
        transcript.event(&event(Direction::FromAgent, &request));
        assert!(transcript.has_open_request());
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "y" } });
        transcript
            .event(&event(Direction::ToAgent, &json!({ "jsonrpc": "2.0", "id": 7, "result": outcome })));
        assert!(!transcript.has_open_request());
        assert_eq!(texts(&transcript.take_finished(60)), ["rm [2J x: answered Yes"]);
    }

    #[test]
    fn turn_with_markdown_thought_tools_and_plan_is_readable() {
        let mut transcript = ConversationView::default();
        transcript.event(&fact(&json!({
            "fact": "turn_started", "turn": 1, "requestId": "r", "client": { "name": "zed" },
        })));
        transcript.event(&prompt("Fix the parser,\nplease"));
        transcript
            .event(&chunk("agent_thought_chunk", "The user wants the parser fixed, so I read it first."));
        transcript.event(&update(&json!({
            "sessionUpdate": "plan",
            "entries": [{ "content": "Read it", "status": "completed" }, { "content": "Fix it", "status": "in_progress" }],
        })));
        transcript.event(&update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "1", "title": "Run the tests", "status": "failed",
            "rawInput": { "command": "cargo test parser" },
            "content": [{ "type": "content", "content": { "type": "text", "text": "1 failed" } }],
        })));
        transcript.event(&update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "2", "title": "Edit parser.rs", "status": "completed",
            "content": [{ "type": "diff", "path": "parser.rs", "oldText": "let a = 1;\n", "newText": "let a = 2;\n" }],
        })));
        let answer = "# Done\n\nThe parser is **fixed**:\n\n- `a` is 2\n  - as in the *specification*\n- nothing \
            else changed in the file, which this long item says\n\n1. First\n2. Second\n\n> quoted\n\n\
            ```rust\nfn main() {\n    println!(\"a\");\n}\n```\n\n| name | value |\n|---|---:|\n| a | 2 |\n| long name | 10 |\n\n\
            See [the page](https://example.com).";
        transcript.event(&chunk("agent_message_chunk", answer));
        transcript.event(&fact(&json!({ "fact": "turn_ended", "turn": 1, "stopReason": "end_turn" })));
        let shown = texts(&transcript.take_finished(48)).join("\n");
        insta::assert_snapshot!(shown, @r#"
        > zed: Fix the parser,
          please

        The user wants the parser fixed, so I read it f…

        [x] Read it
        [>] Fix it

        ✗ Run the tests
          $ cargo test parser
          1 failed

        ✓ Edit parser.rs
          --- parser.rs
          +++ parser.rs
          @@ -1,1 +1,1 @@
          -let a = 1;
          +let a = 2;

        Done

        The parser is fixed:

        • a is 2
          • as in the specification
        • nothing else changed in the file, which this
          long item says

        1. First
        2. Second

        │ quoted

          fn main() {
              println!("a");
          }

        name      │ value
        ──────────┼──────
        a         │     2
        long name │    10

        See the page (https://example.com).
        "#);
    }
}
