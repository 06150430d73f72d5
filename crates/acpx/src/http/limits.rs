//! Resource limits of a server, in total and per client.
//!
//! Received bytes that do not form a complete message yet count against a budget of the whole server; a client that
//! exceeds it gets an error. Sockets and clients are counted per token or address, so that a single one cannot lock out
//! the others.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use acpx_core::sync::Lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::observed_stream::StreamObserver;

/// Counts items per key.
#[derive(Debug)]
pub(crate) struct KeyedCounter<K>(Lock<HashMap<K, usize>>);

/// RAII guard of one counted item; dropping it decrements the count.
#[derive(Debug)]
pub(crate) struct KeyedCountGuard<K: Eq + Hash> {
    counter: Arc<KeyedCounter<K>>,
    key: K,
}

impl<K> Default for KeyedCounter<K> {
    fn default() -> Self {
        Self(Lock::default())
    }
}

impl<K: Eq + Hash + Clone> KeyedCounter<K> {
    /// Counts one more item for a key, unless it has `most` already.
    pub(crate) fn take(self: &Arc<Self>, key: &K, most: usize) -> Option<KeyedCountGuard<K>> {
        let mut counts = self.0.lock();
        let count = counts.entry(key.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(KeyedCountGuard { counter: Arc::clone(self), key: key.clone() })
    }
}

impl<K: Eq + Hash> Drop for KeyedCountGuard<K> {
    fn drop(&mut self) {
        let mut counts = self.counter.0.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// The bytes of one client that do not form a complete message yet, drawn from a shared budget.
#[derive(Debug)]
pub(crate) struct ReceiveBudget {
    room: Arc<Semaphore>,
    held: Lock<ReceiveUsage>,
}

#[derive(Debug)]
struct ReceiveUsage {
    bytes: Option<OwnedSemaphorePermit>,
    /// When bytes last arrived.
    received_at: Instant,
    /// Number of bytes sent to the client.
    written: u64,
}

impl ReceiveBudget {
    /// An empty budget that draws from `room`.
    pub(crate) fn new(room: Arc<Semaphore>) -> Arc<Self> {
        Arc::new(Self {
            room,
            held: Lock::new(ReceiveUsage { bytes: None, received_at: Instant::now(), written: 0 }),
        })
    }

    /// Reserves more bytes; false if the shared budget is exhausted.
    pub(crate) fn add(&self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.room).try_acquire_many_owned(bytes) else { return false };
        let mut held = self.held.lock();
        held.received_at = Instant::now();
        match &mut held.bytes {
            Some(held) => held.merge(more),
            None => held.bytes = Some(more),
        }
        true
    }

    /// Releases all bytes: the message is complete.
    pub(crate) fn clear(&self) {
        self.held.lock().bytes = None;
    }

    /// Releases bytes that were not part of a message.
    pub(crate) fn remove(&self, bytes: usize) {
        let mut held = self.held.lock();
        if let Some(held) = &mut held.bytes {
            let bytes = bytes.min(held.num_permits());
            drop(held.split(bytes));
        }
    }

    /// Records a sign of life other than received bytes.
    pub(crate) fn note_activity(&self) {
        self.held.lock().received_at = Instant::now();
    }

    /// Number of bytes sent to the client.
    pub(crate) fn written(&self) -> u64 {
        self.held.lock().written
    }

    /// When bytes last arrived, or another sign of life.
    pub(crate) fn received_at(&self) -> Instant {
        self.held.lock().received_at
    }
}

/// Counts the bytes of a stream. A read beyond the budget fails.
impl StreamObserver for Arc<ReceiveBudget> {
    fn on_read(
        &mut self,
        read: Poll<io::Result<()>>,
        bytes: usize,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if bytes > 0 && !self.add(bytes) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        read
    }

    fn on_write(&mut self, written: Poll<io::Result<usize>>, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.held.lock().written += bytes as u64;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::super::observed_stream::ObservedStream;
    use super::*;

    #[test]
    fn keyed_counter_limits_each_key_and_dropped_guards_release() {
        let shares = Arc::new(KeyedCounter::default());
        let first = shares.take(&"me", 2).unwrap();
        let second = shares.take(&"me", 2);
        assert!(second.is_some() && shares.take(&"me", 2).is_none() && shares.take(&"you", 2).is_some());
        drop(first);
        assert!(shares.take(&"me", 2).is_some());
        drop(second);
        assert_eq!(shares.0.lock().len(), 0);
    }

    #[tokio::test]
    async fn bytes_of_partial_messages_count_for_the_limit_of_all_clients() {
        let room = Arc::new(Semaphore::new(10));
        let (one, other) = (ReceiveBudget::new(Arc::clone(&room)), ReceiveBudget::new(Arc::clone(&room)));
        let (near, mut far) = duplex(64);
        let mut near = ObservedStream::new(near, Arc::clone(&one));
        far.write_all(&[0; 7]).await.unwrap();
        near.read_exact(&mut [0; 7]).await.unwrap();
        assert!(!other.add(4) && other.add(3));
        far.write_all(&[0; 1]).await.unwrap();
        assert_eq!(near.read_u8().await.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        one.clear();
        drop(other);
        assert_eq!(room.available_permits(), 10);
    }
}
