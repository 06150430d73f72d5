//! Who can be asked what an agent asks: the client of a turn while it waits for it, and the clients that have a record in
//! use, each in a seat of its own. Nobody is asked who has left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::acp::agent::{ClientLink, FileAccess};
use crate::engine::ClientOffer;
use crate::model::RecordId;

use super::pending::OpenQuestions;
use super::url_elicitations::UrlElicitations;
use crate::host::attach::delivered::DeliveryProgress;

/// The clients that can be asked about each record.
#[derive(Debug)]
pub(crate) struct Responders {
    /// How long a turn's client may take nothing before others are asked as well.
    patience: Duration,
    seats: Mutex<Seats>,
    /// Changes whenever a client comes or goes.
    changed: watch::Sender<()>,
    open: Arc<OpenQuestions>,
}

type Seats = HashMap<RecordId, Vec<Responder>>;

/// A client that can be asked.
#[derive(Debug, Clone)]
pub(crate) struct Responder {
    pub(crate) connection: ConnectionId,
    pub(crate) link: ClientLink,
    /// What it does for agents by itself.
    pub(crate) offers: ClientServices,
    /// How far it has been told what the question may be about.
    pub(crate) progress: DeliveryProgress,
    /// The same, as it was exchanged.
    pub(crate) watched: DeliveryProgress,
    /// What it was asked that is completed elsewhere.
    pub(crate) elicited: UrlElicitations,
}

/// What a client does for any agent by itself, without asking its user each time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientServices {
    pub(crate) fs: FileAccess,
    pub(crate) terminal: bool,
}

impl ClientServices {
    pub(crate) fn has(self, offer: ClientOffer) -> bool {
        match offer {
            ClientOffer::Reading => self.fs.read,
            ClientOffer::Writing => self.fs.write,
            ClientOffer::Terminals => self.terminal,
        }
    }
}

/// Which connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// One client's place among those that can be asked about a record. Dropped, it is asked no more.
#[derive(Debug)]
pub(crate) struct ResponderGuard {
    askable: Arc<Responders>,
    record: RecordId,
    connection: ConnectionId,
    progress: DeliveryProgress,
}

/// That the client of a turn waits for it. Dropped, it no longer does.
#[derive(Debug, Default)]
pub(crate) struct Presence(watch::Sender<()>);

/// The client of a turn, as long as it waits for it.
#[derive(Debug, Clone)]
pub(crate) struct TurnResponder {
    pub(crate) client: Responder,
    presence: watch::Receiver<()>,
    /// Whether it has a person before it who can be asked for a permission.
    pub(crate) takes_permissions: bool,
}

impl Responders {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, seats: Mutex::default(), changed: watch::Sender::default(), open: Arc::default() }
    }

    /// How long a turn's client may take nothing before others are asked as well.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Gives a client a place among those that are asked about a record. It is about to be told what happens there, if
    /// it is not already, and is asked after that.
    pub(crate) fn sit(self: &Arc<Self>, record: &RecordId, client: Responder) -> ResponderGuard {
        let (connection, progress) = (client.connection, client.progress.clone());
        progress.expect();
        self.seats().entry(record.clone()).or_default().push(client);
        self.changed.send_replace(());
        ResponderGuard { askable: Arc::clone(self), record: record.clone(), connection, progress }
    }

    /// Whether anybody but this one can be asked about a record.
    pub(crate) fn has_others(&self, record: &RecordId, than: ConnectionId) -> bool {
        self.of(record).iter().any(|client| client.connection != than)
    }

    /// The permissions that are waited for.
    pub(crate) fn open(&self) -> &Arc<OpenQuestions> {
        &self.open
    }

    /// Those who can be asked about a record.
    pub(crate) fn of(&self, record: &RecordId) -> Vec<Responder> {
        self.seats().get(record).cloned().unwrap_or_default()
    }

    /// Tells when a client comes or goes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResponderGuard {
    /// How far its client has been told what happens.
    pub(crate) fn progress(&self) -> &DeliveryProgress {
        &self.progress
    }
}

impl Drop for ResponderGuard {
    fn drop(&mut self) {
        self.progress.expect_nothing();
        let mut seats = self.askable.seats();
        if let Some(here) = seats.get_mut(&self.record) {
            // A client that loads a record again has two for a moment.
            if let Some(index) = here.iter().position(|client| client.connection == self.connection) {
                here.swap_remove(index);
            }
            if here.is_empty() {
                seats.remove(&self.record);
            }
        }
        drop(seats);
        self.askable.changed.send_replace(());
    }
}

impl Presence {
    /// The client that is present.
    pub(crate) fn of(&self, client: Responder, takes_permissions: bool) -> TurnResponder {
        TurnResponder { client, presence: self.0.subscribe(), takes_permissions }
    }
}

impl TurnResponder {
    pub(crate) fn is_there(&self) -> bool {
        self.presence.has_changed().is_ok()
    }

    pub(crate) async fn gone(&mut self) {
        // Nothing is ever sent: the only news is that nobody is there.
        while self.presence.changed().await.is_ok() {}
    }
}
