//! Compares an agent's replay with the stored conversation, prompt by prompt.
//!
//! The stored conversation is authoritative. A replay is never shown as new output; it only shows whether the agent
//! remembers the same conversation, less of it, another one, or more (prompts made outside acpx), and only the
//! surplus is stored. The comparison runs while the replay arrives and buffers none of it.
//!
//! Agents do not replay a prompt as it was sent. They change white space, insert the content of a mentioned file
//! between its blocks, and write notes in the user's name. So a prompt is searched within a whole user message, and
//! an unknown user message is tolerated if our prompts continue after it.

use serde::{Deserialize, Serialize};

use super::{ChunkContent, MessageKind, Update};

/// One prompt of ours and the text the agent answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Exchange {
    /// The prompt's text without white space; of a long one the beginning.
    pub(crate) prompt: String,
    /// How many bytes followed that. Any replayed text of this length counts as equal.
    pub(crate) unstored_prompt: usize,
    /// Whether the agent ended this turn. If not, it may well have forgotten the prompt.
    pub(crate) answered: bool,
    /// The agent's message text, joined; of a long one the beginning.
    pub(crate) reply: String,
    /// How many bytes followed that. Any replayed text at this position counts as equal.
    pub(crate) unstored: usize,
}

/// How a replay compares with the stored conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayVerdict {
    /// The agent remembers what is stored.
    Same,
    /// It remembers that and more; the surplus was stored.
    Longer,
    /// It remembers only part of it.
    Shorter,
    /// It remembers another conversation.
    Different,
}

/// What to do with one replayed update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayStep {
    /// It is stored already, or has no known position: drop it.
    Drop,
    /// It goes beyond the stored conversation: store it.
    Keep,
}

/// What to do with an update that arrives after the restore request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateStep {
    /// It is part of the replay.
    Replayed,
    /// It is new.
    New,
}

/// A comparison in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// The stored exchanges.
    exchanges: Vec<Exchange>,
    /// The beginnings of notes that the agent writes in the user's name, without white space. They are not prompts.
    notes: Vec<String>,
    /// How many exchanges have been matched or skipped.
    passed: usize,
    /// The user message that is being replayed.
    message: Option<UserMessage>,
    /// How many bytes of the last passed exchange's reply were replayed; `None` once it differs.
    replied: Option<usize>,
    position: ReplayPosition,
    strangers: Strangers,
    skipped: bool,
    seen: bool,
}

/// User messages that are not our prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strangers {
    None,
    /// Our prompts continued after them.
    Forgiven,
    /// The last user message was one.
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayPosition {
    Within,
    Beyond,
    Lost,
}

/// A replayed user message so far. Without an id it is the run of user chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UserMessage {
    id: Option<Box<str>>,
    /// The prompt that it matches so far, and how many bytes of that have matched.
    begun: Option<(usize, usize)>,
    /// It is a whole prompt of ours, or a note; the agent added the rest of it.
    is_settled: bool,
}

/// The origin of a piece of a user message.
enum ChunkOrigin {
    Ours,
    Stranger,
    Beyond,
}

impl Alignment {
    /// Begins a comparison with the conversation so far. `notes` are the beginnings of notes that the agent writes in
    /// the user's name.
    pub(crate) fn new(exchanges: Vec<Exchange>, notes: &[String]) -> Self {
        Self {
            exchanges,
            notes: notes.iter().map(|note| bare(note)).collect(),
            passed: 0,
            message: None,
            replied: None,
            position: ReplayPosition::Within,
            strangers: Strangers::None,
            skipped: false,
            seen: false,
        }
    }

    /// No comparison: every update goes beyond the stored conversation.
    pub(crate) fn of_missed() -> Self {
        Self { position: ReplayPosition::Beyond, ..Self::new(Vec::new(), &[]) }
    }

