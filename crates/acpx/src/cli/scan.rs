//! Finds the agent and the verb among the arguments, and moves the flags before the verb after it.
//!
//! The result is a line that clap can parse: the verb, the flags, the rest. Only words are interpreted here; flags are
//! left to clap. In a prompt without its verb a known flag is a flag wherever it stands before `--`, one that is
//! nearly a known flag is a mistake, and any other word that begins with a hyphen is text after the first word.

use super::flags;
use super::flags::Flag;
use super::near_verb::NearVerb;
use super::usage::{UsageError, nearest};
use super::{ConfiguredNames, KnownAgents};
use crate::agents;

/// Verbs that may follow an agent's name.
pub(super) const AGENT_VERBS: &[&str] = &[
    "prompt", "attach", "exec", "cancel", "set-mode", "set", "status", "sessions", "acp", "auth", "serve",
    "doctor", "usage",
];
/// Verbs without an agent.
pub(super) const ROOT_VERBS: &[&str] =
    &["pending", "approve", "deny", "host", "token", "tour", "demo-agent", "remote-agent", "help"];
/// Verbs without an agent that are text after an agent's name.
pub(super) const TOP_VERBS: &[&str] = &[
    "backup",
    "compare",
    "complete",
    "completions",
    "config",
    "flow",
    "index",
    "man",
    "mcp",
    "notify",
    "queue",
    "schema",
    "search",
    "trust",
    "verify",
    "web",
];
const SESSIONS_VERBS: &[&str] = &[
    "new", "ensure", "list", "show", "history", "read", "replay", "watch", "result", "wait", "close",
    "delete", "prune", "rename", "move", "reset", "restore", "export", "import", "migrate", "private",
    "help",
];
const HOST_VERBS: &[&str] = &["status", "stop", "restart", "log", "run", "help"];
const TOKEN_VERBS: &[&str] = &["new", "list", "revoke", "help"];
const QUEUE_VERBS: &[&str] = &["list", "drop", "help"];
const CONFIG_VERBS: &[&str] = &["show", "init", "help"];
const INDEX_VERBS: &[&str] = &["status", "rebuild", "update", "background", "help"];
const NOTIFY_VERBS: &[&str] = &["status", "test", "run", "help"];
const TRUST_VERBS: &[&str] = &["add", "list", "revoke", "help"];
const WEB_VERBS: &[&str] = &["open", "status", "stop", "run", "help"];

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScanResult {
    /// The version is requested.
    Version,
    /// Help is requested, without a verb.
    Help(HelpTopic),
    /// A line for clap, beginning with the program's name.
    Verb {
        /// The agent's name, if one was given.
        agent: Option<String>,
        /// The verb, the flags, the rest.
        typed: Vec<String>,
    },
    /// The first word after an agent's name may be a mistyped verb.
    NearVerb(NearVerb),
}

/// What help is about, without a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HelpTopic {
    /// An agent.
    Agent(String),
    /// acpx, for a person who wants everything, or for a pipe.
    Everything,
    /// acpx, in the form that suits the terminal or pipe.
    Overview {
        /// Whether a summary is enough for a pipe.
        is_summary: bool,
    },
}

