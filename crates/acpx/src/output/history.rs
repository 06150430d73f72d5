//! The last entries of a session, oldest first: each prompt, then the agent's thoughts, words, tool calls and client
//! requests, with the time of its first event.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::num::NonZeroUsize;

use acpx_core::acp;
use acpx_core::model::{
    Content, Conversation, Direction, Entry, ErrorCode, Event, EventKind, Fact, FactError, MessageKind,
    RecordId, Seq, SessionIdentity, TerminalText, Timestamp, ToolCall, Turn, TurnId, Update,
};
use acpx_core::wire::RpcMessage;
use serde::Serialize;
use serde_json::Value;

use super::elapsed::{ago, now};
use super::style::Style;
use super::{Console, json_line};
use crate::cli::Format;
use crate::output::agent_request::{AgentRequest, RequestOutcome, RequestSubject, UnansweredRequests};

/// How much of an entry `sessions history` shows.
const PREVIEW_CHARS: usize = 2000;

/// Which part of a history is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistoryPart {
    /// The last entries, each cut to a preview.
    Last(NonZeroUsize),
    /// All entries, or only the last ones, in full.
    Whole { tail: Option<NonZeroUsize> },
}

impl HistoryPart {
    /// The command that shows it.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Last(_) => "history",
            Self::Whole { .. } => "read",
        }
    }

    /// The number of entries as JSON has it: 0 for all.
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::Last(limit) | Self::Whole { tail: Some(limit) } => limit.get(),
            Self::Whole { tail: None } => 0,
        }
    }

    /// The maximum number of entries.
    fn entries(self) -> usize {
        match self {
            Self::Whole { tail: None } => usize::MAX,
            Self::Last(limit) | Self::Whole { tail: Some(limit) } => limit.get(),
        }
    }

    /// What separates the messages of an agent in one entry.
    fn separator(self) -> &'static str {
        match self {
            Self::Last(_) => " ",
            Self::Whole { .. } => "\n",
        }
    }

    /// The flag that shows more entries than these, and whether it shows all; `None` if these are all.
    fn more(self, shown: usize, total: Option<usize>) -> Option<(String, MoreEntries)> {
        if total.is_some_and(|total| shown >= total) {
            return None;
        }
        Some(match (self, total) {
            (Self::Last(_), Some(total)) => (format!("--limit {total}"), MoreEntries::All),
            (Self::Last(limit), None) => {
                (format!("--limit {}", limit.get().saturating_mul(5)), MoreEntries::Some)
            }
            (Self::Whole { .. }, _) => ("sessions read without --tail".to_owned(), MoreEntries::All),
        })
    }
}

/// How much more a flag shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoreEntries {
    All,
    Some,
}

/// How much of a terminal's output is shown: its end.
const TERMINAL_CHARS: usize = 400;

/// Shown for a turn whose host died.
const INTERRUPTED: &str = "interrupted";

/// One entry, of the user or of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryEntry {
    pub(crate) role: Role,
    /// When it began.
    pub(crate) timestamp: Timestamp,
    /// Its beginning, on one line.
    pub(crate) text_preview: String,
    /// Whether there is more of it than is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
    /// The turn it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<u64>,
}

/// Who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    User,
    Assistant,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Collects the entries of a record from its events.
#[derive(Debug)]
pub(crate) struct History {
    conversation: Conversation,
    /// Whether it begins with the record's first event.
    is_whole: bool,
    /// When each tool call was first seen: the conversation has only their sequence numbers.
    tool_times: HashMap<Seq, Timestamp>,
    /// The agent's client requests, which are not part of the conversation.
    requests: RequestHistory,
    /// Prompts that were never sent to an agent, and when they were accepted: no event has their text.
    unsent: HashMap<TurnId, (Timestamp, String)>,
    /// Why and when a turn ended early: the agent's words in it are incomplete.
    early_ends: HashMap<TurnId, (Timestamp, String)>,
    /// Turns sent by a dead host, and when: no event has their ends yet.
    interrupted: Vec<(TurnId, Timestamp)>,
}

