//! The prompt of the turn that runs: whether it was told, and which of the user's words that an agent says within the
//! turn are the prompt again.
//!
//! An agent of version 1 repeats the prompt in pieces, and whatever does not go on with it is new. One of version 2
//! answers the prompt with the id of its message, and every other message is new; so is what it makes of that one, which
//! clients of its version are told under the id that the prompt has for them. Until that answer a prompt is no
//! part of the conversation, and what the agent says of its user waits for it, within bounds.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::state::RequestEnvelope;
use crate::acp::content::{chunk_content, is_carried};
use crate::model::{ChunkContent, Event};

/// How many updates wait for the answer to a prompt, and how many bytes of them.
const MOST_HELD: usize = 64;
const MOST_HELD_BYTES: usize = 1 << 20;

/// A prompt on its way, and what its agent may say of it.
#[derive(Debug, Default)]
pub(super) struct PromptEcho {
    /// The id of the request, as JSON.
    id: Option<Box<str>>,
    /// Its text, and how much of that was repeated.
    text: String,
    repeated: usize,
    /// The other blocks that were not.
    blocks: Vec<Value>,
    answer: InsertionAnswer,
    /// Whether the agent has made another message of it.
    is_changed: bool,
    /// The request, until it is told.
    untold: Option<Event>,
    held: VecDeque<Event>,
    held_bytes: usize,
}

/// How an agent of version 2 has answered a prompt.
#[derive(Debug, Default, PartialEq, Eq)]
enum InsertionAnswer {
    #[default]
    NotYet,
    /// With an error, or by ending the turn without an answer.
    WithoutId,
    Inserted(Option<Box<str>>),
}

/// What becomes of a prompt by an event.
#[derive(Debug, Default)]
pub(super) struct PromptResolution {
    /// The request, if it is part of the conversation from here on.
    pub(super) prompt: Option<Event>,
    /// What the agent had said of its user.
    pub(super) held: VecDeque<Event>,
}

impl PromptEcho {
    /// The prompt of a request.
    pub(super) fn new(id: Option<&str>, blocks: &[&RawValue]) -> Self {
        let mut prompted = Self { id: id.map(Into::into), ..Self::default() };
        for block in blocks {
            match chunk_content(block) {
                ChunkContent::Text(text) => prompted.text.push_str(&text),
                ChunkContent::Block(block) => prompted.blocks.extend(serde_json::from_str(&block).ok()),
            }
        }
        prompted
    }

    /// Whether a request or an answer has the id of the prompt, as JSON.
    pub(super) fn is_named(&self, id: Option<&str>) -> bool {
        self.id.is_some() && self.id.as_deref() == id
    }

    /// The request is told once it is known to be part of the conversation.
    pub(super) fn wait(&mut self, request: Event) {
        self.untold = Some(request);
    }

    /// The request, if it was not told yet: its agent works on it.
    pub(super) fn begins(&mut self) -> Option<Event> {
        self.untold.take()
    }

    /// Whether an update waits for the answer to the prompt: then it is kept here.
    pub(super) fn holds(&mut self, event: &Event) -> bool {
        let bytes = self.held_bytes + event.body.len();
        let has_room = self.held.len() < MOST_HELD && bytes <= MOST_HELD_BYTES;
        if self.answer != InsertionAnswer::NotYet || !has_room {
            return false;
        }
        self.held_bytes = bytes;
        self.held.push_back(event.clone());
        true
    }

    /// Whether a message of the user is the prompt: by the id that the prompt was answered with, or if there is
    /// none, by its words. `content` is a block, or a list of them.
    pub(super) fn is_repeated(&mut self, id: Option<&str>, content: Option<&RawValue>) -> bool {
        if let InsertionAnswer::Inserted(Some(prompt)) = &self.answer {
            return id == Some(prompt);
        }
        let Some(content) = content else { return false };
        match serde_json::from_str::<Vec<&RawValue>>(content.get()) {
            Ok(blocks) => blocks.into_iter().all(|block| self.goes_on_with(block)),
            Err(_) => self.goes_on_with(content),
        }
    }

