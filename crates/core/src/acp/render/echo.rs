//! The prompt of the running turn: whether it was sent to the client, and which user messages of the agent only
//! repeat it.
//!
//! A version 1 agent repeats the prompt in chunks; content that does not continue it is new. A version 2 agent
//! replies to the prompt with a message id, and user messages with other ids are new. An update that changes the
//! prompt's message is new too: version 2 clients receive it under the id that the prompt has for them. Until that
//! reply the prompt is not part of the conversation, and user messages of the agent are held, within bounds.

use std::collections::VecDeque;

use serde_json::Value;

use super::state::RequestEnvelope;
use crate::acp::content::{chunk_content, is_carried};
use crate::model::{ChunkContent, Event};
use crate::wire::json;

/// How many updates are held until the reply to a prompt, and how many bytes of them.
const MOST_HELD: usize = 64;
const MOST_HELD_BYTES: usize = 1 << 20;

/// A sent prompt, to be compared with the agent's user messages.
#[derive(Debug, Default)]
pub(super) struct PromptEcho {
    /// The id of the request, as JSON.
    id: Option<Box<str>>,
    /// The text of the prompt, and how many bytes of it were repeated.
    text: String,
    repeated: usize,
    /// The other blocks that were not repeated yet.
    blocks: Vec<Value>,
    answer: InsertionAnswer,
    /// Whether the agent has changed the prompt's message.
    is_changed: bool,
    /// The request, until it is rendered.
    untold: Option<Event>,
    held: VecDeque<Event>,
    held_bytes: usize,
}

/// The reply of a version 2 agent to a prompt.
#[derive(Debug, Default, PartialEq, Eq)]
enum InsertionAnswer {
    #[default]
    NotYet,
    /// An error, or the end of the turn without a reply.
    WithoutId,
    Inserted(Option<Box<str>>),
}

/// How an event resolves a prompt.
#[derive(Debug, Default)]
pub(super) struct PromptResolution {
    /// The request, if it becomes part of the conversation here.
    pub(super) prompt: Option<Event>,
    /// The user messages of the agent that were held.
    pub(super) held: VecDeque<Event>,
}

impl PromptEcho {
    /// The prompt of a request.
    pub(super) fn new(id: Option<&str>, blocks: &[&str]) -> Self {
        let mut prompted = Self { id: id.map(Into::into), ..Self::default() };
        for block in blocks {
            match chunk_content(block) {
                ChunkContent::Text(text) => prompted.text.push_str(&text),
                ChunkContent::Block(block) => prompted.blocks.extend(serde_json::from_str(&block).ok()),
            }
        }
        prompted
    }

    /// Whether this is the prompt's request id, as JSON.
    pub(super) fn is_named(&self, id: Option<&str>) -> bool {
        self.id.is_some() && self.id.as_deref() == id
    }

    /// Holds the request until it is known to be part of the conversation.
    pub(super) fn wait(&mut self, request: Event) {
        self.untold = Some(request);
    }

    /// The request, if it is not rendered yet: the agent works on it.
    pub(super) fn begins(&mut self) -> Option<Event> {
        self.untold.take()
    }

    /// Holds an update if the reply to the prompt is pending; returns whether it did.
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

    /// Whether a user message is the prompt: by the message id of the reply, or without one, by its content.
    /// `content` is a block or a list of blocks.
    pub(super) fn is_repeated(&mut self, id: Option<&str>, content: Option<&str>) -> bool {
        if let InsertionAnswer::Inserted(Some(prompt)) = &self.answer {
            return id == Some(prompt);
        }
        let Some(content) = content else { return false };
        match json::items(content) {
            Some(blocks) => blocks.into_iter().all(|block| self.goes_on_with(block)),
            None => self.goes_on_with(content),
        }
    }

    /// The id that a version 2 agent gave the prompt's message.
    pub(super) fn message(&self) -> Option<&str> {
        match &self.answer {
            InsertionAnswer::Inserted(message) => message.as_deref(),
            InsertionAnswer::NotYet | InsertionAnswer::WithoutId => None,
        }
    }

    /// Whether an update of the prompt's message differs from the prompt: other content, or further members. After
    /// the first one that differs, later updates count as different too.
    pub(super) fn is_changed_by(&mut self, update: &str, content: Option<&str>) -> bool {
        let has_more = json::scan(update, &["sessionUpdate", "messageId", "content"])
            .is_some_and(|members| members.has_others);
        self.is_changed |=
            self.message().is_some() && (has_more || content.is_some_and(|it| !self.is_all(it)));
        self.is_changed
    }

    /// Whether a message has the same blocks as the prompt.
    fn is_all(&self, content: &str) -> bool {
        let Some(blocks) = json::items(content) else { return false };
        let same = Self::new(None, &blocks);
        (&same.text, &same.blocks) == (&self.text, &self.blocks)
    }

    /// Whether a block continues the repetition of the prompt. After the first that does not, everything is new.
    pub(super) fn goes_on_with(&mut self, block: &str) -> bool {
        let repeats = match chunk_content(block) {
            ChunkContent::Text(text) => {
                let repeats = self.text[self.repeated..].starts_with(&*text);
                // A prompt may be long and its chunks small, so the remaining text is not copied.
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

    /// Takes the agent's response to one of our requests.
    pub(super) fn answered(&mut self, body: &str) -> PromptResolution {
        let Some(RequestEnvelope { id, result, .. }) = RequestEnvelope::read(body) else {
            return PromptResolution::default();
        };
        if self.answer != InsertionAnswer::NotYet || !self.is_named(id) {
            return PromptResolution::default();
        }
        let inserted = |result: &str| {
            let id = json::get(result, &["messageId"]).and_then(json::string);
            InsertionAnswer::Inserted(id.map(Into::into))
        };
        self.answer = result.map_or(InsertionAnswer::WithoutId, inserted);
        let untold = self.untold.take();
        let prompt = untold.filter(|_| self.answer != InsertionAnswer::WithoutId);
        PromptResolution { prompt, held: self.release() }
    }

    /// Ends the turn. The agent may have accepted a prompt without replying to it.
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

/// The user's blocks, if a line is a prompt. The history carried into a fresh session is excluded.
pub(super) fn prompt_blocks(body: &str) -> Vec<&str> {
    let prompt = || match json::scan(body, &["method", "params"])?.values {
        [Some(r#""session/prompt""#), Some(params)] => json::items(json::get(params, &["prompt"])?),
        _ => None,
    };
    prompt().unwrap_or_default().into_iter().filter(|block| !is_carried(block)).collect()
}
