//! A turn for people: sections with a blank line between them, the agent's words as they come.

use std::collections::HashMap;
use std::io::{self, Write};

use acpx_core::acp::block_words;
use acpx_core::model::{
    ChunkContent, ClientName, Direction, Fact, FactError, HistoryExtent, MessageKind, TerminalTexts, TurnId,
    Update,
};
use acpx_core::wire::RpcMessage;
use serde_json::Value;

use super::host_work::HostWork;
use super::message::{MessageKey, MessageTracker, line_end_below, user_label};
use super::tool::{ToolCallPhase, ToolCallView};
use super::updates::UpdateReader;
use super::used::UsageTracker;
use super::{PromptResult, TurnStatus, knows_before};
use crate::output::Console;
use crate::output::WatchedEvent;
use crate::output::clean::{line, on_one_line};
use crate::output::errand::shown as shown_words;

/// How much of a thought is shown.
const THOUGHT_CHARS: usize = 900;
/// The request for a permission.
const PERMISSION: &str = "session/request_permission";
/// Requests that are no section of their own: the turn itself.
const UNSHOWN: [&str; 3] = ["session/prompt", "session/cancel", "session/update"];

/// What has been shown so far.
#[derive(Debug, Default)]
pub(super) struct TextView {
    place: OutputPosition,
    updates: UpdateReader,
    /// The message that was shown last.
    open: MessageTracker,
    thought: String,
    tools: HashMap<Box<str>, ToolCallView>,
    terminals: TerminalTexts,
    /// What the agent has done for it.
    work: HostWork,
    /// Whether it is shown how the session is set up.
    verbose: bool,
    /// Whether permissions are asked for on the terminal, which shows them itself.
    is_asked_here: bool,
    /// What the agent has told that the session used.
    used: UsageTracker,
    /// The last compaction, and how far it was when it was shown.
    compaction: Option<(Box<str>, Box<str>)>,
}

/// What stands at the end of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum OutputPosition {
    /// Nothing.
    #[default]
    Start,
    /// A section, its line ended.
    Section,
    /// A thought, its line ended. Words of the agent follow it closely.
    Thought,
    /// Words of the agent, their line not ended.
    Words,
    /// Words of the agent, their line ended.
    WordsLine,
    /// Words of the user that the agent has told, their line not ended, and so many ends of lines after them: whether
    /// these are within the words is not known before more come.
    User { ends: usize },
}

impl TextView {
    /// Nothing is shown yet. How a session is set up is shown to those who want to know what is being done.
    pub(super) fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// Permissions are asked for on the terminal.
    pub(super) fn ask_here(&mut self) {
        self.is_asked_here = true;
    }

    /// Shows one line exchanged with the agent.
    pub(super) fn message(&mut self, event: &WatchedEvent, out: &mut dyn Write) -> io::Result<()> {
        let Ok(message) = RpcMessage::parse(event.message.get()) else { return Ok(()) };
        match (message.method(), message.id()) {
            (Some("session/update"), _) => {
                let updates = self.updates.read(event);
                updates.into_iter().try_for_each(|update| self.update(update, event.turn, out))
            }
            (Some(method), Some(id)) if !UNSHOWN.contains(&method) => {
                let section = match event.direction {
                    Direction::FromAgent => {
                        let is_shown = self.verbose || !(self.is_asked_here && method == PERMISSION);
                        let section = self.work.begun(id, method, message.params(), self.verbose);
                        section.filter(|_| is_shown)
                    }
                    Direction::ToAgent | Direction::Ours => {
                        self.verbose.then(|| format!("[client] {} (running)\n", shown_words(method)))
                    }
                };
                self.sections(section, out)
            }
            (None, Some(_)) if event.direction == Direction::ToAgent => {
                let section = self.work.answered(&message, &self.terminals);
                self.sections(section, out)
            }
            _ => Ok(()),
        }
    }

    /// Shows sections that are written already.
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

    /// Shows how the turn ended, and for people what it used.
    pub(super) fn finish(mut self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        self.end(result, &mut *console.out)?;
        console.flush()?;
        self.used.say(result, console);
        Ok(())
    }

