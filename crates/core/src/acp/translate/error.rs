//! Errors for requests that the other version cannot express.

use std::sync::Arc;

/// Why a request cannot be translated. The client receives an invalid-params error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TranslationError {
    /// The params are not an object, or a required member has the wrong shape.
    #[error("the parameter {field} is not of the shape that the protocol gives it")]
    Shape {
        /// Where in the params.
        field: Arc<str>,
    },
    /// An MCP server with a transport that the agent's version does not have.
    #[error("the MCP server {server} has the transport {transport}, which the agent's version does not have")]
    Server {
        /// The server's name.
        server: Arc<str>,
        /// The transport.
        transport: Arc<str>,
    },
    /// A prompt block that the agent's version does not know.
    #[error("the content {kind} at prompt[{index}] is not known to the agent's version")]
    Block {
        /// The index of the block.
        index: usize,
        /// Its type.
        kind: Arc<str>,
    },
    /// A replay cursor that the agent's version does not support.
    #[error("the agent's version cannot replay from the cursor {cursor}")]
    Cursor {
        /// The cursor, JSON as received.
        cursor: Arc<str>,
    },
    /// An option value of a type that the agent's version does not have.
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
    /// The agent's version does not have the method.
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

    /// The parameter at fault, for an error that names it; `None` if the method is at fault.
    pub(crate) fn field(&self) -> Option<String> {
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
