//! A byte stream whose reads and writes pass an observer, which may fail them: for byte budgets and deadlines.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Sees the result of every operation of a stream, and returns the result that the caller gets.
pub(crate) trait StreamObserver: Unpin {
    /// A read of this many bytes.
    fn on_read(
        &mut self,
        read: Poll<io::Result<()>>,
        _bytes: usize,
        _context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        read
    }

    /// A write; a flush or a shutdown writes no bytes.
    fn on_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        _context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        written
    }
}

/// A stream with an observer.
pub(crate) struct ObservedStream<S, O> {
    stream: S,
    observer: O,
}

impl<S, O> ObservedStream<S, O> {
    pub(crate) fn new(stream: S, observer: O) -> Self {
        Self { stream, observer }
    }

    pub(crate) fn observer(&self) -> &O {
        &self.observer
    }
}

impl<S: AsyncRead + Unpin, O: StreamObserver> AsyncRead for ObservedStream<S, O> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.observer.on_read(read, buffer.filled().len() - before, context)
    }
}

impl<S: AsyncWrite + Unpin, O: StreamObserver> AsyncWrite for ObservedStream<S, O> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.observer.on_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.observer.on_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context).map_ok(|()| 0);
        self.observer.on_write(flushed, context).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context).map_ok(|()| 0);
        self.observer.on_write(closed, context).map_ok(drop)
    }
}
