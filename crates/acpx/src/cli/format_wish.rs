//! The format that a command line asks for, found even when the line means nothing: a program that reads JSON
//! is told of its mistake in JSON.

use super::flags::Flag;
use super::options::Format;
use super::scan::is_verb;

/// What the flags say of the output, as far as they can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FormatWish {
    /// The last format that is one.
    pub(crate) format: Option<Format>,
    /// Whether JSON alone was asked for.
    pub(crate) strict: bool,
}

/// Reads the wish from the arguments after the program's name. It never fails. In a line that means nothing a flag counts
/// wherever it stands; in another one a flag behind the first word of a prompt is text.
pub(crate) fn format_wish(arguments: &[String], is_usage_error: bool) -> FormatWish {
    let mut wish = FormatWish::default();
    let mut rest = arguments.iter();
    let mut words = WordPosition::None;
    while let Some(argument) = rest.next() {
        if argument == "--" || words == WordPosition::Text && !is_usage_error {
            break;
        }
        if !argument.starts_with('-') || argument == "-" {
            words = words.after(argument);
            continue;
        }
        let value = match Flag::of(argument) {
            Flag::TakesNext => rest.next().map(String::as_str),
            _ => argument.split_once('=').map(|(_, value)| value),
        };
        if argument == "--format" || argument.starts_with("--format=") {
            wish.format = value.and_then(Format::parse).or(wish.format);
        }
        wish.strict |= argument == "--json-strict";
    }
    wish
}

/// How far the words have come. Behind the first word of a prompt a flag is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordPosition {
    None,
    /// One that is no verb: an agent, or a mistake.
    Agent,
    Verb,
    Text,
}

impl WordPosition {
    fn after(self, word: &str) -> Self {
        match self {
            Self::Verb => Self::Verb,
            Self::None | Self::Agent if is_verb(word) => Self::Verb,
            Self::None => Self::Agent,
            Self::Agent | Self::Text => Self::Text,
        }
    }
}
