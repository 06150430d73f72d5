//! Why a message could not be sent. What a peer sends wrongly is no error of ours: see the garbage report.

use std::io;
use std::sync::Arc;

use super::RpcId;

/// Why a message could not be sent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The connection was closed or aborted on our side, or for a request: the peer will answer no more.
    #[error("the connection is closed")]
    Closed,
    /// The peer no longer takes what we write.
    #[error("cannot write to the peer")]
    WriteFailed {
        /// What the operating system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The line is longer than the peer may be sent.
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
    /// The peer owes us more answers than we keep track of.
    #[error("{limit} requests are outstanding already")]
    TooManyOutstanding {
        /// The connection's limit.
        limit: usize,
    },
}
