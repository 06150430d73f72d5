//! Stdin and stdout as streams that a protocol runs over.
//!
//! An editor starts us with pipes or sockets, and those are read and written without a thread between: it would cost
//! more than all the rest of a message's way. Terminals and files go by the thread, because whoever shares them would
//! find them changed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// What is read.
pub(crate) type StdinReader = Box<dyn AsyncRead + Unpin + Send>;
/// What is written.
pub(crate) type StdoutWriter = Box<dyn AsyncWrite + Unpin + Send>;

enum StdioKind {
    Pipe(OwnedFd),
    Socket(UnixStream),
    Other,
}

/// Stdin. To be called inside a runtime.
pub(crate) fn source() -> io::Result<StdinReader> {
    Ok(match kind(io::stdin().as_fd())? {
        StdioKind::Pipe(pipe) => Box::new(pipe::Receiver::from_owned_fd(pipe)?),
        StdioKind::Socket(socket) => Box::new(socket),
        StdioKind::Other => Box::new(tokio::io::stdin()),
    })
}

/// Stdout, likewise.
pub(crate) fn target() -> io::Result<StdoutWriter> {
    Ok(match kind(io::stdout().as_fd())? {
        StdioKind::Pipe(pipe) => Box::new(pipe::Sender::from_owned_fd(pipe)?),
        StdioKind::Socket(socket) => Box::new(socket),
        StdioKind::Other => Box::new(tokio::io::stdout()),
    })
}

/// Waits until nobody reads stdout any more. Where that cannot be told without writing, it is not told.
pub(crate) async fn nobody_reads() {
    if cfg!(target_os = "linux")
        && let Ok(StdioKind::Pipe(pipe)) = kind(io::stdout().as_fd())
        && let Ok(pipe) = pipe::Sender::from_owned_fd(pipe)
    {
        // It ends with the pipe's last reader, and with nothing else.
        drop(pipe.ready(Interest::ERROR).await);
    } else {
        std::future::pending::<()>().await;
    }
}

/// Our stderr, as the stdout of a program whose output is no data of ours.
pub(crate) fn shown_to_people() -> Stdio {
    io::stderr().into()
}

/// The program's three streams, as handles of their own.
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
