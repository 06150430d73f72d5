//! Splits a conversation into sections: a turn each, or what happened between two turns. One section is in memory at a
//! time, so memory does not depend on the length of the record.

use std::collections::{HashMap, HashSet};

use acpx_core::acp;
use acpx_core::model::{
    Content, Conversation, Direction, Entry, Event, EventKind, Fact, FactError, MessageKind, RecordId, Seq,
    TerminalText, Timestamp, Turn, TurnId, TurnOutcome, TurnState, Update,
};
use acpx_core::wire::RpcMessage;
use serde_json::{Map, Value};

use crate::output::agent_request::{AgentRequest, RequestOutcome, RequestSubject, UnansweredRequests};
use crate::output::history::{RequestHistory, terminals_of};
use crate::output::turn::detail;

/// A part of a conversation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ConversationSection {
    /// The turn, unless it is what happened between turns or outside acpx.
    pub(crate) turn: Option<TurnId>,
    /// When its first event was stored.
    pub(crate) begun_at: Option<Timestamp>,
    /// The client's name of the prompt.
    pub(crate) request_id: Option<String>,
    pub(crate) items: Vec<SectionItem>,
    pub(crate) end: Option<SectionEnd>,
    /// The usage that the agent reported for the turn, as JSON.
    pub(crate) usage: Option<Value>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectionEnd {
    pub(crate) at: Timestamp,
    pub(crate) stop_reason: Option<String>,
    pub(crate) error: Option<FactError>,
    /// Whether its host died.
    pub(crate) is_interrupted: bool,
}

/// One thing that was said or done.
#[derive(Debug, PartialEq)]
pub(crate) enum SectionItem {
    /// A message of the user or the agent, or a thought; other blocks than text are JSON.
    Message { kind: MessageKind, at: Timestamp, text: String, blocks: Vec<Box<str>> },
    /// A prompt that no agent received.
    Unsent { at: Timestamp, text: String },
    /// A tool call, with the commands that it ran.
    Tool { at: Option<Timestamp>, fields: Map<String, Value>, terminals: Vec<TerminalText> },
    /// The agent's plan.
    Plan { entries: Vec<PlanEntry> },
    /// A permission request and its answer.
    Permission { at: Timestamp, title: String, outcome: String },
    /// A file or command that the agent requested.
    Request { at: Timestamp, words: String, terminal: Option<TerminalText> },
    /// A fresh or earlier ACP session took over.
    Reset { at: Timestamp, words: String },
    /// Another fact of acpx.
    Note { at: Timestamp, words: String },
}

/// A line of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlanEntry {
    pub(crate) text: String,
    pub(crate) status: String,
}

impl ConversationSection {
    /// Adds what only the turn's row has: a prompt that was never sent, the end of an interrupted turn, and the usage.
    pub(crate) fn complete(&mut self, turn: &Turn) {
        self.usage = turn.usage.as_deref().and_then(|usage| serde_json::from_str(usage).ok());
        let is_prompt =
            |item: &SectionItem| matches!(item, SectionItem::Message { kind: MessageKind::User, .. });
        let text = acp::prompt_words(&turn.prompt);
        if !self.items.iter().any(is_prompt) && !text.trim().is_empty() {
            self.items.insert(0, SectionItem::Unsent { at: turn.queued_at, text });
        }
        if self.end.is_none() {
            let (at, stop_reason, is_interrupted) = match &turn.state {
                TurnState::Queued | TurnState::Dispatched { .. } => return,
                TurnState::Interrupted { at } => (*at, None, true),
                TurnState::Ended { at, outcome: TurnOutcome::Stopped(reason) } => {
                    (*at, Some(reason.as_str().to_owned()), false)
                }
                TurnState::Ended { at, outcome: TurnOutcome::Failed(_) } => (*at, None, false),
            };
            self.end = Some(SectionEnd { at, stop_reason, error: None, is_interrupted });
        }
    }
}

