//! The two halves of a local socket that are woken for what they wait for, and for nothing else.
//!
//! A socket of the runtime is told whenever its peer has read something, because it could write again then. Nearly
//! always it has nothing to write, and is woken while the peer, on the same core perhaps, is about to pass on what it
//! has read. So the reading half waits for bytes alone, and the writing half waits only while the socket is full.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// A socket to a process of this machine.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    /// What the peer writes. To the runtime it is the end of a pipe, which waits for bytes alone.
    pub(crate) reader: pipe::Receiver,
    pub(crate) writer: SocketWriter,
}

impl LocalSocket {
    /// Takes a stream of the runtime apart.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        let socket = OwnedFd::from(stream.into_std()?);
        let reader = pipe::Receiver::from_owned_fd_unchecked(socket.try_clone()?)?;
        Ok(Self { reader, writer: SocketWriter { socket, full: None } })
    }
}

/// What the peer reads. Dropped, it tells the peer that there is no more.
#[derive(Debug)]
pub(crate) struct SocketWriter {
    socket: OwnedFd,
    /// The end of a pipe, which waits for room, while the socket has none.
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
        // A peer that has gone need not be told.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}

#[cfg(test)]
mod tests;
