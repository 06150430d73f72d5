//! Hints for commands that find no session, or none to move: sessions that may be meant, and the exact command for
//! each. An open session always takes precedence over a closed one.

use acpx_core::model::{ErrorCode, RecordId};

/// Why a command needed a session, and which alternatives exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoSessionHelp {
    pub(crate) intent: Intent,
    pub(crate) alternatives: Alternatives,
}

/// What a command needed a session for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// To prompt it, so creating one is an option, also by a flag of the prompt.
    Prompt,
    /// To work with it by another command.
    Use,
    /// To close it.
    Close,
    /// To delete it.
    Delete,
    /// To show it with this subcommand of `sessions`.
    Show(&'static str),
    /// To read it; creating one is not an option.
    Read,
}

/// Sessions that may be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Alternatives {
    /// None.
    None,
    /// Open sessions without a name in the directory, most recently used first; never empty.
    Open(Vec<RecordId>),
    /// This session, which is closed.
    Closed(RecordId),
    /// Sessions whose directories no longer exist; the project may have moved here. Never empty.
    Lost(Vec<LostSession>),
    /// Sessions with similar names here, or with the same or a similar name of another directory or agent. Never
    /// empty.
    Similar(Vec<SimilarSession>),
    /// None here; the id may belong to a session that only the agent has and can restore.
    Remote,
    /// This session, which only its agent keeps.
    Native(NativeAlternative),
}

/// A session without a record, from the transcripts of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NativeAlternative {
    pub(crate) agent: String,
    pub(crate) id: String,
}

/// A session with its directory, which may no longer exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostSession {
    /// Its id.
    pub(crate) id: RecordId,
    /// Its working directory.
    pub(crate) cwd: String,
}

/// A session whose name may be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimilarSession {
    /// Its agent, as typed on a command line.
    pub(crate) agent: String,
    pub(crate) name: String,
    /// Its directory, if lookup does not search that.
    pub(crate) cwd: Option<String>,
}

impl SimilarSession {
    /// The command that selects it, up to the words of the intent.
    fn line(&self, intent: Intent) -> String {
        let quote = crate::agents::quote;
        let (agent, name) = (&self.agent, quote(&self.name));
        let cwd = self.cwd.as_ref().map_or_else(String::new, |cwd| format!(" --cwd {}", quote(cwd)));
        match intent {
            Intent::Prompt | Intent::Use | Intent::Read => format!("acpx {agent}{cwd} -s {name} …"),
            Intent::Close => format!("acpx {agent}{cwd} sessions close {name}"),
            Intent::Delete => format!("acpx {agent}{cwd} sessions delete {name}"),
            Intent::Show(verb) => format!("acpx {agent}{cwd} sessions {verb} {name}"),
        }
    }
}

/// A session that an abbreviated id may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionMatch {
    /// Its id, as short as it can be typed.
    pub(crate) id: String,
    /// Its agent.
    pub(crate) agent: String,
    /// Its name, or else its title.
    pub(crate) name: Option<String>,
    /// Its working directory.
    pub(crate) cwd: String,
}

/// Maximum number of sessions to name; the most recently used come first.
const LISTED: usize = 3;

impl NoSessionHelp {
    /// For a command that only reads a session and has no alternative to suggest.
    pub(crate) const LOOK: Self = Self { intent: Intent::Read, alternatives: Alternatives::None };

