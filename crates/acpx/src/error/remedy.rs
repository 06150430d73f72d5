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
    /// To prompt it, so creating one is an option.
    Prompt,
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
    /// None here; the id may belong to a session that only the agent has and can restore.
    Remote,
}

/// A session with its directory, which may no longer exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostSession {
    /// Its id.
    pub(crate) id: RecordId,
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
            format!("create one: acpx {agent} sessions new{name}")
        };
        match (self.intent, &self.alternatives) {
            (Intent::Prompt, Alternatives::None) => create(),
            (Intent::Prompt, Alternatives::Open(ids)) => {
                let (open, go_on) = (open_there(ids), listed(ids, |id| format!("acpx {agent} -s {id} …")));
                format!("{open}; continue {}: {go_on}; or {}", it(ids), create())
            }
            (Intent::Prompt, Alternatives::Closed(id)) => {
                format!("one is closed; continue it: acpx {agent} -s {id} …; or {}", create())
            }
            (Intent::Prompt, Alternatives::Lost(lost)) => {
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
            (Intent::Prompt | Intent::Show(_), Alternatives::Remote) => open_from_editor(agent),
            (
                Intent::Close | Intent::Delete,
                Alternatives::None | Alternatives::Lost(_) | Alternatives::Remote,
            )
            | (Intent::Show(_), Alternatives::None | Alternatives::Closed(_))
            | (Intent::Read, _) => list_sessions().to_owned(),
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

/// Sessions, each with its working directory.
pub(super) fn with_places(sessions: &[LostSession]) -> String {
    sessions.iter().map(|session| format!("{} ({})", session.id, session.cwd)).collect::<Vec<_>>().join(", ")
}
