//! Empties the queue of notifications: one task for each sink, so that a sink that hangs delays no other, and attempts
//! that are repeated later and later for a day.
//!
//! The configuration is read again for each attempt, so after a correction its queue is delivered.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::model::{DeliveryOutcome, QueuedNotification, Timestamp};
use acpx_core::store::{Store, StoreError};
use acpx_core::wire::since_1970;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::delivery::deliver;
use super::payload::NotificationPayload;
use super::text;
use crate::config::Config;
use crate::home_file::LockFile;
use crate::web::registration;

/// How long a notification is worth an attempt.
const LIFETIME: Duration = Duration::from_hours(24);
/// The pauses after the first attempts; the last one repeats.
const PAUSES: [Duration; 7] = [
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(8),
    Duration::from_mins(30),
    Duration::from_hours(1),
];
/// The longest pause before the clock is read again: it may have been set.
const MAX_SLEEP: Duration = Duration::from_mins(1);
/// How long attempts that have begun may take once the host is gone.
const LAST_ATTEMPTS: Duration = Duration::from_secs(2);
/// The pause between two attempts to become the home's notifier.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Takes the right to deliver the notifications of a home. Waits for a notifier of an earlier host that is ending.
pub(crate) async fn lock_queue(home: &Path) -> io::Result<LockFile> {
    let path = home.join("notify.lock");
    loop {
        match LockFile::try_take(&path)? {
            Some(lock) => return Ok(lock),
            None => sleep(LOCK_PAUSE).await,
        }
    }
}

/// The home that is delivered for, and its store.
#[derive(Clone)]
pub(crate) struct DeliveryContext {
    pub(crate) home: PathBuf,
    pub(crate) store: Arc<dyn Store>,
}

/// Delivers what is queued, and what is added while that lasts, until the queue is empty. `added` changes when something
/// was added; without its sender no attempt begins any more. An error of one sink is returned at the end.
pub(crate) async fn deliver_queue(
    context: &DeliveryContext,
    mut added: watch::Receiver<u64>,
) -> Result<(), StoreError> {
    let mut workers: JoinSet<(String, Result<(), StoreError>)> = JoinSet::new();
    let (mut served, mut failed): (Vec<String>, _) = (Vec::new(), Ok(()));
    while added.has_changed().is_ok() {
        added.borrow_and_update();
        for status in context.store.notification_sinks().await? {
            if status.queued > 0 && !served.contains(&status.sink) {
                served.push(status.sink.clone());
                let (context, added) = (context.clone(), added.clone());
                workers.spawn(async move {
                    let done = serve(context, &status.sink, added.clone()).await;
                    if done.is_err() {
                        // Other sinks are served, and this one again after a pause.
                        drop(timeout(MAX_SLEEP, host_ended(added)).await);
                    }
                    (status.sink, done)
                });
            }
        }
        tokio::select! {
            // Without its sender the loop ends.
            _ = added.changed() => {}
            ended = workers.join_next() => match ended {
                None => return failed,
                // Something may have been added after it found its queue empty.
                Some(Ok((sink, done))) => {
                    served.retain(|other| *other != sink);
                    failed = failed.and(done);
                }
                // A worker that panicked is not started again.
                Some(Err(_)) => {}
            }
        }
    }
    let ends = async { while workers.join_next().await.is_some() {} };
    drop(timeout(LAST_ATTEMPTS, ends).await);
    // An attempt that is cut off ends its program, and is repeated by the next host.
    workers.shutdown().await;
    Ok(())
}

/// Waits until the sender of additions is dropped.
pub(crate) async fn host_ended(mut added: watch::Receiver<u64>) {
    while added.changed().await.is_ok() {}
}

/// Delivers the notifications of one sink, one after the other.
async fn serve(
    context: DeliveryContext,
    sink: &str,
    mut added: watch::Receiver<u64>,
) -> Result<(), StoreError> {
    while added.has_changed().is_ok() {
        added.borrow_and_update();
        let next = context.store.notifications(sink.to_owned(), 1).await?.pop();
        let Some(queued) = next else { return Ok(()) };
        let pause = queued.next_attempt_at.since(now());
        if pause > Duration::ZERO {
            tokio::select! {
                () = sleep(pause.min(MAX_SLEEP)) => {}
                _ = added.changed() => {}
            }
            continue;
        }
        let outcome = attempt(&context, &queued).await?;
        context.store.settle_notification(queued.id, sink.to_owned(), outcome).await?;
    }
    Ok(())
}

