//! Which sessions are active on a connection, and the turn each one has.
//!
//! A session is active from the answer to new, load or resume until it is closed or deleted. Its turn blocks a
//! second one only until its answer is on the way: a client that has read the answer may prompt at once.
//! Whoever must come after the answer itself (a close, the next turn) waits for the turn's [`Ended`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ended::{End, Ended};
use super::error::CallError;
use super::turn::{CancelCause, CancelSignal, Cancellation};
use crate::model::AcpSessionId;

/// The active sessions of one connection.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    active: Mutex<HashMap<AcpSessionId, Option<Slot>>>,
}

#[derive(Debug)]
struct Slot {
    signal: Arc<CancelSignal>,
    ended: Ended,
    answering: bool,
}

/// A turn that is running, from its acceptance until its answer is out.
#[derive(Debug)]
pub(super) struct RunningTurn {
    session: AcpSessionId,
    pub(super) cancellation: Cancellation,
    pub(super) signal: Arc<CancelSignal>,
    /// The turn before this one, whose answer may not be out yet.
    pub(super) before: Ended,
    /// Dropped with the turn, which is how others learn of its end.
    _end: End,
}

impl Sessions {
    pub(super) fn activate(&self, session: &AcpSessionId) {
        self.active().entry(session.clone()).or_default();
    }

    pub(super) fn is_active(&self, session: &AcpSessionId) -> bool {
        self.active().contains_key(session)
    }

    /// Takes the session out and tells its turn to stop; `None` if it was not active.
    pub(super) fn deactivate(&self, session: &AcpSessionId) -> Option<Ended> {
        let slot = self.active().remove(session)?;
        Some(slot.map_or(Ended::already(), |slot| {
            slot.signal.give(CancelCause::Asked);
            slot.ended
        }))
    }

    /// Begins a turn if the session is active and has none.
    pub(super) fn begin_turn(&self, session: &AcpSessionId) -> Result<RunningTurn, CallError> {
        let mut active = self.active();
        let slot = active.get_mut(session).ok_or_else(|| CallError::UnknownSession(session.clone()))?;
        let before = match slot {
            Some(slot) if !slot.answering && !slot.ended.is_over() => {
                return Err(CallError::TurnRunning(session.clone()));
            }
            Some(slot) => slot.ended.clone(),
            None => Ended::already(),
        };
        let (signal, cancellation) = CancelSignal::new();
        let (end, ended) = Ended::later();
        let signal = Arc::new(signal);
        *slot = Some(Slot { signal: Arc::clone(&signal), ended, answering: false });
        Ok(RunningTurn { session: session.clone(), cancellation, signal, before, _end: end })
    }

    /// The turn's answer is about to go out: from here on another may begin.
    pub(super) fn answering(&self, turn: &RunningTurn) {
        if let Some(Some(slot)) = self.active().get_mut(&turn.session)
            && Arc::ptr_eq(&slot.signal, &turn.signal)
        {
            slot.answering = true;
        }
    }

    /// Tells the session's turn to stop. Without a turn there is nothing to tell.
    pub(super) fn cancel(&self, session: &AcpSessionId) {
        if let Some(Some(slot)) = self.active().get(session) {
            slot.signal.give(CancelCause::Asked);
        }
    }

    /// The client is gone.
    pub(super) fn disconnected(&self) {
        for slot in self.active().values().flatten() {
            slot.signal.give(CancelCause::Disconnected);
        }
    }

    fn active(&self) -> MutexGuard<'_, HashMap<AcpSessionId, Option<Slot>>> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
