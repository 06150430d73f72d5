//! The sessions that the server may show: of its project, not private and not deleted. Every tool finds sessions here alone.
//!
//! A session that may not be shown is reported like one that does not exist.

use std::collections::HashSet;
use std::path::Path;

use acpx_core::index::{IndexExclusions, SearchHit, SessionOrigin, SessionPlace};
use acpx_core::model::{Record, RecordId};
use acpx_core::store::{RecordFilter, SqliteStore, Store};

use crate::error::CliError;
use crate::session::host_locator::HostLocator;
use crate::session::lookup::SHORTEST_PREFIX;
use crate::session::private::PrivateIds;
use crate::session::project_scope::ProjectScope;
use crate::session::search_index::{self, OwnedSessions, UPDATE_LIMIT, UpdatedIndex};
use crate::session::settings::CommandSettings;

/// How many sessions with an ambiguous prefix are considered.
const MOST_MATCHES: usize = 1000;
/// How many of them are named.
const NAMED_MATCHES: usize = 10;

/// What is stored, and what of it may be shown.
pub(super) struct VisibleSessions<'a> {
    pub(super) locator: HostLocator,
    pub(super) store: Option<SqliteStore>,
    /// The index, or why it cannot be used; `None` if it was not opened.
    pub(super) index: Option<Result<UpdatedIndex, CliError>>,
    /// The sessions of the index, the last used first.
    places: Vec<SessionPlace>,
    private: PrivateIds,
    /// The native sessions of deleted records.
    deleted: HashSet<String>,
    scope: &'a ProjectScope,
}

/// A session that may be shown.
pub(super) enum VisibleSession {
    Record(Box<Record>),
    /// A transcript that only the agent keeps.
    Transcript(Box<SessionPlace>),
}

impl<'a> VisibleSessions<'a> {
    /// Reads the store alone: transcripts that only an agent keeps are not found.
    pub(super) async fn of_store(scope: &'a ProjectScope) -> Result<Self, CliError> {
        let locator = HostLocator::of_environment()?;
        let store = locator.open_store()?;
        let stored = store.as_ref().map(|store| store as &dyn Store);
        let private = PrivateIds::read(locator.paths.home(), stored, &[]).await?;
        Ok(Self { locator, store, index: None, places: Vec::new(), private, deleted: HashSet::new(), scope })
    }

