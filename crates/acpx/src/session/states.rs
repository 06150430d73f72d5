//! What stored sessions are doing, from the store and, while turns run, from the host that runs them. Nothing is started.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use acpx_core::home::{HostPaths, listens};
use acpx_core::model::{Lifecycle, Record, RecordId};
use acpx_core::protocol::{PendingMeta, PendingParams, PendingRequestMeta};
use acpx_core::store::{OpenTurns, SqliteStore, Store};
use tokio::time::timeout;

use super::host_locator::HostLocator;
use super::lookup::agent_lives;
use crate::error::CliError;
use crate::output::ListedState;

/// How long the host may take to report which sessions wait for an answer.
const HOST_TIMEOUT: Duration = Duration::from_millis(300);

/// What is going on in the sessions of a home.
pub(crate) struct SessionStates<'a> {
    paths: &'a HostPaths,
    open_turns: HashMap<RecordId, OpenTurns>,
    /// Whether a host runs the turns that were sent.
    host_lives: bool,
    /// The sessions with a pending request.
    waiting: HashSet<RecordId>,
}

impl<'a> SessionStates<'a> {
    /// Reads the open turns. The host is asked only if a turn may run.
    pub(crate) async fn read(store: &SqliteStore, locator: &'a HostLocator) -> Result<Self, CliError> {
        let open_turns: HashMap<RecordId, OpenTurns> =
            store.records_with_open_turns().await?.into_iter().collect();
        let may_run = open_turns.values().any(|turns| turns.has_dispatched);
        let host_lives = may_run && listens(&locator.paths);
        let pending =
            if host_lives { pending_requests(locator, None, HOST_TIMEOUT).await } else { Vec::new() };
        let waiting = pending.into_iter().map(|request| request.ids.record).collect();
        Ok(Self { paths: &locator.paths, open_turns, host_lives, waiting })
    }

    /// What a session is doing.
    pub(crate) fn of(&self, record: &Record) -> ListedState {
        if record.lifecycle != Lifecycle::Open {
            return ListedState::Closed;
        }
        match self.open_turns.get(&record.id) {
            Some(turns) if turns.has_dispatched && self.host_lives => {
                if self.waiting.contains(&record.id) {
                    ListedState::Waiting
                } else {
                    ListedState::Working
                }
            }
            Some(turns) if turns.has_queued => ListedState::Queued,
            // A turn that was sent by a dead host is interrupted.
            _ if agent_lives(record, self.paths) => ListedState::Idle,
            _ => ListedState::Parked,
        }
    }
}

/// The pending requests of one record, or of all: none if no host answers in time.
pub(crate) async fn pending_requests(
    locator: &HostLocator,
    record: Option<&RecordId>,
    limit: Duration,
) -> Vec<PendingRequestMeta> {
    let request = async {
        let mut client = locator.running().await.ok()??;
        let params =
            PendingParams { session_id: record.map(ToString::to_string), ..PendingParams::default() };
        client.call::<PendingMeta>("_acpx/pending", &params).await.ok()
    };
    let answered = timeout(limit, request).await.ok().flatten();
    answered.map(|pending| pending.questions).unwrap_or_default()
}
