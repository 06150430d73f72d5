//! Lines that are persisted and wait until the agent has read the earlier ones.
//!
//! Lines are sent in order without blocking the session: a slow reader still gets its messages received and its clients
//! served, and no timeout of ours ends it for that. The queue is bounded. When it is full, the agent is not read until
//! it has read some lines, and client requests are refused. Lines that are still accepted are small or bounded by what
//! they end or answer: one prompt, a cancel, a close, withdrawals, replies to the agent's requests.
//!
//! The connection has a bounded queue of its own (`wire/outbox.rs`), whose send waits for room. The session cannot wait
//! there, and its bound is larger because it refuses requests instead of blocking the sender.
//!
//! An agent that never reads waits like this until its turn is cancelled. `_acpx/waiting` reports it.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::acp::client::OutgoingLine;
use crate::wire::WireError;

/// The queue size at which the agent is no longer read and gets no more requests.
const LINES: usize = 4096;
const BYTES: usize = 64 << 20;

/// The waiting lines and the one being sent.
#[derive(Default)]
pub(crate) struct SendQueue {
    waiting: VecDeque<OutgoingLine>,
    under_way: Option<InFlightLine>,
    /// The length of all lines, in bytes.
    bytes: usize,
}

struct InFlightLine {
    bytes: usize,
    sent: Pin<Box<dyn Future<Output = Result<(), WireError>> + Send>>,
}

impl SendQueue {
    /// Whether there is room for replies to the agent and for new requests.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < LINES && self.bytes < BYTES
    }

    /// Sends a line after those that wait, immediately if there is room. On an error nothing more can be sent.
    pub(crate) async fn send(&mut self, line: OutgoingLine) -> Result<(), WireError> {
        self.bytes += line.bytes();
        self.waiting.push_back(line);
        match poll_fn(|context| Poll::Ready(self.poll(context))).await {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Sends the waiting lines; returns only if nothing more can be sent. Cancel safe.
    pub(crate) async fn failed(&mut self) -> WireError {
        match self.all_sent().await {
            Err(error) => error,
            Ok(()) => std::future::pending().await,
        }
    }

    /// Sends all waiting lines.
    pub(crate) async fn all_sent(&mut self) -> Result<(), WireError> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), WireError>> {
        loop {
            if let Some(InFlightLine { bytes, sent }) = &mut self.under_way {
                if let Err(error) = ready!(sent.as_mut().poll(context)) {
                    *self = Self::default();
                    return Poll::Ready(Err(error));
                }
                self.bytes -= *bytes;
                self.under_way = None;
            }
            let Some(line) = self.waiting.pop_front() else { return Poll::Ready(Ok(())) };
            self.under_way = Some(InFlightLine { bytes: line.bytes(), sent: Box::pin(line.send()) });
        }
    }
}
