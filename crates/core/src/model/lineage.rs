//! The ACP sessions of a record. A changed id adds a row; no row is ever overwritten.

use serde::Serialize;

use super::{AcpSessionId, AgentSessionId, LineageIndex, RestoreError, Timestamp};

/// Why a row begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineageReason {
    /// The record began here.
    Created,
    /// The record was imported from another program with the ids it had there.
    Imported,
    /// The agent had the session before acpx knew of it; acpx adopted it from the agent's list.
    Adopted,
    /// The agent forked it from the session before, which another record continues.
    Forked,
    /// The session before never had a prompt answered, and the agent had not stored it.
    NotMaterialised,
    /// The agent could not restore the session before, and gave no clear reason.
    LoadFailed,
    /// The agent no longer has the session before.
    AgentLost,
    /// The agent can neither load nor resume: its memory was lost with its process.
    CannotRestore,
    /// The user requested a fresh session.
    Reset,
    /// The user returned to an earlier ACP session of the record.
    Returned,
    /// Same ACP session, but the agent now reports another inner id.
    AgentSessionChanged,
}

stable_names! {
    LineageReason:
    Created = "created",
    Imported = "imported",
    Adopted = "adopted",
    Forked = "forked",
    NotMaterialised = "not-materialised",
    LoadFailed = "load-failed",
    AgentLost = "agent-lost",
    CannotRestore = "cannot-restore",
    Reset = "reset",
    Returned = "returned",
    AgentSessionChanged = "agent-session-changed",
}

/// One ACP session of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineageRow {
    /// Its id on the wire.
    #[serde(rename = "acpxSessionId")]
    pub session: AcpSessionId,
    /// The harness's own id, if the agent sent one.
    #[serde(rename = "agentSessionId", skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<AgentSessionId>,
    /// When it became the record's session.
    pub from: Timestamp,
    /// When another took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Why it began.
    pub reason: LineageReason,
    /// The failed restore of the session before it, if that is why it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RestoreError>,
}

/// All rows of a record, oldest first. There is always a current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Lineage {
    rows: Vec<LineageRow>,
}

/// The effect of a reported inner id on a lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InnerIdChange {
    /// Nothing new.
    None,
    /// The current row received its inner id.
    Learnt,
    /// Another inner id: a new row began.
    NewRow,
}

impl Lineage {
    /// The lineage of a new record.
    pub fn begin(session: AcpSessionId, agent_session: Option<AgentSessionId>, at: Timestamp) -> Self {
        Self::first(session, agent_session, at, LineageReason::Created)
    }

    /// The lineage of a record that another program began, with the ids from there.
    pub fn imported(session: AcpSessionId, agent_session: Option<AgentSessionId>, at: Timestamp) -> Self {
        Self::first(session, agent_session, at, LineageReason::Imported)
    }

    /// The lineage of a record of a session that the agent had before we knew of it.
    pub fn adopted(session: AcpSessionId, at: Timestamp) -> Self {
        Self::first(session, None, at, LineageReason::Adopted)
    }

    fn first(
        session: AcpSessionId,
        agent_session: Option<AgentSessionId>,
        from: Timestamp,
        reason: LineageReason,
    ) -> Self {
        Self { rows: vec![LineageRow { session, agent_session, from, to: None, reason, error: None }] }
    }

    /// A lineage as it was stored; `None` if there is no row.
    pub(crate) fn from_rows(rows: Vec<LineageRow>) -> Option<Self> {
        (!rows.is_empty()).then_some(Self { rows })
    }

    /// Every row, oldest first.
    pub fn rows(&self) -> &[LineageRow] {
        &self.rows
    }

    /// The row in force.
    pub fn current(&self) -> &LineageRow {
        self.rows.last().expect("a lineage is made with a row and never loses one")
    }

    /// The number of the row in force.
    pub fn current_index(&self) -> LineageIndex {
        LineageIndex(self.rows.len() as u64)
    }

    /// Adds a row for another ACP session. The inner id of the session before stays with its row.
    pub fn replace(
        &mut self,
        session: AcpSessionId,
        agent_session: Option<AgentSessionId>,
        reason: LineageReason,
        at: Timestamp,
    ) {
        self.replace_after(None, session, agent_session, reason, at);
    }

