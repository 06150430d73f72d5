//! A client's own prompts, which are not echoed to it.
//!
//! A prompt is registered before any stream can render it, and removed after its client received the final reply. So a
//! stream knows which reply must precede its next line: in version 2 the reply that the prompt was inserted, in version
//! 1 the reply that ends the turn.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::model::{RequestId, TurnId};

/// The prompts whose final reply the client has not received. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnPrompts(Arc<watch::Sender<HashMap<Box<str>, OwnPromptState>>>);

/// What is known of one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnPromptState {
    /// How many requests of the client wait for this prompt.
    waiters: usize,
    /// Whether the version 2 reply is still pending.
    is_pending: bool,
    turn: Option<TurnId>,
}

/// A registered prompt. Dropping it unregisters it.
#[derive(Debug)]
pub(crate) struct OwnPrompt {
    own: OwnPrompts,
    request: Box<str>,
}

impl OwnPrompts {
    /// Registers a prompt of the client.
    pub(crate) fn add(&self, request: &RequestId) -> OwnPrompt {
        self.0.send_modify(|own| {
            let known = own.entry(request.as_str().into());
            known.or_insert(OwnPromptState { waiters: 0, is_pending: true, turn: None }).waiters += 1;
        });
        OwnPrompt { own: self.clone(), request: request.as_str().into() }
    }

    pub(crate) fn contains(&self, request: &str) -> bool {
        self.0.borrow().contains_key(request)
    }

    /// Links a prompt to its turn. Ignored if the prompt is not registered.
    pub(crate) fn link_turn(&self, request: &str, turn: TurnId) {
        self.change(request, |own| own.turn = Some(turn));
    }

    /// Waits until a prompt was replied to. In version 2 the reply does not end the turn.
    pub(crate) async fn wait_answered(&self, request: &str) {
        self.wait(|own| own.get(request).is_none_or(|own| !own.is_pending)).await;
    }

    /// Waits until the client received the end of this turn, if the turn is one of its own.
    pub(crate) async fn wait_ended(&self, turn: TurnId) {
        self.wait(|own| own.values().all(|own| own.turn != Some(turn))).await;
    }

    async fn wait(&self, condition: impl Fn(&HashMap<Box<str>, OwnPromptState>) -> bool) {
        // `self` owns the sender, so the channel stays open.
        drop(self.0.subscribe().wait_for(condition).await);
    }

    fn change(&self, request: &str, change: impl FnOnce(&mut OwnPromptState)) {
        self.0.send_modify(|own| {
            if let Some(own) = own.get_mut(request) {
                change(own);
            }
        });
    }
}

impl OwnPrompt {
    /// Links the accepted prompt to its turn.
    pub(crate) fn link_turn(&self, turn: TurnId) {
        self.own.link_turn(&self.request, turn);
    }

    /// Marks the prompt as replied to, so its turn's updates need not wait.
    pub(crate) fn mark_answered(&self) {
        self.own.change(&self.request, |own| own.is_pending = false);
    }
}

impl Drop for OwnPrompt {
    fn drop(&mut self) {
        self.own.0.send_modify(|own| {
            let left = own.get_mut(&self.request).map(|own| {
                own.waiters -= 1;
                own.waiters
            });
            if left == Some(0) {
                own.remove(&self.request);
            }
        });
    }
}
