//! From what a command means to a turn: finds the session, connects to its host, sends the prompt, handles interrupts.

pub(crate) mod agent_child;
pub(crate) mod denial;
pub(crate) mod host_locator;
pub(crate) mod host_session;
pub(crate) mod id_prefix;
pub(crate) mod interrupt;
pub(crate) mod lookup;
pub(crate) mod native;
pub(crate) mod own_engine;
pub(crate) mod private;
pub(crate) mod project_scope;
pub(crate) mod prompt_request;
pub(crate) mod recall_server;
pub(crate) mod recorded_turn;
pub(crate) mod restore_cause;
pub(crate) mod search_index;
pub(crate) mod settings;
pub(crate) mod setup_request;
pub(crate) mod shown_session;
pub(crate) mod states;
pub(crate) mod takeover;
