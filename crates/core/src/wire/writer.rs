//! The writing task: takes what is queued in batches, and flushes only when nothing is left to write.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::outbox::{Outbox, Work};

/// Lines at least this long are written as they are, not gathered first.
const LONG_LINE: usize = 64 * 1024;

/// Writes until the outbox is closed and empty, then ends the stream. `done` is true when it has ended,
/// however that came about.
pub(super) async fn run<W: AsyncWrite + Unpin>(writer: W, outbox: Arc<Outbox>, done: watch::Sender<bool>) {
    let ending = Ending { outbox, done };
    if let Err(error) = write_all(writer, &ending.outbox).await {
        ending.outbox.write_failed(error);
    }
}

async fn write_all<W: AsyncWrite + Unpin>(mut writer: W, outbox: &Outbox) -> io::Result<()> {
    let mut gathered = Vec::new();
    let mut flushed = true;
    loop {
        match outbox.work() {
            Work::Write(batch) => {
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
            Work::Idle if flushed => outbox.woken().await,
            Work::Idle => {
                writer.flush().await?;
                flushed = true;
            }
            Work::Done => {
                writer.flush().await?;
                return writer.shutdown().await;
            }
        }
    }
}

/// Whatever ends the task, nothing waits for it afterwards.
struct Ending {
    outbox: Arc<Outbox>,
    done: watch::Sender<bool>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.outbox.discard();
        self.done.send_replace(true);
    }
}
