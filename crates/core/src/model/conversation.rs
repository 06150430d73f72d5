//! A conversation folded from its events: prompts, messages, tool calls, plans, in order.
//!
//! Agents without message ids send bare chunks. A message is then the run of chunks of one kind within one
//! turn: a chunk of another kind, a tool call or a turn boundary ends it; state updates do not. Its id is
//! made from the seq of its first chunk, so every fold gives the same id. Agents' ids are keyed
//! together with the lineage row: an id that repeats after a reset does not merge with the earlier one.

use std::collections::HashMap;

use super::{
    ChunkContent, Content, Event, Fact, LineageIndex, LineageReason, MessageKind, RecordId, Seq,
    TerminalTexts, Timestamp, TurnId, Update, prompt_message_id, run_message_id,
};

/// A conversation after the events applied to it.
#[derive(Debug, Clone)]
pub struct Conversation {
    record: RecordId,
    entries: Vec<Entry>,
    tools: HashMap<(LineageIndex, Box<str>), usize>,
    messages: HashMap<(LineageIndex, MessageKind, Box<str>), usize>,
    /// The message that the next chunk without an id continues.
    open: Option<usize>,
    terminals: TerminalTexts,
    /// The turn whose prompt is sent a second time.
    resent: Option<TurnId>,
}

/// One message, tool call, plan or boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A message, of the user or the agent.
    Message(ConversationMessage),
    /// A tool call with the fields of all its updates.
    Tool(ToolCall),
    /// The agent's last plan of a turn.
    Plan {
        /// The turn the plan was sent in.
        turn: Option<TurnId>,
        /// The whole update object.
        fields: Box<str>,
    },
    /// A turn is over.
    TurnEnd {
        /// Which.
        turn: TurnId,
        /// Why the agent stopped; `None` if the turn failed.
        stop_reason: Option<Box<str>>,
    },
    /// Another ACP session took over. From here on the agent does not remember what came before or, where the record
    /// returned to an earlier session, what happened since.
    Reset {
        /// The lineage reason.
        reason: Box<str>,
        /// The session left behind.
        from: Box<str>,
        /// The session in force from here on.
        to: Box<str>,
    },
}

/// A message, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationMessage {
    /// The agent's id for it, or one made from the record and its first event.
    pub id: Box<str>,
    /// Whose it is.
    pub kind: MessageKind,
    /// The turn it belongs to.
    pub turn: Option<TurnId>,
    /// Its first event.
    pub first: Seq,
    /// Its last event.
    pub last: Seq,
    /// When its first event was stored.
    pub at: Timestamp,
    /// Its text, joined.
    pub text: String,
    /// Its other content blocks, JSON as received.
    pub blocks: Vec<Box<str>>,
}

/// A tool call after its last update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The agent's id for it.
    pub id: Box<str>,
    /// The turn it began in.
    pub turn: Option<TurnId>,
    /// Its first event.
    pub first: Seq,
    /// Its last event.
    pub last: Seq,
    /// When it began.
    pub at: Timestamp,
    /// Every field received for it, with its last value.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl ConversationMessage {
    fn append(&mut self, piece: ChunkContent) {
        match piece {
            ChunkContent::Text(text) => self.text.push_str(&text),
            ChunkContent::Block(block) => self.blocks.push(block),
        }
    }
}

impl Conversation {
    /// The conversation of a record before its first event.
    pub fn new(record: RecordId) -> Self {
        Self {
            record,
            entries: Vec::new(),
            tools: HashMap::new(),
            messages: HashMap::new(),
            open: None,
            terminals: TerminalTexts::default(),
            resent: None,
        }
    }

    /// Everything so far, in order of first appearance.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Applies the next event with its parsed content.
    pub fn apply(&mut self, event: &Event, content: Content) {
        match content {
            Content::Prompt { text, blocks } => self.prompt(event, text, blocks),
            Content::Update(update) => self.update(event, update),
            Content::Fact(fact) => self.fact(fact),
            Content::Nothing => {}
        }
    }

