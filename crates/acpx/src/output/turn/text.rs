//! Renders a turn for people: sections separated by blank lines, the agent's words as they arrive.

use std::collections::HashMap;
use std::io::{self, Write};

use acpx_core::acp::block_words;
use acpx_core::model::{
    ChunkContent, ClientName, Cost, Direction, Fact, FactError, HistoryExtent, MessageKind, TerminalTexts,
    TurnId, Update,
};
use acpx_core::wire::RpcMessage;
use serde_json::Value;

use super::result::UsageTracker;
use super::terminal;
use super::tool::{ToolCallPhase, ToolCallView};
use super::tool_io::ToolIoView;
use super::{
    MessageKey, MessageTracker, PromptResult, TurnStatus, UpdateReader, knows_before, line_end_below,
    user_label,
};
use crate::output::sanitize::{agent_text, ellipsize, line, on_one_line};
use crate::output::style::{Style, StyledText, StyledWriter};
use crate::output::{Console, OutputMode, WatchedEvent};

/// How much of a thought is shown.
const THOUGHT_CHARS: usize = 900;
/// The label of the user's words on a terminal.
const USER: &str = "> ";
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
    /// Whether people read it on a terminal, in sentences.
    is_terminal: bool,
    /// The tool call whose begin was shown last, if nothing was shown since.
    begun_tool: Option<Box<str>>,
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
    /// A prompt, its line ended. Words of the agent follow after a blank line.
    Prompt,
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
    pub(super) fn new(mode: OutputMode) -> Self {
        let (verbose, is_terminal) = (mode.verbose, mode.is_terminal);
        Self { verbose, is_terminal, tool_io: ToolIoView::new(is_terminal), ..Self::default() }
    }

    /// Takes what the session had cost before the turn.
    pub(super) fn begin_with(&mut self, cost: Option<&Cost>) {
        self.usage.begin_with(cost);
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
        console: &mut Console<'_>,
    ) -> io::Result<()> {
        match (message.method(), message.id()) {
            (Some("session/update"), _) => {
                let updates = self.updates.read(event, message);
                updates.into_iter().try_for_each(|update| self.update(update, event.turn, console))
            }
            (Some(method), Some(id)) if !UNSHOWN.contains(&method) => {
                let section = match event.direction {
                    Direction::FromAgent => {
                        let is_shown = self.verbose || !(self.prompts_here && method == PERMISSION);
                        let section = self.tool_io.on_request(id, method, message.params(), self.verbose);
                        section.filter(|_| is_shown)
                    }
                    Direction::ToAgent | Direction::Ours => self.verbose.then(|| self.set_up_section(method)),
                };
                self.sections(section, &mut console.out)
            }
            (None, Some(_)) if event.direction == Direction::ToAgent => {
                let section = self.tool_io.on_response(message, &self.terminals);
                self.sections(section, &mut console.out)
            }
            _ => Ok(()),
        }
    }

    /// A request that sets up the session.
    fn set_up_section(&self, method: &str) -> StyledText {
        let method = agent_text(method);
        if self.is_terminal {
            return StyledText::default().with(Style::Dim, format!("acpx requests {method}\n"));
        }
        format!("[client] {method} (running)\n").into()
    }

    /// Writes rendered sections.
    fn sections(
        &mut self,
        sections: impl IntoIterator<Item = StyledText>,
        out: &mut StyledWriter<'_>,
    ) -> io::Result<()> {
        sections.into_iter().try_for_each(|section| {
            self.section(out)?;
            out.text(&section)
        })
    }

    /// Shows what was not shown when its turn ended.
    fn rest(&mut self, out: &mut StyledWriter<'_>) -> io::Result<()> {
        let rest = self.tool_io.finish_turn(&self.terminals);
        self.sections(rest, out)?;
        if self.is_terminal {
            let mut open: Vec<_> = self.tools.iter().filter(|(_, tool)| tool.is_open()).collect();
            open.sort_by_key(|(call, _)| *call);
            let open: Vec<StyledText> =
                open.into_iter().map(|(_, tool)| terminal::unfinished_tool(tool)).collect();
            self.sections(open, out)?;
        }
        self.section(out)
    }

    /// Shows how the turn ended, and what it used.
    pub(super) fn finish(mut self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        self.rest(&mut console.out)?;
        if self.is_terminal {
            return self.summarize(result, console);
        }
        end(result, &mut console.out)?;
        console.flush()?;
        self.usage.print(result, console);
        Ok(())
    }

    /// The summary, and an error on stderr.
    fn summarize(&self, result: &PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        let summary = terminal::summary(result, &self.usage);
        if !summary.is_empty() {
            console.out.styled(Style::Dim, &format!("{summary}\n"))?;
        }
        console.turn_error(result)
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
        out: &mut StyledWriter<'_>,
    ) -> io::Result<()> {
        self.section(out)?;
        self.position = OutputPosition::Prompt;
        if self.is_terminal {
            return terminal_prompt(turn, client, words, out);
        }
        let label = user_label(turn, client);
        writeln!(out, "{label}{}", words.replace('\n', &line_end_below(&label)))
    }

    /// Shows how a turn ended. Later events belong to another turn.
    pub(super) fn turn_ended(
        &mut self,
        stop_reason: Option<&str>,
        error: Option<&FactError>,
        out: &mut StyledWriter<'_>,
    ) -> io::Result<()> {
        self.rest(out)?;
        self.tools.clear();
        self.terminals.forget_ended();
        match error {
            Some(error) if self.is_terminal => {
                out.styled(Style::Bad, "✗ ")?;
                line(out, format_args!("{}", error.message))
            }
            None if self.is_terminal => {
                out.styled(Style::Dim, &format!("{}\n", terminal::stop_words(stop_reason)))
            }
            Some(error) => line(out, format_args!("[error] {}: {}", error.code, error.message)),
            None => writeln!(out, "[done] {}", agent_text(stop_reason.unwrap_or("-"))),
        }
    }

    /// Shows that the agent lost its memory, and what of the history it was sent.
    pub(super) fn reset(
        &mut self,
        reason: &str,
        carried: Option<HistoryExtent>,
        out: &mut StyledWriter<'_>,
    ) -> io::Result<()> {
        self.section(out)?;
        let words = format!("{reason}: from here on the agent {}", knows_before(carried));
        self.labelled("reset", Style::Warning, &words, out)
    }

    /// Shows that the agent returned to an earlier ACP session.
    pub(super) fn returned(&mut self, session: &str, out: &mut StyledWriter<'_>) -> io::Result<()> {
        self.section(out)?;
        let words = format!("from here on the agent knows what was said in {session}");
        self.labelled("returned", Style::Dim, &words, out)
    }

    /// Shows what became of the agent.
    pub(super) fn agent(&mut self, words: &str, out: &mut StyledWriter<'_>) -> io::Result<()> {
        self.section(out)?;
        self.labelled("agent", Style::Dim, words, out)
    }

    /// A line of acpx with its label, on a terminal in a style.
    fn labelled(&self, label: &str, style: Style, words: &str, out: &mut StyledWriter<'_>) -> io::Result<()> {
        let words = on_one_line(words);
        if self.is_terminal {
            return out.styled(style, &format!("{label}: {words}\n"));
        }
        writeln!(out, "[{label}] {words}")
    }

    /// Ends the current line.
    pub(super) fn end_line(&mut self, out: &mut StyledWriter<'_>) -> io::Result<()> {
        self.end_thought(out)?;
        self.position = match self.position {
            OutputPosition::Words => OutputPosition::WordsLine,
            OutputPosition::User { .. } => OutputPosition::Section,
            OutputPosition::Start
            | OutputPosition::Section
            | OutputPosition::Prompt
            | OutputPosition::Thought
            | OutputPosition::WordsLine => return Ok(()),
        };
        writeln!(out)
    }

    fn update(&mut self, update: Update, turn: Option<TurnId>, console: &mut Console<'_>) -> io::Result<()> {
        let out = &mut console.out;
        match update {
            Update::Chunk { kind, message_id, content } => {
                let text = shown(content);
                if text.is_empty() {
                    return Ok(());
                }
                let begins = self.message.begins(MessageKey { kind, turn, id: message_id });
                self.chunk(kind, turn, &text, begins, out)
            }
            Update::Tool { call, fields, .. } => self.tool(call, &fields, console),
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
        out: &mut StyledWriter<'_>,
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
        out: &mut StyledWriter<'_>,
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
    fn notice(&mut self, what: &str, words: &str, out: &mut StyledWriter<'_>) -> io::Result<()> {
        self.section(out)?;
        self.labelled(what, Style::Dim, &ellipsize(&on_one_line(words), THOUGHT_CHARS), out)
    }

    /// Shows words of the agent, without a blank line after a thought; in a pipe, as npm acpx, after any section.
    fn words(&mut self, text: &str, begins: bool, out: &mut StyledWriter<'_>) -> io::Result<()> {
        self.end_thought(out)?;
        match self.position {
            OutputPosition::Words if begins => out.write_all(b"\n\n")?,
            OutputPosition::WordsLine if begins => out.write_all(b"\n")?,
            OutputPosition::Prompt => out.write_all(b"\n")?,
            OutputPosition::Section if self.is_terminal => out.write_all(b"\n")?,
            OutputPosition::User { .. } => out.write_all(b"\n\n")?,
            OutputPosition::Start
            | OutputPosition::Section
            | OutputPosition::Thought
            | OutputPosition::Words
            | OutputPosition::WordsLine => {}
        }
        self.position = if text.ends_with('\n') { OutputPosition::WordsLine } else { OutputPosition::Words };
        out.write_all(text.as_bytes())
    }

    /// Shows user words that are no prompt of ours.
    fn user(&mut self, text: &str, begins: bool, out: &mut StyledWriter<'_>) -> io::Result<()> {
        let label = if self.is_terminal { USER.to_owned() } else { user_label(None, None) };
        let line_end = line_end_below(&label);
        let words = text.trim_end_matches('\n');
        let ends = match self.position {
            OutputPosition::User { ends } if !begins => ends,
            _ => {
                self.section(out)?;
                out.styled(Style::Accent, &label)?;
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

    fn tool(&mut self, call: Box<str>, fields: &str, console: &mut Console<'_>) -> io::Result<()> {
        self.end_thought(&mut console.out)?;
        let tool = self.tools.entry(call.clone()).or_default();
        let phase = tool.merge(fields);
        self.tool_io.drop_terminals_of(tool);
        let Some(phase) = phase else { return Ok(()) };
        let text = match phase {
            ToolCallPhase::Started if self.is_terminal => {
                let title = terminal::title(tool);
                let text = terminal::begun_tool(tool);
                // What is awaited has the title while the tool runs.
                if console.wait_during(Some(&title)) {
                    return Ok(());
                }
                self.section(&mut console.out)?;
                self.begun_tool = Some(call);
                return console.out.text(&text);
            }
            ToolCallPhase::Started => tool.start_section().into(),
            ToolCallPhase::Ended if self.is_terminal => {
                console.wait_during(None);
                terminal::ended_tool(tool, &self.terminals)
            }
            ToolCallPhase::Ended => tool.end_section(&self.terminals).into(),
        };
        // The end of a tool follows its begin without a blank line.
        if self.begun_tool.take_if(|begun| *begun == call).is_none() {
            self.section(&mut console.out)?;
        }
        console.out.text(&text)
    }

    fn plan(&mut self, fields: &str, out: &mut StyledWriter<'_>) -> io::Result<()> {
        self.section(out)?;
        let plan: Value = serde_json::from_str(fields).unwrap_or_default();
        let entries = plan.get("entries").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if self.is_terminal {
            return out.text(&terminal::plan(entries));
        }
        writeln!(out, "[plan]")?;
        for entry in entries {
            let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("-");
            writeln!(out, "  - [{}] {}", agent_text(field("status")), agent_text(field("content")))?;
        }
        Ok(())
    }

    /// Ends the current output, so that a section can begin.
    fn section(&mut self, out: &mut StyledWriter<'_>) -> io::Result<()> {
        self.end_thought(out)?;
        self.begun_tool = None;
        match self.position {
            OutputPosition::Start => {}
            OutputPosition::Words | OutputPosition::User { .. } => out.write_all(b"\n\n")?,
            OutputPosition::Section
            | OutputPosition::Prompt
            | OutputPosition::Thought
            | OutputPosition::WordsLine => out.write_all(b"\n")?,
        }
        self.position = OutputPosition::Section;
        Ok(())
    }

    /// Shows the collected thought, if there is one.
    fn end_thought(&mut self, out: &mut StyledWriter<'_>) -> io::Result<()> {
        let thought = std::mem::take(&mut self.thought);
        let thought = ellipsize(thought.trim(), THOUGHT_CHARS);
        if thought.is_empty() {
            return Ok(());
        }
        self.section(out)?;
        self.position = OutputPosition::Thought;
        if self.is_terminal {
            return out.styled(Style::Dim, &format!("thinking: {}\n", thought.replace('\n', "\n  ")));
        }
        writeln!(out, "[thinking] {}", thought.replace('\n', "\n           "))
    }
}

/// Shows the user's prompt on a terminal, below its turn and client.
fn terminal_prompt(
    turn: Option<TurnId>,
    client: Option<&ClientName>,
    words: &str,
    out: &mut StyledWriter<'_>,
) -> io::Result<()> {
    let label = user_label(turn, client);
    let label = label.trim().trim_matches(['[', ']']).trim_start_matches("user").trim_start_matches(", ");
    if !label.is_empty() {
        out.styled(Style::Dim, &format!("{}\n", label.replace(", ", " · ")))?;
    }
    out.styled(Style::Accent, USER)?;
    out.styled(Style::Bold, &format!("{}\n", words.replace('\n', &line_end_below(USER))))
}

/// How a turn ended, in a pipe.
fn end(result: &PromptResult, out: &mut StyledWriter<'_>) -> io::Result<()> {
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

/// A message chunk as text.
fn shown(content: ChunkContent) -> String {
    match content {
        ChunkContent::Text(text) => text.into(),
        ChunkContent::Block(json) => block_words(&serde_json::from_str(&json).unwrap_or_default()),
    }
}
