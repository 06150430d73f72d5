//! Files and terminals that an agent uses through acpx.

pub(super) mod dispatch;
pub(super) mod run;
pub(super) mod terminal_output;
