//! Renders stored events as lines for a client: live updates and replays.
//!
//! All of it is pure: events go in, lines come out. If client and agent use the same version, the agent's bytes are
//! forwarded; only the session id is replaced, and ids get the lineage row added in a later ACP session of the record. A
//! client does not receive update kinds that it did not ask for.

mod chunk_run;
mod echo;
mod entities;
mod line;
mod live;
mod notice;
mod outgoing;
mod output_limit;
mod replay;
mod replay_index;
mod state;
mod terminals;
mod tool;

pub(crate) use entities::client_id_json;
pub(crate) use live::{CONTENT_EVERY, RecordRenderer, without_booleans};
pub(crate) use outgoing::SessionIds;
pub(crate) use replay::{Bounds, ReplayRenderer};
pub(crate) use replay_index::{ClientState, ReplayIndex};
pub(crate) use state::{SessionState, turn_state};

#[cfg(test)]
mod tests;