    /// Compares one replayed history update.
    pub(crate) fn step(&mut self, update: &Update) -> ReplayStep {
        self.seen = true;
        match self.position {
            ReplayPosition::Lost => return ReplayStep::Drop,
            ReplayPosition::Beyond => return ReplayStep::Keep,
            ReplayPosition::Within => {}
        }
        let (id, pieces) = match update {
            Update::Chunk { kind: MessageKind::User, message_id, content } => {
                (message_id.as_deref(), std::slice::from_ref(content))
            }
            Update::Message { kind: MessageKind::User, message_id, content } => {
                (Some(&**message_id), content.as_deref().unwrap_or_default())
            }
            _ => {
                self.end_message();
                for piece in reply_of(update) {
                    self.reply(piece);
                }
                return ReplayStep::Drop;
            }
        };
        for piece in pieces {
            if let ChunkOrigin::Beyond = self.user(id, piece) {
                self.position = ReplayPosition::Beyond;
                return ReplayStep::Keep;
            }
        }
        ReplayStep::Drop
    }

    /// The verdict at the end of the replay; `None` if nothing was replayed or compared.
    pub(crate) fn verdict(&self) -> Option<ReplayVerdict> {
        if self.position == ReplayPosition::Beyond && self.passed == 0 {
            return None;
        }
        let is_missing = self.skipped || self.remaining().iter().any(Exchange::must_come);
        let verdict = match self.position {
            ReplayPosition::Beyond => ReplayVerdict::Longer,
            ReplayPosition::Lost => ReplayVerdict::Different,
            ReplayPosition::Within if self.strangers == Strangers::Last || !self.message_is_whole() => {
                ReplayVerdict::Different
            }
            ReplayPosition::Within if is_missing && self.strangers == Strangers::Forgiven => {
                ReplayVerdict::Different
            }
            ReplayPosition::Within if is_missing => ReplayVerdict::Shorter,
            ReplayPosition::Within => ReplayVerdict::Same,
        };
        self.seen.then_some(verdict)
    }

    /// The verdict once the whole replay has arrived; `None` while some of it is missing. It does not wait for a
    /// prompt that the agent may have forgotten.
    pub(crate) fn outcome(&self) -> Option<ReplayVerdict> {
        let waits =
            self.owes_reply() || !self.message_is_whole() || self.remaining().iter().any(Exchange::must_come);
        self.verdict().filter(|_| !waits)
    }

    /// Whether the rest of the replay may still arrive late.
    pub(crate) fn expects_more(&self) -> bool {
        self.position == ReplayPosition::Within
            && self.strangers != Strangers::Last
            && (!self.remaining().is_empty() || self.owes_reply())
    }

    /// Classifies an update that arrived after the restore request was answered.
    pub(crate) fn late(&mut self, update: &Update) -> LateStep {
        if !self.expects_more() {
            return LateStep::New;
        }
        let owed = match update {
            Update::Chunk { kind: MessageKind::User, message_id, content } => {
                matches!(self.user(message_id.as_deref(), content), ChunkOrigin::Ours)
            }
            Update::Message { kind: MessageKind::User, message_id, content } => content
                .iter()
                .flatten()
                .all(|piece| matches!(self.user(Some(message_id), piece), ChunkOrigin::Ours)),
            Update::Chunk { kind: MessageKind::Agent, .. }
            | Update::Message { kind: MessageKind::Agent, .. } => {
                self.message_is_whole()
                    && self.owes_reply()
                    && reply_of(update).iter().all(|piece| self.reply(piece))
            }
            Update::Chunk { kind: MessageKind::Thought, .. }
            | Update::Message { kind: MessageKind::Thought, .. }
            | Update::Tool { .. }
            | Update::ToolContent { .. }
            | Update::Plan { .. } => self.message_is_whole() && self.seen && self.passed > 0,
            Update::Title(_)
            | Update::Notice { .. }
            | Update::Compaction { .. }
            | Update::Usage { .. }
            | Update::State
            | Update::Unknown => return LateStep::New,
        };
        if owed {
            self.seen = true;
            LateStep::Replayed
        } else {
            self.position = ReplayPosition::Lost;
            LateStep::New
        }
    }

