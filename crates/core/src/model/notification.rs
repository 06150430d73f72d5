//! What a user can be notified of while no client is attached: an event of a session, as it is queued for a sink.
//!
//! An event names what happened and where to read it; it has no text of the conversation, unless the configuration asks
//! for the text of permission requests.

use serde::{Deserialize, Serialize};

use super::{ErrorCode, RecordId, Timestamp, TurnId, sha256_hex};

/// How many hexadecimal digits an event id has.
const ID_DIGITS: usize = 32;

/// The kinds of events, by which a sink chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotificationKind {
    /// A permission request or a form is pending.
    Waiting,
    /// A turn has ended without an error.
    TurnEnded,
    /// A turn has failed.
    Failed,
    /// A fresh session took over.
    Reset,
    /// The previous host died during a turn.
    HostLost,
}

stable_names! {
    NotificationKind:
    Waiting = "waiting",
    TurnEnded = "turn_ended",
    Failed = "failed",
    Reset = "reset",
    HostLost = "host_lost",
}

impl NotificationKind {
    /// All kinds.
    pub const EVERY: [Self; 5] = [Self::Waiting, Self::TurnEnded, Self::Failed, Self::Reset, Self::HostLost];
}

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum NotificationEvent {
    /// A permission request or a form is pending.
    Waiting {
        /// The id by which it is answered.
        question_id: String,
        /// Whether it is a form.
        is_form: bool,
        /// What the agent asks for, if the configuration wants texts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A turn has ended without an error.
    TurnEnded {
        /// Which turn.
        turn: u64,
        /// Why the agent stopped.
        stop_reason: String,
    },
    /// A turn has failed.
    Failed {
        /// Which turn.
        turn: u64,
        /// The stable code.
        code: ErrorCode,
    },
    /// A fresh ACP session took over.
    Reset {
        /// The lineage reason.
        reason: String,
        /// The session in force now.
        acpx_session_id: String,
    },
    /// The previous host died during a turn.
    HostLost {
        /// Which turn.
        turn: u64,
    },
}

impl NotificationEvent {
    /// Its kind.
    pub fn kind(&self) -> NotificationKind {
        match self {
            Self::Waiting { .. } => NotificationKind::Waiting,
            Self::TurnEnded { .. } => NotificationKind::TurnEnded,
            Self::Failed { .. } => NotificationKind::Failed,
            Self::Reset { .. } => NotificationKind::Reset,
            Self::HostLost { .. } => NotificationKind::HostLost,
        }
    }

    /// The turn that it is about, if it is one.
    pub fn turn(&self) -> Option<TurnId> {
        match self {
            Self::TurnEnded { turn, .. } | Self::Failed { turn, .. } | Self::HostLost { turn } => {
                Some(TurnId(*turn))
            }
            Self::Waiting { .. } | Self::Reset { .. } => None,
        }
    }

    /// The id of this event of a record. The same event always has the same id, so a receiver can recognise a
    /// notification that it gets twice.
    pub fn id(&self, record: &RecordId) -> String {
        let subject = match self {
            Self::Waiting { question_id, .. } => question_id.clone(),
            Self::TurnEnded { turn, .. } | Self::Failed { turn, .. } | Self::HostLost { turn } => {
                turn.to_string()
            }
            Self::Reset { acpx_session_id, .. } => acpx_session_id.clone(),
        };
        let words = format!("{record}\n{}\n{subject}", self.kind().as_str());
        sha256_hex(words.as_bytes()).chars().take(ID_DIGITS).collect()
    }
}

/// A notification to queue for some sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: NotificationEvent,
    /// The names of the sinks.
    pub sinks: Vec<String>,
    /// When the first attempt is due.
    pub due_at: Timestamp,
}

/// A notification that waits to be delivered to one sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedNotification {
    /// The event's id.
    pub id: String,
    /// The sink's name.
    pub sink: String,
    /// The record that it is about.
    pub record: RecordId,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: NotificationEvent,
    /// How many attempts have failed.
    pub attempts: u64,
    /// When the next attempt is due.
    pub next_attempt_at: Timestamp,
}

/// The outcome of an attempt to deliver a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The sink has it.
    Delivered {
        /// When.
        at: Timestamp,
    },
    /// It failed and is tried again.
    Failed {
        /// When it failed.
        at: Timestamp,
        /// When the next attempt is due.
        next_attempt_at: Timestamp,
        /// What went wrong.
        error: String,
    },
    /// It failed and is not tried again.
    GivenUp {
        /// When.
        at: Timestamp,
        /// What went wrong.
        error: String,
    },
}

/// How a sink is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkStatus {
    /// Its name.
    pub sink: String,
    /// How many notifications wait for it.
    pub queued: u64,
    /// How many it has got.
    pub delivered: u64,
    /// How many were given up.
    pub given_up: u64,
    /// How many were displaced by newer ones while its queue was full.
    pub dropped: u64,
    /// When it last got one.
    pub delivered_at: Option<Timestamp>,
    /// The error of the last attempt, if that failed, and when.
    pub error: Option<(Timestamp, String)>,
}

impl SinkStatus {
    /// Counts the outcome of an attempt.
    pub(crate) fn count(&mut self, outcome: &DeliveryOutcome) {
        match outcome {
            DeliveryOutcome::Delivered { at } => {
                self.delivered += 1;
                self.delivered_at = Some(*at);
                self.error = None;
            }
            DeliveryOutcome::Failed { at, error, .. } => self.error = Some((*at, error.clone())),
            DeliveryOutcome::GivenUp { at, error } => {
                self.given_up += 1;
                self.error = Some((*at, error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> RecordId {
        RecordId::new("01a1").unwrap()
    }

    #[test]
    fn event_id_follows_from_record_kind_and_subject_alone() {
        let ended = |turn, reason: &str| NotificationEvent::TurnEnded { turn, stop_reason: reason.into() };
        let id = ended(3, "end_turn").id(&record());
        assert_eq!(id.len(), ID_DIGITS);
        assert_eq!(id, ended(3, "max_tokens").id(&record()));
        let others = [
            ended(4, "end_turn").id(&record()),
            NotificationEvent::HostLost { turn: 3 }.id(&record()),
            ended(3, "end_turn").id(&RecordId::new("01a2").unwrap()),
        ];
        assert!(!others.contains(&id), "{others:?}");
    }

    #[test]
    fn notification_events_round_trip_as_json() {
        let events = [
            NotificationEvent::Waiting { question_id: "4f".into(), is_form: false, text: None },
            NotificationEvent::TurnEnded { turn: 1, stop_reason: "end_turn".into() },
            NotificationEvent::Failed { turn: 1, code: ErrorCode::AgentDied },
            NotificationEvent::Reset { reason: "agent-lost".into(), acpx_session_id: "s".into() },
            NotificationEvent::HostLost { turn: 1 },
        ];
        for (event, kind) in events.iter().zip(NotificationKind::EVERY) {
            let text = serde_json::to_string(event).unwrap();
            assert_eq!(serde_json::from_str::<NotificationEvent>(&text).unwrap(), *event);
            assert!(text.starts_with(&format!(r#"{{"event":"{}""#, kind.as_str())), "{text}");
            assert_eq!((event.kind(), NotificationKind::parse(kind.as_str())), (kind, Some(kind)));
        }
        assert_eq!(NotificationKind::ALL, NotificationKind::EVERY);
    }
}
