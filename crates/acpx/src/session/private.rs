//! Which sessions are private: everything that has the same conversation as a marked session.
//!
//! A mark covers a record with all its ACP sessions and their transcripts, the transcripts of sub-agents, and copies
//! that the agent made. If the marks cannot be read, that is an error: nothing private is shown by mistake.

use std::collections::HashSet;
use std::path::Path;

use acpx_core::index::SessionPlace;
use acpx_core::model::Record;
use acpx_core::store::{RecordFilter, Store};

use crate::config::private::PrivateMarks;
use crate::error::CliError;

/// How many records are compared at a time.
const RECORD_PAGE: usize = 256;

/// The ids of all private sessions: those of records, of ACP sessions and of transcripts.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrivateIds {
    ids: HashSet<String>,
}

impl PrivateIds {
    /// The private sessions of a home, with everything that its marks cover.
    pub(crate) async fn read(
        home: &Path,
        store: Option<&dyn Store>,
        places: &[SessionPlace],
    ) -> Result<Self, CliError> {
        let marks = PrivateMarks::of(home).list()?;
        let mut private = Self { ids: marks.into_iter().map(|mark| mark.session).collect() };
        if private.ids.is_empty() {
            return Ok(private);
        }
        let records = match store {
            Some(store) => ids_of_records(store).await?,
            None => Vec::new(),
        };
        // A record may share an ACP session with another one, such as an imported copy.
        while private.grows(&records, places) {}
        Ok(private)
    }

    /// Adds what shares an id with a private session, or comes from one; whether there was any.
    fn grows(&mut self, records: &[Vec<String>], places: &[SessionPlace]) -> bool {
        let before = self.ids.len();
        for ids in records {
            if ids.iter().any(|id| self.ids.contains(id)) {
                self.ids.extend(ids.iter().cloned());
            }
        }
        for place in places {
            let origins = [place.parent.as_ref(), place.fork_of.as_ref()];
            if origins.into_iter().flatten().any(|id| self.ids.contains(id)) {
                self.ids.insert(place.session.session.clone());
            }
        }
        self.ids.len() > before
    }

    /// Whether no session is private.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether a session is private, by any id of it.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Whether a record is private.
    pub(crate) fn covers(&self, record: &Record) -> bool {
        ids_of(record).iter().any(|id| self.ids.contains(id))
    }
}

/// The ids of a record: its own, and those of its ACP sessions.
pub(crate) fn ids_of(record: &Record) -> Vec<String> {
    let mut ids = vec![record.id.to_string()];
    for row in record.lineage.rows() {
        ids.push(row.session.to_string());
        ids.extend(row.agent_session.as_ref().map(ToString::to_string));
    }
    ids
}

/// The ids of every record.
async fn ids_of_records(store: &dyn Store) -> Result<Vec<Vec<String>>, CliError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.records(RecordFilter::default(), after.take(), RECORD_PAGE).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = Some((last.updated_at, last.id.clone()));
        all.extend(page.iter().map(ids_of));
    }
}
