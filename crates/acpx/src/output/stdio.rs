//! Stdin and stdout as streams for a protocol.
//!
//! An editor starts acpx with pipes or sockets, which are read and written without a helper thread: that would cost
//! more than everything else done for a message. Terminals and files use the thread, because non-blocking mode would
//! affect other processes that share them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::error::CliError;

/// The reading side.
pub(crate) type StdinReader = Box<dyn AsyncRead + Unpin + Send>;
/// The writing side.
pub(crate) type StdoutWriter = Box<dyn AsyncWrite + Unpin + Send>;

enum StdioKind {
    Pipe(OwnedFd),
    Socket(UnixStream),
    Other,
}

/// Stdin and stdout. Must be called inside a runtime.
pub(crate) fn open() -> Result<(StdinReader, StdoutWriter), CliError> {
    let unusable = |source| CliError::System { doing: "use stdin and stdout".to_owned(), source };
    Ok((source().map_err(unusable)?, target().map_err(unusable)?))
}

/// Stdin. Must be called inside a runtime.
pub(crate) fn source() -> io::Result<StdinReader> {
    Ok(match kind(io::stdin().as_fd())? {
        StdioKind::Pipe(pipe) => Box::new(pipe::Receiver::from_owned_fd(pipe)?),
        StdioKind::Socket(socket) => Box::new(socket),
        StdioKind::Other => Box::new(tokio::io::stdin()),
    })
}

/// Stdout. Must be called inside a runtime.
pub(crate) fn target() -> io::Result<StdoutWriter> {
    Ok(match kind(io::stdout().as_fd())? {
        StdioKind::Pipe(pipe) => Box::new(pipe::Sender::from_owned_fd(pipe)?),
        StdioKind::Socket(socket) => Box::new(socket),
        StdioKind::Other => Box::new(tokio::io::stdout()),
    })
}

/// Waits until stdout has no reader. Never resolves where that cannot be detected without writing.
pub(crate) async fn reader_gone() {
    if cfg!(target_os = "linux")
        && let Ok(StdioKind::Pipe(pipe)) = kind(io::stdout().as_fd())
        && let Ok(pipe) = pipe::Sender::from_owned_fd(pipe)
    {
        // The error state means that the pipe's last reader is gone.
        drop(pipe.ready(Interest::ERROR).await);
    } else {
        std::future::pending::<()>().await;
    }
}

/// Our stderr, as the stdout of a program whose output is not our data.
pub(crate) fn shown_to_people() -> Stdio {
    io::stderr().into()
}

/// Duplicates of the program's three streams.
pub(crate) fn streams() -> Option<[OwnedFd; 3]> {
    let owned = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().ok();
    Some([owned(io::stdin().as_fd())?, owned(io::stderr().as_fd())?, owned(io::stdout().as_fd())?])
}

fn kind(end: BorrowedFd<'_>) -> io::Result<StdioKind> {
    Ok(match FileType::from_raw_mode(fstat(end)?.st_mode) {
        FileType::Fifo => StdioKind::Pipe(end.try_clone_to_owned()?),
        FileType::Socket => {
            let socket = StdStream::from(end.try_clone_to_owned()?);
            socket.set_nonblocking(true)?;
            StdioKind::Socket(UnixStream::from_std(socket)?)
        }
        _ => StdioKind::Other,
    })
}
