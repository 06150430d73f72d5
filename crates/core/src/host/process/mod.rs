//! The host's process: start, lock, accept loop, background tasks and clean-up.

pub(super) mod accept;
pub(super) mod background;
pub(super) mod import;
pub(super) mod listener;
pub(super) mod run;
pub(super) mod scope_locks;
pub(super) mod startup_cleanup;
pub(super) mod unprompted;
