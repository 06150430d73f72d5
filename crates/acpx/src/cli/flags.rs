//! Which flags there are and which take a value, read from clap's own definition, so that there is one table.

use std::collections::HashMap;

use clap::Command;

/// Whether a flag takes a value from the next argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    /// It stands alone, or has its value attached.
    Whole,
    /// Its value is the next argument.
    TakesNext,
    /// It asks for help.
    Help,
    /// It asks for the version.
    Version,
    /// There is no such flag.
    Unknown,
}

/// The flags of all session commands together. A flag means the same wherever it is taken.
#[derive(Debug)]
pub(super) struct Flags {
    takes_value: HashMap<String, bool>,
}

/// Commands that take no flag but their own, behind their verb.
pub(super) const PROGRAMS: [&str; 3] = ["tour", "demo-agent", "remote-agent"];

impl Flags {
    pub(super) fn of(root: &Command) -> Self {
        let mut flags = Self { takes_value: HashMap::new() };
        for verb in root.get_subcommands().filter(|verb| !PROGRAMS.contains(&verb.get_name())) {
            flags.add(verb);
        }
        flags
    }

    fn add(&mut self, command: &Command) {
        for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
            let takes_value = argument.get_action().takes_values();
            let longs = argument.get_long_and_visible_aliases().unwrap_or_default();
            let hidden = argument.get_all_aliases().unwrap_or_default();
            let shorts = argument.get_short().map(|short| format!("-{short}"));
            let names = longs.into_iter().chain(hidden).map(|long| format!("--{long}")).chain(shorts);
            self.takes_value.extend(names.map(|name| (name, takes_value)));
        }
        for verb in command.get_subcommands() {
            self.add(verb);
        }
    }

    /// What an argument that begins with a hyphen is.
    pub(super) fn read(&self, argument: &str) -> Flag {
        let (name, attached) = split(argument);
        match name {
            "--help" | "-h" if !attached => Flag::Help,
            "--version" | "-V" if !attached => Flag::Version,
            name => match self.takes_value.get(name) {
                Some(true) if attached => Flag::Whole,
                Some(true) => Flag::TakesNext,
                Some(false) if !attached => Flag::Whole,
                Some(false) | None => Flag::Unknown,
            },
        }
    }
}

/// The flag's name with its hyphens, and whether a value is attached to it.
fn split(argument: &str) -> (&str, bool) {
    if argument.starts_with("--") {
        return argument.split_once('=').map_or((argument, false), |(name, _)| (name, true));
    }
    let end = argument.char_indices().nth(2).map_or(argument.len(), |(index, _)| index);
    (argument.get(..end).unwrap_or_default(), end < argument.len())
}
