//! The supported protocol versions. Every event has the version of its line, so that later readers parse it
//! correctly.

use serde::{Deserialize, Serialize};

/// A version of the protocol. In JSON it is its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum ProtocolVersion {
    /// The stable one.
    #[default]
    V1,
    /// The draft.
    V2,
}

impl ProtocolVersion {
    /// The version with this number; `None` if it is not supported.
    pub fn from_number(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Its number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

impl TryFrom<u16> for ProtocolVersion {
    type Error = String;

    fn try_from(number: u16) -> Result<Self, String> {
        let version = Self::from_number(number);
        version.ok_or_else(|| format!("{number} is no version of the protocol that is spoken here"))
    }
}

impl From<ProtocolVersion> for u16 {
    fn from(version: ProtocolVersion) -> Self {
        version.number()
    }
}
