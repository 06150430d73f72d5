//! What is on its way to an agent: lines that are kept and wait for room, since the agent has not yet read what it was
//! sent before.
//!
//! They go out in their order while the session goes on: however slowly an agent reads, it is heard, its clients are
//! heard, and no clock of ours ends it for that. What waits is bounded: an agent for which too much waits is not heard
//! until it has read of it, and so asks for nothing more, and requests of clients are refused. What still goes in is
//! small, or is bounded by what it ends or answers: one prompt, a cancel, a close, withdrawals, answers to its questions.
//!
//! An agent that never reads of it waits like this for as long as nobody cancels its turn. `_acpx/waiting` says so.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::acp::client::OutgoingLine;
use crate::wire::WireError;

/// How much may wait before the agent is not heard any more, and is asked nothing more.
const LINES: usize = 4096;
const BYTES: usize = 64 << 20;

/// The lines that wait, and the one that is being sent.
#[derive(Default)]
pub(crate) struct SendQueue {
    waiting: VecDeque<OutgoingLine>,
    under_way: Option<InFlightLine>,
    /// How long all of them are, in bytes.
    bytes: usize,
}

struct InFlightLine {
    bytes: usize,
    sent: Pin<Box<dyn Future<Output = Result<(), WireError>> + Send>>,
}

impl SendQueue {
    /// Whether the agent may be heard and asked: what it asks for can be answered, and what it is asked can be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < LINES && self.bytes < BYTES
    }

    /// Sends a line after those that wait, at once if there is room. An error means that nothing more can be sent.
    pub(crate) async fn send(&mut self, line: OutgoingLine) -> Result<(), WireError> {
        self.bytes += line.bytes();
        self.waiting.push_back(line);
        match poll_fn(|context| Poll::Ready(self.poll(context))).await {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Sends what waits, and returns only if nothing more can be sent. Dropping this loses nothing.
    pub(crate) async fn failed(&mut self) -> WireError {
        match self.all_sent().await {
            Err(error) => error,
            Ok(()) => std::future::pending().await,
        }
    }

    /// Sends all that waits.
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
