//! The terminal the program was started from, and questions to the person in front of it.

pub(crate) mod attach;
pub(crate) mod picker;
pub(crate) mod prompt;
pub(crate) mod raw_terminal;
pub(crate) mod render;
pub(crate) mod tty;
