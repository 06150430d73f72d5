//! Renders a turn for people: sections separated by blank lines, the agent's words as they arrive.

use std::collections::HashMap;
use std::io::{self, Write};

use acpx_core::acp::block_words;
use acpx_core::model::{
    ChunkContent, ClientName, Direction, Fact, FactError, HistoryExtent, MessageKind, TerminalTexts, TurnId,
    Update,
};
use acpx_core::wire::RpcMessage;
use serde_json::Value;

use super::result::UsageTracker;
use super::tool::{ToolCallPhase, ToolCallView};
use super::tool_io::ToolIoView;
use super::{
    MessageKey, MessageTracker, PromptResult, TurnStatus, UpdateReader, knows_before, line_end_below,
    user_label,
};
use crate::output::sanitize::{agent_text, ellipsize, line, on_one_line};
use crate::output::{Console, WatchedEvent};

/// How much of a thought is shown.
const THOUGHT_CHARS: usize = 900;
/// The method of a permission request.
const PERMISSION: &str = "session/request_permission";
/// Methods without a section: they are the turn itself.
const UNSHOWN: [&str; 3] = ["session/prompt", "session/cancel", "session/update"];

/// What has been shown so far.
#[derive(Debug, Default)]
pub(super) struct TextView {
    position: OutputPosition,
    updates: UpdateReader,
    /// The message that was shown last.
    message: MessageTracker,
    thought: String,
    tools: HashMap<Box<str>, ToolCallView>,
    terminals: TerminalTexts,
    /// Client requests of the agent.
    tool_io: ToolIoView,
    /// Whether to show how the session is set up.
    verbose: bool,
    /// Whether the terminal asks for permissions, and shows them itself.
    prompts_here: bool,
    /// The usage that the agent reported.
    usage: UsageTracker,
    /// The last compaction, and its status when it was shown.
    compaction: Option<(Box<str>, Box<str>)>,
}

/// What the output ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum OutputPosition {
    /// Nothing.
    #[default]
    Start,
    /// A section, its line ended.
    Section,
    /// A thought, its line ended. Words of the agent follow without a blank line.
    Thought,
    /// Words of the agent, their line not ended.
    Words,
    /// Words of the agent, their line ended.
    WordsLine,
    /// User words that the agent reported, their line not ended, followed by this many line breaks: whether these are
    /// part of the words is unknown until more arrive.
    User { ends: usize },
}

impl TextView {
    /// An empty view. Verbose output shows how a session is set up.
    pub(super) fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// The terminal asks for permissions.
    pub(super) fn prompt_here(&mut self) {
        self.prompts_here = true;
    }

    /// Shows one line exchanged with the agent.
    pub(super) fn message(
        &mut self,
        event: &WatchedEvent,
        message: &RpcMessage,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match (message.method(), message.id()) {
            (Some("session/update"), _) => {
                let updates = self.updates.read(event, message);
                updates.into_iter().try_for_each(|update| self.update(update, event.turn, out))
            }
            (Some(method), Some(id)) if !UNSHOWN.contains(&method) => {
                let section = match event.direction {
                    Direction::FromAgent => {
                        let is_shown = self.verbose || !(self.prompts_here && method == PERMISSION);
                        let section = self.tool_io.on_request(id, method, message.params(), self.verbose);
                        section.filter(|_| is_shown)
                    }
                    Direction::ToAgent | Direction::Ours => {
                        self.verbose.then(|| format!("[client] {} (running)\n", agent_text(method)))
                    }
                };
                self.sections(section, out)
            }
            (None, Some(_)) if event.direction == Direction::ToAgent => {
                let section = self.tool_io.on_response(message, &self.terminals);
                self.sections(section, out)
            }
            _ => Ok(()),
        }
    }

    /// Writes rendered sections.
    fn sections(
        &mut self,
        sections: impl IntoIterator<Item = String>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        sections.into_iter().try_for_each(|section| {
            self.section(out)?;
            out.write_all(section.as_bytes())
        })
    }

    /// Shows how the turn ended, and what it used.
    pub(super) fn finish(mut self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        self.end(result, &mut *console.out)?;
        console.flush()?;
        self.usage.print(result, console);
        Ok(())
    }

    fn end(&mut self, result: &PromptResult, out: &mut dyn Write) -> io::Result<()> {
        let rest = self.tool_io.finish_turn(&self.terminals);
        self.sections(rest, out)?;
        self.section(out)?;
        // An answered turn is done, even with an error.
        if result.error.is_none() || result.status == TurnStatus::Completed {
            writeln!(out, "[done] {}", agent_text(result.stop_reason.as_deref().unwrap_or("-")))?;
        }
        if let Some(error) = &result.error {
            line(out, format_args!("[error] {}: {}", error.code, error.message))?;
            error.hint.iter().try_for_each(|hint| line(out, format_args!("hint: {hint}")))?;
        }
        Ok(())
    }

