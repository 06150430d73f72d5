//! Keeps the exchanges of a record while its events are written, so that a replay can be compared with them without
//! folding the whole record again.
//!
//! A checkpoint has the exchanges that changed since the last one, and the state that continues the fold. A fold that
//! is resumed from any checkpoint ends like the fold of all events. Its memory does not grow with the conversation: only
//! the current exchange can change, and of long texts the beginning is stored.
//!
//! An agent's message id refers to a message of the current exchange; elsewhere it begins another message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    AcpSessionId, ChunkContent, Content, Event, Exchange, Fact, LineageIndex, MessageKind, Seq, Timestamp,
    TurnId, Update, sha256_hex,
};

/// How many bytes of a prompt are stored, without white space.
const PROMPT_BYTES: usize = 16 * 1024;
/// How many bytes of a reply are stored.
const REPLY_BYTES: usize = 1024;
/// How many messages of a reply can still be changed by their ids: the last ones.
const OPEN_MESSAGES: usize = 16;
/// The longest message id that is stored as the agent sent it.
const ID_BYTES: usize = 256;
/// After how many events a checkpoint is due. A crash loses no more than these, and the next start folds them again.
const CHECKPOINT_EVENTS: usize = 1024;

/// The exchanges that changed since the last checkpoint, and the state to continue with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeCheckpoint {
    /// The last event that is included.
    pub(crate) through: Seq,
    pub(crate) exchanges: Vec<StoredExchange>,
    pub(crate) state: ExchangeFoldState,
}

/// An exchange with its place in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredExchange {
    /// Its number in the record, from 1 without gaps.
    pub(crate) number: u64,
    /// The exchanges of one ACP session have one branch.
    pub(crate) branch: u64,
    /// Its first event.
    pub(crate) first: Seq,
    pub(crate) exchange: Exchange,
}

/// The state between two events, as it is stored. The current exchange itself is stored with the others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExchangeFoldState {
    /// How many exchanges there are.
    pub(crate) count: u64,
    /// The branch in force, and how many there are besides the first.
    branch: u64,
    branches: u64,
    /// The branches of the ACP sessions that were left.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    left: BTreeMap<String, u64>,
    /// Whether the turn of the last prompt runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    turn_runs: bool,
    /// The turn whose prompt is sent a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resent: Option<u64>,
    /// The time of the last message, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_message_at: Option<i64>,
    /// The parts of the current exchange: the one that replies are added to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<ExchangeParts>,
}

/// The messages of the current exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExchangeParts {
    number: u64,
    /// The agent's id of the user message, if the agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<AgentMessageKey>,
    /// The message that the next chunk without an id continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<OpenMessage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reply: Vec<ReplyPart>,
}

/// An agent's id for a message. It is unique only within its ACP session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentMessageKey {
    lineage: u64,
    id: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OpenMessage {
    User,
    /// A message of the agent, with its id.
    Agent(AgentMessageKey),
}

/// A message of the reply, or several that cannot change any more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyPart {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<AgentMessageKey>,
    text: String,
    /// How many bytes followed.
    rest: usize,
    /// The turn in which it began. Text without an id continues it only in that turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
}

/// The fold of a record's events into exchanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExchangeFold {
    state: ExchangeFoldState,
    /// The current exchange, without its reply: `state.current` has the parts of that.
    current: Option<StoredExchange>,
    /// The exchanges that ended since the last checkpoint.
    ended: Vec<StoredExchange>,
    through: Seq,
    /// How many events were applied since the last checkpoint.
    applied: usize,
    is_due: bool,
}

impl ExchangeCheckpoint {
    /// Adds the next checkpoint.
    pub(crate) fn add(&mut self, next: Self) {
        for exchange in next.exchanges {
            let index = usize::try_from(exchange.number - 1).unwrap_or(usize::MAX);
            match self.exchanges.get_mut(index) {
                Some(known) => *known = exchange,
                None => self.exchanges.push(exchange),
            }
        }
        (self.through, self.state) = (next.through, next.state);
    }
}

impl ExchangeFold {
    /// The fold before the first event.
    pub(crate) fn new() -> Self {
        Self {
            state: ExchangeFoldState::default(),
            current: None,
            ended: Vec::new(),
            through: Seq(0),
            applied: 0,
            is_due: false,
        }
    }

