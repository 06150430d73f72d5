//! Splits a command line into words as a shell does, without expansion.

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

/// Splits a line at spaces. Single quotes keep everything, double quotes everything but a backslash before
/// `"` or `\`, and outside quotes a backslash keeps the next character.
pub(crate) fn split_line(line: &str) -> Result<Vec<String>, CommandLineProblem> {
    let mut words = Vec::new();
    // `None` between words; an empty pair of quotes is a word.
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            character if character.is_whitespace() => words.extend(word.take()),
            '\'' => quoted(&mut characters, '\'', word.get_or_insert_default())?,
            '"' => quoted(&mut characters, '"', word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(characters.next().unwrap_or('\\')),
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(CommandLineProblem::Empty),
    }
}

fn quoted(
    characters: &mut std::str::Chars<'_>,
    quote: char,
    word: &mut String,
) -> Result<(), CommandLineProblem> {
    while let Some(character) = characters.next() {
        match character {
            character if character == quote => return Ok(()),
            '\\' if quote == '"' => match characters.next() {
                Some(escaped @ ('"' | '\\')) => word.push(escaped),
                Some(other) => word.extend(['\\', other]),
                None => return Err(CommandLineProblem::UnterminatedQuote),
            },
            character => word.push(character),
        }
    }
    Err(CommandLineProblem::UnterminatedQuote)
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
