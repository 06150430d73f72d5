//! What an agent says beside the protocol, while it comes up and while it runs: on stderr, or else as garbage on stdout.
//! Whoever waits for it can quote it, and looking keeps nothing of it alive.

use std::sync::{Arc, Mutex, PoisonError};

use crate::tools::{AgentProcess, StderrTail};
use crate::wire::{Peer, WeakPeer};

/// The last words of the agent that a place has, as they stand.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputTail(Arc<Mutex<Option<(StderrTail, WeakPeer)>>>);

impl OutputTail {
    /// From here on they are those of this process.
    pub(crate) fn are_of(&self, process: &AgentProcess, peer: &Peer) {
        let heard = (process.tail(), peer.downgrade());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(heard);
    }

    /// The last of them.
    pub(crate) fn last(&self) -> Vec<String> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((tail, peer)) = &*heard else { return Vec::new() };
        let words = tail.last_lines();
        if words.is_empty() { peer.garbage().recent } else { words }
    }
}
