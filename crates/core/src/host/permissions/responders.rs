//! Tracks which clients can answer an agent's requests: the client of a turn while it waits for the turn, and the
//! clients that use a record. Clients that disconnect are removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::acp::agent::{ClientLink, FileAccess};
use crate::engine::ClientOffer;
use crate::model::RecordId;
use crate::sync::Lock;

use super::pending::PendingRequests;
use super::url_elicitations::UrlElicitations;
use crate::host::attach::delivered::DeliveryProgress;

/// The responders of each record.
#[derive(Debug)]
pub(crate) struct Responders {
    /// How long a turn's client may read nothing before others are asked as well.
    ask_others_after: Duration,
    by_record: Lock<RespondersByRecord>,
    /// Changes when a responder is added or removed.
    changed: watch::Sender<()>,
    pending: Arc<PendingRequests>,
}

type RespondersByRecord = HashMap<RecordId, Vec<Responder>>;

/// A client that can answer requests.
#[derive(Debug, Clone)]
pub(crate) struct Responder {
    pub(crate) connection: ConnectionId,
    pub(crate) link: ClientLink,
    /// The services it provides to agents.
    pub(crate) services: ClientServices,
    /// Its update stream's progress: a request waits until the events it refers to were delivered.
    pub(crate) updates: DeliveryProgress,
    /// The same for its raw event stream.
    pub(crate) events: DeliveryProgress,
    /// The URL elicitations it was sent.
    pub(crate) url_elicitations: UrlElicitations,
}

/// What a client does for any agent without asking its user each time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientServices {
    pub(crate) fs: FileAccess,
    pub(crate) terminal: bool,
}

impl ClientServices {
    pub(crate) fn include(self, offer: ClientOffer) -> bool {
        match offer {
            ClientOffer::Reading => self.fs.read,
            ClientOffer::Writing => self.fs.write,
            ClientOffer::Terminals => self.terminal,
        }
    }
}

/// The number of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// Registers a client as a responder of a record. Dropping it unregisters the client.
#[derive(Debug)]
pub(crate) struct ResponderGuard {
    responders: Arc<Responders>,
    record: RecordId,
    connection: ConnectionId,
    progress: DeliveryProgress,
}

/// Held while the client of a turn waits for it.
#[derive(Debug, Default)]
pub(crate) struct PresenceGuard(watch::Sender<()>);

/// The client of a turn, valid while its [`PresenceGuard`] exists.
#[derive(Debug, Clone)]
pub(crate) struct TurnResponder {
    pub(crate) client: Responder,
    presence: watch::Receiver<()>,
    /// Whether it is interactive, so that permission requests can be sent to it.
    pub(crate) is_interactive: bool,
}

impl Responders {
    pub(crate) fn new(ask_others_after: Duration) -> Self {
        Self {
            ask_others_after,
            by_record: Lock::default(),
            changed: watch::Sender::default(),
            pending: Arc::default(),
        }
    }

    /// How long a turn's client may read nothing before others are asked as well.
    pub(crate) fn ask_others_after(&self) -> Duration {
        self.ask_others_after
    }

    /// Registers a responder for a record. Requests wait until its update stream, which may yet have to start, has
    /// delivered the events they refer to.
    pub(crate) fn register(self: &Arc<Self>, record: &RecordId, client: Responder) -> ResponderGuard {
        let (connection, progress) = (client.connection, client.updates.clone());
        progress.expect_stream();
        self.by_record.lock().entry(record.clone()).or_default().push(client);
        self.changed.send_replace(());
        ResponderGuard { responders: Arc::clone(self), record: record.clone(), connection, progress }
    }

    /// Whether a record has a responder on another connection.
    pub(crate) fn has_others(&self, record: &RecordId, than: ConnectionId) -> bool {
        self.of(record).iter().any(|client| client.connection != than)
    }

    /// The pending requests.
    pub(crate) fn pending(&self) -> &Arc<PendingRequests> {
        &self.pending
    }

    /// The responders of a record.
    pub(crate) fn of(&self, record: &RecordId) -> Vec<Responder> {
        self.by_record.lock().get(record).cloned().unwrap_or_default()
    }

    /// Notifies when a responder is added or removed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl ResponderGuard {
    /// The client's delivery progress.
    pub(crate) fn progress(&self) -> &DeliveryProgress {
        &self.progress
    }
}

impl Drop for ResponderGuard {
    fn drop(&mut self) {
        self.progress.cancel_expected();
        let mut by_record = self.responders.by_record.lock();
        if let Some(own) = by_record.get_mut(&self.record) {
            // A client that loads a record again is registered twice for a moment.
            if let Some(index) = own.iter().position(|client| client.connection == self.connection) {
                own.swap_remove(index);
            }
            if own.is_empty() {
                by_record.remove(&self.record);
            }
        }
        drop(by_record);
        self.responders.changed.send_replace(());
    }
}

impl PresenceGuard {
    /// The client of the turn, present while `self` exists.
    pub(crate) fn turn_responder(&self, client: Responder, is_interactive: bool) -> TurnResponder {
        TurnResponder { client, presence: self.0.subscribe(), is_interactive }
    }
}

impl TurnResponder {
    pub(crate) fn is_connected(&self) -> bool {
        self.presence.has_changed().is_ok()
    }

    pub(crate) async fn disconnected(&mut self) {
        // Nothing is ever sent: the channel only closes.
        while self.presence.changed().await.is_ok() {}
    }
}
