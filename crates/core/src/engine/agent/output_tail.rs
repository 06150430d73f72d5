//! The tail of an agent's output outside the protocol: its stderr, or else garbage on stdout. It can be quoted in
//! errors at any time, and holds only weak references to the process and its connection.

use std::sync::Arc;

use crate::sync::Lock;
use crate::tools::{AgentProcess, StderrTail};
use crate::wire::{Peer, WeakPeer};

/// The last output of a launch spec's current agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputTail(Arc<Lock<Option<(StderrTail, WeakPeer)>>>);

impl OutputTail {
    /// Switches to this process.
    pub(crate) fn attach(&self, process: &AgentProcess, peer: &Peer) {
        let heard = (process.tail(), peer.downgrade());
        *self.0.lock() = Some(heard);
    }

    /// The last lines.
    pub(crate) fn last(&self) -> Vec<String> {
        let heard = self.0.lock();
        let Some((tail, peer)) = &*heard else { return Vec::new() };
        let words = tail.last_lines();
        if words.is_empty() { peer.garbage().recent } else { words }
    }
}
