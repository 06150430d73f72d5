//! How an agent is started, as stored: its name, and its command line or URL. Never its environment.

use std::borrow::Cow;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use super::{AgentKey, AgentProfile, ProtocolVersion};

/// The agent program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSpec {
    /// Its configured name, if any.
    pub name: Option<String>,
    /// The program to run, or the URL to connect to.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// How long it may take to answer `initialize` and any later setup request, if configured.
    pub start_timeout: Option<Duration>,
    /// The newest protocol version to request. An agent that speaks only an older one is used with that.
    pub protocol: ProtocolVersion,
    /// The user's profile for it, which overrides the built-in one. It is not stored with a record.
    pub profile: Option<Arc<AgentProfile>>,
}

/// The key under which an answer is cached: the same command line with other files is another build.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentBuild {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// A text of the program file's path, size and time, those of the script it runs, and the requested protocol
    /// version.
    pub program: String,
}

/// An agent's cached answer to `initialize`, with the files it came from and the day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAnswer {
    /// The files, as in [`AgentBuild::program`], and the day.
    pub program: String,
    /// The answer, in the agent's bytes.
    pub answer: String,
}

/// The longest command line, in characters, that a label shows uncut.
const LABEL_CHARS: usize = 80;

#[expect(clippy::struct_excessive_bools, reason = "one flag for each capability of the protocol")]
/// The capabilities that decide how a session is restored and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advertised {
    /// `session/load`.
    pub load: bool,
    /// `session/resume` with a replay.
    pub replay: bool,
    /// `session/resume`.
    pub resume: bool,
    /// `session/list`.
    pub list: bool,
    /// `session/close`.
    pub close: bool,
    /// `session/delete`.
    pub delete: bool,
}

impl Advertised {
    /// Whether the agent can restore a session at all.
    pub fn restores(self) -> bool {
        self.load || self.resume || self.replay
    }
}

impl AgentSpec {
    /// The default start timeout: long enough for a first `npx` to download its package.
    pub(crate) const DEFAULT_START_TIMEOUT: Duration = Duration::from_mins(2);

    /// An agent started as `program args…`, with the default timeout.
    pub fn new<A: Into<String>>(program: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            name: None,
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            start_timeout: None,
            protocol: ProtocolVersion::default(),
            profile: None,
        }
    }

    /// The same agent under a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same agent with another start timeout.
    #[must_use]
    pub fn with_start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = Some(limit);
        self
    }

    /// The same agent with this requested protocol version.
    #[must_use]
    pub fn with_protocol(mut self, version: ProtocolVersion) -> Self {
        self.protocol = version;
        self
    }

    /// The same agent with a profile of its user.
    #[must_use]
    pub fn with_profile(mut self, profile: Option<Arc<AgentProfile>>) -> Self {
        self.profile = profile;
        self
    }

    /// The program and its arguments.
    pub fn command(&self) -> Vec<String> {
        iter::once(&self.program).chain(&self.args).cloned().collect()
    }

    /// Its key among agents: its name if it has one, else its whole command line as a JSON array.
    pub fn key(&self) -> AgentKey {
        AgentKey::new(
            self.name.clone().unwrap_or_else(|| serde_json::Value::from(self.command()).to_string()),
        )
    }

    /// Whether it is the same agent with the same sessions. An agent with a name and one without are the same if
    /// their command lines are equal. Two with different names differ, because each may have its own environment.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let has_line = self.name.is_none() || other.name.is_none();
        self.key() == other.key() || has_line && (&self.program, &self.args) == (&other.program, &other.args)
    }

    /// Its URL, if it runs on another machine. The arguments are then for the program that connects to it.
    pub fn url(&self) -> Option<&str> {
        let (scheme, _) = self.program.split_once("://")?;
        let is_known = ["ws", "wss", "http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        is_known.then_some(self.program.as_str())
    }

    /// How long it may take to answer a setup request: as configured, else as its profile says, else the default.
    pub(crate) fn effective_start_timeout(&self, profile: &AgentProfile) -> Duration {
        self.start_timeout.or(profile.start_timeout).unwrap_or(Self::DEFAULT_START_TIMEOUT)
    }

    /// Its label in messages: its name, or else its command line. A long command line is cut in the middle, so that
    /// two agents of one program stay distinguishable.
    pub fn label(&self) -> Cow<'_, str> {
        if let Some(name) = &self.name {
            return name.into();
        }
        if self.args.is_empty() || self.url().is_some() {
            return self.program.as_str().into();
        }
        let line = self.command().join(" ");
        let count = line.chars().count();
        if count <= LABEL_CHARS {
            return line.into();
        }
        let half = LABEL_CHARS / 2;
        let beginning = line.chars().take(half).collect::<String>();
        let end = line.chars().skip(count - half).collect::<String>();
        format!("{beginning}…{end}").into()
    }
}

