//! Compares what an agent replays with the conversation we keep, prompt by prompt.
//!
//! Ours is the truth. A replay is never shown as new output; it only tells whether the agent remembers the
//! same conversation, less of it, another one, or more (prompts made elsewhere), and only what is more is
//! kept. The comparison runs while the replay arrives and holds none of it.

use serde::{Deserialize, Serialize};

use super::{ChunkContent, MessageKind, Update};

/// One prompt of ours and the text the agent answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The prompt's text.
    pub prompt: String,
    /// Whether the agent ended this turn. If not, it may well have forgotten the prompt.
    pub answered: bool,
    /// The agent's message text, joined.
    pub reply: String,
}

/// How a replay compares with what we keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The agent remembers what we keep.
    Same,
    /// It remembers that and more; the rest was kept.
    Longer,
    /// It remembers only part of it.
    Shorter,
    /// It remembers another conversation.
    Different,
}

/// What to do with one replayed update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayStep {
    /// We have it, or cannot place it: drop it.
    Drop,
    /// It goes beyond what we have: keep it.
    Keep,
}

/// What to do with an update that arrives after the replay was said to be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateStep {
    /// It is what the replay still owed.
    Owed,
    /// It is new.
    New,
}

/// A comparison under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    exchanges: Vec<Exchange>,
    /// How many exchanges have been passed.
    passed: usize,
    /// Text of a replayed user message that is not yet one of our prompts.
    partial: String,
    /// How much of the last passed exchange's reply has come again; `None` once it differs.
    replied: Option<usize>,
    place: Place,
    skipped: bool,
    seen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Within,
    Beyond,
    Lost,
}

impl Alignment {
    /// Begins a comparison with the conversation so far.
    pub fn new(exchanges: Vec<Exchange>) -> Self {
        Self {
            exchanges,
            passed: 0,
            partial: String::new(),
            replied: None,
            place: Place::Within,
            skipped: false,
            seen: false,
        }
    }

    /// Takes one replayed history update.
    pub fn step(&mut self, update: &Update) -> ReplayStep {
        self.seen = true;
        match self.place {
            Place::Lost => return ReplayStep::Drop,
            Place::Beyond => return ReplayStep::Keep,
            Place::Within => {}
        }
        match update {
            Update::Chunk { kind: MessageKind::User, content, .. } => self.user(content),
            _ if !self.partial.is_empty() => self.lose(),
            Update::Chunk { kind: MessageKind::Agent, content, .. } => {
                self.reply(content);
                ReplayStep::Drop
            }
            _ => ReplayStep::Drop,
        }
    }

    /// Ends the comparison; `None` if nothing was replayed.
    pub fn verdict(&self) -> Option<Verdict> {
        if !self.seen {
            return None;
        }
        Some(match self.place {
            Place::Lost => Verdict::Different,
            Place::Beyond => Verdict::Longer,
            Place::Within if !self.partial.is_empty() => Verdict::Different,
            Place::Within if self.skipped || self.owes_a_prompt() => Verdict::Shorter,
            Place::Within => Verdict::Same,
        })
    }

    /// Whether the rest of the replay may still arrive late.
    pub fn is_owed(&self) -> bool {
        self.place == Place::Within && (self.passed < self.exchanges.len() || self.owes_reply())
    }

    /// Takes an update that came after the restore was answered.
    pub fn late(&mut self, update: &Update) -> LateStep {
        if !self.is_owed() {
            return LateStep::New;
        }
        let owed = match update {
            Update::Chunk { kind: MessageKind::User, content, .. } => self.next_prompt(content),
            Update::Chunk { kind: MessageKind::Agent, content, .. } => {
                self.owes_reply() && self.reply(content)
            }
            Update::Chunk { kind: MessageKind::Thought, .. } | Update::Tool { .. } | Update::Plan { .. } => {
                self.seen && self.passed > 0
            }
            Update::Title(_) | Update::State | Update::Unknown => return LateStep::New,
        };
        if owed {
            self.seen = true;
            LateStep::Owed
        } else {
            self.place = Place::Lost;
            LateStep::New
        }
    }

    fn user(&mut self, content: &ChunkContent) -> ReplayStep {
        if self.next_prompt(content) {
            return ReplayStep::Drop;
        }
        if self.knows_the_last_prompt() && self.partial_is_new(content) {
            self.place = Place::Beyond;
            return ReplayStep::Keep;
        }
        self.skip_to_a_later_prompt()
    }

    /// Whether the user text so far is the next prompt of ours, or begins it.
    fn next_prompt(&mut self, content: &ChunkContent) -> bool {
        let ChunkContent::Text(text) = content else { return self.passed < self.exchanges.len() };
        self.partial.push_str(text);
        let partial = self.partial.trim();
        for (index, exchange) in self.exchanges.iter().enumerate().skip(self.passed) {
            let prompt = exchange.prompt.trim();
            if prompt == partial {
                self.pass(index);
                return true;
            }
            if prompt.starts_with(partial) {
                return true;
            }
            if exchange.answered {
                return false;
            }
        }
        false
    }

    /// A whole prompt of ours that comes later means the agent has forgotten those between.
    fn skip_to_a_later_prompt(&mut self) -> ReplayStep {
        let partial = self.partial.trim();
        let later =
            self.exchanges.iter().skip(self.passed).position(|exchange| exchange.prompt.trim() == partial);
        match later {
            Some(offset) => {
                self.pass(self.passed + offset);
                self.skipped = true;
                ReplayStep::Drop
            }
            None => self.lose(),
        }
    }

    fn pass(&mut self, index: usize) {
        self.passed = index + 1;
        self.partial.clear();
        self.replied = Some(0);
    }

    fn lose(&mut self) -> ReplayStep {
        self.place = Place::Lost;
        ReplayStep::Drop
    }

    /// The delta is kept only after an exact match of the last prompt we know.
    fn knows_the_last_prompt(&self) -> bool {
        self.passed > 0 && self.passed == self.exchanges.len()
    }

    /// Whether the text that did not match is only this chunk, not the tail of something begun earlier.
    fn partial_is_new(&self, content: &ChunkContent) -> bool {
        match content {
            ChunkContent::Text(text) => *self.partial == **text,
            ChunkContent::Block(_) => self.partial.is_empty(),
        }
    }

    /// Advances in the reply of the exchange just passed; false if the text is not what was said.
    fn reply(&mut self, content: &ChunkContent) -> bool {
        let (Some(replied), ChunkContent::Text(text)) = (self.replied, content) else { return false };
        let Some(exchange) = self.passed.checked_sub(1).and_then(|index| self.exchanges.get(index)) else {
            return false;
        };
        let rest = exchange.reply.get(replied..).unwrap_or_default();
        let said = rest.starts_with(&**text);
        self.replied = said.then(|| replied + text.len());
        said
    }

    /// The last reply of all is owed only if its turn ended: agents forget the half of an answer they were
    /// killed in, and the next answer may well begin like it.
    fn owes_reply(&self) -> bool {
        let is_last = self.passed == self.exchanges.len();
        let passed = self.passed.checked_sub(1).and_then(|index| self.exchanges.get(index));
        matches!(
            (passed, self.replied),
            (Some(exchange), Some(replied)) if replied < exchange.reply.len() && (exchange.answered || !is_last)
        )
    }

    fn owes_a_prompt(&self) -> bool {
        self.exchanges.iter().skip(self.passed).any(|exchange| exchange.answered)
    }
}

#[cfg(test)]
mod tests;
