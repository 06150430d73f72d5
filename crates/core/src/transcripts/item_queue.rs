//! Collects the items of one line or row, and knows what earlier ones say, so that an item is added only if it says
//! something new. Its memory is bounded.

use std::collections::VecDeque;

use serde_json::Value;

use super::tool_call::{describe, one_line, plan_entries, shallow};
use super::{ItemContent, TranscriptItem, Unread};
use crate::model::{AcpSessionId, Timestamp};

/// The items that are not taken yet.
#[derive(Default)]
pub(super) struct ItemQueue {
    items: VecDeque<TranscriptItem>,
    pub(super) unread: Unread,
    directory: Option<String>,
    title: Option<String>,
    /// Calls that have begun.
    calls: RecentIds,
    /// Calls that only set the plan, and have no result.
    plans: RecentIds,
}

impl ItemQueue {
    /// Takes the next item.
    pub(super) fn pop(&mut self) -> Option<TranscriptItem> {
        self.items.pop_front()
    }

    /// Whether every item was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Forgets the items and what could not be read, but not what the items say.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.unread = Unread::default();
    }

    /// Adds an item.
    pub(super) fn push(&mut self, at: Option<Timestamp>, content: ItemContent) {
        self.items.push_back(TranscriptItem { at, content });
    }

    /// Adds a prompt that is not empty.
    pub(super) fn prompt(&mut self, at: Option<Timestamp>, id: Option<String>, blocks: Vec<Value>) {
        if !blocks.is_empty() {
            self.push(at, ItemContent::Prompt { id, blocks });
        }
    }

    /// Adds text of the agent that is not empty.
    pub(super) fn reply(&mut self, at: Option<Timestamp>, id: Option<String>, text: String) {
        if !text.is_empty() {
            self.push(at, ItemContent::Reply { id, text });
        }
    }

    /// Adds a thought that is not empty.
    pub(super) fn thought(&mut self, at: Option<Timestamp>, id: Option<String>, text: String) {
        if !text.is_empty() {
            self.push(at, ItemContent::Thought { id, text });
        }
    }

    /// Adds the directory of the session if it is another one than before.
    pub(super) fn directory(&mut self, at: Option<Timestamp>, directory: &str) {
        if !directory.is_empty() && self.directory.as_deref() != Some(directory) {
            self.directory = Some(directory.to_owned());
            self.push(at, ItemContent::Directory(directory.to_owned()));
        }
    }

    /// Adds the title of the session if it is another one than before.
    pub(super) fn title(&mut self, at: Option<Timestamp>, title: &str) {
        let title = one_line(title);
        if !title.is_empty() && self.title.as_deref() != Some(&title) {
            self.title = Some(title.clone());
            self.push(at, ItemContent::Title(title));
        }
    }

    /// Adds tokens if there are any.
    pub(super) fn tokens(&mut self, at: Option<Timestamp>, tokens: u64) {
        if tokens > 0 {
            self.push(at, ItemContent::Tokens(tokens));
        }
    }

    /// Adds the session that this one is a copy of.
    pub(super) fn fork_of(&mut self, at: Option<Timestamp>, session: &str) {
        if let Ok(session) = AcpSessionId::new(session) {
            self.push(at, ItemContent::ForkOf(session));
        }
    }

    /// Adds a tool call, or the plan that it sets. A title of the agent's own comes before one that the arguments give.
    pub(super) fn tool_call(
        &mut self,
        at: Option<Timestamp>,
        id: String,
        name: String,
        input: Value,
        title: Option<&str>,
    ) {
        if let Some(entries) = plan_entries(&name, &input) {
            self.plans.add(&id);
            self.push(at, ItemContent::Plan(entries));
            return;
        }
        let described = describe(&name, &input);
        let title = title.map(one_line).filter(|title| !title.is_empty()).unwrap_or(described.title);
        self.calls.add(&id);
        let (kind, paths, input) = (described.kind, described.paths, shallow(input));
        self.push(at, ItemContent::ToolCall { id, name, title, kind, input, paths });
    }

    /// Adds the result of a tool call, unless the call only set the plan.
    pub(super) fn tool_result(
        &mut self,
        at: Option<Timestamp>,
        id: String,
        is_error: bool,
        content: Vec<Value>,
    ) {
        if !self.plans.has(&id) {
            self.push(at, ItemContent::ToolResult { id, is_error, content });
        }
    }

    /// Whether a call with this id has begun.
    pub(super) fn has_call(&self, id: &str) -> bool {
        self.calls.has(id) || self.plans.has(id)
    }
}

/// The ids that were added last.
#[derive(Default)]
pub(super) struct RecentIds(VecDeque<String>);

impl RecentIds {
    const MOST: usize = 256;

    pub(super) fn add(&mut self, id: &str) {
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(id.to_owned());
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().rev().any(|known| known == id)
    }
}

/// The lines at the beginning of a fork that are a copy of another session. Each of them names it.
#[derive(Default)]
pub(super) struct CopiedLines {
    is_known: bool,
}

impl CopiedLines {
    /// Adds the session that a line was copied from, once. It comes before the first copied message: if a read ends
    /// there, it is known already whose messages these are.
    pub(super) fn note(&mut self, original: Option<&str>, items: &mut ItemQueue) {
        if let Some(original) = original.filter(|_| !self.is_known) {
            self.is_known = true;
            items.fork_of(None, original);
        }
    }
}
