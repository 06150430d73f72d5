//! `acpx sessions …`: one file per subcommand.

pub(super) mod close;
pub(super) mod delete;
pub(super) mod ensure;
pub(super) mod history;
pub(super) mod list;
pub(super) mod migrate;
pub(super) mod new;
pub(super) mod relocate;
pub(super) mod remote;
pub(super) mod rename;
pub(super) mod replay;
pub(super) mod reset;
pub(super) mod restore;
pub(super) mod result;
pub(super) mod show;
pub(super) mod wait;
pub(super) mod watch;
