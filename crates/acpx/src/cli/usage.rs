//! Usage errors, each with a hint what to type instead.

use std::borrow::Cow;
use std::path::PathBuf;

use acpx_core::model::{InvalidSessionName, WrongMember};

use super::near_verb::NearVerb;

/// An invalid command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    /// A word that is neither a verb nor an agent.
    #[error("{word:?} is neither a command nor an agent")]
    UnknownWord {
        /// The word.
        word: String,
        /// The word and those after it, up to the first flag.
        words: String,
        /// A similar word.
        suggestion: Option<String>,
    },
    /// A word that would be an agent if the project's file were trusted.
    #[error("{word:?} is neither a command nor an agent")]
    UntrustedAgent {
        /// The word.
        word: String,
        /// The project's file.
        file: PathBuf,
    },
    /// The verb has no such subcommand.
    #[error("\"acpx {verb}\" has no command {word:?}")]
    UnknownSubverb {
        /// The verb.
        verb: String,
        /// The word after it.
        word: String,
        /// A similar word.
        suggestion: Option<String>,
    },
    /// A flag that acpx does not have, and that is nearly one that it has.
    #[error("there is no flag {flag}")]
    UnknownFlag {
        /// The flag as typed.
        flag: String,
        /// The similar flag.
        suggestion: String,
    },
    /// The first word after an agent's name is nearly a command.
    #[error("{:?} is not a command", .0.word)]
    NearVerb(NearVerb),
    /// Two agents are named.
    #[error("both --agent and the agent {name:?} are given")]
    TwoAgents {
        /// The agent's name.
        name: String,
    },
    /// The command takes no agent.
    #[error("the command takes no agent, and {name:?} is given")]
    NoAgentHere {
        /// The agent's name.
        name: String,
    },
    /// A session cannot have this name.
    #[error("{0}")]
    Name(InvalidSessionName),
    /// A new session with a name that means another one.
    #[error("{name} cannot be a session's name: it means a session by its position in `sessions list`")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// `acpx backup` to a file that exists.
    #[error("the file {} exists", path.display())]
    BackupExists {
        /// The file.
        path: PathBuf,
    },
    /// `acpx backup` to a file of the store.
    #[error("the file {} belongs to the store", path.display())]
    BackupOverStore {
        /// The file.
        path: PathBuf,
    },
    /// A `--cursor` that no page of our list printed.
    #[error("{cursor:?} is no cursor of this list")]
    ListCursor {
        /// The cursor.
        cursor: String,
    },
    /// `acpx schema` of an object that does not exist.
    #[error("there is no JSON object {name:?}")]
    UnknownSchema {
        /// The name.
        name: String,
        /// Those that there are.
        names: String,
    },
    /// `--json-strict` with another format.
    #[error("--json-strict needs --format json")]
    StrictWithoutJson,
    /// `--json-strict` with `--verbose`.
    #[error("--json-strict and --verbose exclude each other")]
    StrictAndVerbose,
    /// More than one permission mode.
    #[error("more than one of --approve-all, --approve-reads and --deny-all is given")]
    PermissionModes,
    /// `--carry-history` without a fresh session to carry it to.
    #[error("--carry-history and --fallback never exclude each other")]
    CarryWithoutFallback,
    /// Two policies.
    #[error("--permission-policy and --policy are given, and are not the same")]
    TwoPolicies,
    /// No other client can answer the requests of an `exec`.
    #[error("exec cannot wait for an answer: no other client can give one")]
    ExecWaits,
    /// The beginning of an id is too short, or several ids have it.
    #[error("{}", unclear_id(.typed, .ids))]
    UnclearId {
        /// What was typed.
        typed: String,
        /// The ids that begin like this.
        ids: Vec<String>,
    },
    /// `approve` or `deny` without an id, where no terminal can be asked.
    #[error("acpx {verb} needs the id of a request, unless it runs on a terminal")]
    NoRequestId {
        /// The verb.
        verb: &'static str,
        /// The pending requests.
        ids: Vec<String>,
    },
    /// The interactive client needs a terminal.
    #[error("attach needs a terminal for its input and output")]
    NoTerminal,
    /// A command that deletes, on a terminal that it cannot ask on.
    #[error("{command} asks first, and cannot ask in the background")]
    Unconfirmed {
        /// The command.
        command: &'static str,
    },
    /// A flow, which only npm acpx runs.
    #[error("flows are JavaScript modules, and belong to npm acpx")]
    FlowOfNpm {
        /// The line that runs it there.
        line: String,
    },
    /// `compare` without agents or without a prompt.
    #[error("compare needs at least one agent and a prompt")]
    CompareWords,
    /// `compare` with agents alone.
    #[error("compare needs a prompt, and {last:?} is an agent")]
    ComparePrompt {
        /// The last word.
        last: String,
        /// All agents, as typed on a command line.
        agents: String,
    },
    /// `trust` where it cannot ask.
    #[error("acpx trust asks first, and there is no terminal to ask on")]
    TrustUnconfirmed,
    /// The JSON of `--permission-policy` is not a policy.
    #[error("the JSON of --permission-policy is not a policy: {0}")]
    Policy(WrongMember),
    /// `sessions export` of a document for people to a stdout that has only JSON.
    #[error("with --format json stdout has only JSON, and --as {form} is not JSON")]
    ExportForm {
        /// The form.
        form: &'static str,
    },
    /// The arguments are not text.
    #[error("an argument is not valid UTF-8: {shown:?}")]
    NotUnicode {
        /// The argument, with replacement characters.
        shown: String,
    },
    /// The value of `--agent` is not a command line.
    #[error("the command line of --agent {problem}")]
    AgentLine {
        /// What is wrong with it.
        problem: crate::agents::CommandLineProblem,
    },
    /// `--skill` with something that it does not do.
    #[error("{problem}")]
    Skill {
        /// What is wrong.
        problem: String,
    },
    /// An environment variable has a value that it cannot have.
    #[error("the environment variable {name} is {value:?}, and must be {expected}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// An error of clap.
    #[error("{message}")]
    Arguments {
        /// Its message.
        message: String,
        /// Its suggestion.
        tip: Option<String>,
        /// The verb with its parent; empty for none.
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
                    None => format!("{prompt}; acpx --help lists the commands").into(),
                }
            }
            Self::UntrustedAgent { word, file } => {
                crate::agents::trust_hint(&crate::agents::canonical(word), file).into()
            }
            Self::UnknownSubverb { verb, suggestion, .. } => match suggestion {
                Some(near) => format!("did you mean \"acpx {verb} {near}\"?").into(),
                None => format!("acpx {verb} --help lists its commands").into(),
            },
            Self::ListCursor { .. } => {
                "begin with --cursor start, and continue with the cursor that the page before printed".into()
            }
            Self::UnknownSchema { names, .. } => format!("it can be {names}").into(),
            Self::UnknownFlag { suggestion, .. } => {
                format!("did you mean {suggestion}? to send it to the agent, put it after --").into()
            }
            Self::NearVerb(near) => {
                let (command, prompt) = (near.command_line(), near.prompt_line());
                format!("to run the command: {command}; to send the word to the agent: {prompt}").into()
            }
            Self::TwoAgents { name } => {
                format!("leave one out; to send {name:?} to the agent, put it after --").into()
            }
            Self::NoAgentHere { name } => {
                format!("leave {name} out; to send it to the agent, put it after --").into()
            }
            Self::Name(InvalidSessionName::ControlCharacter(_)) => "remove its control characters".into(),
            Self::Name(InvalidSessionName::Empty) => {
                "leave the name out for the directory's unnamed session".into()
            }
            Self::ReservedName { .. } => "choose a name without @".into(),
            Self::StrictWithoutJson => "add --format json".into(),
            Self::StrictAndVerbose
            | Self::PermissionModes
            | Self::CarryWithoutFallback
            | Self::TwoPolicies => "keep one of them".into(),
            Self::UnclearId { ids, .. } => format!("type more of it: {}", ids.join(", ")).into(),
            Self::NoRequestId { ids, .. } if ids.is_empty() => "no request is pending".into(),
            Self::NoRequestId { verb, ids } => answer_lines(verb, ids).into(),
            Self::BackupExists { .. } => "add --force to replace it".into(),
            Self::BackupOverStore { .. } => "name another file".into(),
            Self::NoTerminal => "acpx sessions watch follows a session without one".into(),
            Self::Unconfirmed { .. } => "add --yes to delete without a question".into(),
            Self::FlowOfNpm { line } => format!("to run it there: {line}").into(),
            Self::CompareWords => "write it as in acpx compare claude codex 'why is the build slow?'".into(),
            Self::ComparePrompt { last, agents } => format!(
                "add it: acpx compare {agents} 'why is the build slow?'; to send the word {last}, put it after --"
            )
            .into(),
            Self::TrustUnconfirmed => "read the file, then add --yes to allow it without a question".into(),
            Self::ExecWaits => "use a session, or deny or fail".into(),
            Self::Policy(_) => {
                r#"write it as in '{"autoDeny":["bash"]}'; acpx prompt --help lists its members"#.into()
            }
            Self::ExportForm { .. } => "add --as json, or write it to a file with --output FILE".into(),
            Self::Skill { .. } => "acpx --skill help lists what there is".into(),
            Self::Variable { name, .. } => format!("unset {name}, or correct it").into(),
            Self::NotUnicode { .. } => "agents accept only UTF-8 text".into(),
            Self::AgentLine { .. } => "quote it for the shell, as in --agent 'my-agent --acp'".into(),
            Self::Arguments { tip, verb, message } => arguments_hint(tip.as_deref(), verb, message),
        }
    }
}