    /// The id that an agent of version 2 gave the message of the prompt.
    pub(super) fn message(&self) -> Option<&str> {
        match &self.answer {
            InsertionAnswer::Inserted(message) => message.as_deref(),
            InsertionAnswer::NotYet | InsertionAnswer::WithoutId => None,
        }
    }

    /// Whether an update of the prompt's message says anything but the prompt: it has other content, or members of its
    /// own. Once one does, those who were told it are told the others too.
    pub(super) fn is_changed_by(&mut self, update: &str, content: Option<&RawValue>) -> bool {
        let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(update).unwrap_or_default();
        let is_own = |name: &Cow<'_, str>| !["sessionUpdate", "messageId", "content"].contains(&&**name);
        let has_more = members.keys().any(is_own);
        self.is_changed |=
            self.message().is_some() && (has_more || content.is_some_and(|it| !self.is_all(it)));
        self.is_changed
    }

    /// Whether a message has the prompt's blocks.
    fn is_all(&self, content: &RawValue) -> bool {
        let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else { return false };
        let same = Self::new(None, &blocks);
        (&same.text, &same.blocks) == (&self.text, &self.blocks)
    }

    /// Whether a block is what comes next of the prompt. From the first that is not, all is new.
    pub(super) fn goes_on_with(&mut self, block: &RawValue) -> bool {
        let repeats = match chunk_content(block) {
            ChunkContent::Text(text) => {
                let repeats = self.text[self.repeated..].starts_with(&*text);
                // A prompt may be long and its pieces small, so what is left of it is not copied.
                self.repeated += if repeats { text.len() } else { 0 };
                repeats
            }
            ChunkContent::Block(block) => {
                let block = serde_json::from_str::<Value>(&block).ok();
                let place = self.blocks.iter().position(|known| Some(known) == block.as_ref());
                place.map(|place| self.blocks.remove(place)).is_some()
            }
        };
        if !repeats {
            (self.text, self.repeated, self.blocks) = (String::new(), 0, Vec::new());
        }
        repeats
    }

    /// Takes an answer of the agent to one of our requests.
    pub(super) fn answered(&mut self, body: &str) -> PromptResolution {
        #[derive(Deserialize)]
        struct Inserted {
            #[serde(default, rename = "messageId")]
            message_id: Option<Box<str>>,
        }
        let Ok(RequestEnvelope { id, result, .. }) = serde_json::from_str(body) else {
            return PromptResolution::default();
        };
        if self.answer != InsertionAnswer::NotYet || !self.is_named(id.map(RawValue::get)) {
            return PromptResolution::default();
        }
        let inserted = |result: &RawValue| {
            let read = serde_json::from_str::<Inserted>(result.get());
            InsertionAnswer::Inserted(read.ok().and_then(|inserted| inserted.message_id))
        };
        self.answer = result.map_or(InsertionAnswer::WithoutId, inserted);
        let untold = self.untold.take();
        let prompt = untold.filter(|_| self.answer != InsertionAnswer::WithoutId);
        PromptResolution { prompt, held: self.release() }
    }

    /// The turn is over. A prompt that was never answered may have been taken.
    pub(super) fn over(&mut self) -> PromptResolution {
        if self.answer == InsertionAnswer::NotYet {
            self.answer = InsertionAnswer::WithoutId;
        }
        PromptResolution { prompt: self.untold.take(), held: self.release() }
    }

    fn release(&mut self) -> VecDeque<Event> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }
}

/// What the user said, if a line is a prompt. A conversation that a fresh session was told is not said twice.
pub(super) fn prompt_blocks(body: &str) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct PromptLine<'a> {
        #[serde(borrow)]
        method: &'a RawValue,
        #[serde(borrow)]
        params: PromptParams<'a>,
    }
    #[derive(Deserialize)]
    struct PromptParams<'a> {
        #[serde(borrow)]
        prompt: Vec<&'a RawValue>,
    }
    match serde_json::from_str(body) {
        Ok(PromptLine { method, params }) if method.get() == r#""session/prompt""# => {
            params.prompt.into_iter().filter(|block| !is_carried(block.get())).collect()
        }
        _ => Vec::new(),
    }
}