/// Tries to deliver a notification.
async fn attempt(
    context: &DeliveryContext,
    queued: &QueuedNotification,
) -> Result<DeliveryOutcome, StoreError> {
    let at = now();
    if is_expired(queued, at) {
        return Ok(DeliveryOutcome::GivenUp { at, error: "it waited for more than a day".to_owned() });
    }
    let Some(record) = context.store.record(queued.record.clone()).await? else {
        return Ok(DeliveryOutcome::GivenUp { at, error: "its session is gone".to_owned() });
    };
    let config = Config::load(&context.home);
    let error = match &config {
        Err(_) => "config.json cannot be used: acpx doctor says why".to_owned(),
        Ok(config) => match config.home.notify.sinks.iter().find(|sink| sink.name == queued.sink) {
            None => {
                return Ok(DeliveryOutcome::GivenUp { at, error: "config.json has no such sink".to_owned() });
            }
            Some(sink) => {
                let text =
                    if sink.bodies { text::text_of(&*context.store, &record, queued).await? } else { None };
                let page = registration::last_url(&context.home);
                let payload = NotificationPayload::new(queued, &record, sink.bodies, text, page.as_deref());
                match deliver(sink, &payload, at).await {
                    Ok(()) => return Ok(DeliveryOutcome::Delivered { at: now() }),
                    Err(error) => error.to_string(),
                }
            }
        },
    };
    Ok(after_failure(queued, now(), error))
}

/// Whether a notification is too old for an attempt: no host ran for a while.
fn is_expired(queued: &QueuedNotification, at: Timestamp) -> bool {
    at.since(queued.at) > LIFETIME
}

/// What follows a failed attempt.
fn after_failure(queued: &QueuedNotification, at: Timestamp, error: String) -> DeliveryOutcome {
    let pause = usize::try_from(queued.attempts).ok().and_then(|attempts| PAUSES.get(attempts));
    let pause = pause.copied().unwrap_or(PAUSES[PAUSES.len() - 1]);
    if at.since(queued.at) + pause > LIFETIME {
        return DeliveryOutcome::GivenUp { at, error };
    }
    let millis = at.as_millis().saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
    match Timestamp::from_millis(millis) {
        Ok(next_attempt_at) => DeliveryOutcome::Failed { at, next_attempt_at, error },
        Err(_) => DeliveryOutcome::GivenUp { at, error },
    }
}

fn now() -> Timestamp {
    Timestamp::since_1970(since_1970())
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{NotificationEvent, RecordId};

    use super::*;

    fn queued(attempts: u64) -> QueuedNotification {
        QueuedNotification {
            id: "e".to_owned(),
            sink: "phone".to_owned(),
            record: RecordId::new("r").unwrap(),
            at: at(0),
            event: NotificationEvent::HostLost { turn: 1 },
            attempts,
            next_attempt_at: at(0),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000).unwrap()
    }

    #[test]
    fn failed_notification_is_tried_later_and_later_for_a_day() {
        let next = |attempts, time| match after_failure(&queued(attempts), at(time), "no".to_owned()) {
            DeliveryOutcome::Failed { next_attempt_at, .. } => {
                Some(next_attempt_at.since(at(time)).as_secs())
            }
            _ => None,
        };
        let pauses: Vec<_> = (0..9).filter_map(|attempts| next(attempts, 100)).collect();
        assert_eq!(pauses, [2, 8, 30, 120, 480, 1800, 3600, 3600, 3600]);
        let day = 24 * 3600;
        assert_eq!(next(20, day - 3600), Some(3600));
        assert_eq!(next(20, day - 3599), None);
        let error = "no".to_owned();
        let given_up = DeliveryOutcome::GivenUp { at: at(day), error: error.clone() };
        assert_eq!(after_failure(&queued(0), at(day), error), given_up);
        assert_eq!([day, day + 1].map(|time| is_expired(&queued(0), at(time))), [false, true]);
    }
}
