//! Who is asked what an agent asks.
//!
//! A question of a turn is put to the turn's own client as long as that is there, and otherwise to every other client
//! that has the record in use and a person before it. The first answer counts, and from the rest the question is taken
//! back. Where nobody is left to ask, nobody's word decides. A question never outlives its turn: what is said after
//! that grants nothing.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::acp::agent::{AskError, ClientLink, PermissionOutcome};
use crate::acp::{pass_on_params, translate};
use crate::engine::{Advice, Question, QuestionKind};
use crate::model::{ProtocolVersion, RecordId};
use crate::wire::WireError;

/// How many questions of one turn may be open, and as many again may wait for that.
const QUESTIONS: usize = 16;

/// The id of the tool call that a permission is about in version 1, if it is about none.
const NO_CALL: &str = "permission";

/// The clients that can be asked about each record.
#[derive(Debug, Default)]
pub(super) struct Askable {
    seats: Mutex<HashMap<RecordId, Vec<(ConnectionId, ClientLink)>>>,
    /// Changes whenever a client comes or goes.
    changed: watch::Sender<()>,
}

/// Which connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ConnectionId(pub(super) u64);

/// One client's place among those that can be asked about a record. Dropped, it is asked no more.
#[derive(Debug)]
pub(super) struct Seat {
    askable: Arc<Askable>,
    record: RecordId,
    connection: ConnectionId,
}

/// That the client of a turn waits for it. Dropped, it no longer does.
#[derive(Debug, Default)]
pub(super) struct Presence(watch::Sender<()>);

/// The client of a turn, as long as it waits for it.
#[derive(Debug, Clone)]
pub(super) struct TurnClient {
    connection: ConnectionId,
    link: ClientLink,
    presence: watch::Receiver<()>,
}

/// What an agent asks, as it is put to clients.
struct Asked {
    kind: QuestionKind,
    params: String,
    /// The version of the protocol that they are in.
    version: ProtocolVersion,
}

/// What came of asking one client.
enum Said {
    Answer(Advice),
    /// It is there, and cannot be asked, or says nothing that can be understood.
    Nothing,
    /// It is gone.
    Gone,
}

impl Askable {
    /// Gives a client a place among those that are asked about a record.
    pub(super) fn sit(
        self: &Arc<Self>,
        record: &RecordId,
        connection: ConnectionId,
        link: &ClientLink,
    ) -> Seat {
        let mut seats = self.seats();
        let here = seats.entry(record.clone()).or_default();
        here.push((connection, link.clone()));
        drop(seats);
        self.changed.send_replace(());
        Seat { askable: Arc::clone(self), record: record.clone(), connection }
    }

    /// Whether anybody but this one can be asked about a record.
    pub(super) fn has_others(&self, record: &RecordId, than: ConnectionId) -> bool {
        self.of(record).iter().any(|(connection, _)| *connection != than)
    }

