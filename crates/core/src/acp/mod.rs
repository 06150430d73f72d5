//! The Agent Client Protocol. The only code that names the types of the protocol's schema crate.
//!
//! Typed values are views of received bytes: an agent's messages are stored as received, and unknown members are
//! forwarded, never dropped. [`client`] calls agents, [`agent`] serves clients, and [`translate`] converts between the
//! protocol versions if the two sides differ.

pub(crate) mod acpx_peer;
pub mod agent;
pub mod client;
pub(crate) mod client_error;
pub(crate) mod config_options;
mod error_class;
mod forward;
pub mod translate;

mod capabilities;
mod children;
mod content;
mod cursor;
mod login;
pub(crate) mod render;
pub(crate) mod settings;

pub use capabilities::{AgentInfo, Capabilities, PromptContent};
pub(crate) use content::{MAX_MEMBER_BYTES, carried_block, carried_words};
pub(crate) use content::{StateUpdate, has_background, idle_meta, state_update, title_line};
pub use content::{
    ToolCallSnapshot, block_words, blocks_words, content, prompt_text, prompt_words, update, update_v2,
};
pub use cursor::Cursor;
pub use error_class::read as read_error;
pub use forward::{ExtraParams, session_of};
pub(crate) use forward::{pass_on_params, with_client_call_ids};
pub use login::login_methods;
