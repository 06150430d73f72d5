//! JSON-RPC 2.0 between two equal peers, one object per line, over any pair of byte streams.
//!
//! The layer is raw-first: a [`RpcMessage`] keeps its line and the byte ranges of its parts, so that a line can be
//! stored and forwarded byte for byte, and [`json`] changes only the named parts. It knows JSON-RPC and nothing of
//! ACP.
//!
//! Guarantees: all messages of a peer arrive through one ordered queue, so a response is never seen before the
//! notifications that preceded it. Every queue is bounded by count and by bytes, and a full one makes the sender wait.
//! Lines that are not messages are counted and not fatal, unless nothing else arrives; this layer never answers them. A
//! cancellation is never lost.

pub mod encode;
pub mod json;
pub mod splice;

mod clock;
mod connection;
mod error;
mod id;
mod limits;
mod lines;
mod message;
mod outbox;
mod reader;
mod rpc_error;
mod writer;

pub use clock::{new_uuid, since_1970};
pub(crate) use connection::WeakPeer;
pub use connection::{DisconnectReason, InboundMessage, InboundStream, Peer, connect, memory};
pub(crate) use error::WireError;
pub use id::RpcId;
pub use limits::WireLimits;
pub use lines::GarbageReport;
pub(crate) use message::UnreadableLine;
pub use message::{Body, Malformed, RpcMessage, RpcOutcome};
pub use rpc_error::RpcError;