    /// The fold after a checkpoint. It takes the current exchange from the exchanges.
    pub(crate) fn resume(stored: &ExchangeCheckpoint) -> Self {
        let current =
            stored.state.current.as_ref().and_then(|parts| {
                stored.exchanges.iter().rev().find(|exchange| exchange.number == parts.number)
            });
        let without_reply = |stored: &StoredExchange| {
            let exchange = Exchange { reply: String::new(), unstored: 0, ..stored.exchange.clone() };
            StoredExchange { exchange, ..*stored }
        };
        let current = current.map(without_reply);
        Self { state: stored.state.clone(), current, through: stored.through, ..Self::new() }
    }

    /// The first event that is not applied yet.
    pub(crate) fn next(&self) -> Seq {
        self.through.next()
    }

    /// The time of the last prompt, agent update or end of a turn. Restoring a session does not count.
    pub(crate) fn last_message_at(&self) -> Option<Timestamp> {
        Timestamp::from_millis(self.state.last_message_at?).ok()
    }

    /// Whether the next chunk without an id would continue a message. A thought or a tool call ends it.
    pub(crate) fn has_open_message(&self) -> bool {
        self.open_message().is_some()
    }

    fn open_message(&self) -> Option<&OpenMessage> {
        self.state.current.as_ref().and_then(|parts| parts.open.as_ref())
    }