    fn user(&mut self, id: Option<&str>, content: &ChunkContent) -> ChunkOrigin {
        let text = match content {
            ChunkContent::Text(text) if text.trim().is_empty() => return ChunkOrigin::Ours,
            ChunkContent::Text(text) => bare(text),
            ChunkContent::Block(_) => String::new(),
        };
        let has_same_id = self.message.as_ref().and_then(|message| Some(message.id.as_deref()? == id?));
        if has_same_id == Some(false) {
            self.end_message();
        }
        let new = || UserMessage { id: id.map(Into::into), begun: None, is_settled: false };
        let mut message = self.message.take().unwrap_or_else(new);
        let piece = self.locate_text(&mut message, &text, has_same_id == Some(true));
        self.message = Some(message);
        piece
    }

    /// Finds the position of the next piece of a user message.
    fn locate_text(&mut self, message: &mut UserMessage, text: &str, is_surely_same: bool) -> ChunkOrigin {
        if let (Some((index, matched)), false) = (message.begun, message.is_settled) {
            self.go_on(message, index, matched, text);
            return ChunkOrigin::Ours;
        }
        if message.is_settled && (is_surely_same || text.is_empty() || self.go_on_unstored(message, text)) {
            return ChunkOrigin::Ours;
        }
        if let Some(index) = self.candidate(text) {
            message.is_settled = false;
            self.go_on(message, index, 0, text);
            return ChunkOrigin::Ours;
        }
        // An answered prompt is followed by its answer, so any user text before that belongs to the prompt.
        let last = self.passed.checked_sub(1).and_then(|index| self.exchanges.get(index));
        let is_added = message.begun.is_some() && last.is_some_and(|exchange| exchange.answered);
        if is_added || self.notes.iter().any(|note| text.starts_with(note)) {
            message.is_settled = true;
            return ChunkOrigin::Ours;
        }
        // The surplus is stored only after an exact match of our last prompt, and not while its reply is
        // still being replayed: some agents replay tool results as user messages.
        let is_past = self.passed > 0 && self.remaining().is_empty() && !self.owes_reply();
        if is_past { ChunkOrigin::Beyond } else { ChunkOrigin::Stranger }
    }

    /// Advances in a prompt if the text continues it; otherwise the agent inserted the text.
    fn go_on(&mut self, message: &mut UserMessage, index: usize, matched: usize, text: &str) {
        let Some(exchange) = self.exchanges.get(index) else { return };
        let matched = if exchange.prompt_goes_on(matched, text) { matched + text.len() } else { matched };
        message.begun = Some((index, matched));
        message.is_settled = matched >= exchange.prompt.len();
        if message.is_settled {
            self.pass(index);
        }
    }

    /// Advances in the part of a long prompt that is not stored, if the text fits there.
    fn go_on_unstored(&self, message: &mut UserMessage, text: &str) -> bool {
        let Some((index, matched)) = message.begun else { return false };
        let fits = self.exchanges.get(index).is_some_and(|exchange| exchange.prompt_goes_on(matched, text));
        if fits {
            message.begun = Some((index, matched + text.len()));
        }
        fits
    }

    /// The prompt that a text begins: the next one, or a later one if the agent has forgotten those in between.
    fn candidate(&self, text: &str) -> Option<usize> {
        let fits = |index: &usize| {
            let exchange = self.exchanges.get(*index);
            exchange.is_some_and(|exchange| {
                exchange.prompt_goes_on(0, text) && exchange.prompt.is_empty() == text.is_empty()
            })
        };
        let rest = self.passed..self.exchanges.len();
        let must_come = |index: &usize| self.exchanges.get(*index).is_some_and(Exchange::must_come);
        let next = rest.clone().find(must_come).map_or(self.exchanges.len(), |index| index + 1);
        (self.passed..next).find(fits).or_else(|| rest.clone().find(fits))
    }

