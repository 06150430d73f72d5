//! From kept events to the lines a client sees: live as they come, and again when it asks for them.
//!
//! All of it is pure: events go in, lines come out. Between a client and an agent of one version a line is passed on
//! by its bytes, with the session id, and an id that an earlier ACP session of the record had used, replaced. A client
//! that did not ask for a kind of update is not told it.

mod bounded;
mod echo;
mod entities;
mod fields;
mod line;
mod live;
mod notice;
mod outgoing;
mod replay;
mod run;
mod session_ids;
mod state;
mod survey;
mod terminals;
mod tool;

pub(crate) use entities::KnownIds;
pub(crate) use live::{CONTENT_EVERY, RecordRenderer, without_booleans};
pub(crate) use replay::{Bounds, ReplayRenderer};
pub(crate) use session_ids::SessionIds;
pub(crate) use state::{SessionState, turn_state};
pub(crate) use survey::ReplayIndex;

#[cfg(test)]
mod tests;