/// Whether a word is a verb, including those reserved for npm acpx.
pub(crate) fn is_verb(word: &str) -> bool {
    [AGENT_VERBS, ROOT_VERBS, TOP_VERBS].iter().any(|verbs| verbs.contains(&word))
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
            ScanToken::Help { long } => return Ok(scan.help_topic(long, arguments)),
            ScanToken::End => return Ok(scan.prompt(Vec::new())),
            ScanToken::Text => {
                let words = scan.rest.to_vec();
                return Ok(scan.prompt(words));
            }
            ScanToken::Unknown(flag) => {
                check_flag(flag)?;
                return Ok(scan.verb(&["prompt"]));
            }
            ScanToken::Word(word) => match scan.word(&word, configured)? {
                WordMeaning::Agent(name) => {
                    scan.agent = Some(name);
                    scan.skip_word();
                }
                WordMeaning::Text => return Ok(scan.implicit_prompt(arguments)?),
                WordMeaning::Help => return Ok(scan.help(arguments)),
                WordMeaning::Verb => {
                    scan.skip_word();
                    if word == "help"
                        && let Some(result) = scan.about_help(arguments, configured)?
                    {
                        return Ok(result);
                    }
                    if word == "flow" && !scan.rest.first().is_some_and(|next| Flag::of(next) == Flag::Help) {
                        return Err(scan.flow().into());
                    }
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
enum ScanToken<'a> {
    Version,
    Help {
        long: bool,
    },
    End,
    /// After `--` everything is text.
    Text,
    Word(String),
    /// A flag that no session command has.
    Unknown(&'a str),
}

enum WordMeaning {
    Agent(String),
    Verb,
    /// Help after an agent's name.
    Help,
    Text,
}

impl<'a> Scan<'a> {
    fn step(&mut self) -> ScanToken<'a> {
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
                Flag::Unknown => return ScanToken::Unknown(next),
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
        if AGENT_VERBS.contains(&word) || self.agent.is_none() && TOP_VERBS.contains(&word) {
            return Ok(WordMeaning::Verb);
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
        let is_built_in = agents::is_built_in(word);
        let configured = if is_built_in { KnownAgents::default() } else { configured(&name)? };
        let known = is_built_in || configured.names.contains(&name);
        match (known, has_line) {
            (true, false) => Ok(WordMeaning::Agent(name)),
            (true, true) => Err(UsageError::TwoAgents { name }.into()),
            (false, true) => Ok(WordMeaning::Text),
            (false, false) => Err(self.unknown_word(word, configured).into()),
        }
    }

    fn unknown_word(&self, word: &str, configured: KnownAgents) -> UsageError {
        let KnownAgents { names, untrusted_file } = configured;
        if let Some(file) = untrusted_file {
            return UsageError::UntrustedAgent { word: word.to_owned(), file };
        }
        let verbs = AGENT_VERBS.iter().chain(ROOT_VERBS).chain(TOP_VERBS).copied();
        let built_in: Vec<&str> = verbs.chain(agents::built_in_names()).collect();
        let suggestion = nearest(word, built_in.into_iter().chain(names.iter().map(String::as_str)));
        UsageError::UnknownWord { words: self.words(), word: word.to_owned(), suggestion }
    }

    /// The next words, up to the first flag.
    fn words(&self) -> String {
        let words = self.rest.iter().map(String::as_str).take_while(|word| !word.starts_with('-'));
        words.collect::<Vec<_>>().join(" ")
    }

    /// The error for a flow, with the line that runs it in npm acpx.
    fn flow(&self) -> UsageError {
        let words = ["npx", "acpx@0.19"].into_iter().chain(self.leading.iter().map(String::as_str));
        let words = words.chain(["flow"]).chain(self.rest.iter().map(String::as_str));
        UsageError::FlowOfNpm { line: words.map(agents::quote).collect::<Vec<_>>().join(" ") }
    }

    /// Whether `help` is alone or before a verb. With other words it is a prompt.
    fn is_about_help(&self) -> bool {
        match self.rest {
            [_help] => true,
            [_help, verb] => is_verb(verb),
            _ => false,
        }
    }

    /// Help that is not about a verb.
    fn help_topic(self, long: bool, arguments: &[String]) -> ScanResult {
        let is_all = arguments.iter().any(|argument| argument == "--all");
        ScanResult::Help(match self.agent {
            Some(agent) => HelpTopic::Agent(agent),
            None if is_all => HelpTopic::Everything,
            None => HelpTopic::Overview { is_summary: !long },
        })
    }

    /// What follows the verb `help`, unless it is another verb, which clap explains.
    fn about_help<E: From<UsageError>>(
        &mut self,
        arguments: &[String],
        configured: ConfiguredNames<'_, E>,
    ) -> Result<Option<ScanResult>, E> {
        let name = match self.rest {
            [] => None,
            [flag] if flag.starts_with('-') => None,
            [word, ..] if is_verb(word) => return Ok(None),
            [word, ..] => match self.word(word, configured)? {
                WordMeaning::Agent(name) => Some(name),
                _ => return Ok(None),
            },
        };
        let topic = Scan { rest: &[], leading: Vec::new(), agent: name };
        Ok(Some(topic.help_topic(true, arguments)))
    }

    /// Help after an agent's name is about the agent, or about a verb.
    fn help(self, arguments: &[String]) -> ScanResult {
        if self.rest.len() == 1 {
            return self.help_topic(true, arguments);
        }
        let typed = ["acpx".to_owned()].into_iter().chain(self.rest.iter().cloned());
        ScanResult::Verb { agent: None, typed: typed.collect() }
    }

    /// Scans after a verb: some have subcommands.
    fn below(mut self, verb: &str) -> Result<ScanResult, UsageError> {
        let verbs = match verb {
            // Help is about a verb and has no use for flags.
            "help" => {
                self.leading.clear();
                return Ok(self.verb(&[verb]));
            }
            _ => verbs_below(verb),
        };
        if verbs.is_empty() {
            return Ok(self.verb(&[verb]));
        }
        match self.step() {
            ScanToken::Version => Ok(ScanResult::Version),
            ScanToken::Word(word) if verbs.contains(&word.as_str()) => {
                self.skip_word();
                Ok(self.verb(&[verb, &word]))
            }
            ScanToken::Word(word) if verb == "sessions" && word == "ls" => {
                self.skip_word();
                Ok(self.verb(&[verb, "list"]))
            }
            ScanToken::Word(word) => {
                let suggestion = nearest(&word, verbs.iter().copied());
                Err(UsageError::UnknownSubverb { verb: verb.to_owned(), word, suggestion })
            }
            ScanToken::Help { .. } => {
                self.leading.clear();
                Ok(self.verb(&[verb]))
            }
            ScanToken::End | ScanToken::Text | ScanToken::Unknown(_) => {
                let path = [verb].into_iter().chain(implied_verb(verb));
                Ok(self.verb(&path.collect::<Vec<_>>()))
            }
        }
    }

    fn verb(self, path: &[&str]) -> ScanResult {
        let name = "acpx".to_owned();
        let path = path.iter().map(|verb| (*verb).to_owned());
        let typed = [name].into_iter().chain(path).chain(self.leading).chain(self.rest.iter().cloned());
        ScanResult::Verb { agent: self.agent, typed: typed.collect() }
    }

    /// A prompt without its verb, from its first word on.
    fn implicit_prompt(mut self, arguments: &[String]) -> Result<ScanResult, UsageError> {
        let first = arguments.len() - self.rest.len();
        let mut words = Vec::new();
        loop {
            match self.step() {
                ScanToken::Version => return Ok(ScanResult::Version),
                ScanToken::Help { long } => return Ok(self.help_topic(long, arguments)),
                ScanToken::Word(word) => words.push(word),
                ScanToken::Unknown(word) => {
                    check_flag(word)?;
                    words.push(word.to_owned());
                }
                ScanToken::End => break,
                ScanToken::Text => {
                    words.extend_from_slice(self.rest);
                    break;
                }
            }
            self.skip_word();
        }
        Ok(match self.near_verb(&words) {
            Some(verb) => ScanResult::NearVerb(NearVerb::new(arguments, first, &verb)),
            None => self.prompt(words),
        })
    }

    /// The verb after an agent's name that the first word may be a typing error of: it is the only word, or a
    /// subcommand of the verb follows it.
    fn near_verb(&self, words: &[String]) -> Option<String> {
        let (first, rest) = words.split_first().filter(|_| self.agent.is_some())?;
        let verb = nearest(first, AGENT_VERBS.iter().copied())?;
        let is_meant = rest.first().is_none_or(|next| {
            verbs_below(&verb).contains(&next.as_str()) || verb == "sessions" && next == "ls"
        });
        (is_meant && !first.contains(char::is_whitespace)).then_some(verb)
    }

    /// The line for clap of a prompt with these words.
    fn prompt(self, words: Vec<String>) -> ScanResult {
        let verb = ["acpx", "prompt"].map(str::to_owned).into_iter();
        let words = ["--".to_owned()].into_iter().chain(words);
        ScanResult::Verb { agent: self.agent, typed: verb.chain(self.leading).chain(words).collect() }
    }
}

/// The subcommands of a verb.
pub(super) fn verbs_below(verb: &str) -> &'static [&'static str] {
    match verb {
        "sessions" => SESSIONS_VERBS,
        "host" => HOST_VERBS,
        "token" => TOKEN_VERBS,
        "queue" => QUEUE_VERBS,
        "config" => CONFIG_VERBS,
        "trust" => TRUST_VERBS,
        "index" => INDEX_VERBS,
        "notify" => NOTIFY_VERBS,
        "web" => WEB_VERBS,
        _ => &[],
    }
}

/// The subcommand that a verb alone means.
pub(super) fn implied_verb(verb: &str) -> Option<&'static str> {
    match verb {
        "sessions" | "queue" => Some("list"),
        "config" => Some("show"),
        "index" | "notify" => Some("status"),
        "trust" => Some("add"),
        "web" => Some("open"),
        _ => None,
    }
}

/// Refuses a flag that is nearly a known one.
fn check_flag(argument: &str) -> Result<(), UsageError> {
    match flags::nearest_flag(argument) {
        Some(suggestion) => Err(UsageError::UnknownFlag { flag: argument.to_owned(), suggestion }),
        None => Ok(()),
    }
}