    fn end(&mut self, result: &PromptResult, out: &mut dyn Write) -> io::Result<()> {
        let rest = self.work.rest(&self.terminals);
        self.sections(rest, out)?;
        self.section(out)?;
        // A turn that was answered is done, whatever is to be said about it.
        if result.error.is_none() || result.status == TurnStatus::Completed {
            writeln!(out, "[done] {}", shown_words(result.stop_reason.as_deref().unwrap_or("-")))?;
        }
        if let Some(error) = &result.error {
            line(out, format_args!("[error] {}: {}", error.code, error.message))?;
            error.hint.iter().try_for_each(|hint| line(out, format_args!("hint: {hint}")))?;
        }
        Ok(())
    }

    /// Takes a fact of ours: what terminals show is shown with the tool calls that refer to them.
    pub(super) fn fact(&mut self, fact: &Fact) {
        self.terminals.take(fact);
    }

    /// Shows what the user asked, in which turn, which can be named by that, and with which client.
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

    /// Shows how a turn ended. What comes next belongs to another.
    pub(super) fn turn_ended(
        &mut self,
        stop_reason: Option<&str>,
        error: Option<&FactError>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let rest = self.work.rest(&self.terminals);
        self.sections(rest, out)?;
        self.section(out)?;
        self.tools.clear();
        self.terminals.forget_ended();
        match error {
            Some(error) => line(out, format_args!("[error] {}: {}", error.code, error.message)),
            None => writeln!(out, "[done] {}", shown_words(stop_reason.unwrap_or("-"))),
        }
    }

    /// Shows that the agent does not remember what came before, and what it was told of that.
    pub(super) fn reset(
        &mut self,
        reason: &str,
        carried: Option<HistoryExtent>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.section(out)?;
        line(out, format_args!("[reset] {reason}: from here on the agent {}", knows_before(carried)))
    }

    /// Shows that the agent is back in an earlier ACP session.
    pub(super) fn returned(&mut self, session: &str, out: &mut dyn Write) -> io::Result<()> {
        self.section(out)?;
        line(out, format_args!("[returned] from here on the agent knows what was said in {session}"))
    }

    /// Shows what became of the agent.
    pub(super) fn agent(&mut self, words: &str, out: &mut dyn Write) -> io::Result<()> {
        self.section(out)?;
        line(out, format_args!("[agent] {words}"))
    }

