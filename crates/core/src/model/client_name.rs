//! Who a client says it is. It is for people to read; nothing is decided by it.

use serde::{Deserialize, Serialize};

/// A client as it named itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientName {
    /// The program.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}
