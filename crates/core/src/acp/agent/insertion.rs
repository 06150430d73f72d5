//! A prompt that waits to be inserted into its conversation, and the link of its turn.
//!
//! In version 2 the reply to a prompt confirms its insertion, and state updates report everything later. The reply is
//! sent exactly once, when the service reports the insertion.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::link::ClientLink;
use super::setup::{Meta, inserted_answer};
use super::turn;
use super::turn::EndGuard;
use crate::model::{AcpSessionId, ProtocolVersion};
use crate::sync::Lock;
use crate::wire::RpcId;

/// The link to the client of a turn. Clones belong to the same turn.
#[derive(Debug, Clone)]
pub struct TurnLink {
    link: ClientLink,
    insertion: Arc<PromptInsertion>,
}

/// A prompt that waits to be inserted.
pub(super) struct PromptInsertion {
    request: RpcId,
    session: AcpSessionId,
    blocks: Vec<Box<str>>,
    is_inserted: AtomicBool,
    /// Ends when the prompt is queued, inserted or abandoned; the next prompt waits for it.
    waited_for: Lock<Option<EndGuard>>,
    /// Values to drop once the reply that ends the turn is sent.
    kept: Lock<Vec<Box<dyn Any + Send>>>,
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

    /// Reports that the service, which queues prompts itself, has queued this one; the next prompt may come.
    pub(crate) fn queued(&self) {
        self.insertion.over();
    }

    /// Holds a value until the reply that ends the turn is sent. Messages sent after its drop follow that reply.
    pub(crate) fn keep_until_answered(&self, value: impl Send + 'static) {
        self.insertion.kept.lock().push(Box::new(value));
    }

    /// Reports that the prompt is part of the conversation, as the user message with this id. Later calls do nothing.
    ///
    /// A version 2 client receives this as the reply to its prompt, with this `_meta`. It also receives the message and
    /// a running state, unless the service sends states itself.
    pub async fn inserted(&self, message: &str, meta: &Meta) {
        self.inserted_as(message, meta, None).await;
    }

    /// Like [`Self::inserted`], but forwards another agent's version 2 reply to the prompt with this id and `_meta`.
    pub(crate) async fn inserted_as(&self, message: &str, meta: &Meta, answer: Option<&str>) {
        let insertion = &*self.insertion;
        if insertion.is_inserted.swap(true, Ordering::AcqRel) {
            return;
        }
        if self.link.client().protocol == ProtocolVersion::V2 {
            // A disconnected client misses it, and its turn continues.
            self.link.respond(&insertion.request, &inserted_answer(message, meta, answer)).await.ok();
            self.link.speech().begin_turn(&insertion.session);
            if self.link.sends_states() {
                let echo = turn::user_message(message, &insertion.blocks);
                self.link.send_update(&insertion.session, &echo).await.ok();
                self.link.send_update(&insertion.session, turn::RUNNING).await.ok();
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
        let waited_for = Lock::new(waited_for);
        let (is_inserted, kept) = (AtomicBool::new(false), Lock::default());
        Self { request, session, blocks, is_inserted, waited_for, kept }
    }

    pub(super) fn is_inserted(&self) -> bool {
        self.is_inserted.load(Ordering::Acquire)
    }

    /// Drops the held values; the reply that ends the turn is sent.
    pub(super) fn answered(&self) {
        self.kept.lock().clear();
    }

    /// Releases the requests that wait for the insertion: the prompt is inserted, or never will be.
    pub(super) fn over(&self) {
        self.waited_for.lock().take();
    }
}
