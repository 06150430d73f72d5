//! The format that a command line requests, even an invalid one: a program that reads JSON gets its usage error as JSON.

use super::flags::Flag;
use super::options::Format;
use super::scan::is_verb;

/// The requested output, as far as it can be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestedFormat {
    /// The last valid format.
    pub(crate) format: Option<Format>,
    /// Whether `--json-strict` is set.
    pub(crate) strict: bool,
}

/// Reads the format from the arguments after the program's name. It never fails. In an invalid line a flag counts at any
/// position; otherwise a flag after the first word of a prompt is text.
pub(crate) fn requested_format(arguments: &[String], is_usage_error: bool) -> RequestedFormat {
    let mut wish = RequestedFormat::default();
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

/// The position among the words. After the first word of a prompt a flag is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordPosition {
    None,
    /// A word that is no verb: an agent, or a mistake.
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
