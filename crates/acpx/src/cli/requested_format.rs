//! What a command line requests before it is parsed, even an invalid one: the format, because a program that reads JSON
//! gets its usage error as JSON, and the directory, whose project decides which words are agents.

use std::path::PathBuf;

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
    for (flag, value) in flags(arguments) {
        match flag {
            "--format" => wish.format = value.and_then(Format::parse).or(wish.format),
            "--color" => wish.color = value.and_then(ColorMode::parse).unwrap_or(wish.color),
            "--json-strict" => wish.strict = true,
            // Only `compare` has this one; in a prompt it is text.
            "--json" if arguments.iter().any(|word| word == "compare") => wish.format = Some(Format::Json),
            _ => {}
        }
    }
    wish
}

/// The directory of the last `--cwd`.
pub(crate) fn requested_cwd(arguments: &[String]) -> Option<PathBuf> {
    flags(arguments).filter(|(flag, _)| *flag == "--cwd").last()?.1.map(PathBuf::from)
}

/// The flags before `--`, with their values.
fn flags(arguments: &[String]) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = arguments.iter().map(String::as_str).take_while(|argument| *argument != "--");
    std::iter::from_fn(move || {
        let argument = rest.by_ref().find(|argument| argument.starts_with('-'))?;
        Some(match (Flag::of(argument), argument.split_once('=')) {
            (Flag::TakesNext, _) => (argument, rest.next()),
            (_, Some((flag, value))) => (flag, Some(value)),
            _ => (argument, None),
        })
    })
}
