//! What may stand where the cursor is on a command line, for the completion of shells. It reads only the grammar; the
//! names of sessions, configured agents and models are left to the caller.

use std::path::PathBuf;

use clap::{Arg, Command};

use super::flags::Flag;
use super::scan::{AGENT_VERBS, ROOT_VERBS, TOP_VERBS, implied_verb, verbs_below};
use super::verbs::grammar;
use crate::agents;

/// A word that can be completed to, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    pub(crate) description: String,
}

/// What the word at the cursor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CompletionKind {
    /// One of these words.
    Words(Vec<Candidate>),
    /// The name of an agent.
    Agent,
    /// A session's name or id.
    Session,
    /// An option of the session.
    Option,
    /// A value of this option of the session; of its mode without one.
    Value(Option<String>),
    /// The name of a JSON object.
    Schema,
    /// A file or a directory.
    File,
}

/// A line up to the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CompletionRequest {
    /// What the word may be; nothing if it is text.
    pub(crate) kinds: Vec<CompletionKind>,
    /// What is typed of the word, after a flag and its `=`.
    pub(crate) typed: String,
    /// The flag with its `=`, which is part of the word.
    pub(crate) flag: String,
    /// The agent that the line names.
    pub(crate) agent: Option<String>,
    /// The session that it names.
    pub(crate) session: Option<String>,
    /// The directory of `--cwd`.
    pub(crate) cwd: Option<PathBuf>,
}

/// Reads the words after the program's name; the last one is the one at the cursor.
pub(crate) fn complete(words: &[String]) -> CompletionRequest {
    let Some((current, before)) = words.split_last() else { return CompletionRequest::default() };
    let mut line = LineBefore::default();
    for word in before {
        // After two hyphens everything is text.
        if word == "--" && line.flag.is_none() {
            return CompletionRequest::default();
        }
        line.read(word);
    }
    let (flag, typed) = match current.split_once('=') {
        Some((flag, value)) if line.flag.is_none() && flag.starts_with("--") => (Some(flag), value),
        _ => (None, current.as_str()),
    };
    let kinds = match flag.or(line.flag.as_deref()) {
        Some(flag) => line.values_of(flag),
        None if current.starts_with('-') => vec![CompletionKind::Words(line.flags())],
        None => line.words(),
    };
    let flag = flag.map(|flag| format!("{flag}=")).unwrap_or_default();
    let LineBefore { agent, session, cwd, .. } = line;
    CompletionRequest { kinds, typed: typed.to_owned(), flag, agent, session, cwd }
}

/// The words before the cursor, as far as they are read.
#[derive(Default)]
struct LineBefore {
    agent: Option<String>,
    verb: Option<String>,
    /// The command below the verb.
    below: Option<String>,
    arguments: Vec<String>,
    /// A flag whose value comes next.
    flag: Option<String>,
    session: Option<String>,
    cwd: Option<PathBuf>,
}

impl LineBefore {
    fn read(&mut self, word: &str) {
        if let Some(flag) = self.flag.take() {
            self.set(&flag, word);
        } else if word.starts_with('-') && word != "-" {
            match (Flag::of(word), word.split_once('=')) {
                (Flag::TakesNext, _) => self.flag = Some(word.to_owned()),
                (_, Some((flag, value))) => self.set(flag, value),
                _ => {}
            }
        } else if self.verb.is_none() {
            self.read_first(word);
        } else if self.below.is_none() && self.arguments.is_empty() && self.verbs_below().contains(&word) {
            self.below = Some(word.to_owned());
        } else {
            self.arguments.push(word.to_owned());
        }
    }

    fn set(&mut self, flag: &str, value: &str) {
        match flag {
            "-s" | "--session" => self.session = Some(value.to_owned()),
            "--cwd" => self.cwd = Some(PathBuf::from(value)),
            _ => {}
        }
    }

    /// A word at a place where an agent or a verb may stand; anything else begins a prompt.
    fn read_first(&mut self, word: &str) {
        if self.verbs().any(|verb| verb == word) {
            self.verb = Some(word.to_owned());
        } else if self.agent.is_none() && !word.contains(char::is_whitespace) {
            self.agent = Some(agents::canonical(word));
        } else {
            self.verb = Some("prompt".to_owned());
            self.arguments.push(word.to_owned());
        }
    }

