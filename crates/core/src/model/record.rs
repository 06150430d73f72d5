//! One stored conversation and its title. A record exists once `session/new` has been answered.

use super::{
    AbsolutePath, AgentMemory, AgentRun, AgentSpec, Lineage, LineageReason, McpServerRef, RecordId,
    RecordSettings, RestoreError, Scope, Seq, SessionIdentity, SessionUsage, Timestamp, TurnId,
};

/// Whether a record is open, closed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// In use, live or parked.
    Open,
    /// Closed by its user; it can still be restored by id.
    Closed {
        /// When.
        at: Timestamp,
    },
    /// Deleted by its user: it is not listed and cannot be restored. Only its id stays reserved.
    Deleted {
        /// When.
        at: Timestamp,
    },
}

impl Lifecycle {
    /// Whether it is deleted.
    pub fn is_deleted(self) -> bool {
        matches!(self, Self::Deleted { .. })
    }
}

/// What a list shows of a conversation beyond its place and times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionInfo {
    /// The agent's title. Without any title, the list derives one.
    pub title: Option<String>,
    /// The title that the user chose. It replaces the agent's everywhere.
    pub user_title: Option<String>,
    /// The usage of the current ACP session, as the agent last reported it.
    pub usage: Option<SessionUsage>,
}

impl SessionInfo {
    /// The user's title, or else the agent's, if it is not blank. Agents and archives may set any, so it is cut.
    pub fn title(&self) -> Option<&str> {
        let titles = [self.user_title.as_deref(), self.title.as_deref()];
        let title = titles.into_iter().flatten().map(str::trim).find(|title| !title.is_empty())?;
        let end = title.char_indices().nth(SHOWN_TITLE_CHARS).map_or(title.len(), |(end, _)| end);
        Some(&title[..end])
    }
}

/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Our id for it.
    pub id: RecordId,
    /// The agent it is with.
    pub agent: AgentSpec,
    /// The working directory as first given; sent to the agent byte for byte.
    pub cwd: AbsolutePath,
    /// The same directory with all links resolved. Records are looked up by it, and the agent starts only there.
    pub real_cwd: AbsolutePath,
    /// Additional directories of the session, as given.
    pub additional_directories: Vec<AbsolutePath>,
    /// The scope that a shell finds it by. A record created by an editor has none until it is named.
    pub scope: Option<Scope>,
    /// Its MCP servers. Their values are never stored.
    pub mcp_servers: Vec<McpServerRef>,
    /// Its titles and its usage.
    pub info: SessionInfo,
    /// Whether it is open, closed or deleted.
    pub lifecycle: Lifecycle,
    /// Its ACP sessions.
    pub lineage: Lineage,
    /// The last known process of its agent.
    pub agent_run: Option<AgentRun>,
    /// The chosen settings, and those the agent last sent.
    pub settings: RecordSettings,
    /// What its agent remembers of it, as far as known.
    pub memory: AgentMemory,
    /// Why the agent last failed to restore its session, until a restore succeeds.
    pub restore_error: Option<RestoreError>,
    /// When it began.
    pub created_at: Timestamp,
    /// When its last event was stored. For an adopted session without activity here, the time from the agent's list.
    pub updated_at: Timestamp,
    /// The number of its last event, if there is one.
    pub last_seq: Option<Seq>,
    /// The number of its last turn, if there is one.
    pub last_turn: Option<TurnId>,
    /// How many of its prompts the agent has answered; if none, the agent may not have stored the session.
    pub answered_turns: u64,
}

impl Record {
    /// The time of the last activity outside acpx: of an adopted session without a turn here. Attaching does not
    /// change it.
    pub(crate) fn external_activity(&self) -> Option<Timestamp> {
        let is_adopted = self.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Adopted);
        (is_adopted && self.last_turn.is_none()).then_some(self.updated_at)
    }

    /// Whether it begins with a conversation that the agent had outside acpx.
    pub fn is_adopted(&self) -> bool {
        let is_adopted = self.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Adopted);
        is_adopted && self.last_seq.is_some()
    }

    /// Whether an ACP client created it and no client has ever prompted it. Records created by a shell have a scope,
    /// and adopted, imported or forked ones have a conversation.
    pub fn is_unprompted(&self) -> bool {
        let is_created = self.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Created);
        is_created && self.scope.is_none() && self.last_turn.is_none()
    }

    /// Its directory with all links resolved, if they were ever resolved. A record that was imported while its
    /// directory was missing has the path as written, until its agent first starts.
    pub fn known_real_cwd(&self) -> Option<&AbsolutePath> {
        let is_imported =
            self.lineage.rows().first().is_some_and(|row| row.reason == LineageReason::Imported);
        let is_known = !is_imported || self.agent_run.is_some() || self.real_cwd != self.cwd;
        is_known.then_some(&self.real_cwd)
    }

    /// Its three current ids.
    pub fn identity(&self) -> SessionIdentity {
        let current = self.lineage.current();
        SessionIdentity {
            record: self.id.clone(),
            session: current.session.clone(),
            agent_session: current.agent_session.clone(),
        }
    }
}

/// How many characters of a title are shown.
const SHOWN_TITLE_CHARS: usize = 1000;
/// The maximum length of a derived title in characters.
const TITLE_CHARS: usize = 100;

/// The first non-blank line of a text, cut to a title's length; `None` if there is none.
pub fn title_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    match line.char_indices().nth(TITLE_CHARS) {
        None => Some(line.to_owned()),
        Some((end, _)) => Some(format!("{}…", &line[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_title_is_the_users_and_bounded() {
        let (title, user_title) = (Some("é".repeat(2 * SHOWN_TITLE_CHARS)), Some(" ".to_owned()));
        let info = SessionInfo { title, user_title, usage: None };
        assert_eq!(info.title(), Some("é".repeat(SHOWN_TITLE_CHARS).as_str()));
        let renamed = SessionInfo { user_title: Some("mine ".to_owned()), ..info };
        assert_eq!(renamed.title(), Some("mine"));
    }

    #[test]
    fn a_title_is_the_first_line_with_words_and_bounded() {
        assert_eq!(title_of("\n  fix the tests \nand more"), Some("fix the tests".to_owned()));
        assert_eq!(title_of(" \n\t"), None);
        let long = "é".repeat(TITLE_CHARS + 1);
        assert_eq!(title_of(&long), Some(format!("{}…", "é".repeat(TITLE_CHARS))));
        assert_eq!(title_of(&"é".repeat(TITLE_CHARS)), Some("é".repeat(TITLE_CHARS)));
    }
}