impl History {
    /// The empty history of a record from an event on.
    pub(crate) fn of(record: RecordId, first: Seq) -> Self {
        Self {
            conversation: Conversation::new(record),
            is_whole: first == Seq::FIRST,
            tool_times: HashMap::new(),
            requests: RequestHistory::default(),
            unsent: HashMap::new(),
            early_ends: HashMap::new(),
            interrupted: Vec::new(),
        }
    }

    /// The turns that ended without any entry.
    pub(crate) fn silent_turns(&self) -> Vec<TurnId> {
        let turns = self.conversation.entries().iter().filter_map(|entry| match entry {
            Entry::Message(message) => message.turn,
            Entry::Tool(tool) => tool.turn,
            Entry::Plan { .. } | Entry::TurnEnd { .. } | Entry::Reset { .. } => None,
        });
        let with_entries: HashSet<TurnId> = turns.collect();
        let ended = self.conversation.entries().iter().filter_map(|entry| match entry {
            Entry::TurnEnd { turn, .. } => Some(*turn),
            _ => None,
        });
        ended.filter(|turn| !with_entries.contains(turn)).collect()
    }

    /// Adds the prompt of a turn that was never sent to an agent.
    pub(crate) fn add_unsent(&mut self, turn: &Turn) {
        let words = acp::prompt_words(&turn.prompt);
        if !words.trim().is_empty() {
            self.unsent.insert(turn.id, (turn.queued_at, words));
        }
    }

    /// Adds a turn that was sent by a dead host.
    pub(crate) fn add_interrupted(&mut self, turn: TurnId, at: Timestamp) {
        self.interrupted.push((turn, at));
    }

    /// Takes the next event.
    pub(crate) fn apply(&mut self, event: &Event) {
        let content = acp::content(event);
        if matches!(content, Content::Update(Update::Tool { .. })) {
            self.tool_times.insert(event.seq, event.at);
        }
        if let Content::Fact(Fact::TurnEnded { turn, stop_reason, error }) = &content
            && let Some(words) = early_end(stop_reason.as_deref(), error.as_ref())
        {
            self.early_ends.insert(TurnId(*turn), (event.at, words));
        }
        self.requests.apply(event, &content, self.conversation.entries().len());
        self.conversation.apply(event, content);
    }

    /// The entries of a part, and how many there are in all if that is known.
    pub(crate) fn entries(&self, part: HistoryPart) -> (Vec<HistoryEntry>, Option<usize>) {
        let mut entries = LastEntries { last: VecDeque::new(), part, total: 0 };
        let in_tools = self.terminals_in_tools();
        let mut requests = self.requests.all().peekable();
        for (index, entry) in self.conversation.entries().iter().enumerate() {
            while let Some(request) = requests.next_if(|request| request.before <= index) {
                self.add_request(request, &in_tools, &mut entries);
            }
            self.add_entry(entry, &mut entries);
        }
        requests.for_each(|request| self.add_request(request, &in_tools, &mut entries));
        for (turn, at) in &self.interrupted {
            entries.add(Role::Assistant, Some(*turn), *at, &format!("[{INTERRUPTED}]"));
        }
        (entries.last.into(), self.is_whole.then_some(entries.total))
    }

