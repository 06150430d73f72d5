//! Finds the agent and the verb among the arguments, and moves the flags before the verb after it.
//!
//! The result is a line that clap can parse: the verb, the flags, the rest. Only words are interpreted here; flags are
//! left to clap.

use super::ConfiguredNames;
use super::flags::Flag;
use super::usage;
use super::usage::{UsageError, nearest};
use crate::agents;

/// Verbs that may follow an agent's name.
const AGENT_VERBS: [&str; 11] =
    ["prompt", "exec", "cancel", "set-mode", "set", "status", "sessions", "acp", "auth", "serve", "doctor"];
/// Verbs without an agent.
const ROOT_VERBS: [&str; 9] =
    ["pending", "approve", "deny", "host", "token", "tour", "demo-agent", "remote-agent", "help"];
const SESSIONS_VERBS: [&str; 14] = [
    "new", "ensure", "list", "show", "history", "replay", "watch", "close", "delete", "move", "reset",
    "restore", "migrate", "help",
];
const HOST_VERBS: [&str; 5] = ["status", "stop", "restart", "run", "help"];
const TOKEN_VERBS: [&str; 4] = ["new", "list", "revoke", "help"];

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScanResult {
    /// The version is requested.
    Version,
    /// Help is requested, without a verb.
    Help {
        /// The long form.
        long: bool,
    },
    /// A line for clap, beginning with the program's name.
    Verb {
        /// The agent's name, if one was given.
        agent: Option<String>,
        /// The verb, the flags, the rest.
        typed: Vec<String>,
    },
}

/// Whether a word is a verb, including those reserved for npm acpx.
pub(crate) fn is_verb(word: &str) -> bool {
    AGENT_VERBS.contains(&word) || ROOT_VERBS.contains(&word) || usage::is_verb(word)
}

/// Scans the arguments after the program's name.
pub(super) fn scan<E: From<UsageError>>(
    arguments: &[String],
    configured: ConfiguredNames<'_, E>,
) -> Result<ScanResult, E> {
    let mut scan = Scan { rest: arguments, leading: Vec::new(), agent: None };
    loop {
        match scan.step() {
            ScanToken::Version => return Ok(ScanResult::Version),
            ScanToken::Help { long } => return Ok(ScanResult::Help { long }),
            ScanToken::End | ScanToken::Text => return Ok(scan.implicit_prompt()),
            ScanToken::Unknown => return Ok(scan.verb(&["prompt"])),
            ScanToken::Word(word) => match scan.word(&word, configured)? {
                WordMeaning::Agent(name) => {
                    scan.agent = Some(name);
                    scan.skip_word();
                }
                WordMeaning::Text => return Ok(scan.implicit_prompt()),
                WordMeaning::Help => return Ok(scan.help()),
                WordMeaning::Verb => {
                    scan.skip_word();
                    return Ok(scan.below(&word)?);
                }
            },
        }
    }
}

struct Scan<'a> {
    rest: &'a [String],
    /// The flags so far, with their values.
    leading: Vec<String>,
    agent: Option<String>,
}

/// The next token after the known flags.
enum ScanToken {
    Version,
    Help {
        long: bool,
    },
    End,
    /// After `--` everything is text.
    Text,
    Word(String),
    /// A flag that no session command has.
    Unknown,
}

enum WordMeaning {
    Agent(String),
    Verb,
    /// Help after an agent's name.
    Help,
    Text,
}

