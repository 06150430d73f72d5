//! Ids as types. Three strings are called "session id" in ACP; here no two of them convert into each other.
//!
//! [`RecordId`] is ours, [`AcpSessionId`] is the agent's id for the conversation on the wire, and
//! [`AgentSessionId`] is the harness's own id, often unknown and never invented.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string that cannot be the id it was read as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is empty")]
pub struct InvalidId {
    what: &'static str,
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Accepts any string except an empty one.
            pub fn new(text: impl Into<Box<str>>) -> Result<Self, InvalidId> {
                let text = text.into();
                if text.is_empty() { Err(InvalidId { what: $what }) } else { Ok(Self(text)) }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(source)?).map_err(D::Error::custom)
            }
        }
    };
}

string_id!(
    /// Our name for one conversation (`acpxRecordId`). It never changes.
    RecordId,
    "the record id"
);
string_id!(
    /// The agent's id for the conversation on the wire (`acpxSessionId`). If it changes, the lineage records it.
    AcpSessionId,
    "the ACP session id"
);
string_id!(
    /// A client's name for one of its prompts, unique within a record.
    RequestId,
    "the request id"
);
string_id!(
    /// The holder of leases: one running host.
    HostId,
    "the host id"
);

/// The harness's own id for the conversation (`agentSessionId`), taken from `_meta.agentSessionId` alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct AgentSessionId(Box<str>);

impl AgentSessionId {
    /// Reads the id that an agent sent; `None` for a blank string.
    pub fn from_agent(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for AgentSessionId {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let blank = || D::Error::custom("the agent session id is blank");
        Self::from_agent(&String::deserialize(source)?).ok_or_else(blank)
    }
}

impl fmt::Display for AgentSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The first of its kind in a record.
            pub const FIRST: Self = Self(1);

            /// The one after this.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// The number of an event within its record, from 1, without gaps.
    Seq
);
number_id!(
    /// The number of a turn within its record, from 1, in the order the prompts were accepted.
    TurnId
);
number_id!(
    /// The number of a lineage row within its record, from 1.
    LineageIndex
);

/// The raw JSON-RPC id of a request from the agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentRequestId(pub Box<str>);

/// Identifies a forwarded request within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ForwardId(pub u64);

impl ForwardId {
    /// The id of requests that no client sent: settings that are being restored.
    pub(crate) const OURS: Self = Self(u64::MAX);
}

/// The three ids of a session as clients receive them. The third is present only when known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionIdentity {
    /// Ours; it never changes.
    #[serde(rename = "acpxRecordId")]
    pub record: RecordId,
    /// The agent's on the wire; stable while the agent can restore the conversation.
    #[serde(rename = "acpxSessionId")]
    pub session: AcpSessionId,
    /// The harness's own, once the agent has sent it.
    #[serde(rename = "agentSessionId", default, skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<AgentSessionId>,
}

/// The id of a user message, made from the turn that its prompt began or joined. It is known as soon as the prompt is
/// accepted.
pub(crate) fn prompt_message_id(record: &RecordId, turn: TurnId) -> String {
    format!("{record}:turn:{turn}")
}

/// The id of a message that an agent sent without one, by its first event.
pub(crate) fn run_message_id(record: &RecordId, first: Seq) -> String {
    format!("{record}:{first}")
}

/// The meaning of an id of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnMessageId {
    /// The prompt of a turn.
    Prompt(TurnId),
    /// The message that begins with this event.
    Run(Seq),
}

impl OwnMessageId {
    /// Parses an id that we may have made for this record; `None` for any other.
    pub(crate) fn read(record: &RecordId, id: &str) -> Option<Self> {
        let rest = id.strip_prefix(record.as_str())?.strip_prefix(':')?;
        match rest.strip_prefix("turn:") {
            Some(turn) => Some(Self::Prompt(TurnId(turn.parse().ok()?))),
            None => Some(Self::Run(Seq(rest.parse().ok()?))),
        }
    }
}

#[cfg(test)]
mod message_id_tests {
    use super::*;

    #[test]
    fn own_message_ids_round_trip_and_foreign_ones_are_refused() {
        let record = RecordId::new("r").unwrap();
        let prompt = prompt_message_id(&record, TurnId(3));
        assert_eq!(OwnMessageId::read(&record, &prompt), Some(OwnMessageId::Prompt(TurnId(3))));
        let run = run_message_id(&record, Seq(8));
        assert_eq!(OwnMessageId::read(&record, &run), Some(OwnMessageId::Run(Seq(8))));
        for other in ["", "r", "r:", "r:x", "r:turn:", "q:8", "r8"] {
            assert_eq!(OwnMessageId::read(&record, other), None, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_has_no_null_placeholder() {
        let mut identity = SessionIdentity {
            record: RecordId::new("r").unwrap(),
            session: AcpSessionId::new("s").unwrap(),
            agent_session: None,
        };
        assert_eq!(serde_json::to_string(&identity).unwrap(), r#"{"acpxRecordId":"r","acpxSessionId":"s"}"#);
        identity.agent_session = AgentSessionId::from_agent(" inner ");
        assert_eq!(
            serde_json::to_string(&identity).unwrap(),
            r#"{"acpxRecordId":"r","acpxSessionId":"s","agentSessionId":"inner"}"#
        );
    }

    #[test]
    fn a_blank_inner_id_is_no_id() {
        assert_eq!([None, None], [AgentSessionId::from_agent(""), AgentSessionId::from_agent(" \t\n")]);
    }

    #[test]
    fn an_empty_id_is_refused_with_its_name() {
        assert_eq!(RecordId::new("").unwrap_err().to_string(), "the record id is empty");
    }
}