    fn add_entry(&self, entry: &Entry, entries: &mut LastEntries) {
        match entry {
            Entry::Message(message) => {
                let role = match message.kind {
                    MessageKind::User => Role::User,
                    MessageKind::Agent | MessageKind::Thought => Role::Assistant,
                };
                let mut text = Cow::Borrowed(&*message.text);
                for words in acp::blocks_words(&message.blocks) {
                    text.to_mut().extend([" ", &words]);
                }
                entries.add(role, message.turn, message.at, &text);
            }
            Entry::Tool(tool) => {
                let field = |name: &str| tool.fields.get(name).and_then(serde_json::Value::as_str);
                let title = field("title").or_else(|| field("kind")).unwrap_or("-");
                if let Some(at) = self.tool_times.get(&tool.first) {
                    let mut text = format!("[tool:{title}]");
                    for terminal in terminals_of(tool).filter_map(|id| self.conversation.terminals().get(id))
                    {
                        append_terminal(terminal, &mut text);
                    }
                    entries.add(Role::Assistant, tool.turn, *at, &text);
                }
            }
            Entry::TurnEnd { turn, .. } => {
                if let Some((at, words)) = self.unsent.get(turn) {
                    entries.add(Role::User, Some(*turn), *at, &format!("[not sent] {words}"));
                } else if let Some((at, words)) = self.early_ends.get(turn) {
                    entries.add(Role::Assistant, Some(*turn), *at, &format!("[{words}]"));
                }
            }
            Entry::Plan { .. } | Entry::Reset { .. } => {}
        }
    }

    /// Adds a client request. A tool call shows the output of its command; a command without a tool call shows its own.
    fn add_request(
        &self,
        request: &RequestHistoryEntry,
        in_tools: &HashSet<&str>,
        entries: &mut LastEntries,
    ) {
        let terminal = request.terminal.as_deref();
        if terminal.is_some_and(|id| in_tools.contains(id)) {
            return;
        }
        let mut text = request.words.clone();
        if let Some(terminal) = terminal.and_then(|id| self.conversation.terminals().get(id)) {
            append_terminal(terminal, &mut text);
        }
        entries.add(Role::Assistant, request.turn, request.at, &text);
    }

    /// The terminals that tool calls refer to.
    fn terminals_in_tools(&self) -> HashSet<&str> {
        let tools = self.conversation.entries().iter().filter_map(|entry| match entry {
            Entry::Tool(tool) => Some(tool),
            _ => None,
        });
        tools.flat_map(terminals_of).collect()
    }
}

/// The terminals that a tool call refers to, by their ids.
pub(super) fn terminals_of(tool: &ToolCall) -> impl Iterator<Item = &str> {
    let content = tool.fields.get("content").and_then(serde_json::Value::as_array);
    content.into_iter().flatten().filter_map(|item| item.get("terminalId")?.as_str())
}

/// Why a turn ended early, if it did.
fn early_end(stop_reason: Option<&str>, error: Option<&FactError>) -> Option<String> {
    match (stop_reason, error) {
        (Some("cancelled"), _) => Some("cancelled".to_owned()),
        (_, Some(error)) if error.code == ErrorCode::Interrupted => Some(INTERRUPTED.to_owned()),
        (_, Some(error)) => Some(format!("failed: {}", error.code)),
        (_, None) => None,
    }
}

/// Appends a terminal to a text: its command, the end of its output, and its exit.
fn append_terminal(terminal: &TerminalText, text: &mut String) {
    let TerminalText { command, output, exit } = terminal;
    let begin = output.char_indices().rev().nth(TERMINAL_CHARS - 1).map_or(0, |(begin, _)| begin);
    let cut = if begin > 0 { "… " } else { "" };
    let exit = exit.as_ref().map(|exit| format!(" [{exit}]")).unwrap_or_default();
    text.extend([" $ ", command, " ", cut, output.get(begin..).unwrap_or_default(), &exit]);
}

/// The last entries so far. The agent's words in one turn are one entry.
struct LastEntries {
    last: VecDeque<HistoryEntry>,
    part: HistoryPart,
    total: usize,
}

impl LastEntries {
    fn add(&mut self, role: Role, turn: Option<TurnId>, at: Timestamp, text: &str) {
        let turn = turn.map(|turn| turn.0);
        let text = EntryText::of(text, self.part);
        // A prompt that was never sent may stand between the words of a turn.
        let before = match turn {
            Some(_) => self.last.iter_mut().rev().find(|entry| entry.turn == turn),
            None => self.last.back_mut(),
        };
        if let Some(entry) = before
            && role == Role::Assistant
            && entry.role == role
            && entry.turn == turn
        {
            if !entry.truncated {
                entry.text_preview.extend([self.part.separator(), &text.words]);
                if let HistoryPart::Last(_) = self.part {
                    let words = std::mem::take(&mut entry.text_preview);
                    (entry.text_preview, entry.truncated) = EntryText { words, ..text }.shown(self.part);
                }
            }
            return;
        }
        self.total += 1;
        let (text_preview, truncated) = text.shown(self.part);
        self.last.push_back(HistoryEntry { role, timestamp: at, text_preview, truncated, turn });
        if self.last.len() > self.part.entries() {
            self.last.pop_front();
        }
    }
}

