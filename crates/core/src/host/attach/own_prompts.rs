//! The prompts of a client, which it need not be told: it has said them itself.
//!
//! Each is there from before anybody can be told of it until its client has heard the end. So a stream knows which
//! answer must come before what it tells next: in version 2 the one that says the prompt was inserted, in version 1 the
//! one that ends the turn.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::model::{RequestId, TurnId};

/// The prompts that a client has asked and not heard the end of. Clones speak of the same ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnPrompts(Arc<watch::Sender<HashMap<Box<str>, OwnPromptState>>>);

/// How far a prompt has come towards its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnPromptState {
    /// How often the client waits for it.
    waits: usize,
    /// Whether in version 2 it has no answer yet.
    is_asked: bool,
    turn: Option<TurnId>,
}

/// One of them. Dropped, it is no more.
#[derive(Debug)]
pub(crate) struct OwnPrompt {
    own: OwnPrompts,
    request: Box<str>,
}

impl OwnPrompts {
    /// A prompt of the client, from before anybody can be told of it until the client has heard its end.
    pub(crate) fn add(&self, request: &RequestId) -> OwnPrompt {
        self.0.send_modify(|own| {
            let known = own.entry(request.as_str().into());
            known.or_insert(OwnPromptState { waits: 0, is_asked: true, turn: None }).waits += 1;
        });
        OwnPrompt { own: self.clone(), request: request.as_str().into() }
    }

    pub(crate) fn has(&self, request: &str) -> bool {
        self.0.borrow().contains_key(request)
    }

    /// A prompt is this turn. Nothing, if it is not one of these.
    pub(crate) fn is_turn(&self, request: &str, turn: TurnId) {
        self.change(request, |own| own.turn = Some(turn));
    }

    /// Waits until a prompt has its answer: in version 2 that is no end.
    pub(crate) async fn answered(&self, request: &str) {
        self.wait(|own| own.get(request).is_none_or(|own| !own.is_asked)).await;
    }

    /// Waits until the client has heard the end of a turn, if that is one of its own.
    pub(crate) async fn ended(&self, turn: TurnId) {
        self.wait(|own| own.values().all(|own| own.turn != Some(turn))).await;
    }

    async fn wait(&self, condition: impl Fn(&HashMap<Box<str>, OwnPromptState>) -> bool) {
        // The prompts are there as long as whoever waits.
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
    /// It was accepted as this turn.
    pub(crate) fn is_turn(&self, turn: TurnId) {
        self.own.is_turn(&self.request, turn);
    }

    /// What is told of its turn need not wait for its answer any more.
    pub(crate) fn answered(&self) {
        self.own.change(&self.request, |own| own.is_asked = false);
    }
}

impl Drop for OwnPrompt {
    fn drop(&mut self) {
        self.own.0.send_modify(|own| {
            let left = own.get_mut(&self.request).map(|own| {
                own.waits -= 1;
                own.waits
            });
            if left == Some(0) {
                own.remove(&self.request);
            }
        });
    }
}