    /// The verbs that may come next.
    fn verbs(&self) -> impl Iterator<Item = &'static str> + use<> {
        let root: &[&str] = if self.agent.is_none() { ROOT_VERBS } else { &[] };
        let top: &[&str] = if self.agent.is_none() { TOP_VERBS } else { &[] };
        AGENT_VERBS.iter().chain(root).chain(top).copied()
    }

    fn verbs_below(&self) -> &'static [&'static str] {
        self.verb.as_deref().map_or(&[], verbs_below)
    }

    /// The command that the flags belong to.
    fn command(&self) -> Option<Command> {
        let verb = self.verb.as_deref().unwrap_or("prompt");
        let below = self.below.as_deref().or_else(|| implied_verb(verb));
        let path: Vec<&str> = [verb].into_iter().chain(below).collect();
        path.iter().try_fold(grammar(&path), |command, verb| command.find_subcommand(verb).cloned())
    }

    fn flags(&self) -> Vec<Candidate> {
        let Some(command) = self.command() else { return Vec::new() };
        let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
        let candidate = |flag: &Arg| {
            let value = format!("--{}", flag.get_long()?);
            Some(Candidate { value, description: summary(flag.get_help()) })
        };
        shown.filter_map(candidate).chain([help_flag()]).collect()
    }

    /// The values of a flag.
    fn values_of(&self, flag: &str) -> Vec<CompletionKind> {
        let is_new = matches!(self.below.as_deref(), Some("new" | "ensure"));
        let fixed: &[&str] = match flag {
            "-s" | "--session" if !is_new => return vec![CompletionKind::Session],
            "--agent" if self.verb.as_deref() == Some("search") => return vec![CompletionKind::Agent],
            "--model" => return vec![CompletionKind::Value(Some("model".to_owned()))],
            "--non-interactive-permissions" => &["deny", "fail", "wait"],
            "--auth-policy" => &["skip", "fail"],
            "--protocol" => &["1", "2"],
            "--from" => &["start"],
            _ => &[],
        };
        if !fixed.is_empty() {
            return vec![words(fixed)];
        }
        let Some(command) = self.command() else { return Vec::new() };
        let is_meant = |argument: &&Arg| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            long.as_deref() == Some(flag) || short.as_deref() == Some(flag)
        };
        let Some(argument) = command.get_arguments().find(is_meant) else { return Vec::new() };
        let names = argument.get_value_names().unwrap_or_default();
        if names.iter().any(|name| name.contains("FILE") || name.contains("DIR")) {
            return vec![CompletionKind::File];
        }
        let possible = argument.get_possible_values();
        let candidate = |value: &clap::builder::PossibleValue| Candidate {
            value: value.get_name().to_owned(),
            description: summary(value.get_help()),
        };
        vec![CompletionKind::Words(possible.iter().map(candidate).collect())]
    }

    /// What a word that is no flag may be.
    fn words(&self) -> Vec<CompletionKind> {
        let Some(verb) = self.verb.as_deref() else {
            let verbs = CompletionKind::Words(described(&grammar(&[]), self.verbs()));
            return if self.agent.is_none() { vec![CompletionKind::Agent, verbs] } else { vec![verbs] };
        };
        let below = self.verbs_below();
        if !below.is_empty() && self.below.is_none() {
            let grammar = grammar(&[verb]);
            let command = grammar.find_subcommand(verb);
            return command
                .map(|command| described(command, below.iter().copied()))
                .map(CompletionKind::Words)
                .into_iter()
                .collect();
        }
        match (verb, self.below.as_deref().unwrap_or_default(), self.arguments.len()) {
            ("status" | "attach", _, 0)
            | ("queue", "list", 0)
            | ("sessions", "wait", _)
            | (
                "sessions",
                "show" | "history" | "replay" | "watch" | "result" | "close" | "delete" | "rename" | "move"
                | "reset" | "restore" | "read" | "export",
                0,
            ) => vec![CompletionKind::Session],
            ("doctor" | "auth", _, 0) if self.agent.is_none() => vec![CompletionKind::Agent],
            ("compare", ..) => vec![CompletionKind::Agent],
            ("help", _, 0) => {
                vec![CompletionKind::Words(described(&grammar(&[]), self.verbs())), CompletionKind::Agent]
            }
            ("set", _, 0) => vec![CompletionKind::Option],
            ("set", _, 1) => vec![CompletionKind::Value(self.arguments.first().cloned())],
            ("set-mode", _, 0) => vec![CompletionKind::Value(None)],
            ("completions", _, 0) => vec![words(&["bash", "zsh", "fish"])],
            ("schema", _, 0) => vec![CompletionKind::Schema],
            ("backup" | "verify" | "prompt" | "exec", ..) | ("sessions", "migrate" | "import", _) => {
                vec![CompletionKind::File]
            }
            _ => Vec::new(),
        }
    }
}

fn help_flag() -> Candidate {
    Candidate { value: "--help".to_owned(), description: "Print help".to_owned() }
}

fn words(values: &[&str]) -> CompletionKind {
    let candidate = |value: &&str| Candidate { value: (*value).to_owned(), description: String::new() };
    CompletionKind::Words(values.iter().map(candidate).collect())
}