/// The text of an entry: the beginning on one line, or the whole text with its lines.
struct EntryText {
    words: String,
    /// Whether there is more of it.
    is_cut: bool,
}

impl EntryText {
    fn of(text: &str, part: HistoryPart) -> Self {
        if let HistoryPart::Whole { .. } = part {
            return Self { words: text.trim().to_owned(), is_cut: false };
        }
        // Far more than is shown; the rest is not scanned.
        let end = text.char_indices().nth(PREVIEW_CHARS * 2).map(|(end, _)| end);
        let beginning = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        let words = beginning.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { words, is_cut: end.is_some() }
    }

    /// The shown text, with a mark if it is cut, and whether it is.
    fn shown(&self, part: HistoryPart) -> (String, bool) {
        let text = self.words.trim();
        let end = match part {
            HistoryPart::Last(_) => text.char_indices().nth(PREVIEW_CHARS).map(|(end, _)| end),
            HistoryPart::Whole { .. } => None,
        };
        let shown = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        let is_cut = self.is_cut || end.is_some();
        (if is_cut { format!("{shown}…") } else { shown.to_owned() }, is_cut)
    }
}

#[derive(Serialize)]
struct HistoryObject<'a> {
    #[serde(flatten)]
    identity: &'a SessionIdentity,
    limit: usize,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    entries: &'a [HistoryEntry],
}

/// Writes a part of a session's history.
pub(crate) fn history(
    identity: &SessionIdentity,
    history: &History,
    part: HistoryPart,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let (entries, total) = history.entries(part);
    let out = &mut console.out;
    match console.mode.format {
        Format::Json => {
            let (count, entries) = (entries.len(), &*entries);
            json_line(&HistoryObject { identity, limit: part.limit(), count, total, entries }, out)?;
        }
        Format::Quiet => entries.iter().try_for_each(|entry| writeln!(out, "{}", entry.text_preview))?,
        Format::Text if entries.is_empty() => writeln!(out, "No history")?,
        Format::Text if console.mode.is_terminal => {
            let now = now();
            for entry in &entries {
                let style = if entry.role == Role::User { Style::Accent } else { Style::Plain };
                out.styled(Style::Dim, &format!("{:<12}", ago(entry.timestamp, now)))?;
                out.styled(style, &format!("{:<11}", entry.role.word()))?;
                writeln!(out, "{}", entry.text_preview.replace('\n', &format!("\n{:23}", "")))?;
            }
            let shown = entries.len();
            if let Some((flag, part)) = part.more(shown, total) {
                let count =
                    total.map_or_else(|| format!("the last {shown}"), |total| format!("{shown} of {total}"));
                let all = if part == MoreEntries::All { "all of them" } else { "more" };
                out.styled(Style::Dim, &format!("{count} entries; {flag} shows {all}\n"))?;
            }
        }
        Format::Text => {
            match total {
                Some(total) => {
                    writeln!(out, "session: {} ({}/{total} shown)", identity.record, entries.len())?;
                }
                None => writeln!(out, "session: {} (last {} shown)", identity.record, entries.len())?,
            }
            for entry in &entries {
                // No line of an agent begins like a line of acpx.
                let words = entry.text_preview.replace('\n', "\n\t\t");
                writeln!(out, "{}\t{}\t{words}", entry.timestamp, entry.role.word())?;
            }
            if let Some((flag, part)) = part.more(entries.len(), total) {
                let all = if part == MoreEntries::All { "all of it" } else { "more" };
                console.flush()?;
                console.banner(&format!("{flag} shows {all}"));
            }
        }
    }
    console.flush()
}