    /// Reads the store, and the index after it was brought up to date.
    pub(super) async fn read(
        settings: &CommandSettings,
        exclusions: &IndexExclusions,
        scope: &'a ProjectScope,
    ) -> Result<Self, CliError> {
        let locator = HostLocator::of_environment()?;
        let store = locator.open_store()?;
        let mut index = updated_with_places(settings, exclusions).await;
        if index.as_ref().is_err_and(search_index::is_damage) {
            index = updated_with_places(settings, exclusions).await;
        }
        let (places, index) = match index {
            Ok((places, updated)) => (places, Ok(updated)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let stored = store.as_ref().map(|store| store as &dyn Store);
        let private = PrivateIds::read(locator.paths.home(), stored, &places).await?;
        let natives = places.iter().filter(|place| place.session.origin == SessionOrigin::Transcript);
        let owned =
            OwnedSessions::read(stored, natives.map(|place| (&*place.session.agent, owner_of(place))));
        let deleted = owned.await?.deleted;
        Ok(Self { locator, store, index: Some(index), places, private, deleted, scope })
    }

    /// Whether a record may be shown.
    pub(super) fn sees(&self, record: &Record) -> bool {
        !record.lifecycle.is_deleted()
            && self.scope.contains(record.real_cwd.as_path())
            && !self.private.covers(record)
    }

    fn sees_place(&self, place: &SessionPlace) -> bool {
        let is_in_scope = match &place.session.real_directory {
            Some(directory) => self.scope.contains(directory),
            // Its project is not known.
            None => *self.scope == ProjectScope::All,
        };
        let ids = [Some(&place.session.session), place.parent.as_ref(), place.fork_of.as_ref()];
        let is_native = place.session.origin == SessionOrigin::Transcript;
        // Codex also archives what its user deletes. A record that continues the session is shown all the same.
        let is_archived = is_native && place.session.is_archived && !place.is_continued;
        let is_deleted = is_archived || is_native && self.deleted.contains(owner_of(place));
        // It may be a copy of a private session, and not say so yet.
        let is_unknown = is_native && !place.session.is_read && !self.private.is_empty();
        is_in_scope
            && !is_deleted
            && !is_unknown
            && !ids.into_iter().flatten().any(|id| self.private.contains(id))
    }

    /// The transcripts to list: those of no sub-agent and of no record.
    pub(super) fn transcripts(&self) -> impl Iterator<Item = &SessionPlace> {
        self.places.iter().filter(|place| {
            let is_own = place.session.origin == SessionOrigin::Transcript
                && place.parent.is_none()
                && !place.is_continued
                && (place.session.prompts > 0 || !place.session.is_read);
            is_own && self.sees_place(place)
        })
    }

    /// The sessions that a search leaves out, and those that it may find.
    pub(super) fn search_sets(&self) -> (HashSet<String>, HashSet<String>) {
        let (visible, hidden): (Vec<_>, Vec<_>) =
            self.places.iter().partition(|place| self.sees_place(place));
        let ids =
            |places: Vec<&SessionPlace>| places.iter().map(|place| place.session.session.clone()).collect();
        let is_near = |place: &&SessionPlace| match (self.scope.root(), &place.session.real_directory) {
            (Some(root), Some(directory)) => directory.starts_with(root),
            _ => true,
        };
        (ids(hidden.into_iter().filter(is_near).collect()), ids(visible))
    }

    /// Leaves out hits in records that are deleted or gone: the index may be older than a deletion.
    pub(super) async fn retain_stored(&self, hits: Vec<SearchHit>) -> Result<Vec<SearchHit>, CliError> {
        let mut kept = Vec::with_capacity(hits.len());
        for hit in hits {
            let is_stored = match (hit.origin, &self.store, RecordId::new(&*hit.session)) {
                (SessionOrigin::Transcript, ..) => true,
                (SessionOrigin::Record, Some(store), Ok(id)) => {
                    store.record(id).await?.is_some_and(|record| self.sees(&record))
                }
                (SessionOrigin::Record, ..) => false,
            };
            kept.extend(is_stored.then_some(hit));
        }
        Ok(kept)
    }

    /// The index, which must have been opened; the error is in words.
    pub(super) fn index(&self) -> Result<&UpdatedIndex, String> {
        match &self.index {
            Some(Ok(updated)) => Ok(updated),
            Some(Err(error)) => Err(error_words(error)),
            None => Err("the index was not opened".to_owned()),
        }
    }

    /// The record with exactly this id, if the store alone can tell that it may be shown: where a session is private,
    /// the index has the copies of it.
    pub(super) async fn record(&self, id: &str) -> Result<Option<Record>, CliError> {
        if !self.private.is_empty() {
            return Ok(None);
        }
        let (Some(store), Ok(id)) = (&self.store, RecordId::new(id)) else { return Ok(None) };
        Ok(store.record(id).await?.filter(|record| self.sees(record)))
    }

    /// The session with this id, or with the only id that begins like this; the error is in words.
    pub(super) async fn find(&self, reference: &str) -> Result<VisibleSession, String> {
        let mut records = self.records_like(reference).await.map_err(|error| error.message())?;
        let exact = records.iter().position(|record| record.id.as_str() == reference);
        if let Some(index) = exact {
            return Ok(VisibleSession::Record(Box::new(records.swap_remove(index))));
        }
        let is_long_enough = reference.chars().count() >= SHORTEST_PREFIX;
        let transcripts: Vec<&SessionPlace> = self
            .places
            .iter()
            .filter(|place| {
                let id = &place.session.session;
                let is_meant =
                    id == reference || is_long_enough && place.parent.is_none() && id.starts_with(reference);
                place.session.origin == SessionOrigin::Transcript && is_meant && self.sees_place(place)
            })
            .collect();
        if let Some(place) = transcripts.iter().find(|place| place.session.session == reference) {
            return Ok(VisibleSession::Transcript(Box::new((*place).clone())));
        }
        // A transcript that a record continues is the same session.
        let others = transcripts.into_iter().filter(|place| !place.is_continued).collect::<Vec<_>>();
        let ids: HashSet<&str> = others.iter().map(|place| place.session.session.as_str()).collect();
        match (records.len(), ids.len()) {
            (1, 0) => Ok(VisibleSession::Record(Box::new(records.swap_remove(0)))),
            (0, 1) => Ok(VisibleSession::Transcript(Box::new(others[0].clone()))),
            (0, 0) => Err("there is no such session here; list_sessions lists them".to_owned()),
            _ => {
                let ids = records.iter().map(|record| record.id.to_string());
                let ids: Vec<String> = ids
                    .chain(others.iter().map(|place| place.session.session.clone()))
                    .take(NAMED_MATCHES)
                    .collect();
                Err(format!("several sessions begin like this: {}", ids.join(", ")))
            }
        }
    }

    /// The records with this id or beginning of an id.
    async fn records_like(&self, reference: &str) -> Result<Vec<Record>, CliError> {
        let (Some(store), Ok(id)) = (&self.store, RecordId::new(reference)) else { return Ok(Vec::new()) };
        let mut records: Vec<Record> = store.record(id).await?.into_iter().collect();
        if records.is_empty() && reference.chars().count() >= SHORTEST_PREFIX {
            let filter = RecordFilter::default();
            records = store.records_by_id_prefix(filter, reference.to_owned(), MOST_MATCHES).await?;
        }
        records.retain(|record| self.sees(record));
        Ok(records)
    }

    /// Whether a directory that a caller names is within the scope, by its real path.
    pub(super) fn allows(&self, directory: &Path) -> bool {
        self.scope.contains(directory)
    }

    /// The root of the project, unless every project is shown.
    pub(super) fn root(&self) -> Option<&Path> {
        self.scope.root()
    }
}

async fn updated_with_places(
    settings: &CommandSettings,
    exclusions: &IndexExclusions,
) -> Result<(Vec<SessionPlace>, UpdatedIndex), CliError> {
    let updated = search_index::updated_silently(settings, exclusions, UPDATE_LIMIT).await?;
    Ok((updated.index.places()?, updated))
}

/// The session that decides whether a transcript is shown: a sub-agent's belongs to the session that started it.
fn owner_of(place: &SessionPlace) -> &str {
    place.parent.as_ref().unwrap_or(&place.session.session)
}

/// The message of an error with its hint.
pub(super) fn error_words(error: &CliError) -> String {
    match error.hint() {
        Some(hint) => format!("{}; {hint}", error.message()),
        None => error.message(),
    }
}