/// Makes sections from the events of a record.
#[derive(Debug)]
pub(crate) struct Sections {
    record: RecordId,
    section: ConversationSection,
    conversation: Conversation,
    /// When each tool call was first seen.
    tool_times: HashMap<Seq, Timestamp>,
    requests: RequestHistory,
    permissions: UnansweredRequests<(usize, AgentRequest)>,
    /// Items that are no entries of the conversation, each with the index of the entry after it.
    others: Vec<(usize, SectionItem)>,
}

impl Sections {
    /// The sections of a record, from its first event on.
    pub(crate) fn new(record: RecordId) -> Self {
        Self {
            section: ConversationSection::default(),
            conversation: Conversation::new(record.clone()),
            record,
            tool_times: HashMap::new(),
            requests: RequestHistory::default(),
            permissions: UnansweredRequests::default(),
            others: Vec::new(),
        }
    }

    /// Takes the next event; returns the section before it, if it begins another.
    pub(crate) fn apply(&mut self, event: &Event) -> Option<ConversationSection> {
        let content = acp::content(event);
        let before = if self.is_next_section(event, &content) { self.finish() } else { None };
        if self.section.begun_at.is_none() && content != Content::Nothing {
            self.section.begun_at = Some(event.at);
        }
        if matches!(content, Content::Update(Update::Tool { .. })) {
            self.tool_times.insert(event.seq, event.at);
        }
        let entries = self.conversation.entries().len();
        self.requests.apply(event, &content, entries);
        self.permission(event, entries);
        if let Content::Fact(fact) = &content {
            self.fact(event, fact, entries);
        }
        self.conversation.apply(event, content);
        before
    }

    /// A turn's start begins a section, as does anything after a turn's end. Outside turns, each prompt does.
    fn is_next_section(&self, event: &Event, content: &Content) -> bool {
        match content {
            Content::Nothing => false,
            Content::Fact(Fact::TurnStarted { .. }) => true,
            _ if self.section.end.is_some() => true,
            Content::Update(Update::Chunk { kind: MessageKind::User, .. }) if event.turn.is_none() => {
                let last = self.conversation.entries().last();
                last.is_some_and(
                    |last| !matches!(last, Entry::Message(message) if message.kind == MessageKind::User),
                )
            }
            _ => false,
        }
    }

    fn permission(&mut self, event: &Event, entries: usize) {
        let message = || RpcMessage::parse(event.body.clone()).ok();
        match (event.direction, event.kind) {
            (Direction::FromAgent, EventKind::Request) => {
                let Some(message) = message() else { return };
                let (Some(method), Some(id)) = (message.method(), message.id()) else { return };
                let request = AgentRequest::read(method, message.params());
                let RequestSubject::Permission(title, _) = &request.subject else { return };
                let (title, outcome) = (title.clone(), "not answered".to_owned());
                self.others.push((entries, SectionItem::Permission { at: event.at, title, outcome }));
                self.permissions.begin(id, Some((self.others.len() - 1, request)));
            }
            (Direction::ToAgent, EventKind::Response) if !self.permissions.is_empty() => {
                let Some(message) = message() else { return };
                let Some((index, request)) = self.permissions.end(&message) else { return };
                if let Some((_, SectionItem::Permission { outcome, .. })) = self.others.get_mut(index) {
                    *outcome = request.permission_outcome(&RequestOutcome::read(&message));
                }
            }
            _ => {}
        }
    }

