//! The terminal the program was started from, and questions to the person in front of it.

pub(crate) mod prompt;
pub(crate) mod tty;