    fn pass(&mut self, index: usize) {
        let between = self.exchanges.get(self.passed..index).unwrap_or_default();
        self.skipped |= between.iter().any(Exchange::must_come);
        self.passed = index + 1;
        self.replied = Some(0);
        if self.strangers == Strangers::Last {
            self.strangers = Strangers::Forgiven;
        }
    }

    /// A message that did not become one of our prompts is a stranger.
    fn end_message(&mut self) {
        if !self.message_is_whole() {
            self.strangers = Strangers::Last;
        }
        self.message = None;
    }

    fn message_is_whole(&self) -> bool {
        self.message.as_ref().is_none_or(|message| message.is_settled)
    }

    /// The exchanges still to come. A prompt that was cut off and sent again counts once.
    fn remaining(&self) -> &[Exchange] {
        let (passed, mut rest) = self.exchanges.split_at(self.passed);
        let mut last = passed.last();
        while let (Some(cut_off), Some((again, others))) = (last, rest.split_first())
            && !cut_off.answered
            && (&cut_off.prompt, cut_off.unstored_prompt) == (&again.prompt, again.unstored_prompt)
        {
            (last, rest) = (Some(again), others);
        }
        rest
    }

    /// Advances in the reply of the exchange just passed; false if the text differs from the reply.
    fn reply(&mut self, content: &ChunkContent) -> bool {
        let (Some(replied), ChunkContent::Text(text)) = (self.replied, content) else { return false };
        let Some(exchange) = self.passed.checked_sub(1).and_then(|index| self.exchanges.get(index)) else {
            return false;
        };
        let rest = exchange.reply.as_bytes().get(replied..).unwrap_or_default();
        let (known, unknown) = text.as_bytes().split_at(text.len().min(rest.len()));
        // Text beyond the stored beginning must at least fit into the reply's length.
        let is_within = replied + text.len() <= exchange.reply_bytes();
        let is_reply = rest.starts_with(known) && is_within && (unknown.is_empty() || exchange.unstored > 0);
        self.replied = is_reply.then(|| replied + text.len());
        is_reply
    }

    /// Whether the rest of a reply must still arrive. The very last reply must only if its turn ended: agents forget
    /// the half answer they were killed in, and the next answer may begin like it.
    fn owes_reply(&self) -> bool {
        let is_last = self.passed == self.exchanges.len();
        let passed = self.passed.checked_sub(1).and_then(|index| self.exchanges.get(index));
        matches!(
            (passed, self.replied),
            (Some(exchange), Some(replied)) if replied < exchange.reply_bytes() && (exchange.answered || !is_last)
        )
    }
}

impl Exchange {
    /// How many bytes its texts have.
    pub(crate) fn bytes(&self) -> usize {
        self.prompt.len() + self.unstored_prompt + self.reply_bytes()
    }

    /// How long the reply was.
    fn reply_bytes(&self) -> usize {
        self.reply.len() + self.unstored
    }

    /// Whether a text continues the prompt after so many bytes. What is not stored of it counts as equal.
    fn prompt_goes_on(&self, matched: usize, text: &str) -> bool {
        let rest = self.prompt.as_bytes().get(matched..).unwrap_or_default();
        let (known, unknown) = text.as_bytes().split_at(text.len().min(rest.len()));
        let fits = matched + text.len() <= self.prompt.len() + self.unstored_prompt;
        rest.starts_with(known) && (unknown.is_empty() || fits)
    }

    /// Whether a complete replay contains this prompt. An unanswered one may be forgotten, and one without text
    /// cannot be recognised.
    fn must_come(&self) -> bool {
        self.answered && !self.prompt.is_empty()
    }
}

/// The pieces of the agent's answer in an update.
fn reply_of(update: &Update) -> &[ChunkContent] {
    match update {
        Update::Chunk { kind: MessageKind::Agent, content, .. } => std::slice::from_ref(content),
        Update::Message { kind: MessageKind::Agent, content, .. } => content.as_deref().unwrap_or_default(),
        _ => &[],
    }
}

/// A text without white space, which agents change at will.
fn bare(text: &str) -> String {
    text.split_whitespace().collect()
}

#[cfg(test)]
mod tests;