    fn fact(&mut self, event: &Event, fact: &Fact, entries: usize) {
        let at = event.at;
        match fact {
            Fact::TurnStarted { turn, request_id, .. } => {
                self.section.turn = Some(TurnId(*turn));
                self.section.request_id = Some(request_id.clone());
            }
            Fact::TurnEnded { turn, stop_reason, error } => {
                self.section.turn = Some(TurnId(*turn));
                let is_interrupted = false;
                let (stop_reason, error) = (stop_reason.clone(), error.clone());
                self.section.end = Some(SectionEnd { at, stop_reason, error, is_interrupted });
            }
            Fact::SessionReset { announced: false, .. } => {}
            Fact::SessionReset { reason, .. } => {
                let words = format!(
                    "A fresh session took over ({reason}): the agent does not remember what came before"
                );
                self.others.push((entries, SectionItem::Reset { at, words }));
            }
            Fact::SessionReturned { .. } => {
                let words =
                    "The session returned to an earlier one: the agent remembers only that".to_owned();
                self.others.push((entries, SectionItem::Reset { at, words }));
            }
            Fact::Moved { from, to } => {
                let words = format!("the session moved from {from} to {to}");
                self.others.push((entries, SectionItem::Note { at, words }));
            }
            fact => {
                let words = detail(fact).map(|words| (entries, SectionItem::Note { at, words }));
                self.others.extend(words);
            }
        }
    }

    /// The last section; `None` if nothing happened in it.
    pub(crate) fn finish(&mut self) -> Option<ConversationSection> {
        let next = Self::new(self.record.clone());
        let Self { mut section, conversation, tool_times, requests, others, .. } =
            std::mem::replace(self, next);
        let terminal = |id: &str| conversation.terminals().get(id).cloned();
        let in_tools: HashSet<&str> = conversation
            .entries()
            .iter()
            .filter_map(|entry| if let Entry::Tool(tool) = entry { Some(tool) } else { None })
            .flat_map(terminals_of)
            .collect();
        let requests = requests.all().filter_map(|request| {
            let id = request.terminal.as_deref();
            let is_shown = id.is_none_or(|id| !in_tools.contains(id));
            let (at, words, terminal) = (request.at, request.words.clone(), id.and_then(terminal));
            is_shown.then_some((request.before, SectionItem::Request { at, words, terminal }))
        });
        let mut others: Vec<(usize, SectionItem)> = others.into_iter().chain(requests).collect();
        others.sort_by_key(|(before, _)| *before);
        let mut others = others.into_iter().peekable();
        for (index, entry) in conversation.entries().iter().enumerate() {
            while let Some((_, item)) = others.next_if(|(before, _)| *before <= index) {
                section.items.push(item);
            }
            section.items.extend(item(entry, &tool_times, terminal));
        }
        section.items.extend(others.map(|(_, item)| item));
        let is_empty = section.items.is_empty() && section.turn.is_none();
        (!is_empty).then_some(section)
    }
}

/// An entry of a conversation as an item. Ends and resets are facts, which have more words.
fn item(
    entry: &Entry,
    tool_times: &HashMap<Seq, Timestamp>,
    terminal: impl Fn(&str) -> Option<TerminalText>,
) -> Option<SectionItem> {
    match entry {
        Entry::Message(message) => Some(SectionItem::Message {
            kind: message.kind,
            at: message.at,
            text: message.text.clone(),
            blocks: message.blocks.clone(),
        }),
        Entry::Tool(tool) => Some(SectionItem::Tool {
            at: tool_times.get(&tool.first).copied(),
            fields: tool.fields.clone(),
            terminals: terminals_of(tool).filter_map(terminal).collect(),
        }),
        Entry::Plan { fields, .. } => {
            let fields: Value = serde_json::from_str(fields).unwrap_or_default();
            // Version 2 has the entries in a plan of its own.
            let entries = fields.get("entries").or_else(|| fields.pointer("/plan/entries"))?.as_array()?;
            let text = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
            let entry = |entry: &Value| {
                Some(PlanEntry {
                    text: text(entry, "content")?,
                    status: text(entry, "status").unwrap_or_default(),
                })
            };
            Some(SectionItem::Plan { entries: entries.iter().filter_map(entry).collect() })
        }
        Entry::TurnEnd { .. } | Entry::Reset { .. } => None,
    }
}