/// The commands of these names below a command, with the first line of their help. Hidden ones are left out.
fn described(command: &Command, names: impl Iterator<Item = &'static str>) -> Vec<Candidate> {
    let candidate = |name: &'static str| {
        let about = command.find_subcommand(name).map(|verb| (verb.is_hide_set(), summary(verb.get_about())));
        match about {
            Some((true, _)) => None,
            about => {
                let description = about.map(|(_, about)| about).unwrap_or_default();
                Some(Candidate { value: name.to_owned(), description })
            }
        }
    };
    names.filter_map(candidate).collect()
}

/// The first line of a help text.
fn summary(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(line: &[&str]) -> CompletionRequest {
        complete(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    /// The kinds of the word at the cursor, with the first words only.
    fn kinds(line: &[&str]) -> Vec<String> {
        let shown = |kind: CompletionKind| match kind {
            CompletionKind::Words(words) => {
                let first: Vec<String> = words.into_iter().map(|word| word.value).take(3).collect();
                first.join(" ")
            }
            other => format!("{other:?}"),
        };
        request(line).kinds.into_iter().map(shown).collect()
    }

    #[test]
    fn word_at_the_cursor_is_completed_by_its_place_in_the_grammar() {
        let cases: &[(&[&str], &[&str])] = &[
            (&[""], &["Agent", "prompt attach exec"]),
            (&["claude", ""], &["prompt attach exec"]),
            (&["claude", "-s", ""], &["Session"]),
            (&["claude", "--session="], &["Session"]),
            (&["sessions", "new", "-s", ""], &[""]),
            (&["claude", "status", ""], &["Session"]),
            (&["claude", "sessions", ""], &["new ensure list"]),
            (&["sessions", "show", ""], &["Session"]),
            (&["sessions", "wait", "a", ""], &["Session"]),
            (&["--format", ""], &["text json quiet"]),
            (&["--format=j"], &["text json quiet"]),
            (&["claude", "--model", ""], &["Value(Some(\"model\"))"]),
            (&["claude", "set", ""], &["Option"]),
            (&["claude", "set", "model", ""], &["Value(Some(\"model\"))"]),
            (&["claude", "set-mode", ""], &["Value(None)"]),
            (&["doctor", ""], &["Agent"]),
            (&["compare", ""], &["Agent"]),
            (&["compare", "claude", ""], &["Agent"]),
            (&["help", ""], &["prompt attach exec", "Agent"]),
            (&["host", ""], &["status stop restart"]),
            (&["schema", ""], &["Schema"]),
            (&["search", "--agent", ""], &["Agent"]),
            (&["search", "roof", "--role", ""], &["user agent thought"]),
            (&["search", "--project", ""], &["File"]),
            (&["index", ""], &["status rebuild update"]),
            (&["notify", ""], &["status test help"]),
            (&["attach", "--from", ""], &["start"]),
            (&["completions", ""], &["bash zsh fish"]),
            (&["backup", ""], &["File"]),
            (&["claude", "-f", ""], &["File"]),
            (&["claude", "fix", "the", ""], &["File"]),
            (&["claude", "--", ""], &[]),
            (&["sessions", "prune", "--older-than", ""], &[""]),
            (&["sessions", "prune", "--old"], &["--older-than --before --larger-than"]),
        ];
        for (line, expected) in cases {
            assert_eq!(kinds(line), *expected, "{line:?}");
        }
    }

    #[test]
    fn line_before_the_cursor_names_agent_session_and_directory() {
        let read = request(&["--cwd", "/w", "factory-droid", "-s", "api", "set", "--format=js"]);
        let expected = CompletionRequest {
            typed: "js".to_owned(),
            flag: "--format=".to_owned(),
            agent: Some("droid".to_owned()),
            session: Some("api".to_owned()),
            cwd: Some("/w".into()),
            kinds: read.kinds.clone(),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn every_visible_verb_and_flag_has_a_description() {
        for line in [&[""][..], &["sessions", ""], &["prompt", "--"], &["sessions", "prune", "--"]] {
            for kind in request(line).kinds {
                let CompletionKind::Words(words) = kind else { continue };
                let undescribed = |word: &&Candidate| {
                    word.description.is_empty() && !["help", "demo-agent"].contains(&&*word.value)
                };
                assert_eq!(words.iter().find(undescribed), None, "{line:?}");
                assert!(!words.iter().any(|word| ["remote-agent", "complete"].contains(&&*word.value)));
            }
        }
    }

    proptest! {
        #[test]
        fn no_words_make_the_completion_panic(words in proptest::collection::vec("\\PC{0,12}", 0..6)) {
            drop(complete(&words));
        }
    }
}
