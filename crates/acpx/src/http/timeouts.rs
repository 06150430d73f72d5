//! A socket with deadlines for the client's first bytes and for stalled writes.
//!
//! hyper bounds neither: it runs no timer until it knows the HTTP version, and it waits for a blocked response without
//! limit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Number of bytes that decide the HTTP version.
const FIRST_WORDS: usize = 24;

/// A stream with read and write deadlines.
pub(crate) struct DeadlineStream<S> {
    stream: S,
    patience: Duration,
    /// How many of the first bytes are missing, and their deadline.
    first: Option<(usize, Pin<Box<Sleep>>)>,
    /// Deadline of a blocked write.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> DeadlineStream<S> {
    /// Wraps a stream; `patience` limits the wait for the first bytes and each stalled write.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, first: Some((FIRST_WORDS, Box::pin(sleep(patience)))), stall: None }
    }

    /// The result of a write; an error if it was blocked for too long.
    fn written<T>(&mut self, done: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stall = None;
            return done;
        }
        let patience = self.patience;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DeadlineStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some((left, due)) = &mut self.first else { return read };
        if read.is_pending() {
            ready!(due.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        *left = left.saturating_sub(buffer.filled().len() - before);
        if *left == 0 {
            self.first = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(done, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(done, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.written(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(done, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn client_that_sends_too_few_first_bytes_times_out() {
        for said in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n"] {
            let (near, mut far) = duplex(1024);
            let mut near = DeadlineStream::new(near, PATIENCE);
            far.write_all(said.as_bytes()).await.unwrap();
            let began = Instant::now();
            let mut heard = Vec::new();
            let error = near.read_to_end(&mut heard).await.unwrap_err();
            assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, PATIENCE), "{said}");
            assert_eq!(heard, said.as_bytes());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_may_be_silent_after_its_first_bytes() {
        let (near, mut far) = duplex(1024);
        let mut near = DeadlineStream::new(near, PATIENCE);
        far.write_all(&[b'x'; FIRST_WORDS]).await.unwrap();
        near.read_exact(&mut [0; FIRST_WORDS]).await.unwrap();
        let silence = tokio::time::timeout(PATIENCE * 10, near.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_write_times_out_and_a_late_reader_does_not() {
        let (near, mut far) = duplex(8);
        let mut near = DeadlineStream::new(near, PATIENCE);
        near.write_all(&[0; 8]).await.unwrap();
        let late = async {
            tokio::time::sleep(PATIENCE / 2).await;
            far.read_exact(&mut [0; 8]).await.unwrap();
        };
        let (told, ()) = tokio::join!(near.write_all(&[0; 8]), late);
        told.unwrap();
        let began = Instant::now();
        let error = near.write_all(&[0; 8]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }
}
