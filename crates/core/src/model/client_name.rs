//! The name that a client reports for itself. It is only displayed; no decision depends on it.

use serde::{Deserialize, Serialize};

/// A client's own name and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientName {
    /// The program.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}
