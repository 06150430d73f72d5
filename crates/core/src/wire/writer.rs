//! The writing task: writes queued lines in batches, and flushes only when nothing is left to write.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

use super::outbox::{Outbox, WriteStep};

/// Lines at least this long are written directly, without being gathered first.
const LONG_LINE: usize = 64 * 1024;

/// Writes until the outbox is closed and empty, then ends the stream. `done` becomes true when the task ends for any
/// reason.
pub(super) async fn run<W: AsyncWrite + Unpin>(
    writer: W,
    outbox: Arc<Outbox>,
    done: watch::Sender<bool>,
    write_timeout: Option<Duration>,
) {
    let ending = WriterGuard { outbox, done };
    let writer = TimedWriter { writer, write_timeout, outbox: &ending.outbox };
    if let Err(error) = write_all(writer).await {
        ending.outbox.write_failed(error);
    }
}

async fn write_all<W: AsyncWrite + Unpin>(mut writer: TimedWriter<'_, W>) -> io::Result<()> {
    let outbox = writer.outbox;
    let mut gathered = Vec::new();
    let mut flushed = true;
    loop {
        match outbox.work() {
            WriteStep::Write(batch) => {
                for line in &batch.lines {
                    if line.len() >= LONG_LINE {
                        writer.write_all(&gathered).await?;
                        gathered.clear();
                        writer.write_all(line.as_bytes()).await?;
                    } else {
                        gathered.extend_from_slice(line.as_bytes());
                    }
                    gathered.push(b'\n');
                }
                writer.write_all(&gathered).await?;
                gathered.clear();
                outbox.written(&batch);
                flushed = false;
            }
            WriteStep::Idle if flushed => outbox.woken().await,
            WriteStep::Idle => {
                writer.flush().await?;
                flushed = true;
            }
            WriteStep::Done => {
                writer.flush().await?;
                return writer.writer.shutdown().await;
            }
        }
    }
}

/// A stream whose peer must read something within a time limit.
struct TimedWriter<'a, W> {
    writer: W,
    write_timeout: Option<Duration>,
    outbox: &'a Outbox,
}

impl<W: AsyncWrite + Unpin> TimedWriter<'_, W> {
    async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = within(self.write_timeout, self.writer.write(bytes)).await?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.outbox.took(taken);
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        within(self.write_timeout, self.writer.flush()).await
    }
}

async fn within<T>(
    write_timeout: Option<Duration>,
    writing: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match write_timeout {
        None => writing.await,
        Some(limit) => timeout(limit, writing).await.unwrap_or(Err(io::ErrorKind::TimedOut.into())),
    }
}

/// RAII guard: when the task ends for any reason, nothing waits for it any more.
struct WriterGuard {
    outbox: Arc<Outbox>,
    done: watch::Sender<bool>,
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        self.outbox.discard();
        self.done.send_replace(true);
    }
}
