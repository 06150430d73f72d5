//! Translates between versions 1 and 2 of the protocol, and is the only place that knows how they differ. It is used
//! only if client and agent use different versions; otherwise lines are spliced and never parsed here.
//!
//! Input and output are JSON texts. Parts that a translation does not handle keep their bytes: unknown members,
//! `_meta` and unknown kinds pass through if the other version can carry them. A table in `docs/reference/protocol.md` lists
//! what one version cannot express and how it is translated; the tests run it row by row.
//!
//! No input makes a translator panic, and its memory per session is bounded. Every update it returns is valid in the
//! target version, regardless of the input.

mod blocks;
mod calls;
mod error;
mod initialize;
mod options;
mod patch;
mod permission;
mod plans;
mod recent;
mod requests;
mod sanitize;
mod sent_text;
mod servers;
mod terminals;
mod to_v1;
mod to_v2;
mod tool_content;
mod turn;

#[cfg(test)]
mod tests;

pub(super) use blocks::to_v1 as block_to_v1;
pub(crate) use error::TranslationError;
pub(crate) use initialize::{initialize_answer_to_v1, initialize_answer_to_v2};
pub(crate) use options::MODE_OPTION;
pub(crate) use permission::{
    elicitation_answer_to_v1, elicitation_to_v2, permission_answer, permission_to_v1, permission_to_v2,
};
pub use recent::RecentMap;
pub(crate) use requests::{TranslatedCall, request_to_v1, request_to_v2};
pub(crate) use servers::server_between;
pub(crate) use terminals::terminal_update;
pub use to_v1::UpdatesToV1;
pub(crate) use to_v2::UpdatesToV2;
pub(crate) use turn::{idle_update, requires_action_update, running_update, stop_reason_to_v1};