    /// Adds a row for another ACP session because restoring the one before failed with this error.
    pub(crate) fn replace_after(
        &mut self,
        error: Option<RestoreError>,
        session: AcpSessionId,
        agent_session: Option<AgentSessionId>,
        reason: LineageReason,
        at: Timestamp,
    ) {
        if let Some(last) = self.rows.last_mut() {
            last.to = Some(at);
        }
        self.rows.push(LineageRow { session, agent_session, from: at, to: None, reason, error });
    }

    /// The row in which the record last had this ACP session.
    pub(crate) fn row_of(&self, session: &AcpSessionId) -> Option<&LineageRow> {
        self.rows.iter().rev().find(|row| row.session == *session)
    }

    /// Whether acpx created the record and this ACP session of it, so that every prompt in the session is known. An
    /// imported or adopted record may have had prompts that acpx does not know of.
    pub(crate) fn is_created_here(&self, session: &AcpSessionId) -> bool {
        let began_by = |row: Option<&LineageRow>| row.map(|row| row.reason);
        began_by(self.rows.first()) == Some(LineageReason::Created)
            && began_by(self.rows.iter().find(|row| row.session == *session)) != Some(LineageReason::Forked)
    }

    /// Records the inner id that the agent reported, or did not report, while restoring the current session.
    pub fn set_agent_session(&mut self, reported: Option<AgentSessionId>, at: Timestamp) -> InnerIdChange {
        let current = self.rows.last_mut().expect("a lineage is made with a row and never loses one");
        match (&current.agent_session, reported) {
            (_, None) => InnerIdChange::None,
            (Some(known), Some(reported)) if *known == reported => InnerIdChange::None,
            (None, Some(reported)) => {
                current.agent_session = Some(reported);
                InnerIdChange::Learnt
            }
            (Some(_), Some(reported)) => {
                let session = current.session.clone();
                self.replace(session, Some(reported), LineageReason::AgentSessionChanged, at);
                InnerIdChange::NewRow
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn inner(text: &str) -> Option<AgentSessionId> {
        AgentSessionId::from_agent(text)
    }

    #[test]
    fn later_inner_id_replaces_earlier_and_absence_keeps_it() {
        let mut lineage = Lineage::begin(AcpSessionId::new("s").unwrap(), None, at(1));
        assert_eq!(lineage.set_agent_session(None, at(2)), InnerIdChange::None);
        assert_eq!(lineage.set_agent_session(inner("a"), at(3)), InnerIdChange::Learnt);
        assert_eq!(lineage.set_agent_session(None, at(4)), InnerIdChange::None);
        assert_eq!(lineage.set_agent_session(inner("a"), at(5)), InnerIdChange::None);
        assert_eq!(lineage.set_agent_session(inner("b"), at(6)), InnerIdChange::NewRow);
        let row = |agent: &str, from, to, reason| LineageRow {
            session: AcpSessionId::new("s").unwrap(),
            agent_session: inner(agent),
            from: at(from),
            to,
            reason,
            error: None,
        };
        let expected = [
            row("a", 1, Some(at(6)), LineageReason::Created),
            row("b", 6, None, LineageReason::AgentSessionChanged),
        ];
        assert_eq!(lineage.rows(), expected);
    }

    #[test]
    fn a_fresh_session_leaves_the_old_inner_id_with_the_old_row() {
        let mut lineage = Lineage::begin(AcpSessionId::new("s1").unwrap(), inner("a"), at(1));
        lineage.replace(AcpSessionId::new("s2").unwrap(), None, LineageReason::AgentLost, at(2));
        assert_eq!(lineage.rows()[0].agent_session, inner("a"));
        assert_eq!(lineage.rows()[0].to, Some(at(2)));
        assert_eq!(lineage.current().agent_session, None);
        assert_eq!(lineage.current_index(), LineageIndex(2));
    }

    #[test]
    fn every_reason_is_read_as_it_is_written() {
        for reason in LineageReason::ALL {
            assert_eq!(LineageReason::parse(reason.as_str()), Some(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        assert_eq!(LineageReason::parse("other"), None);
    }
}
