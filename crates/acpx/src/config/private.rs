//! The sessions that the user has marked as private, in `private.json` of the home. `acpx mcp` never shows them.
//!
//! The marks are not in the search index, because that can be deleted at any time, nor in the store, because a session
//! that only the agent keeps can be marked too.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::home_file::HomeFile;
use crate::http::tokens::now;

/// Maximum size of the file.
const LARGEST: u64 = 16 << 20;

/// A marked session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrivateMark {
    /// The id of the record, or the one that the agent gave the session.
    pub(crate) session: String,
    /// Its agent.
    pub(crate) agent: String,
    /// When it was marked.
    pub(crate) marked_at: String,
}

/// The marks of a home.
#[derive(Debug, Clone)]
pub(crate) struct PrivateMarks {
    file: HomeFile<PrivateContents>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PrivateContents {
    sessions: Vec<PrivateMark>,
}

/// `private.json` cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the private sessions in {}", file.display())]
pub(crate) struct PrivateError {
    /// The file.
    file: PathBuf,
    /// The I/O error.
    #[source]
    source: io::Error,
}

impl PrivateMarks {
    /// The marks of this home.
    pub(crate) fn of(home: &Path) -> Self {
        Self { file: HomeFile::new(home.join("private.json"), LARGEST) }
    }

    /// The marked sessions, the first marked first.
    pub(crate) fn list(&self) -> Result<Vec<PrivateMark>, PrivateError> {
        Ok(self.file.read().map_err(|source| self.unusable(source))?.sessions)
    }

    /// Marks a session. Marking it again changes nothing.
    pub(crate) fn add(&self, session: &str, agent: &str) -> Result<(), PrivateError> {
        self.change(|sessions| {
            if sessions.iter().all(|known| known.session != session) {
                let (session, agent) = (session.to_owned(), agent.to_owned());
                sessions.push(PrivateMark { session, agent, marked_at: now().to_string() });
            }
        })
    }

    /// Removes the marks of these sessions.
    pub(crate) fn remove(&self, ids: &HashSet<String>) -> Result<(), PrivateError> {
        self.change(|sessions| sessions.retain(|known| !ids.contains(&known.session)))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<PrivateMark>)) -> Result<(), PrivateError> {
        let changed = self.file.change(|contents| {
            change(&mut contents.sessions);
            Ok::<_, PrivateError>(())
        });
        changed.map_err(|source| self.unusable(source))?
    }

    fn unusable(&self, source: io::Error) -> PrivateError {
        PrivateError { file: self.file.path().to_owned(), source }
    }
}
