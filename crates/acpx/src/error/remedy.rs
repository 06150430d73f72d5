//! Hints for commands that find no session, or none to move: sessions that may be meant, and the exact command for
//! each. An open session always takes precedence over a closed one.

use acpx_core::model::RecordId;

/// Why a command needed a session, and which alternatives exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoSessionHelp {
    /// The purpose.
    pub(crate) wanted: Intent,
    /// The alternatives.
    pub(crate) other: Alternatives,
}

/// What a command needed a session for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// To prompt it, so creating one is an option.
    Said,
    /// To close it.
    Closed,
    /// To delete it.
    Deleted,
    /// To show it with this subcommand of `sessions`.
    Shown(&'static str),
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
const NAMED: usize = 3;
pub(super) const WHERE_SESSIONS_ARE: &str = "acpx sessions list has those there are";

impl NoSessionHelp {
    /// For a command that only reads a session and has no alternative to suggest.
    pub(crate) const LOOK: Self = Self { wanted: Intent::Read, other: Alternatives::None };

    /// The hint, for an agent and a session's name as typed on a command line.
    pub(crate) fn hint(&self, agent: &str, name: Option<&str>) -> String {
        let create = || {
            let name =
                name.map_or_else(String::new, |name| format!(" --name {}", crate::agents::quote(name)));
            format!("create one: acpx {agent} sessions new{name}")
        };
        match (self.wanted, &self.other) {
            (Intent::Said, Alternatives::None) => create(),
            (Intent::Said, Alternatives::Open(ids)) => {
                let (open, go_on) = (open_there(ids), named(ids, |id| format!("acpx {agent} -s {id} …")));
                format!("{open}; go on in {}: {go_on}; or {}", it(ids), create())
            }
            (Intent::Said, Alternatives::Closed(id)) => {
                format!("one is closed; go on with it: acpx {agent} -s {id} …; or {}", create())
            }
            (Intent::Said, Alternatives::Lost(lost)) => {
                let come = named(lost, |lost| {
                    format!("acpx {agent} sessions move {} (it worked in {})", lost.id, lost.cwd)
                });
                format!("{}; if the project has moved here, bring its session along: {come}", create())
            }
            (Intent::Closed, Alternatives::Open(ids)) => {
                let close = named(ids, |id| format!("acpx {agent} sessions close {id}"));
                format!("{}; close {}: {close}", open_there(ids), it(ids))
            }
            (Intent::Closed, Alternatives::Closed(id)) => {
                format!("the last one there, {id}, is closed already")
            }
            (Intent::Deleted, Alternatives::Open(ids)) => {
                let delete = named(ids, |id| format!("acpx {agent} sessions delete {id}"));
                format!("{}; delete {}: {delete}", open_there(ids), it(ids))
            }
            (Intent::Deleted, Alternatives::Closed(id)) => {
                format!("one is closed; delete it: acpx {agent} sessions delete {id}")
            }
            (Intent::Shown(verb), Alternatives::Open(ids)) => {
                let look = named(ids, |id| format!("acpx {agent} sessions {verb} {id}"));
                format!("{}; look at {}: {look}", open_there(ids), it(ids))
            }
            (Intent::Shown(verb), Alternatives::Lost(lost)) => {
                let look = named(lost, |lost| {
                    format!("acpx {agent} sessions {verb} {} (it worked in {})", lost.id, lost.cwd)
                });
                format!("the directory of one that may be meant is gone: {look}")
            }
            (Intent::Said | Intent::Shown(_), Alternatives::Remote) => of_editors(agent),
            (
                Intent::Closed | Intent::Deleted,
                Alternatives::None | Alternatives::Lost(_) | Alternatives::Remote,
            )
            | (Intent::Shown(_), Alternatives::None | Alternatives::Closed(_))
            | (Intent::Read, _) => WHERE_SESSIONS_ARE.to_owned(),
        }
    }
}

/// How to open a session that only the agent has.
fn of_editors(agent: &str) -> String {
    format!(
        "{WHERE_SESSIONS_ARE}; one that only the agent has, which acpx {agent} sessions list --remote marks with \
         [remote], is opened by an editor that runs acpx {agent} acp, with session/load"
    )
}

fn open_there(ids: &[RecordId]) -> String {
    let (many, are) = if ids.len() == 1 { ("one".to_owned(), "is") } else { (ids.len().to_string(), "are") };
    format!("{many} that {are} found by id alone, as those of editors are, {are} open there")
}

fn it(ids: &[RecordId]) -> &'static str {
    if ids.len() == 1 { "it" } else { "one of them" }
}

/// The first of these in words, and how many more there are.
fn named<T>(all: &[T], words: impl Fn(&T) -> String) -> String {
    let more = all.len().checked_sub(NAMED + 1).map(|more| format!("one of {} more", more + 1));
    all.iter().take(NAMED).map(words).chain(more).collect::<Vec<_>>().join(" or ")
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
