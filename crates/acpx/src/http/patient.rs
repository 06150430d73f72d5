//! A socket that does not wait for ever: for the first words of whoever has connected, and for whoever leaves what it
//! is told unread.
//!
//! Both are bounded here, below HTTP, because there nobody else bounds them: until enough has come to tell which HTTP is
//! spoken no clock runs, and a response that cannot be written is waited for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How many bytes tell which HTTP is spoken.
const FIRST_WORDS: usize = 24;

/// A stream whose peer has so much time.
pub(crate) struct DeadlineStream<S> {
    stream: S,
    patience: Duration,
    /// How much is still to be heard of the first words, and until when.
    first: Option<(usize, Pin<Box<Sleep>>)>,
    /// Until when something must be written, while nothing can be.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<S> DeadlineStream<S> {
    /// A stream whose peer has this long for its first words, and to read what it is told.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, first: Some((FIRST_WORDS, Box::pin(sleep(patience)))), stall: None }
    }

    /// What became of writing, unless it has taken too long.
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
    async fn whoever_does_not_say_enough_to_be_understood_is_waited_for_no_longer() {
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
    async fn whoever_has_begun_may_be_silent() {
        let (near, mut far) = duplex(1024);
        let mut near = DeadlineStream::new(near, PATIENCE);
        far.write_all(&[b'x'; FIRST_WORDS]).await.unwrap();
        near.read_exact(&mut [0; FIRST_WORDS]).await.unwrap();
        let silence = tokio::time::timeout(PATIENCE * 10, near.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_is_told_no_more_and_whoever_reads_late_is() {
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
