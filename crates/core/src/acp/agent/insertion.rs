//! A prompt on its way into a conversation, and the link its turn speaks through.
//!
//! In version 2 the answer to a prompt says that it was inserted, and whatever becomes of it after that is told
//! as a state. So the answer goes out once, at the moment the service says so.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::ended::EndGuard;
use super::link::ClientLink;
use super::setup::{Meta, inserted_answer};
use super::states;
use crate::model::{AcpSessionId, ProtocolVersion};
use crate::wire::RpcId;

/// The way back to the client of a turn. Clones are the same turn's.
#[derive(Debug, Clone)]
pub struct TurnLink {
    link: ClientLink,
    insertion: Arc<PromptInsertion>,
}

/// A prompt that is to be inserted.
pub(super) struct PromptInsertion {
    request: RpcId,
    session: AcpSessionId,
    blocks: Vec<Box<str>>,
    is_inserted: AtomicBool,
    /// Whoever waits for the insertion waits for the end of this.
    waited_for: Mutex<Option<EndGuard>>,
    /// What is dropped when the client has the turn's end.
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl fmt::Debug for PromptInsertion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, session, is_inserted, .. } = self;
        let mut debug = formatter.debug_struct("Insertion");
        debug.field("request", request).field("session", session).field("is_inserted", is_inserted);
        debug.finish_non_exhaustive()
    }
}

impl Deref for TurnLink {
    type Target = ClientLink;

    fn deref(&self) -> &ClientLink {
        &self.link
    }
}

impl TurnLink {
    pub(super) fn new(link: ClientLink, insertion: Arc<PromptInsertion>) -> Self {
        Self { link, insertion }
    }

    /// Says that a service which queues prompts itself has this one in its queue: the next may come.
    pub fn queued(&self) {
        self.insertion.over();
    }

    /// Keeps something until the answer that ends the turn is on its way: whatever is sent after it was dropped comes
    /// after that answer.
    pub fn keep_until_answered(&self, value: impl Send + 'static) {
        self.insertion.kept.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(value));
    }

    /// Says that the prompt is part of the conversation, as the user's message with this id. It is said once.
    ///
    /// To a client of version 2 this is the answer to its prompt, with this `_meta`; unless the service tells
    /// states itself, the client is also told the message, and that the session is running.
    pub async fn inserted(&self, message: &str, meta: &Meta) {
        self.inserted_as(message, meta, None).await;
    }

    /// The same, with what somebody else answered to the prompt in version 2: it is passed on with this id and `_meta`.
    pub async fn inserted_as(&self, message: &str, meta: &Meta, answer: Option<&str>) {
        let insertion = &*self.insertion;
        if insertion.is_inserted.swap(true, Ordering::AcqRel) {
            return;
        }
        if self.link.client().protocol == ProtocolVersion::V2 {
            // A client that is gone misses it, and its turn goes on.
            self.link.respond(&insertion.request, &inserted_answer(message, meta, answer)).await.ok();
            self.link.speech().begin_turn(&insertion.session);
            if self.link.says_states() {
                let echo = states::user_message(message, &insertion.blocks);
                self.link.tell(&insertion.session, &echo).await.ok();
                self.link.tell(&insertion.session, states::RUNNING).await.ok();
            }
        }
        insertion.over();
    }
}

impl PromptInsertion {
    pub(super) fn new(
        request: RpcId,
        session: AcpSessionId,
        blocks: Vec<Box<str>>,
        waited_for: Option<EndGuard>,
    ) -> Self {
        let waited_for = Mutex::new(waited_for);
        let (is_inserted, kept) = (AtomicBool::new(false), Mutex::default());
        Self { request, session, blocks, is_inserted, waited_for, kept }
    }

    pub(super) fn is_inserted(&self) -> bool {
        self.is_inserted.load(Ordering::Acquire)
    }

    /// The answer that ends the turn is on its way.
    pub(super) fn answered(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whoever waited for it waits no longer: it has its place, or never will.
    pub(super) fn over(&self) {
        self.waited_for.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
