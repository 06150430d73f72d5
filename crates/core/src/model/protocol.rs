//! The supported protocol versions. Every event has the version of its line, so that later readers parse it
//! correctly.

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
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
