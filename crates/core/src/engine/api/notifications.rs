//! Which events of sessions become notifications, and for which sinks. The session's task queues them in the store, in
//! the transaction of what they report; nothing here delivers one.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::model::{Fact, Notification, NotificationEvent, NotificationKind, Timestamp};

/// The sinks that want a kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotificationTargets {
    /// Their names. Without any, nothing is queued.
    pub sinks: Vec<String>,
    /// Whether one of them wants texts of the conversation.
    pub wants_text: bool,
}

/// Reads from the configuration which sinks want a kind of event.
pub type ReadTargets = Arc<dyn Fn(NotificationKind) -> NotificationTargets + Send + Sync>;

/// The queue of notifications, as sessions see it.
#[derive(Clone)]
pub struct NotificationQueue {
    targets: ReadTargets,
    added: Arc<Notify>,
}

impl NotificationQueue {
    /// A queue for these sinks.
    pub fn new(targets: ReadTargets) -> Self {
        Self { targets, added: Arc::default() }
    }

    /// Waits until something was added since the last call.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Reports that something was added and committed.
    pub(crate) fn report_added(&self) {
        self.added.notify_one();
    }

    /// The notification of an event, if a sink wants it. `event` gets whether texts are wanted.
    pub(crate) fn notification(
        &self,
        at: Timestamp,
        kind: NotificationKind,
        event: impl FnOnce(bool) -> NotificationEvent,
    ) -> Option<Notification> {
        let NotificationTargets { sinks, wants_text } = (self.targets)(kind);
        (!sinks.is_empty()).then(|| Notification { at, event: event(wants_text), sinks, due_at: at })
    }

    /// The notification of a fact, if it is an event that a sink wants.
    pub(crate) fn of_fact(&self, at: Timestamp, fact: &Fact) -> Option<Notification> {
        let event = match fact {
            Fact::TurnEnded { turn, error: Some(error), .. } => {
                NotificationEvent::Failed { turn: *turn, code: error.code.clone() }
            }
            Fact::TurnEnded { turn, stop_reason: Some(reason), .. } => {
                NotificationEvent::TurnEnded { turn: *turn, stop_reason: reason.clone() }
            }
            Fact::SessionReset { reason, announced: true, acpx_session_id, .. } => {
                NotificationEvent::Reset { reason: reason.clone(), acpx_session_id: acpx_session_id.clone() }
            }
            _ => return None,
        };
        self.notification(at, event.kind(), |_| event)
    }
}

impl Default for NotificationQueue {
    /// A queue without sinks.
    fn default() -> Self {
        Self::new(Arc::new(|_| NotificationTargets::default()))
    }
}

impl fmt::Debug for NotificationQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotificationQueue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ErrorCode, FactError};

    fn at() -> Timestamp {
        Timestamp::from_millis(7).unwrap()
    }

    fn reset(announced: bool) -> Fact {
        Fact::SessionReset {
            reason: "agent-lost".into(),
            from_acpx_session_id: "a".into(),
            acpx_session_id: "b".into(),
            agent_session_id: None,
            announced,
            carried: None,
            error: None,
        }
    }

    #[test]
    fn notifications_are_queued_for_the_sinks_that_want_them() {
        let targets = |kind| NotificationTargets {
            sinks: if kind == NotificationKind::Reset { Vec::new() } else { vec!["phone".to_owned()] },
            wants_text: false,
        };
        let queue = NotificationQueue::new(Arc::new(targets));
        let ended = Fact::TurnEnded { turn: 2, stop_reason: Some("end_turn".into()), error: None };
        let error = FactError { code: ErrorCode::AgentDied, message: "a secret".into() };
        let failed = Fact::TurnEnded { turn: 2, stop_reason: None, error: Some(error) };
        let sinks = || vec!["phone".to_owned()];
        let notification = |event| Some(Notification { at: at(), event, sinks: sinks(), due_at: at() });
        let event = NotificationEvent::TurnEnded { turn: 2, stop_reason: "end_turn".into() };
        assert_eq!(queue.of_fact(at(), &ended), notification(event));
        let event = NotificationEvent::Failed { turn: 2, code: ErrorCode::AgentDied };
        assert_eq!(queue.of_fact(at(), &failed), notification(event));
        assert_eq!(queue.of_fact(at(), &reset(true)), None);
        assert_eq!(queue.of_fact(at(), &Fact::AgentAway {}), None);
        assert_eq!(NotificationQueue::default().of_fact(at(), &ended), None);
        let all = NotificationQueue::new(Arc::new(|_| NotificationTargets {
            sinks: vec!["phone".to_owned()],
            wants_text: false,
        }));
        assert!(all.of_fact(at(), &reset(true)).is_some());
        // There was nothing to forget.
        assert_eq!(all.of_fact(at(), &reset(false)), None);
    }
}
