//! The interactive client: a conversation in the scrollback, and a live area with a composer below it.

pub(crate) mod app;
mod composer;
pub(crate) mod files;
mod menu;
pub(crate) mod pager;
mod request_menus;
pub(crate) mod screen;
mod settings;
mod tool_entry;
pub(crate) mod transcript;
