//! What one version asks and the other has no words for.

use std::sync::Arc;

/// Why a request cannot be said in the other version. Whoever asked is answered that the parameter is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslationError {
    /// The params are no object, or a member that matters is of another shape.
    #[error("the parameter {field} is not of the shape that the protocol gives it")]
    Shape {
        /// Where in the params.
        field: Arc<str>,
    },
    /// An MCP server that the agent's version has no transport for.
    #[error("the MCP server {server} has the transport {transport}, which the agent's version does not have")]
    Server {
        /// Its name.
        server: Arc<str>,
        /// How it is reached.
        transport: Arc<str>,
    },
    /// A block of a prompt that the agent's version does not know.
    #[error("the content {kind} at prompt[{index}] is not known to the agent's version")]
    Block {
        /// Which block.
        index: usize,
        /// Its type.
        kind: Arc<str>,
    },
    /// A replay from somewhere that the agent's version cannot begin at.
    #[error("the agent's version cannot replay from the cursor {cursor}")]
    Cursor {
        /// The cursor, JSON as received.
        cursor: Arc<str>,
    },
    /// A value of an option that the agent's version has no type for.
    #[error(
        "the option {option} is set to a value of the type {kind}, which the agent's version does not have"
    )]
    OptionValue {
        /// The option's id.
        option: Arc<str>,
        /// The value's type.
        kind: Arc<str>,
    },
    /// The session has no modes.
    #[error("the session has no modes")]
    NoModes,
    /// The method is in one version only.
    #[error("the agent's version has no {method}")]
    Method {
        /// The method.
        method: Arc<str>,
    },
}

impl TranslationError {
    pub(super) fn shape(field: &str) -> Self {
        Self::Shape { field: field.into() }
    }

    /// The parameter it is about, for an answer that names it; `None` if it is about the method.
    pub fn field(&self) -> Option<String> {
        match self {
            Self::Shape { field } => Some(field.to_string()),
            Self::Server { .. } => Some("mcpServers".to_owned()),
            Self::Block { index, .. } => Some(format!("prompt[{index}]")),
            Self::Cursor { .. } => Some("replayFrom".to_owned()),
            Self::OptionValue { .. } => Some("type".to_owned()),
            Self::NoModes => Some("modeId".to_owned()),
            Self::Method { .. } => None,
        }
    }
}