    /// The terminals that tool calls refer to.
    pub fn terminals(&self) -> &TerminalTexts {
        &self.terminals
    }

    fn reset(&mut self, reason: &str, from: String, to: String) {
        self.open = None;
        self.entries.push(Entry::Reset { reason: reason.into(), from: from.into(), to: to.into() });
    }

    fn prompt(&mut self, event: &Event, text: String, blocks: Vec<Box<str>>) {
        self.open = None;
        if self.resent.take().is_some_and(|turn| event.turn == Some(turn)) {
            return;
        }
        let id = event.turn.map(|turn| prompt_message_id(&self.record, turn).into());
        let message = ConversationMessage { text, blocks, ..self.message(event, MessageKind::User, id) };
        self.entries.push(Entry::Message(message));
    }

    fn update(&mut self, event: &Event, update: Update) {
        match update {
            // Our own prompt is already an entry within our turn: agents echo it.
            Update::Chunk { kind: MessageKind::User, .. }
            | Update::Message { kind: MessageKind::User, .. }
                if event.turn.is_some() =>
            {
                self.open = None;
            }
            Update::Chunk { kind, message_id, content } => self.chunk(event, kind, message_id, content),
            Update::Message { kind, message_id, content } => self.whole(event, kind, message_id, content),
            Update::Tool { call, fields, .. } => self.tool(event, call, &fields),
            Update::ToolContent { call, item } => self.tool_content(event, &call, &item),
            Update::Plan { fields } => self.plan(event, fields),
            Update::Title(_)
            | Update::Notice { .. }
            | Update::Compaction { .. }
            | Update::Usage { .. }
            | Update::State
            | Update::Unknown => {}
        }
    }

    fn fact(&mut self, fact: Fact) {
        self.terminals.apply(&fact);
        match fact {
            Fact::TurnStarted { .. } => self.open = None,
            Fact::TurnEnded { turn, stop_reason, .. } => {
                self.open = None;
                let stop_reason = stop_reason.map(Into::into);
                self.entries.push(Entry::TurnEnd { turn: TurnId(turn), stop_reason });
            }
            Fact::SessionReset {
                reason,
                announced: true,
                from_acpx_session_id: from,
                acpx_session_id: to,
                ..
            } => self.reset(&reason, from, to),
            Fact::SessionReturned { from_acpx_session_id: from, acpx_session_id: to, .. } => {
                self.reset(LineageReason::Returned.as_str(), from, to);
            }
            Fact::PromptResent { turn, .. } => self.resent = Some(TurnId(turn)),
            Fact::SessionReset { .. }
            | Fact::Restored { .. }
            | Fact::ReplayedLate { .. }
            | Fact::LimitNotEnforced { .. }
            | Fact::LoadDelayed { .. }
            | Fact::Moved { .. }
            | Fact::McpServersLeftOut { .. }
            | Fact::SettingNotRestored { .. }
            | Fact::LinesDropped { .. }
            | Fact::LinesUnread { .. }
            | Fact::PermissionAsked { .. }
            | Fact::TerminalStarted { .. }
            | Fact::TerminalOutput { .. }
            | Fact::TerminalEnded { .. }
            | Fact::AgentEnded { .. }
            | Fact::AgentAway {}
            | Fact::AgentBack {}
            | Fact::ProcessesEnded { .. }
            | Fact::Closed {} => {}
        }
    }

    fn chunk(&mut self, event: &Event, kind: MessageKind, id: Option<Box<str>>, content: ChunkContent) {
        let index = match self.continued(event, kind, id.as_deref()) {
            Some(index) => index,
            None => self.begin_message(event, kind, id),
        };
        self.open = Some(index);
        let Some(Entry::Message(message)) = self.entries.get_mut(index) else { return };
        message.last = event.seq;
        message.append(content);
    }

