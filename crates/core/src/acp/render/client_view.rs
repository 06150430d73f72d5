//! What one client can be told, as it said when it came.

use crate::model::{ClientName, ProtocolVersion};

/// What a client understands. One that says nothing understands the first version without what must be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientView {
    /// The version its connection speaks.
    pub protocol: ProtocolVersion,
    /// Who it is, if it said so.
    pub name: Option<ClientName>,
    /// Whether it takes notices.
    pub notices: bool,
    /// Whether it takes what agents say about the compaction of their memory.
    pub compaction: bool,
    /// Whether it takes options that are true or false.
    pub boolean_options: bool,
}