    /// Takes a fact of acpx: terminal output is shown with the tool calls that refer to it.
    pub(super) fn fact(&mut self, fact: &Fact) {
        self.terminals.apply(fact);
    }

    /// Shows the user's prompt, with its turn and client.
    pub(super) fn prompt(
        &mut self,
        turn: Option<TurnId>,
        client: Option<&ClientName>,
        words: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.section(out)?;
        let label = user_label(turn, client);
        writeln!(out, "{label}{}", words.replace('\n', &line_end_below(&label)))
    }

    /// Shows how a turn ended. Later events belong to another turn.
    pub(super) fn turn_ended(
        &mut self,
        stop_reason: Option<&str>,
        error: Option<&FactError>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let rest = self.tool_io.finish_turn(&self.terminals);
        self.sections(rest, out)?;
        self.section(out)?;
        self.tools.clear();
        self.terminals.forget_ended();
        match error {
            Some(error) => line(out, format_args!("[error] {}: {}", error.code, error.message)),
            None => writeln!(out, "[done] {}", agent_text(stop_reason.unwrap_or("-"))),
        }
    }

    /// Shows that the agent lost its memory, and what of the history it was sent.
    pub(super) fn reset(
        &mut self,
        reason: &str,
        carried: Option<HistoryExtent>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.section(out)?;
        line(out, format_args!("[reset] {reason}: from here on the agent {}", knows_before(carried)))
    }

    /// Shows that the agent returned to an earlier ACP session.
    pub(super) fn returned(&mut self, session: &str, out: &mut dyn Write) -> io::Result<()> {
        self.section(out)?;
        line(out, format_args!("[returned] from here on the agent knows what was said in {session}"))
    }

    /// Shows what became of the agent.
    pub(super) fn agent(&mut self, words: &str, out: &mut dyn Write) -> io::Result<()> {
        self.section(out)?;
        line(out, format_args!("[agent] {words}"))
    }

    /// Ends the current line.
    pub(super) fn end_line(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        self.position = match self.position {
            OutputPosition::Words => OutputPosition::WordsLine,
            OutputPosition::User { .. } => OutputPosition::Section,
            OutputPosition::Start
            | OutputPosition::Section
            | OutputPosition::Thought
            | OutputPosition::WordsLine => return Ok(()),
        };
        writeln!(out)
    }

    fn update(&mut self, update: Update, turn: Option<TurnId>, out: &mut dyn Write) -> io::Result<()> {
        match update {
            Update::Chunk { kind, message_id, content } => {
                let text = shown(content);
                if text.is_empty() {
                    return Ok(());
                }
                let begins = self.message.begins(MessageKey { kind, turn, id: message_id });
                self.chunk(kind, turn, &text, begins, out)
            }
            Update::Tool { call, fields, .. } => self.tool(call, &fields, out),
            Update::Plan { fields } => self.plan(&fields, out),
            Update::Notice { severity, title, description } => {
                let more = description.map(|words| format!(": {words}")).unwrap_or_default();
                let severity = if severity.is_empty() { String::new() } else { format!("{severity}: ") };
                self.notice("notice", &format!("{severity}{title}{more}"), out)
            }
            Update::Usage { usage, cost_stands } => {
                self.usage.update(usage, cost_stands);
                Ok(())
            }
            Update::Compaction { id, status, error } => self.compaction(id, &status, error.as_deref(), out),
            // Only version 2 has whole messages and content chunks, and these were translated.
            Update::Message { .. }
            | Update::ToolContent { .. }
            | Update::Title(_)
            | Update::State
            | Update::Unknown => Ok(()),
        }
    }

    /// Shows a message chunk, which may begin a message.
    fn chunk(
        &mut self,
        kind: MessageKind,
        turn: Option<TurnId>,
        text: &str,
        begins: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match kind {
            MessageKind::Agent => self.words(text, begins, out),
            MessageKind::Thought => {
                // Text beyond what is shown is not collected.
                if self.thought.len() < THOUGHT_CHARS * 4 + 64 {
                    self.thought.push_str(text);
                }
                Ok(())
            }
            // In a turn of ours the prompt is shown already: agents echo it.
            MessageKind::User if turn.is_some() => Ok(()),
            MessageKind::User => self.user(text, begins, out),
        }
    }