    /// Ends the line that stands there.
    pub(super) fn end_line(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        self.place = match self.place {
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
                let begins = self.open.begins(MessageKey { kind, turn, id: message_id });
                self.piece(kind, turn, &text, begins, out)
            }
            Update::Tool { call, fields, .. } => self.tool(call, &fields, out),
            Update::Plan { fields } => self.plan(&fields, out),
            Update::Notice { severity, title, description } => {
                let more = description.map(|words| format!(": {words}")).unwrap_or_default();
                let severity = if severity.is_empty() { String::new() } else { format!("{severity}: ") };
                self.beside("notice", &format!("{severity}{title}{more}"), out)
            }
            Update::Usage { usage, cost_stands } => {
                self.used.tell(usage, cost_stands);
                Ok(())
            }
            Update::Compaction { id, status, error } => self.compaction(id, &status, error.as_deref(), out),
            // Only version 2 tells messages whole and content in pieces, and that is translated.
            Update::Message { .. }
            | Update::ToolContent { .. }
            | Update::Title(_)
            | Update::State
            | Update::Unknown => Ok(()),
        }
    }

    /// Shows a piece of a message, or the beginning of one.
    fn piece(
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
                // More would not be shown, so it is not gathered either.
                if self.thought.len() < THOUGHT_CHARS * 4 + 64 {
                    self.thought.push_str(text);
                }
                Ok(())
            }
            // Within a turn of ours the user has spoken already: agents echo the prompt.
            MessageKind::User if turn.is_some() => Ok(()),
            MessageKind::User => self.user(text, begins, out),
        }
    }

    /// Shows that the agent makes its memory shorter: when it begins, and what came of it.
    fn compaction(
        &mut self,
        id: Box<str>,
        status: &str,
        error: Option<&str>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if self.compaction.as_ref().is_some_and(|(known, told)| *known == id && **told == *status) {
            return Ok(());
        }
        self.compaction = Some((id, status.into()));
        let words = match status {
            "in_progress" => "the agent is making what it remembers shorter",
            "completed" => "the agent remembers a summary of what came before",
            other => other,
        };
        self.beside(
            "compaction",
            &format!("{words}{}", error.map(|error| format!(": {error}")).unwrap_or_default()),
            out,
        )
    }

    /// A line of its own about something beside the conversation.
    fn beside(&mut self, what: &str, words: &str, out: &mut dyn Write) -> io::Result<()> {
        self.section(out)?;
        writeln!(out, "[{what}] {}", cut(&on_one_line(words), THOUGHT_CHARS))
    }

    /// Shows words of the agent. They follow a thought closely.
    fn words(&mut self, text: &str, begins: bool, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        match self.place {
            OutputPosition::Words if begins => out.write_all(b"\n\n")?,
            OutputPosition::WordsLine if begins => out.write_all(b"\n")?,
            OutputPosition::Section => out.write_all(b"\n")?,
            OutputPosition::User { .. } => out.write_all(b"\n\n")?,
            OutputPosition::Start
            | OutputPosition::Thought
            | OutputPosition::Words
            | OutputPosition::WordsLine => {}
        }
        self.place = if text.ends_with('\n') { OutputPosition::WordsLine } else { OutputPosition::Words };
        out.write_all(text.as_bytes())
    }

    /// Shows words of the user that no prompt of ours has.
    fn user(&mut self, text: &str, begins: bool, out: &mut dyn Write) -> io::Result<()> {
        let label = user_label(None, None);
        let line_end = line_end_below(&label);
        let words = text.trim_end_matches('\n');
        let ends = match self.place {
            OutputPosition::User { ends } if !begins => ends,
            _ => {
                self.section(out)?;
                out.write_all(label.as_bytes())?;
                0
            }
        };
        let after = text.len() - words.len();
        if words.is_empty() {
            self.place = OutputPosition::User { ends: ends + after };
            return Ok(());
        }
        self.place = OutputPosition::User { ends: after };
        write!(out, "{}{}", line_end.repeat(ends), words.replace('\n', &line_end))
    }

    fn tool(&mut self, call: Box<str>, fields: &str, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        let tool = self.tools.entry(call).or_default();
        let telling = tool.told(fields);
        self.work.leave_to_tool(tool);
        let Some(telling) = telling else { return Ok(()) };
        let text = match telling {
            ToolCallPhase::Begun => tool.begun(),
            ToolCallPhase::Over => tool.over(&self.terminals),
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
            writeln!(out, "  - [{}] {}", shown_words(field("status")), shown_words(field("content")))?;
        }
        Ok(())
    }

    /// Ends whatever stands there, so that a section can begin.
    fn section(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end_thought(out)?;
        match self.place {
            OutputPosition::Start => {}
            OutputPosition::Words | OutputPosition::User { .. } => out.write_all(b"\n\n")?,
            OutputPosition::Section | OutputPosition::Thought | OutputPosition::WordsLine => {
                out.write_all(b"\n")?;
            }
        }
        self.place = OutputPosition::Section;
        Ok(())
    }

    /// Shows the thought that has been gathered, if there is one.
    fn end_thought(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let thought = std::mem::take(&mut self.thought);
        let thought = cut(thought.trim(), THOUGHT_CHARS);
        if thought.is_empty() {
            return Ok(());
        }
        self.section(out)?;
        self.place = OutputPosition::Thought;
        writeln!(out, "[thinking] {}", thought.replace('\n', "\n           "))
    }
}

/// A piece of a message as text.
fn shown(content: ChunkContent) -> String {
    match content {
        ChunkContent::Text(text) => text.into(),
        ChunkContent::Block(json) => block_words(&serde_json::from_str(&json).unwrap_or_default()),
    }
}

/// The first characters of a text, and a sign if that is not all.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