/// What to type instead of arguments that clap refused.
fn arguments_hint(tip: Option<&str>, verb: &str, message: &str) -> Cow<'static, str> {
    if let Some(tip) = tip {
        return tip.to_owned().into();
    }
    if verb.is_empty() {
        return "acpx --help lists the commands".into();
    }
    let is_flag = message.starts_with("unexpected argument '-");
    let may_be_text = is_flag && ["prompt", "exec"].contains(&verb);
    let send = if may_be_text { "; to send it to the agent, put it after --" } else { "" };
    format!("acpx help {verb} lists its flags{send}").into()
}

impl UsageError {
    /// An error of clap about a line of this verb. Its text is a paragraph with the error, then tips, then usage; the
    /// usage is dropped.
    pub(super) fn of_verb(verb: &str, error: &clap::Error) -> Self {
        if error.kind() == clap::error::ErrorKind::ArgumentConflict && is_about_permissions(error) {
            return Self::PermissionModes;
        }
        let text = error.render().to_string();
        let paragraph = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
        let message = paragraph.collect::<Vec<_>>().join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
        let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
        // The tip about `--` does not help with a mistyped flag.
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

/// The lines that answer these requests.
fn answer_lines(verb: &str, ids: &[String]) -> String {
    let lines: Vec<String> = ids.iter().map(|id| format!("acpx {verb} {id}")).collect();
    lines.join(", ")
}

fn unclear_id(typed: &str, ids: &[String]) -> String {
    match ids {
        [_] => format!("{typed:?} is too short for the beginning of an id; it needs six characters"),
        _ => format!("{} ids begin with {typed:?}", ids.len()),
    }
}

/// Maximum edit distance of a suggestion.
const NEAR: usize = 2;

/// The first of the nearest candidates, if it is near enough to be a typing error.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let word = word.to_lowercase();
    let near = candidates.filter_map(|candidate| {
        let distance = strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
        // Of a short word nearly everything is two edits away.
        let is_near = distance <= NEAR && distance * 3 <= candidate.chars().count();
        is_near.then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate.to_owned())
}