    /// The hint, for an agent and a session's name as typed on a command line.
    pub(crate) fn hint(&self, agent: &str, name: Option<&str>) -> String {
        let create = || {
            let name =
                name.map_or_else(String::new, |name| format!(" --name {}", crate::agents::quote(name)));
            let flag = if self.intent == Intent::Prompt { ", or add --create" } else { "" };
            format!("create one: acpx {agent} sessions new{name}{flag}")
        };
        match (self.intent, &self.alternatives) {
            (_, Alternatives::Native(NativeAlternative { agent, id })) => {
                format!("only {agent} has that session so far; continue it in acpx: acpx {agent} -s {id} …")
            }
            (Intent::Prompt | Intent::Use, Alternatives::None) => create(),
            (intent @ (Intent::Prompt | Intent::Use), Alternatives::Similar(similar)) => {
                format!("did you mean {}? {}", listed(similar, |similar| similar.line(intent)), create())
            }
            (intent, Alternatives::Similar(similar)) => {
                format!("did you mean {}?", listed(similar, |similar| similar.line(intent)))
            }
            (Intent::Prompt | Intent::Use, Alternatives::Open(ids)) => {
                let (open, go_on) = (open_there(ids), listed(ids, |id| format!("acpx {agent} -s {id} …")));
                format!("{open}; continue {}: {go_on}; or {}", it(ids), create())
            }
            (Intent::Prompt | Intent::Use, Alternatives::Closed(id)) => {
                format!("one is closed; continue it: acpx {agent} -s {id} …; or {}", create())
            }
            (Intent::Prompt | Intent::Use, Alternatives::Lost(lost)) => {
                let moving = listed(lost, |lost| {
                    format!("acpx {agent} sessions move {} (it worked in {})", lost.id, lost.cwd)
                });
                format!("{}; if the project has moved here, move its session too: {moving}", create())
            }
            (Intent::Close, Alternatives::Open(ids)) => {
                let close = listed(ids, |id| format!("acpx {agent} sessions close {id}"));
                format!("{}; close {}: {close}", open_there(ids), it(ids))
            }
            (Intent::Close, Alternatives::Closed(id)) => {
                format!("the last one there, {id}, is closed already")
            }
            (Intent::Delete, Alternatives::Open(ids)) => {
                let delete = listed(ids, |id| format!("acpx {agent} sessions delete {id}"));
                format!("{}; delete {}: {delete}", open_there(ids), it(ids))
            }
            (Intent::Delete, Alternatives::Closed(id)) => {
                format!("one is closed; delete it: acpx {agent} sessions delete {id}")
            }
            (Intent::Show(verb), Alternatives::Open(ids)) => {
                let look = listed(ids, |id| format!("acpx {agent} sessions {verb} {id}"));
                format!("{}; show {}: {look}", open_there(ids), it(ids))
            }
            (Intent::Show(verb), Alternatives::Lost(lost)) => {
                let look = listed(lost, |lost| {
                    format!("acpx {agent} sessions {verb} {} (it worked in {})", lost.id, lost.cwd)
                });
                format!("one whose directory is gone may be meant: {look}")
            }
            (Intent::Prompt | Intent::Use | Intent::Show(_), Alternatives::Remote) => open_from_editor(agent),
            (
                Intent::Close | Intent::Delete,
                Alternatives::None | Alternatives::Lost(_) | Alternatives::Remote,
            )
            | (Intent::Show(_), Alternatives::None | Alternatives::Closed(_))
            | (Intent::Read, _) => list_sessions().to_owned(),
        }
    }
}

impl Alternatives {
    /// The other session that a prompt may have meant, after one was created for it; empty if there is none.
    pub(crate) fn instead_of_created(&self, agent: &str) -> String {
        match self {
            Self::None | Self::Remote | Self::Similar(_) | Self::Native(_) => String::new(),
            Self::Open(ids) => {
                let ids = listed(ids, |id| format!("acpx {agent} -s {id} …"));
                format!("; to continue one without a name: {ids}")
            }
            Self::Closed(id) => format!("; to continue the closed one: acpx {agent} -s {id} …"),
            Self::Lost(lost) => {
                let moving = listed(lost, |lost| format!("acpx {agent} sessions move {}", lost.id));
                format!("; if the project has moved here: {moving}")
            }
        }
    }
}

fn list_sessions() -> &'static str {
    ErrorCode::NoSession.hint().unwrap_or_default()
}

/// How to open a session that only the agent has.
fn open_from_editor(agent: &str) -> String {
    let list = list_sessions();
    format!(
        "{list}; one that only the agent has, marked [remote] by acpx {agent} sessions list --remote, can be opened \
         with session/load by an editor that runs acpx {agent} acp"
    )
}

fn open_there(ids: &[RecordId]) -> String {
    match ids.len() {
        1 => "1 open session here has no name, as those of editors".to_owned(),
        many => format!("{many} open sessions here have no name, as those of editors"),
    }
}

fn it(ids: &[RecordId]) -> &'static str {
    if ids.len() == 1 { "it" } else { "one of them" }
}

/// The first of these in words, and how many more there are.
fn listed<T>(all: &[T], words: impl Fn(&T) -> String) -> String {
    let more = all.len().checked_sub(LISTED + 1).map(|more| format!("one of {} more", more + 1));
    all.iter().take(LISTED).map(words).chain(more).collect::<Vec<_>>().join(" or ")
}

/// Why there is no session to move, when the command gives no id.
pub(super) fn none_lost(agent: &str, name: Option<&str>, there: &[LostSession]) -> String {
    let session = format!("session {}of {agent}", super::named(name));
    match (name, there) {
        (Some(_), []) => format!("there is no {session}"),
        (None, []) => format!("no {session} has lost its directory"),
        (_, there) => format!("no {session} has lost its directory: {}", with_places(there)),
    }
}

/// The sessions that an abbreviated id may mean.
pub(super) fn ambiguous(prefix: &str, matches: &[SessionMatch], is_cut: bool) -> String {
    let row = |one: &SessionMatch| {
        let name = one.name.as_ref().map_or_else(String::new, |name| format!(", {name}"));
        format!("{} ({}{name}, {})", one.id, one.agent, one.cwd)
    };
    let listed = matches.iter().map(row).collect::<Vec<_>>().join("; ");
    let (count, more) = (matches.len(), if is_cut { " and others" } else { "" });
    let least = if is_cut { "more than " } else { "" };
    format!("{least}{count} sessions have an id that begins with {prefix}: {listed}{more}")
}

/// Sessions, each with its working directory.
pub(super) fn with_places(sessions: &[LostSession]) -> String {
    sessions.iter().map(|session| format!("{} ({})", session.id, session.cwd)).collect::<Vec<_>>().join(", ")
}