    /// Replaces a message's content. The message keeps the place of its first appearance.
    fn whole(&mut self, event: &Event, kind: MessageKind, id: Box<str>, content: Option<Vec<ChunkContent>>) {
        self.open = None;
        let index = match self.continued(event, kind, Some(&id)) {
            Some(index) => index,
            None => self.begin_message(event, kind, Some(id)),
        };
        let Some(Entry::Message(message)) = self.entries.get_mut(index) else { return };
        message.last = event.seq;
        if let Some(content) = content {
            message.text.clear();
            message.blocks.clear();
            for piece in content {
                message.append(piece);
            }
        }
    }

    fn continued(&self, event: &Event, kind: MessageKind, id: Option<&str>) -> Option<usize> {
        if let Some(id) = id {
            return self.messages.get(&(event.lineage, kind, id.into())).copied();
        }
        let index = self.open?;
        match self.entries.get(index) {
            Some(Entry::Message(message)) if message.kind == kind && message.turn == event.turn => {
                Some(index)
            }
            _ => None,
        }
    }

    fn begin_message(&mut self, event: &Event, kind: MessageKind, id: Option<Box<str>>) -> usize {
        let index = self.entries.len();
        if let Some(id) = &id {
            self.messages.insert((event.lineage, kind, id.clone()), index);
        }
        let message = self.message(event, kind, id);
        self.entries.push(Entry::Message(message));
        index
    }

    fn message(&self, event: &Event, kind: MessageKind, id: Option<Box<str>>) -> ConversationMessage {
        ConversationMessage {
            id: id.unwrap_or_else(|| run_message_id(&self.record, event.seq).into()),
            kind,
            turn: event.turn,
            first: event.seq,
            last: event.seq,
            at: event.at,
            text: String::new(),
            blocks: Vec::new(),
        }
    }

    fn tool(&mut self, event: &Event, call: Box<str>, fields: &str) {
        self.open = None;
        let Ok(serde_json::Value::Object(sent)) = serde_json::from_str(fields) else { return };
        let key = (event.lineage, call.clone());
        let is_new = sent.get("sessionUpdate").is_some_and(|what| what == "tool_call");
        let known = self.tools.get(&key).and_then(|&index| self.entries.get_mut(index));
        if let Some(Entry::Tool(tool)) = known
            && !is_another_call(is_new, tool.turn, event.turn)
        {
            tool.last = event.seq;
            tool.fields.extend(sent);
            return;
        }
        self.tools.insert(key, self.entries.len());
        let tool = ToolCall {
            id: call,
            turn: event.turn,
            first: event.seq,
            last: event.seq,
            at: event.at,
            fields: sent,
        };
        self.entries.push(Entry::Tool(tool));
    }

    /// Appends an item to a call's content; an item for an unknown call is dropped.
    fn tool_content(&mut self, event: &Event, call: &str, item: &str) {
        self.open = None;
        let key = (event.lineage, call.into());
        let entry = self.tools.get(&key).and_then(|&index| self.entries.get_mut(index));
        let (Some(Entry::Tool(tool)), Ok(item)) = (entry, serde_json::from_str(item)) else { return };
        tool.last = event.seq;
        match tool.fields.get_mut("content") {
            Some(serde_json::Value::Array(content)) => content.push(item),
            _ => {
                tool.fields.insert("content".to_owned(), vec![item].into());
            }
        }
    }

    /// Every plan update is complete, so the last one of a turn replaces the earlier ones.
    fn plan(&mut self, event: &Event, fields: Box<str>) {
        let same_turn = |entry: &&mut Entry| matches!(entry, Entry::Plan { turn, .. } if *turn == event.turn);
        match self.entries.iter_mut().rev().find(same_turn) {
            Some(Entry::Plan { fields: sent, .. }) => *sent = fields,
            _ => self.entries.push(Entry::Plan { turn: event.turn, fields }),
        }
    }
}

/// Whether a `tool_call` update with a known id starts another call: it is marked new (version 1) and comes in a
/// later turn. Some agents mark a call as new twice in a turn. In version 2 a call may continue in the next turn, and
/// no update is marked as new.
pub(crate) fn is_another_call(is_new: bool, before: Option<TurnId>, now: Option<TurnId>) -> bool {
    is_new && before.is_some() && now.is_some() && before != now
}

#[cfg(test)]
mod tests;
