//! What is said where a command finds no session, or none that can be moved: which other ones may be meant, and the exact
//! line that reaches each. An open one is never passed over for a closed one.

use acpx_core::model::RecordId;

/// What a command wanted a session for, and what there is in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoSessionHelp {
    /// What was to be done with it.
    pub(crate) wanted: Intent,
    /// What there is.
    pub(crate) other: Alternatives,
}

/// What was to be done with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Something was to be said in it, so one can be made.
    Said,
    /// It was to be closed.
    Closed,
    /// It was to be deleted.
    Deleted,
    /// It was to be shown by this command behind `sessions`.
    Shown(&'static str),
    /// It was to be looked at: one that is there was meant.
    Read,
}

/// Sessions that may have been meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Alternatives {
    /// None.
    None,
    /// These are open in the directory and are found by their ids alone, last used first. There is one.
    Open(Vec<RecordId>),
    /// This one has been closed.
    Closed(RecordId),
    /// The own directories of these are gone, and their project may have moved here. There is one.
    Lost(Vec<LostSession>),
    /// None here; one of this id may be the agent's own, which can bring sessions back.
    Remote,
}

/// A session whose directory is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostSession {
    /// Its id.
    pub(crate) id: RecordId,
    /// Where it worked.
    pub(crate) cwd: String,
}

/// How many sessions are named at most: those that were used last.
const NAMED: usize = 3;
pub(super) const WHERE_SESSIONS_ARE: &str = "acpx sessions list has those there are";

impl NoSessionHelp {
    /// For a command that looks at a session, and has no line for another one.
    pub(crate) const LOOK: Self = Self { wanted: Intent::Read, other: Alternatives::None };

    /// The remedy in words, for an agent and a session's name as they stand on the command line.
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

/// How a session that only the agent has is reached.
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

/// Why no session can be moved that nobody named by its id.
pub(super) fn none_lost(agent: &str, name: Option<&str>, there: &[LostSession]) -> String {
    let session = format!("session {}of {agent}", super::named(name));
    match (name, there) {
        (Some(_), []) => format!("there is no {session}"),
        (None, []) => format!("no {session} has lost its directory"),
        (_, there) => format!("no {session} has lost its directory: {}", with_places(there)),
    }
}

/// Sessions, each with where it works.
pub(super) fn with_places(sessions: &[LostSession]) -> String {
    sessions.iter().map(|session| format!("{} ({})", session.id, session.cwd)).collect::<Vec<_>>().join(", ")
}
