//! Converts steps of a transcript into changes of a record, with numbers, times and lineage rows.
//!
//! For a record that was imported before, the steps that are already stored are skipped, after each was compared with
//! the stored event.

use super::record::NpmRecord;
use super::transcript::{ImportEvent, ImportStep};
use crate::model::{
    AcpSessionId, Event, Lifecycle, Lineage, LineageIndex, LineageReason, McpServerRef, Record,
    RecordSettings, Seq, Timestamp,
};
use crate::store::Change;

/// The protocol version npm acpx speaks.
const PROTOCOL: u16 = 1;

/// The import of one record into the store.
#[derive(Debug)]
pub(super) struct RecordImport {
    created_at: Timestamp,
    used_at: Timestamp,
    /// How many events have been converted, including those already stored.
    converted: u64,
    /// How many events are already stored.
    stored: u64,
    /// Whether acpx has added events of its own since the import.
    has_own_events: bool,
    /// The ACP session of the last stored line, as the journal names it.
    last_stored_session: Option<AcpSessionId>,
    lineage: Option<Lineage>,
    servers: Vec<McpServerRef>,
    turns: u64,
    /// The row of the session that the record's file names.
    row: Lineage,
    /// The title in the record's file.
    title: Option<String>,
    /// The title of the stored record.
    stored_title: Option<String>,
    /// Other differences between the record's file and the stored record.
    pending: Vec<Change>,
}

impl RecordImport {
    /// Imports a record that is not stored yet.
    pub(super) fn new(npm: &NpmRecord) -> Self {
        Self {
            created_at: npm.created_at,
            used_at: npm.used_at,
            converted: 0,
            stored: 0,
            has_own_events: false,
            last_stored_session: None,
            lineage: None,
            servers: Vec::new(),
            turns: 0,
            row: Lineage::imported(npm.session.clone(), npm.agent_session.clone(), npm.created_at),
            title: npm.title.clone(),
            stored_title: None,
            pending: Vec::new(),
        }
    }

    /// Imports what has been added since to a stored record.
    pub(super) fn of_stored(npm: &NpmRecord, record: &Record) -> Self {
        let mut pending = Vec::new();
        if npm.lifecycle != Lifecycle::Open && record.lifecycle == Lifecycle::Open {
            pending.push(Change::Lifecycle(npm.lifecycle));
        }
        if !npm.chosen.is_empty() && npm.chosen != record.settings.chosen {
            let chosen = npm.chosen.clone();
            pending.push(Change::Settings(RecordSettings { chosen, ..record.settings.clone() }));
        }
        Self {
            pending,
            stored_title: record.info.title.clone(),
            stored: record.last_seq.map_or(0, |seq| seq.0),
            lineage: Some(record.lineage.clone()),
            servers: record.mcp_servers.clone(),
            ..Self::new(npm)
        }
    }

    /// The number of the stored event to compare the next one with, if it is already stored.
    pub(super) fn next_stored(&self) -> Option<Seq> {
        (self.converted < self.stored).then(|| Seq(self.converted + 1))
    }

    /// Skips a step between two stored events.
    pub(super) fn skip(&mut self, step: ImportStep) {
        if let ImportStep::Session { session, .. } = step {
            self.last_stored_session = Some(session);
        }
    }

    /// Skips a stored event.
    pub(super) fn skip_event(&mut self) {
        self.converted += 1;
    }

    /// Skips an event that acpx added itself. Choices made here since the import are newer than those in the file.
    pub(super) fn skip_own_event(&mut self) {
        self.converted += 1;
        self.has_own_events = true;
        self.pending.retain(|change| !matches!(change, Change::Settings(_)));
    }

    /// Whether acpx has replaced the ACP session that npm acpx continues.
    pub(super) fn has_other_session(&self) -> bool {
        let current = self.lineage.as_ref().map(|lineage| &lineage.current().session);
        let theirs = [Some(&self.row.current().session), self.last_stored_session.as_ref()];
        self.has_own_events && !theirs.contains(&current)
    }

    /// How many events and turns were added to the stored ones.
    pub(super) fn added(&self) -> (u64, u64) {
        (self.converted.saturating_sub(self.stored), self.turns)
    }

    /// The lineage a record begins with, after its first steps.
    pub(super) fn lineage(&mut self) -> Lineage {
        self.lineage.get_or_insert_with(|| self.row.clone()).clone()
    }

    /// Converts a step into a change. The first session makes no change: the record begins with it.
    pub(super) fn convert(&mut self, step: ImportStep) -> Option<Change> {
        match step {
            ImportStep::Session { session, inner, reason } => {
                // The record's file overrides the journal for the current session.
                let row = self.row.current();
                let inner = if row.session == session { row.agent_session.clone() } else { inner };
                match &mut self.lineage {
                    None => {
                        self.lineage = Some(Lineage::imported(session, inner, self.created_at));
                        None
                    }
                    Some(lineage) if lineage.current().session == session => None,
                    Some(lineage) => {
                        self.last_stored_session = Some(session.clone());
                        lineage.replace(session, inner, reason, self.used_at);
                        Some(Change::Lineage(lineage.clone()))
                    }
                }
            }
            ImportStep::Servers(names) => {
                let servers: Vec<McpServerRef> =
                    names.into_iter().map(|name| McpServerRef { name, source: None }).collect();
                let is_new = servers != self.servers;
                self.servers.clone_from(&servers);
                is_new.then_some(Change::McpServers(servers))
            }
            ImportStep::Turn(turn) => {
                self.turns += 1;
                Some(Change::Turn(*turn))
            }
            ImportStep::Line(line) => Some(Change::Event(self.event(line))),
        }
    }

    /// Numbers an event. Journals contain no times: the first event gets the record's first time, all others its
    /// last.
    fn event(&mut self, line: ImportEvent) -> Event {
        self.converted += 1;
        let ImportEvent { turn, direction, kind, body } = line;
        Event {
            seq: Seq(self.converted),
            at: if self.converted == 1 { self.created_at } else { self.used_at },
            turn,
            lineage: self.lineage.as_ref().map_or(LineageIndex::FIRST, Lineage::current_index),
            protocol: PROTOCOL,
            direction,
            kind,
            body,
        }
    }

    /// The changes from the record's file that are not in the journal. `redact` redacts the journal's secrets.
    pub(super) fn remaining_changes(&mut self, redact: impl Fn(&str) -> String) -> Vec<Change> {
        let latest = self.row.current();
        let before = self.lineage.as_ref().unwrap_or(&self.row);
        let mut lineage = before.clone();
        if lineage.current().session == latest.session {
            lineage.set_agent_session(latest.agent_session.clone(), self.used_at);
        } else {
            let (session, inner) = (latest.session.clone(), latest.agent_session.clone());
            lineage.replace(session, inner, LineageReason::LoadFailed, self.used_at);
        }
        let mut changes = std::mem::take(&mut self.pending);
        let title = self.title.take().map(|title| redact(&title));
        if title.is_some() && title != self.stored_title {
            changes.push(Change::Title(title));
        }
        if lineage != *before {
            changes.push(Change::Lineage(lineage.clone()));
        }
        self.lineage = Some(lineage);
        changes
    }
}
