//! Steps of a transcript as changes of a record: numbered, timed, and in their place of the lineage.
//!
//! For a record that was taken before, the steps that led to what is kept already are passed by, after each of
//! them was found to be the same.

use super::record::NpmRecord;
use super::transcript::{ImportEvent, ImportStep};
use crate::model::{
    AcpSessionId, Event, Lifecycle, Lineage, LineageIndex, LineageReason, McpServerRef, Record,
    RecordSettings, Seq, Timestamp,
};
use crate::store::Change;

/// The protocol version npm acpx speaks.
const PROTOCOL: u16 = 1;

/// A record being told to the store.
#[derive(Debug)]
pub(super) struct RecordImport {
    created_at: Timestamp,
    used_at: Timestamp,
    /// How many events have been told, those that are kept already included.
    told: u64,
    /// How many events are kept already.
    kept: u64,
    /// Whether acpx has added events of its own since the import.
    has_own_events: bool,
    /// The ACP session of the last line that is kept, as the journal names it.
    passed_session: Option<AcpSessionId>,
    lineage: Option<Lineage>,
    servers: Vec<McpServerRef>,
    turns: u64,
    /// The row of the session that the record's file names.
    row: Lineage,
    /// The title in the record's file.
    title: Option<String>,
    /// The title of the record that is kept.
    kept_title: Option<String>,
    /// What else the record's file says otherwise than the record that is kept.
    pending: Vec<Change>,
}

impl RecordImport {
    /// Tells a record that is not kept yet.
    pub(super) fn of_new(npm: &NpmRecord) -> Self {
        Self {
            created_at: npm.created_at,
            used_at: npm.used_at,
            told: 0,
            kept: 0,
            has_own_events: false,
            passed_session: None,
            lineage: None,
            servers: Vec::new(),
            turns: 0,
            row: Lineage::imported(npm.session.clone(), npm.agent_session.clone(), npm.created_at),
            title: npm.title.clone(),
            kept_title: None,
            pending: Vec::new(),
        }
    }

    /// Tells what has come since to a record that is kept.
    pub(super) fn of_kept(npm: &NpmRecord, record: &Record) -> Self {
        let mut pending = Vec::new();
        if npm.lifecycle != Lifecycle::Open && record.lifecycle == Lifecycle::Open {
            pending.push(Change::Lifecycle(npm.lifecycle));
        }
        if !npm.wished.is_empty() && npm.wished != record.settings.wished {
            let wished = npm.wished.clone();
            pending.push(Change::Settings(RecordSettings { wished, ..record.settings.clone() }));
        }
        Self {
            pending,
            kept_title: record.title.clone(),
            kept: record.last_seq.map_or(0, |seq| seq.0),
            lineage: Some(record.lineage.clone()),
            servers: record.mcp_servers.clone(),
            ..Self::of_new(npm)
        }
    }

    /// The events that the next one must be compared with, if it is kept already.
    pub(super) fn next_kept(&self) -> Option<Seq> {
        (self.told < self.kept).then(|| Seq(self.told + 1))
    }

    /// Passes by a step between two events that are kept.
    pub(super) fn pass(&mut self, step: ImportStep) {
        if let ImportStep::Session { session, .. } = step {
            self.passed_session = Some(session);
        }
    }

    /// Passes by an event that is kept.
    pub(super) fn pass_event(&mut self) {
        self.told += 1;
    }

    /// Passes by an event that acpx added itself. What was chosen here since the import is newer than the choices in
    /// the file.
    pub(super) fn pass_own_event(&mut self) {
        self.told += 1;
        self.has_own_events = true;
        self.pending.retain(|change| !matches!(change, Change::Settings(_)));
    }

    /// Whether acpx has replaced the ACP session that npm acpx goes on with.
    pub(super) fn has_other_session(&self) -> bool {
        let current = self.lineage.as_ref().map(|lineage| &lineage.current().session);
        let theirs = [Some(&self.row.current().session), self.passed_session.as_ref()];
        self.has_own_events && !theirs.contains(&current)
    }

    /// How many events and turns were added to what is kept.
    pub(super) fn added(&self) -> (u64, u64) {
        (self.told.saturating_sub(self.kept), self.turns)
    }

    /// The lineage a record begins with, once its first steps are told.
    pub(super) fn lineage(&mut self) -> Lineage {
        self.lineage.get_or_insert_with(|| self.row.clone()).clone()
    }

    /// Takes a step, as the change it is. The first session makes no change: the record begins with it.
    pub(super) fn take(&mut self, step: ImportStep) -> Option<Change> {
        match step {
            ImportStep::Session { session, inner, reason } => {
                // What the record says of its current session counts as recorded.
                let row = self.row.current();
                let inner = if row.session == session { row.agent_session.clone() } else { inner };
                match &mut self.lineage {
                    None => {
                        self.lineage = Some(Lineage::imported(session, inner, self.created_at));
                        None
                    }
                    Some(lineage) if lineage.current().session == session => None,
                    Some(lineage) => {
                        lineage.replace(session, inner, reason, self.used_at);
                        Some(Change::Lineage(lineage.clone()))
                    }
                }
            }
            ImportStep::Servers(names) => {
                let servers: Vec<McpServerRef> =
                    names.into_iter().map(|name| McpServerRef { name, source: None }).collect();
                let is_news = servers != self.servers;
                self.servers.clone_from(&servers);
                is_news.then_some(Change::McpServers(servers))
            }
            ImportStep::Turn(turn) => {
                self.turns += 1;
                Some(Change::Turn(*turn))
            }
            ImportStep::Line(line) => Some(Change::Event(self.event(line))),
        }
    }

    /// The journal tells no times: the first event has the record's first, and all others its last.
    fn event(&mut self, line: ImportEvent) -> Event {
        self.told += 1;
        let ImportEvent { turn, direction, kind, body } = line;
        Event {
            seq: Seq(self.told),
            at: if self.told == 1 { self.created_at } else { self.used_at },
            turn,
            lineage: self.lineage.as_ref().map_or(LineageIndex::FIRST, Lineage::current_index),
            protocol: PROTOCOL,
            direction,
            kind,
            body,
        }
    }

    /// What the record's file says beyond the journal. `clean` takes out of it what the journal told in confidence.
    pub(super) fn rest(&mut self, clean: impl Fn(&str) -> String) -> Vec<Change> {
        let told = self.row.current();
        let before = self.lineage.as_ref().unwrap_or(&self.row);
        let mut lineage = before.clone();
        if lineage.current().session == told.session {
            lineage.tell_inner_id(told.agent_session.clone(), self.used_at);
        } else {
            let (session, inner) = (told.session.clone(), told.agent_session.clone());
            lineage.replace(session, inner, LineageReason::LoadFailed, self.used_at);
        }
        let mut changes = std::mem::take(&mut self.pending);
        let title = self.title.take().map(|title| clean(&title));
        if title.is_some() && title != self.kept_title {
            changes.push(Change::Title(title));
        }
        if lineage != *before {
            changes.push(Change::Lineage(lineage.clone()));
        }
        self.lineage = Some(lineage);
        changes
    }
}