/// An option of a permission request.
pub trait OfferedAnswer {
    /// Its id.
    fn id(&self) -> &str;
    /// Its kind, if the agent sent one.
    fn kind(&self) -> Option<&str>;
}

/// The options with a unique id.
pub fn unmistakable<T: OfferedAnswer>(answers: &[T]) -> impl Iterator<Item = &T> {
    answers.iter().filter(|one| answers.iter().filter(|other| other.id() == one.id()).count() == 1)
}

/// The narrowest option whose kind begins with this word, `allow` or `reject`: once before always, always before an
/// unknown suffix. Other kinds are ignored, because their meaning is unknown.
pub fn narrowest<'a, T: OfferedAnswer>(answers: &'a [T], word: &str) -> Option<&'a T> {
    let rank = |answer: &&T| match answer.kind()?.strip_prefix(word)? {
        "_once" => Some(0),
        "_always" => Some(1),
        _ => Some(2),
    };
    let ranked = unmistakable(answers).filter_map(|answer| Some((rank(&answer)?, answer)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, answer)| answer)
}

impl OfferedAnswer for (String, String) {
    fn id(&self) -> &str {
        &self.0
    }

    fn kind(&self) -> Option<&str> {
        Some(&self.1)
    }
}

#[cfg(test)]
mod answers_tests {
    use super::*;

    #[test]
    fn yes_and_no_select_the_narrowest_unambiguous_option() {
        let all = [
            ("x", "perhaps"),
            ("w", "allow_all_week"),
            ("A", "allow_always"),
            ("a", "allow_once"),
            ("a", "reject_once"),
            ("R", "reject_always"),
        ]
        .map(|(id, kind)| (id.to_owned(), kind.to_owned()));
        let chosen =
            |answers: &[(String, String)], word: &str| narrowest(answers, word).map(|one| one.0.clone());
        let cases = [
            (&all[..], "allow", Some("A")),
            (&all[..], "reject", Some("R")),
            (&all[..4], "allow", Some("a")),
            (&all[..2], "allow", Some("w")),
            (&all[..1], "allow", None),
            (&all[3..5], "allow", None),
            (&all[3..5], "reject", None),
            (&all[..0], "allow", None),
        ];
        for (answers, word, expected) in cases {
            assert_eq!(chosen(answers, word).as_deref(), expected, "{answers:?} {word}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_label_is_its_name_or_its_command_line() {
        let python = |file: &str| AgentSpec::new("python3", [file]);
        assert_eq!(python("opt.py").label(), "python3 opt.py");
        assert_eq!(python("opt.py").named("mine").label(), "mine");
        assert_eq!(AgentSpec::new("wss://host/acp", ["--token-file", "/t"]).label(), "wss://host/acp");
        let (one, two) =
            (python(&format!("/{}/1.py", "é".repeat(99))), python(&format!("/{}/2.py", "é".repeat(99))));
        assert_eq!(one.label(), format!("python3 /{}…{}/1.py", "é".repeat(31), "é".repeat(35)));
        assert_ne!(one.label(), two.label());
    }

    #[test]
    fn agents_are_equal_by_name_or_by_command_line() {
        let agent = |program: &str| AgentSpec::new(program, ["acp"]);
        let cases = [
            (agent("a"), agent("a"), true),
            (agent("a").named("mine"), agent("a"), true),
            (agent("a").named("mine"), agent("a").named("yours"), false),
            // A named agent may change its command.
            (agent("a").named("mine"), agent("b").named("mine"), true),
            (agent("a"), agent("b"), false),
            (agent("a").named("mine"), agent("b"), false),
            (agent("a"), AgentSpec::new("a", ["acp", "--other"]), false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(
                (one.is_same_as(&other), other.is_same_as(&one)),
                (expected, expected),
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn explicit_start_timeout_overrides_the_profile_even_at_the_default() {
        let seconds = Duration::from_secs;
        let slow = AgentProfile { start_timeout: Some(seconds(300)), ..AgentProfile::default() };
        let agent = || AgentSpec::new("a", [""; 0]);
        assert_eq!(agent().effective_start_timeout(&AgentProfile::default()), seconds(120));
        assert_eq!(agent().effective_start_timeout(&slow), seconds(300));
        for said in [7, 120, 400].map(seconds) {
            assert_eq!(agent().with_start_timeout(said).effective_start_timeout(&slow), said);
        }
    }

    #[test]
    fn remote_agent_is_recognised_by_its_url_scheme() {
        let cases = [
            ("wss://host/acp", true),
            ("WS://host", true),
            ("http://host", true),
            ("https://host", true),
            ("file:///bin/agent", false),
            ("/opt/ws://agent", false),
            ("claude", false),
        ];
        for (program, expected) in cases {
            let agent = AgentSpec::new(program, ["--insecure"]);
            assert_eq!(agent.url(), expected.then_some(program));
        }
    }
}