    /// Whether it is time for a checkpoint.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.is_due || self.applied >= CHECKPOINT_EVENTS
    }

    /// What changed since the last checkpoint; `None` if no event was applied.
    pub(crate) fn take_checkpoint(&mut self) -> Option<ExchangeCheckpoint> {
        if self.applied == 0 {
            return None;
        }
        (self.applied, self.is_due) = (0, false);
        let mut exchanges = std::mem::take(&mut self.ended);
        exchanges.extend(self.current_with_reply());
        Some(ExchangeCheckpoint { through: self.through, exchanges, state: self.state.clone() })
    }

    /// The branch of the ACP session in force, or of one that the record has left.
    pub(crate) fn branch(&self, left: Option<&AcpSessionId>) -> Option<u64> {
        match left {
            None => Some(self.state.branch),
            Some(session) => self.state.left.get(session.as_str()).copied(),
        }
    }

    /// Applies an update of the agent that is no message and ends none.
    pub(crate) fn apply_other_update(&mut self, event: &Event) {
        self.count(event);
        self.state.last_message_at = Some(event.at.as_millis());
    }

    /// Applies the next event with its content.
    pub(crate) fn apply(&mut self, event: &Event, content: &Content) {
        self.count(event);
        match content {
            Content::Prompt { text, .. } => {
                self.state.last_message_at = Some(event.at.as_millis());
                self.prompt(event, text);
            }
            Content::Update(update) => {
                self.state.last_message_at = Some(event.at.as_millis());
                self.update(event, update);
            }
            Content::Fact(fact) => self.fact(event, fact),
            Content::Nothing => {}
        }
    }

    fn count(&mut self, event: &Event) {
        self.through = event.seq;
        self.applied += 1;
    }

    fn prompt(&mut self, event: &Event, text: &str) {
        self.end_message();
        if self.state.resent.take().is_some_and(|turn| event.turn == Some(TurnId(turn))) {
            return;
        }
        self.begin(event, None);
        self.append_prompt(text);
    }

    fn fact(&mut self, event: &Event, fact: &Fact) {
        match fact {
            Fact::TurnStarted { .. } => self.end_message(),
            Fact::TurnEnded { stop_reason, .. } => {
                self.state.last_message_at = Some(event.at.as_millis());
                self.end_message();
                self.state.turn_runs = false;
                let is_answered = stop_reason.as_ref().is_some_and(|reason| reason != "cancelled");
                if let Some(current) = self.current.as_mut().filter(|_| is_answered) {
                    current.exchange.answered = true;
                }
                self.is_due = true;
            }
            Fact::SessionReset {
                announced: true, from_acpx_session_id: from, acpx_session_id: to, ..
            }
            | Fact::SessionReturned { from_acpx_session_id: from, acpx_session_id: to, .. } => {
                self.change_branch(from, to);
            }
            Fact::PromptResent { turn, .. } => self.state.resent = Some(*turn),
            _ => {}
        }
    }

    /// Another ACP session takes over. A prompt whose turn still runs goes there.
    fn change_branch(&mut self, from: &str, to: &str) {
        self.end_message();
        if !self.state.turn_runs {
            self.end_exchange();
        }
        self.state.left.insert(from.to_owned(), self.state.branch);
        self.state.branch = self.state.left.remove(to).unwrap_or_else(|| {
            self.state.branches += 1;
            self.state.branches
        });
        if let Some(resent) = &mut self.current {
            resent.branch = self.state.branch;
        }
        self.is_due = true;
    }

    fn update(&mut self, event: &Event, update: &Update) {
        match update {
            // Our own prompt is already an exchange within our turn: agents echo it.
            Update::Chunk { kind: MessageKind::User, .. }
            | Update::Message { kind: MessageKind::User, .. }
                if event.turn.is_some() =>
            {
                self.end_message();
            }
            Update::Chunk { kind: MessageKind::User, message_id, content } => {
                self.user_chunk(event, message_id.as_deref(), content);
            }
            Update::Message { kind: MessageKind::User, message_id, content } => {
                self.user_message(event, message_id, content.as_deref());
            }
            Update::Chunk { kind: MessageKind::Agent, message_id, content } => {
                self.agent_chunk(event, message_id.as_deref(), content);
            }
            Update::Message { kind: MessageKind::Agent, message_id, content } => {
                let Some(parts) = &mut self.state.current else { return };
                parts.open = None;
                let key = Some(AgentMessageKey::new(event.lineage, message_id));
                let index = parts.index_of(key, event.turn);
                if let Some(content) = content {
                    parts.clear(index);
                    for piece in content {
                        parts.append(index, piece);
                    }
                }
            }
            Update::Chunk { kind: MessageKind::Thought, .. }
            | Update::Message { kind: MessageKind::Thought, .. }
            | Update::Tool { .. }
            | Update::ToolContent { .. } => self.end_message(),
            Update::Plan { .. }
            | Update::Title(_)
            | Update::Notice { .. }
            | Update::Compaction { .. }
            | Update::Usage { .. }
            | Update::State
            | Update::Unknown => {}
        }
    }

    fn user_chunk(&mut self, event: &Event, id: Option<&str>, content: &ChunkContent) {
        let goes_on = match id {
            Some(id) => self.has_user_message(event.lineage, id),
            None => self.open_message() == Some(&OpenMessage::User),
        };
        if !goes_on {
            self.begin(event, id.map(|id| AgentMessageKey::new(event.lineage, id)));
        }
        if let Some(parts) = &mut self.state.current {
            parts.open = Some(OpenMessage::User);
        }
        if let ChunkContent::Text(text) = content {
            self.append_prompt(text);
        }
    }

    /// Replaces the text of a user message.
    fn user_message(&mut self, event: &Event, id: &str, content: Option<&[ChunkContent]>) {
        self.end_message();
        if !self.has_user_message(event.lineage, id) {
            self.begin(event, Some(AgentMessageKey::new(event.lineage, id)));
        }
        let Some(content) = content else { return };
        if let Some(current) = &mut self.current {
            current.exchange.prompt.clear();
            current.exchange.unstored_prompt = 0;
        }
        for piece in content {
            if let ChunkContent::Text(text) = piece {
                self.append_prompt(text);
            }
        }
    }

    fn agent_chunk(&mut self, event: &Event, id: Option<&str>, content: &ChunkContent) {
        let Some(parts) = &mut self.state.current else { return };
        let key = match (id, parts.open.take()) {
            (Some(id), _) => Some(AgentMessageKey::new(event.lineage, id)),
            (None, Some(OpenMessage::Agent(key))) if parts.began_in(&key, event.turn) => Some(key),
            (None, _) => None,
        };
        parts.open = key.clone().map(OpenMessage::Agent);
        let index = parts.index_of(key, event.turn);
        parts.append(index, content);
    }

    fn has_user_message(&self, lineage: LineageIndex, id: &str) -> bool {
        let user = self.state.current.as_ref().and_then(|parts| parts.user.as_ref());
        user.is_some_and(|key| *key == AgentMessageKey::new(lineage, id))
    }

    /// Begins an exchange. A prompt made outside acpx has no turn of ours: the agent replayed it, so the agent has it.
    fn begin(&mut self, event: &Event, user: Option<AgentMessageKey>) {
        self.end_exchange();
        self.state.count += 1;
        self.state.turn_runs = event.turn.is_some();
        let number = self.state.count;
        let exchange = Exchange { answered: event.turn.is_none(), ..Exchange::default() };
        self.current = Some(StoredExchange { number, branch: self.state.branch, first: event.seq, exchange });
        self.state.current = Some(ExchangeParts { number, user, open: None, reply: Vec::new() });
    }

    fn end_exchange(&mut self) {
        self.ended.extend(self.current_with_reply());
        (self.current, self.state.current) = (None, None);
    }

    fn end_message(&mut self) {
        if let Some(parts) = &mut self.state.current {
            parts.open = None;
        }
    }

    /// The current exchange with its reply so far.
    fn current_with_reply(&self) -> Option<StoredExchange> {
        let mut current = self.current.clone()?;
        let (mut reply, mut unstored) = (String::new(), 0);
        for part in self.state.current.iter().flat_map(|parts| &parts.reply) {
            // The position of text after a gap is unknown.
            if unstored == 0 {
                reply.push_str(&part.text);
            } else {
                unstored += part.text.len();
            }
            unstored += part.rest;
        }
        current.exchange = Exchange { reply, unstored, ..current.exchange };
        Some(current)
    }

    fn append_prompt(&mut self, text: &str) {
        let Some(current) = &mut self.current else { return };
        let Exchange { prompt, unstored_prompt, .. } = &mut current.exchange;
        for word in text.split_whitespace() {
            let room = if *unstored_prompt == 0 { PROMPT_BYTES.saturating_sub(prompt.len()) } else { 0 };
            let (stored, rest) = word.split_at(word.floor_char_boundary(room));
            prompt.push_str(stored);
            *unstored_prompt += rest.len();
        }
    }
}