impl Scan<'_> {
    fn step(&mut self) -> ScanToken {
        loop {
            let Some((next, after)) = self.rest.split_first() else { return ScanToken::End };
            if next == "--" {
                self.rest = after;
                return ScanToken::Text;
            }
            if !next.starts_with('-') || next == "-" {
                return ScanToken::Word(next.clone());
            }
            let taken = match Flag::of(next) {
                Flag::Version => return ScanToken::Version,
                Flag::Help => return ScanToken::Help { long: next == "--help" },
                Flag::Unknown => return ScanToken::Unknown,
                Flag::Whole => 1,
                Flag::TakesNext => self.rest.len().min(2),
            };
            let (flag, after) = self.rest.split_at(taken);
            self.leading.extend_from_slice(flag);
            self.rest = after;
        }
    }

    fn skip_word(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    /// What the next word is, at a place where an agent or a verb may stand.
    fn word<E: From<UsageError>>(
        &self,
        word: &str,
        configured: ConfiguredNames<'_, E>,
    ) -> Result<WordMeaning, E> {
        let has_line = self.leading.iter().any(|flag| flag == "--agent" || flag.starts_with("--agent="));
        if AGENT_VERBS.contains(&word) {
            return Ok(WordMeaning::Verb);
        }
        if usage::is_verb(word) {
            return Err(self.not_here(word, self.words()).into());
        }
        match (&self.agent, ROOT_VERBS.contains(&word)) {
            (None, true) => return Ok(WordMeaning::Verb),
            (Some(_), true) if word == "help" => {
                return Ok(if self.is_about_help() { WordMeaning::Help } else { WordMeaning::Text });
            }
            (Some(name), true) => return Err(UsageError::NoAgentHere { name: name.clone() }.into()),
            (_, false) => {}
        }
        if self.agent.is_some() || word.trim().is_empty() || word.trim().contains(char::is_whitespace) {
            return Ok(WordMeaning::Text);
        }
        let name = agents::canonical(word);
        let configured = if agents::is_built_in(word) { Vec::new() } else { configured(&name)? };
        let known = agents::is_built_in(word) || configured.contains(&name);
        match (known, has_line) {
            (true, false) => Ok(WordMeaning::Agent(name)),
            (true, true) => Err(UsageError::TwoAgents { name }.into()),
            (false, true) => Ok(WordMeaning::Text),
            (false, false) => Err(self.unknown_word(word, &configured).into()),
        }
    }

    fn unknown_word(&self, word: &str, configured: &[String]) -> UsageError {
        let verbs = AGENT_VERBS.into_iter().chain(ROOT_VERBS);
        let built_in: Vec<&str> = verbs.chain(agents::built_in_names()).collect();
        let suggestion = nearest(word, built_in.into_iter().chain(configured.iter().map(String::as_str)));
        UsageError::UnknownWord { words: self.words(), word: word.to_owned(), suggestion }
    }

    /// The next words, up to the first flag.
    fn words(&self) -> String {
        let words = self.rest.iter().map(String::as_str).take_while(|word| !word.starts_with('-'));
        words.collect::<Vec<_>>().join(" ")
    }

    /// The error for a verb of npm acpx that acpx does not have, with how to send it as text.
    fn not_here(&self, verb: &str, words: String) -> UsageError {
        UsageError::VerbNotHere { verb: verb.to_owned(), agent: self.agent.clone(), words }
    }

    /// Whether `help` is alone or before a verb. With other words it is a prompt.
    fn is_about_help(&self) -> bool {
        match self.rest {
            [_help] => true,
            [_help, verb] => is_verb(verb),
            _ => false,
        }
    }

    /// Help after an agent's name is the same as without one.
    fn help(self) -> ScanResult {
        let typed = ["acpx".to_owned()].into_iter().chain(self.rest.iter().cloned());
        ScanResult::Verb { agent: None, typed: typed.collect() }
    }

    /// Scans after a verb: some have subcommands.
    fn below(mut self, verb: &str) -> Result<ScanResult, UsageError> {
        let verbs: &[&str] = match verb {
            "sessions" => &SESSIONS_VERBS,
            "host" => &HOST_VERBS,
            "token" => &TOKEN_VERBS,
            // Help is about a verb and has no use for flags.
            "help" => {
                self.leading.clear();
                return Ok(self.verb(&[verb]));
            }
            _ => return Ok(self.verb(&[verb])),
        };
        match self.step() {
            ScanToken::Version => Ok(ScanResult::Version),
            ScanToken::Word(word) if verbs.contains(&word.as_str()) => {
                self.skip_word();
                Ok(self.verb(&[verb, &word]))
            }
            ScanToken::Word(word) if verb == "sessions" && usage::is_sessions_verb(&word) => {
                let words = format!("sessions {}", self.words());
                Err(self.not_here(&format!("sessions {word}"), words))
            }
            ScanToken::Word(word) => {
                let suggestion = nearest(&word, verbs.iter().copied());
                Err(UsageError::UnknownSubverb { verb: verb.to_owned(), word, suggestion })
            }
            ScanToken::Help { .. } => {
                self.leading.clear();
                Ok(self.verb(&[verb]))
            }
            ScanToken::End | ScanToken::Text | ScanToken::Unknown if verb == "sessions" => {
                Ok(self.verb(&[verb, "list"]))
            }
            ScanToken::End | ScanToken::Text | ScanToken::Unknown => Ok(self.verb(&[verb])),
        }
    }

    fn verb(self, path: &[&str]) -> ScanResult {
        let name = "acpx".to_owned();
        let path = path.iter().map(|verb| (*verb).to_owned());
        let typed = [name].into_iter().chain(path).chain(self.leading).chain(self.rest.iter().cloned());
        ScanResult::Verb { agent: self.agent, typed: typed.collect() }
    }

    /// A prompt without its verb: the rest is text.
    fn implicit_prompt(self) -> ScanResult {
        let verb = ["acpx", "prompt"].map(str::to_owned).into_iter();
        let words = ["--".to_owned()].into_iter().chain(self.rest.iter().cloned());
        ScanResult::Verb { agent: self.agent, typed: verb.chain(self.leading).chain(words).collect() }
    }
}
