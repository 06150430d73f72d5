//! Reads and writes an agent's command line.

use acpx_core::model::{UnterminatedQuote, split_command_line};

/// Why a line is not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandLineProblem {
    /// A quote is never closed.
    #[error("has an unterminated quote")]
    UnterminatedQuote,
    /// It is empty.
    #[error("is empty")]
    Empty,
}

/// Splits a line into a program and its arguments.
pub(crate) fn split_line(line: &str) -> Result<Vec<String>, CommandLineProblem> {
    let words =
        split_command_line(line).map_err(|UnterminatedQuote| CommandLineProblem::UnterminatedQuote)?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(CommandLineProblem::Empty),
    }
}

/// Quotes a word so that [`split_line`] and a shell read it as one word.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_@%+=:,./^~-".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
