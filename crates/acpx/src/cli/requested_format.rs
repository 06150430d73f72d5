//! The format that a command line requests, even an invalid one: a program that reads JSON gets its usage error as JSON.

use super::flags::Flag;
use super::options::{ColorMode, Format};

/// The requested output, as far as it can be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestedFormat {
    /// The last valid format.
    pub(crate) format: Option<Format>,
    /// Whether `--json-strict` is set.
    pub(crate) strict: bool,
    /// When to use colour.
    pub(crate) color: ColorMode,
}

/// Reads the format from the arguments after the program's name. It never fails. A flag counts at any position before
/// `--`.
pub(crate) fn requested_format(arguments: &[String]) -> RequestedFormat {
    let mut wish = RequestedFormat::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        let value = match Flag::of(argument) {
            Flag::TakesNext => rest.next().map(String::as_str),
            _ => argument.split_once('=').map(|(_, value)| value),
        };
        if argument == "--format" || argument.starts_with("--format=") {
            wish.format = value.and_then(Format::parse).or(wish.format);
        }
        if argument == "--color" || argument.starts_with("--color=") {
            wish.color = value.and_then(ColorMode::parse).unwrap_or(wish.color);
        }
        wish.strict |= argument == "--json-strict";
    }
    wish
}
