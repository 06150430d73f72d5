//! Styled text for a terminal: lines that fit a width, Markdown, and highlighted code.

mod highlight;
pub(crate) mod markdown;
pub(crate) mod wrap;