/// Files and commands that an agent requested, in order.
#[derive(Debug, Default)]
pub(super) struct RequestHistory {
    all: Vec<RequestHistoryEntry>,
    /// The unanswered ones, with their indices.
    open: UnansweredRequests<(usize, AgentRequest)>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct RequestHistoryEntry {
    /// The index of the conversation entry that follows it.
    pub(super) before: usize,
    pub(super) turn: Option<TurnId>,
    pub(super) at: Timestamp,
    /// The request and its result, in words. The content of a file that the agent read is not stored.
    pub(super) words: String,
    /// The terminal of a command that was run.
    pub(super) terminal: Option<String>,
}

impl RequestHistory {
    /// Takes the next event with its content; `entries` is the current number of entries in the conversation.
    pub(super) fn apply(&mut self, event: &Event, content: &Content, entries: usize) {
        let message = || RpcMessage::parse(event.body.clone()).ok();
        match (event.direction, event.kind) {
            (Direction::Ours, _) if is_of_another_process(content) => self.open.clear(),
            (Direction::FromAgent, EventKind::Request) => {
                let Some(message) = message() else { return };
                let (Some(method), Some(id)) = (message.method(), message.id()) else { return };
                let request = AgentRequest::read(method, message.params());
                if !matches!(request.subject, RequestSubject::File(_) | RequestSubject::Command(_)) {
                    self.open.begin(id, None);
                    return;
                }
                let (before, turn, at) = (entries, event.turn, event.at);
                let words = with_status(&request, "not answered");
                let dropped = self.open.begin(id, Some((self.all.len(), request)));
                self.all.push(RequestHistoryEntry { before, turn, at, words, terminal: None });
                if let Some((index, request)) = dropped
                    && let Some(entry) = self.all.get_mut(index)
                {
                    entry.words = with_status(&request, "asked for");
                }
            }
            (Direction::ToAgent, EventKind::Response) if !self.open.is_empty() => {
                let Some(message) = message() else { return };
                let Some((index, request)) = self.open.end(&message) else { return };
                let Some(entry) = self.all.get_mut(index) else { return };
                let end = RequestOutcome::read(&message);
                if let (RequestSubject::Command(_), RequestOutcome::Done(result)) = (&request.subject, &end) {
                    entry.terminal = result.get("terminalId").and_then(Value::as_str).map(str::to_owned);
                }
                entry.words = with_outcome(&request, &end, entry.terminal.is_some());
            }
            _ => {}
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RequestHistoryEntry> {
        self.all.iter()
    }
}

/// Whether the next events belong to another process of the agent: the open requests will get no reply.
fn is_of_another_process(content: &Content) -> bool {
    match content {
        Content::Fact(Fact::AgentEnded { .. } | Fact::Restored { .. } | Fact::SessionReset { .. }) => true,
        Content::Fact(Fact::TurnEnded { error, .. }) => {
            error.as_ref().is_some_and(|error| error.code == ErrorCode::Interrupted)
        }
        _ => false,
    }
}

/// A request and its result. For a command, the terminal shows the rest.
fn with_outcome(request: &AgentRequest, end: &RequestOutcome, has_terminal: bool) -> String {
    let method = &request.method;
    match end {
        RequestOutcome::Done(_) if has_terminal => format!("[client:{method}]"),
        RequestOutcome::Done(_) => format!("[client:{method}] {}", subject(request)),
        end => {
            let error = end.error().map(|error| format!(": {error}")).unwrap_or_default();
            with_status(request, end.word()) + &error
        }
    }
}

/// A request, with a word for its status.
fn with_status(request: &AgentRequest, word: &str) -> String {
    format!("[client:{} ({word})] {}", request.method, subject(request))
}

fn subject(request: &AgentRequest) -> &str {
    request.labelled_subject().map(|(_, subject)| subject).unwrap_or_default()
}

#[cfg(test)]
mod tests;
