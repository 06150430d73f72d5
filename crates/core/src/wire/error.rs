//! Errors of sending. Malformed input of a peer is not an error here; the garbage report counts it.

use std::io;
use std::sync::Arc;

use super::RpcId;

/// Why a message could not be sent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The connection was closed or aborted on our side, or, for a request, the peer's stream has ended.
    #[error("the connection is closed")]
    Closed,
    /// Writing to the peer failed.
    #[error("cannot write to the peer")]
    WriteFailed {
        /// The system error.
        #[source]
        source: Arc<io::Error>,
    },
    /// The line exceeds the limit.
    #[error("a message of {bytes} bytes is over the limit of {limit}")]
    TooLong {
        /// The line's length.
        bytes: usize,
        /// The connection's limit.
        limit: usize,
    },
    /// A request with this id is still unanswered.
    #[error("a request with the id {id} is outstanding already")]
    DuplicateId {
        /// The id.
        id: RpcId,
    },
    /// Too many requests of ours are unanswered.
    #[error("{limit} requests are outstanding already")]
    TooManyOutstanding {
        /// The connection's limit.
        limit: usize,
    },
}