    /// Shows a compaction of the agent's memory: its begin, and its result.
    fn compaction(
        &mut self,
        id: Box<str>,
        status: &str,
        error: Option<&str>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if self.compaction.as_ref().is_some_and(|(known, shown)| *known == id && **shown == *status) {
            return Ok(());
        }
        self.compaction = Some((id, status.into()));
        let words = match status {
            "in_progress" => "the agent is compacting its memory",
            "completed" => "the agent remembers a summary of what came before",
            other => other,
        };
        self.notice(
            "compaction",
            &format!("{words}{}", error.map(|error| format!(": {error}")).unwrap_or_default()),
            out,
        )
    }

    /// Shows a line that is not part of the conversation.
    fn notice(&mut self, what: &str, words: &str, out: &mut dyn Write) -> io::Result<()> {
        self.section(out)?;
        writeln!(out, "[{what}] {}", ellipsize(&on_one_line(words), THOUGHT_CHARS))
    }

    /// Shows words of the agent, without a blank line after a thought.
    fn words(&mut self, text: &str, begins: bool, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        match self.position {
            OutputPosition::Words if begins => out.write_all(b"\n\n")?,
            OutputPosition::WordsLine if begins => out.write_all(b"\n")?,
            OutputPosition::Section => out.write_all(b"\n")?,
            OutputPosition::User { .. } => out.write_all(b"\n\n")?,
            OutputPosition::Start
            | OutputPosition::Thought
            | OutputPosition::Words
            | OutputPosition::WordsLine => {}
        }
        self.position = if text.ends_with('\n') { OutputPosition::WordsLine } else { OutputPosition::Words };
        out.write_all(text.as_bytes())
    }

    /// Shows user words that are no prompt of ours.
    fn user(&mut self, text: &str, begins: bool, out: &mut dyn Write) -> io::Result<()> {
        let label = user_label(None, None);
        let line_end = line_end_below(&label);
        let words = text.trim_end_matches('\n');
        let ends = match self.position {
            OutputPosition::User { ends } if !begins => ends,
            _ => {
                self.section(out)?;
                out.write_all(label.as_bytes())?;
                0
            }
        };
        let after = text.len() - words.len();
        if words.is_empty() {
            self.position = OutputPosition::User { ends: ends + after };
            return Ok(());
        }
        self.position = OutputPosition::User { ends: after };
        write!(out, "{}{}", line_end.repeat(ends), words.replace('\n', &line_end))
    }

    fn tool(&mut self, call: Box<str>, fields: &str, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        let tool = self.tools.entry(call).or_default();
        let phase = tool.merge(fields);
        self.tool_io.drop_terminals_of(tool);
        let Some(phase) = phase else { return Ok(()) };
        let text = match phase {
            ToolCallPhase::Started => tool.start_section(),
            ToolCallPhase::Ended => tool.end_section(&self.terminals),
        };
        self.section(out)?;
        out.write_all(text.as_bytes())
    }

    fn plan(&mut self, fields: &str, out: &mut dyn Write) -> io::Result<()> {
        self.section(out)?;
        writeln!(out, "[plan]")?;
        let plan: Value = serde_json::from_str(fields).unwrap_or_default();
        for entry in plan.get("entries").and_then(Value::as_array).into_iter().flatten() {
            let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("-");
            writeln!(out, "  - [{}] {}", agent_text(field("status")), agent_text(field("content")))?;
        }
        Ok(())
    }

    /// Ends the current output, so that a section can begin.
    fn section(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        match self.position {
            OutputPosition::Start => {}
            OutputPosition::Words | OutputPosition::User { .. } => out.write_all(b"\n\n")?,
            OutputPosition::Section | OutputPosition::Thought | OutputPosition::WordsLine => {
                out.write_all(b"\n")?;
            }
        }
        self.position = OutputPosition::Section;
        Ok(())
    }

    /// Shows the collected thought, if there is one.
    fn end_thought(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let thought = std::mem::take(&mut self.thought);
        let thought = ellipsize(thought.trim(), THOUGHT_CHARS);
        if thought.is_empty() {
            return Ok(());
        }
        self.section(out)?;
        self.position = OutputPosition::Thought;
        writeln!(out, "[thinking] {}", thought.replace('\n', "\n           "))
    }
}

/// A message chunk as text.
fn shown(content: ChunkContent) -> String {
    match content {
        ChunkContent::Text(text) => text.into(),
        ChunkContent::Block(json) => block_words(&serde_json::from_str(&json).unwrap_or_default()),
    }
}
