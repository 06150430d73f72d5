//! A local socket split into two halves that wake only for the event they wait for.
//!
//! A tokio socket is woken whenever its peer has read something, because it could then write again. Usually it has
//! nothing to write, and the wake-up competes with the peer, which may be on the same core. So the reading half waits
//! only for bytes, and the writing half waits only while the socket is full.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// A socket to a process on this machine.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    /// The reading half. The runtime treats it as a pipe, which waits only for bytes.
    pub(crate) reader: pipe::Receiver,
    pub(crate) writer: SocketWriter,
}

impl LocalSocket {
    /// Splits a stream of the runtime.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        let socket = OwnedFd::from(stream.into_std()?);
        let reader = pipe::Receiver::from_owned_fd_unchecked(socket.try_clone()?)?;
        Ok(Self { reader, writer: SocketWriter { socket, full: None } })
    }
}

/// The writing half. Dropping it ends the stream for the peer.
#[derive(Debug)]
pub(crate) struct SocketWriter {
    socket: OwnedFd,
    /// A pipe end that waits for room; set only while the socket is full.
    full: Option<pipe::Sender>,
}

impl AsyncWrite for SocketWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, full } = self.get_mut();
        let waiting = match full {
            Some(waiting) => waiting,
            None => match rustix::net::send(&*socket, buf, SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN | Errno::INTR) => {
                    full.insert(pipe::Sender::from_owned_fd_unchecked(socket.try_clone()?)?)
                }
                sent => return Poll::Ready(sent.map_err(io::Error::from)),
            },
        };
        let written = ready!(Pin::new(waiting).poll_write(cx, buf));
        *full = None;
        Poll::Ready(written)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?))
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        // Fails if the peer has disconnected.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

#[cfg(test)]
mod tests;