    fn of(&self, record: &RecordId) -> Vec<(ConnectionId, ClientLink)> {
        self.seats().get(record).cloned().unwrap_or_default()
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<RecordId, Vec<(ConnectionId, ClientLink)>>> {
        // Nothing panics while it holds the lock, and every step leaves the map whole.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.askable.seats();
        if let Some(here) = seats.get_mut(&self.record) {
            // A client that loads a record again has two for a moment.
            if let Some(index) = here.iter().position(|(connection, _)| *connection == self.connection) {
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
    pub(super) fn of(&self, connection: ConnectionId, link: &ClientLink) -> TurnClient {
        TurnClient { connection, link: link.clone(), presence: self.0.subscribe() }
    }
}

impl TurnClient {
    fn is_there(&self) -> bool {
        self.presence.has_changed().is_ok()
    }

    async fn gone(&mut self) {
        // Nothing is ever sent: the only news is that nobody is there.
        while self.presence.changed().await.is_ok() {}
    }
}

/// A way for questions about a record, and what sees to it that they are answered until there can be no more.
pub(super) fn route(
    askable: Arc<Askable>,
    record: RecordId,
    own: Option<TurnClient>,
) -> (mpsc::Sender<Question>, impl Future<Output = ()> + Send + 'static) {
    let (advisor, mut asked) = mpsc::channel(QUESTIONS);
    let routing = async move {
        let mut open = JoinSet::new();
        let mut is_over = false;
        while !is_over || !open.is_empty() {
            tokio::select! {
                question = asked.recv(), if !is_over && open.len() < QUESTIONS => match question {
                    Some(question) => {
                        let (askable, record, own) = (Arc::clone(&askable), record.clone(), own.clone());
                        open.spawn(settle(question, askable, record, own));
                    }
                    None => is_over = true,
                },
                Some(_) = open.join_next() => {}
            }
        }
    };
    (advisor, routing)
}

/// Puts a question to those it is for, until one has answered or nobody is left who can.
async fn settle(
    mut question: Question,
    askable: Arc<Askable>,
    record: RecordId,
    mut own: Option<TurnClient>,
) {
    let Some(asked) = Asked::of(&question, &record) else { return question.answer(Advice::Reject) };
    let asked = Arc::new(asked);
    own = own.filter(|own| asked.is_for(&own.link));
    let mut changed = askable.changed.subscribe();
    let mut put_to = HashSet::new();
    let mut asking = JoinSet::new();
    let mut is_anybody_there = false;
    loop {
        own = own.filter(TurnClient::is_there);
        let to_ask = match &own {
            Some(own) => vec![(own.connection, own.link.clone())],
            None => askable.of(&record),
        };
        for (connection, link) in to_ask {
            if asked.is_for(&link) && put_to.insert(connection) {
                let asked = Arc::clone(&asked);
                asking.spawn(async move { (connection, asked.put(&link).await) });
            }
        }
        if asking.is_empty() {
            // What somebody is asked and does not allow is not allowed; where nobody is, nobody's word decides.
            return if is_anybody_there { question.answer(Advice::Reject) } else { drop(question) };
        }
        let own_is_gone = async {
            match &mut own {
                Some(own) => own.gone().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = question.withdrawn() => return,
            Some(said) = asking.join_next() => match said {
                Ok((_, Said::Answer(advice))) => return question.answer(advice),
                Ok((_, Said::Nothing)) => is_anybody_there = true,
                Ok((connection, Said::Gone)) => {
                    own = own.filter(|own| own.connection != connection);
                }
                // Nothing ends it but ourselves.
                Err(_) => {}
            },
            () = own_is_gone => {}
            _ = changed.changed() => {}
        }
    }
}

impl Asked {
    /// A question about a record, as its clients call it; `None` if it is about no session.
    fn of(question: &Question, record: &RecordId) -> Option<Self> {
        let params = pass_on_params(question.params(), record.as_str())?;
        Some(Self { kind: question.kind(), params, version: question.version() })
    }

    /// Whether a client takes such a question. Every client takes permissions.
    fn is_for(&self, link: &ClientLink) -> bool {
        #[derive(Deserialize)]
        struct Mode<'a> {
            #[serde(borrow)]
            mode: Option<Cow<'a, str>>,
        }
        let taken = link.client().elicitation;
        match self.kind {
            QuestionKind::Permission => true,
            QuestionKind::Elicitation => match serde_json::from_str(&self.params) {
                Ok(Mode { mode: Some(mode) }) if mode == "url" => taken.url,
                _ => taken.form,
            },
        }
    }

    /// The params in a client's version of the protocol; `None` if they cannot be said in it.
    fn in_version(&self, version: ProtocolVersion) -> Option<Cow<'_, str>> {
        let translated = match (self.kind, self.version, version) {
            (QuestionKind::Permission, ProtocolVersion::V1, ProtocolVersion::V2) => {
                translate::permission_to_v2(&self.params)
            }
            (QuestionKind::Permission, ProtocolVersion::V2, ProtocolVersion::V1) => {
                translate::permission_to_v1(&self.params, NO_CALL)
            }
            (QuestionKind::Elicitation, ProtocolVersion::V1, ProtocolVersion::V2) => {
                translate::elicitation_to_v2(&self.params)
            }
            _ => return Some(Cow::Borrowed(&self.params)),
        };
        translated.map(|params| Cow::Owned(params.into()))
    }

    /// Puts it to one client. Dropping this takes it back.
    async fn put(&self, link: &ClientLink) -> Said {
        let version = link.client().protocol;
        let Some(params) = self.in_version(version) else { return Said::Nothing };
        let said = match self.kind {
            QuestionKind::Permission => link.pass_on_question(&params).await.map(|outcome| match outcome {
                PermissionOutcome::Selected(option) => Advice::Choose(option.into()),
                PermissionOutcome::Cancelled => Advice::Cancel,
            }),
            QuestionKind::Elicitation => link.ask("elicitation/create", &params).await.map(|result| {
                let is_newer = (self.version, version) == (ProtocolVersion::V1, ProtocolVersion::V2);
                let result = if is_newer { translate::elicitation_answer_to_v1(&result) } else { result };
                Advice::Say(result.into())
            }),
        };
        match said {
            Ok(advice) => Said::Answer(advice),
            Err(AskError::NotSent(WireError::Closed | WireError::WriteFailed { .. }) | AskError::Gone) => {
                Said::Gone
            }
            Err(AskError::NotSent(_) | AskError::Refused(_) | AskError::Unreadable) => Said::Nothing,
        }
    }
}
