//! What can be wrong with a command line. Every mistake has a hint that says what to type instead.

use std::borrow::Cow;

use acpx_core::model::{InvalidSessionName, PolicyProblem};

use super::reserved;

/// A command line that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    /// A word that is neither a verb nor an agent.
    #[error("{word:?} is neither a command nor an agent")]
    UnknownWord {
        /// The word.
        word: String,
        /// The word and those behind it, up to the first flag.
        words: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// A verb has no such verb of its own.
    #[error("\"acpx {verb}\" has no command {word:?}")]
    UnknownSubverb {
        /// The verb.
        verb: String,
        /// The word behind it.
        word: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// A verb of npm acpx that this program does not have.
    #[error("\"{verb}\" is a command of npm acpx that is not here yet")]
    VerbNotHere {
        /// The verb.
        verb: String,
        /// The agent that stood before it.
        agent: Option<String>,
        /// The verb and the words behind it, up to the first flag.
        words: String,
    },
    /// A flag of npm acpx that this program does not have.
    #[error("{flag} is a flag of npm acpx that is not here yet")]
    FlagNotHere {
        /// The flag.
        flag: &'static str,
    },
    /// Two agents are named.
    #[error("both --agent and the agent {name:?} are given")]
    TwoAgents {
        /// The agent's name.
        name: String,
    },
    /// An agent is named where none takes part.
    #[error("the command is about no agent, and {name:?} is given")]
    NoAgentHere {
        /// The agent's name.
        name: String,
    },
    /// A session cannot have this name.
    #[error("{0}")]
    Name(InvalidSessionName),
    /// Output that promises JSON alone is not JSON.
    #[error("--json-strict needs --format json")]
    StrictWithoutJson,
    /// Output that promises silence is to be talkative.
    #[error("--json-strict and --verbose exclude each other")]
    StrictAndVerbose,
    /// More than one permission mode.
    #[error("more than one of --approve-all, --approve-reads and --deny-all is given")]
    PermissionModes,
    /// No fresh session may be made, and one is to be told the conversation.
    #[error("--carry-history and --fallback never exclude each other")]
    CarryWithoutFallback,
    /// Two policies.
    #[error("--permission-policy and --policy are given, and are not the same")]
    TwoPolicies,
    /// Nobody can answer what waits in an `exec`.
    #[error("exec cannot wait for an answer: nobody reaches it from elsewhere")]
    ExecWaits,
    /// The JSON of `--permission-policy` is no policy.
    #[error("the JSON of --permission-policy is no policy: {0}")]
    Policy(PolicyProblem),
    /// The arguments are not text.
    #[error("an argument is not valid UTF-8: {shown:?}")]
    NotUnicode {
        /// The argument, as far as it is text.
        shown: String,
    },
    /// The line of `--agent` is no command.
    #[error("the command line of --agent {problem}")]
    AgentLine {
        /// What is wrong with it.
        problem: crate::agents::CommandLineProblem,
    },
    /// What clap found.
    #[error("{message}")]
    Arguments {
        /// Its words.
        message: String,
        /// What it suggests.
        tip: Option<String>,
        /// The verb that it is about, with the verb above it; empty for none.
        verb: String,
    },
}

impl UsageError {
    /// What to type instead.
    pub(crate) fn hint(&self) -> Cow<'static, str> {
        match self {
            Self::UnknownWord { words, suggestion, .. } => {
                let prompt =
                    format!("to prompt the default agent: acpx prompt {}", crate::agents::quote(words));
                match suggestion {
                    Some(near) => format!("did you mean {near:?}? {prompt}").into(),
                    None => format!("{prompt}; acpx --help has the commands").into(),
                }
            }
            Self::UnknownSubverb { verb, suggestion, .. } => match suggestion {
                Some(near) => format!("did you mean \"acpx {verb} {near}\"?").into(),
                None => format!("acpx {verb} --help has its commands").into(),
            },
            Self::VerbNotHere { agent, words, .. } => {
                let agent = agent.as_ref().map_or_else(String::new, |agent| format!("{agent} "));
                format!(
                    "to say it to the agent, put prompt before it, as in acpx {agent}prompt {}",
                    crate::agents::quote(words)
                )
                .into()
            }
            Self::FlagNotHere { .. } => "leave it out; acpx help COMMAND has the flags there are".into(),
            Self::TwoAgents { name } => {
                format!("leave one out; to say {name:?} to the agent, put it behind --").into()
            }
            Self::NoAgentHere { name } => {
                format!("leave {name} out; to say it to the agent, put it behind --").into()
            }
            Self::Name(InvalidSessionName::ControlCharacter(_)) => {
                "use a name without control characters".into()
            }
            Self::Name(InvalidSessionName::Empty) => {
                "leave the name out for the directory's unnamed session".into()
            }
            Self::StrictWithoutJson => "add --format json".into(),
            Self::StrictAndVerbose
            | Self::PermissionModes
            | Self::CarryWithoutFallback
            | Self::TwoPolicies => "keep one of them".into(),
            Self::ExecWaits => "use a session, or deny or fail".into(),
            Self::Policy(_) => {
                r#"write it as in '{"autoDeny":["bash"]}'; acpx prompt --help has its members"#.into()
            }
            Self::NotUnicode { .. } => "agents are told everything as UTF-8 text".into(),
            Self::AgentLine { .. } => "quote it for the shell, as in --agent 'my-agent --acp'".into(),
            Self::Arguments { tip: Some(tip), .. } => tip.clone().into(),
            Self::Arguments { verb, .. } if verb.is_empty() => "acpx --help has the commands".into(),
            Self::Arguments { verb, message, .. } => {
                let is_flag = message.starts_with("unexpected argument '-");
                let may_be_said = is_flag && ["prompt", "exec"].contains(&verb.as_str());
                let said = if may_be_said { "; to say it to the agent, put it behind --" } else { "" };
                format!("acpx help {verb} has its flags{said}").into()
            }
        }
    }
}

impl UsageError {
    /// What clap found in a line of this verb. It writes a paragraph with the mistake, then tips, then usage; the mistake
    /// and the tips are of use.
    pub(super) fn of_verb(verb: &str, error: &clap::Error) -> Self {
        if error.kind() == clap::error::ErrorKind::ArgumentConflict && is_about_permissions(error) {
            return Self::PermissionModes;
        }
        if let Some(flag) = invalid_argument(error).as_deref().and_then(reserved::flag) {
            return Self::FlagNotHere { flag };
        }
        let text = error.render().to_string();
        let paragraph = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
        let message = paragraph.collect::<Vec<_>>().join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
        let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
        // That anything can be said behind -- is true of words alone, and no help with a flag that was meant.
        let tips: Vec<&str> = tips.filter(|tip| !tip.starts_with("to pass '")).collect();
        let tip = (!tips.is_empty()).then(|| tips.join("; "));
        Self::Arguments { message, tip, verb: verb.to_owned() }
    }
}

/// The argument that clap cannot use.
fn invalid_argument(error: &clap::Error) -> Option<String> {
    error.get(clap::error::ContextKind::InvalidArg).map(ToString::to_string)
}

fn is_about_permissions(error: &clap::Error) -> bool {
    invalid_argument(error)
        .is_some_and(|named| ["--approve-all", "--approve-reads", "--deny-all"].contains(&named.as_str()))
}
