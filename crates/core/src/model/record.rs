//! One conversation as we keep it. A record exists once `session/new` has been answered.

use super::{
    AbsolutePath, AgentMemory, AgentRun, AgentSpec, Lineage, LineageReason, McpServerRef, RecordId,
    RecordSettings, RestoreError, Scope, Seq, SessionIdentity, Timestamp, TurnId,
};

/// Whether a record still takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// In use, live or parked.
    Open,
    /// Closed by its user; it can still be restored by id.
    Closed {
        /// When.
        at: Timestamp,
    },
    /// Deleted by its user: it is in no list and cannot be restored. Only its id is still taken.
    Deleted {
        /// When.
        at: Timestamp,
    },
}

impl Lifecycle {
    /// Whether the record is one that nobody is to find any more.
    pub fn is_deleted(self) -> bool {
        matches!(self, Self::Deleted { .. })
    }
}

/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name, ours.
    pub id: RecordId,
    /// The agent it is with.
    pub agent: AgentSpec,
    /// The working directory as first given; sent again byte for byte.
    pub cwd: AbsolutePath,
    /// The same directory with every link followed. The record is found by it, and its agent starts nowhere else.
    pub real_cwd: AbsolutePath,
    /// Directories beside that one whose files belong to the session, as they were given.
    pub additional_directories: Vec<AbsolutePath>,
    /// What it is found by from a shell. A record that was born in an editor has none until it is named.
    pub scope: Option<Scope>,
    /// Its MCP servers. Their values are never stored.
    pub mcp_servers: Vec<McpServerRef>,
    /// The agent's title for it; what it is called without one is said where it is listed.
    pub title: Option<String>,
    /// Whether it still takes part.
    pub lifecycle: Lifecycle,
    /// The ACP sessions it went through.
    pub lineage: Lineage,
    /// The last process of its agent, if one is known of.
    pub agent_run: Option<AgentRun>,
    /// What was chosen of its settings, and how they last stood.
    pub settings: RecordSettings,
    /// What its agent remembers of it, as far as that is known.
    pub memory: AgentMemory,
    /// Why the agent last failed to restore its session, until a restore succeeds.
    pub restore_error: Option<RestoreError>,
    /// When it began.
    pub created_at: Timestamp,
    /// When its last event was kept; of a session that was adopted, when something was last said in it by its agent's
    /// list, until something is said here.
    pub updated_at: Timestamp,
    /// The number of its last event, if there is one.
    pub last_seq: Option<Seq>,
    /// The number of its last turn, if there is one.
    pub last_turn: Option<TurnId>,
    /// How many of its prompts the agent has answered; none means the agent may not have kept the session.
    pub answered_turns: u64,
}

impl Record {
    /// When something was last said in it, if that was elsewhere: it was adopted, and had no turn here. Whoever only looks
    /// at it does not move that.
    pub fn spoken_elsewhere(&self) -> Option<Timestamp> {
        let is_adopted = self.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Adopted);
        (is_adopted && self.last_turn.is_none()).then_some(self.updated_at)
    }

    /// Whether an ACP client created it and no client has ever prompted. What a shell makes has a scope, and what was
    /// adopted, imported or forked has a conversation.
    pub fn is_unprompted(&self) -> bool {
        let is_created = self.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Created);
        is_created && self.scope.is_none() && self.last_turn.is_none()
    }

    /// Its directory with every link followed, if that was ever looked up. A record that was imported while its directory
    /// was gone has the path as it is written, until its agent first starts.
    pub fn known_real_cwd(&self) -> Option<&AbsolutePath> {
        let is_imported =
            self.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Imported);
        let is_known = !is_imported || self.agent_run.is_some() || self.real_cwd != self.cwd;
        is_known.then_some(&self.real_cwd)
    }

    /// The three ids as they stand.
    pub fn identity(&self) -> SessionIdentity {
        let current = self.lineage.current();
        SessionIdentity {
            record: self.id.clone(),
            session: current.session.clone(),
            agent_session: current.agent_session.clone(),
        }
    }
}
