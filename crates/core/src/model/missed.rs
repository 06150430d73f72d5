//! What an agent did not do within its start timeout, as text, and the hint for each: more time helps only in some
//! cases.

use super::Timestamp;

/// What an agent did not do in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissedDeadline {
    /// Answer `initialize`.
    #[error("did not answer initialize")]
    Initialize,
    /// Answer another setup request.
    #[error("did not answer {0}")]
    Answer(Box<str>),
    /// Load the session, which it is known to refuse before this time.
    #[error("cannot load the session before {0}, and was to be ready")]
    LoadTime(Timestamp),
    /// Exit, so that it can be started again.
    #[error("had to end before it is started again, and did not")]
    End,
    /// Anything else.
    #[error("was not ready")]
    Ready,
}

impl MissedDeadline {
    /// What the user can do about it, if known.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Initialize => Some(
                "a first start may download a package; give the agent more time, with --timeout or startTimeoutSeconds in its profile",
            ),
            Self::LoadTime(_) => Some("try again then, or wait for longer with --timeout"),
            Self::End => Some("try again: its remaining processes are being ended"),
            Self::Answer(_) | Self::Ready => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::AgentError;
    use super::*;

    #[test]
    fn a_missed_start_deadline_has_a_message_and_a_hint() {
        let said = |missed| {
            let limit = Duration::from_secs(2);
            let error = AgentError::SlowStart { agent: "a".into(), missed, limit, said: Vec::new() };
            (error.to_string(), error.hint().unwrap())
        };
        let time = "give the agent more time, with --timeout or startTimeoutSeconds in its profile";
        let download = &*format!("a first start may download a package; {time}");
        let at = Timestamp::from_millis(60_000).unwrap();
        let rows = [
            (MissedDeadline::Initialize, "did not answer initialize within 2 s", download),
            (MissedDeadline::Answer("session/load".into()), "did not answer session/load within 2 s", time),
            (
                MissedDeadline::LoadTime(at),
                "cannot load the session before 1970-01-01T00:01:00.000Z, and was to be ready within 2 s",
                "try again then, or wait for longer with --timeout",
            ),
            (
                MissedDeadline::End,
                "had to end before it is started again, and did not within 2 s",
                "try again: its remaining processes are being ended",
            ),
            (MissedDeadline::Ready, "was not ready within 2 s", time),
        ];
        for (missed, words, hint) in rows {
            assert_eq!(said(missed), (format!("the agent \"a\" {words}"), hint));
        }
    }
}