impl AgentMessageKey {
    fn new(lineage: LineageIndex, id: &str) -> Self {
        let id = if id.len() <= ID_BYTES { id.into() } else { digest(id).into() };
        Self { lineage: lineage.0, id }
    }
}

/// A short name for a long id.
fn digest(id: &str) -> String {
    format!("sha256:{}", sha256_hex(id.as_bytes()))
}

impl ExchangeParts {
    /// The index of the part that has a message, or that the next text without an id goes to.
    fn index_of(&mut self, key: Option<AgentMessageKey>, turn: Option<TurnId>) -> usize {
        let known = match &key {
            Some(_) => self.reply.iter().rposition(|part| part.key == key),
            None => self.reply.len().checked_sub(1).filter(|last| self.reply[*last].key.is_none()),
        };
        known.unwrap_or_else(|| {
            let turn = turn.map(|turn| turn.0);
            self.reply.push(ReplyPart { key, turn, ..ReplyPart::default() });
            self.close_oldest();
            self.reply.len() - 1
        })
    }

    /// Whether the message of this id began in a turn, or outside of all.
    fn began_in(&self, key: &AgentMessageKey, turn: Option<TurnId>) -> bool {
        let part = self.reply.iter().rev().find(|part| part.key.as_ref() == Some(key));
        part.is_some_and(|part| part.turn == turn.map(|turn| turn.0))
    }

    /// Appends what there is room for.
    fn append(&mut self, index: usize, piece: &ChunkContent) {
        let stored: usize = self.reply.iter().map(|part| part.text.len()).sum();
        let (ChunkContent::Text(text), Some(part)) = (piece, self.reply.get_mut(index)) else { return };
        let room = if part.rest == 0 { REPLY_BYTES.saturating_sub(stored) } else { 0 };
        let (kept, rest) = text.split_at(text.floor_char_boundary(room));
        part.text.push_str(kept);
        part.rest += rest.len();
    }

    fn clear(&mut self, index: usize) {
        if let Some(part) = self.reply.get_mut(index) {
            part.text.clear();
            part.rest = 0;
        }
    }

    /// Joins the oldest messages, so that only the last few can be changed by their ids.
    fn close_oldest(&mut self) {
        while self.reply.len() > OPEN_MESSAGES {
            let second = self.reply.remove(1);
            let first = &mut self.reply[0];
            first.key = None;
            if first.rest == 0 {
                first.text.push_str(&second.text);
            } else {
                first.rest += second.text.len();
            }
            first.rest += second.rest;
        }
    }
}

#[cfg(test)]
mod tests;
