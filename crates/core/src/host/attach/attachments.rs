//! The records that one client is attached to: a hold while it uses a record, the streams it subscribed to, and its own
//! prompts. Also which records it created.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::acp::agent::ClientLink;
use crate::acp::render::{RecordRenderer, SessionIds};
use crate::engine::{Engine, Hold, RestoreSession, Session};
use crate::model::{RecordId, Seq};
use crate::store::Store;
use crate::sync::Lock;

use super::activity::ActivityReport;
use super::foreign_turns::{ForeignTurns, wants_states};
use super::own_prompts::OwnPrompts;
use super::stream::{GateWaiter, PausedStream, StreamKind, StreamSlot, StreamSpec, UpdateContext};
use crate::host::permissions::responders::{ClientServices, ConnectionId, Responder, ResponderGuard};
use crate::host::permissions::url_elicitations::UrlElicitations;

/// The attachments of one client.
pub(crate) struct Attachments {
    engine: Engine,
    store: Arc<dyn Store>,
    url_elicitations: UrlElicitations,
    attached: Lock<HashMap<RecordId, Attachment>>,
    created: Lock<HashSet<RecordId>>,
}

/// A record that a client uses or watches.
#[derive(Default)]
struct Attachment {
    /// `None` for a client that only watches: it does not keep the agent from being parked.
    hold: Option<Hold>,
    /// The parameters with which this client would start the agent.
    restore: Option<RestoreSession>,
    /// Registers the client as a responder to the agent's requests, if it can answer them.
    responder: Option<ResponderGuard>,
    /// The client's prompts whose final reply it has not received.
    own_prompts: OwnPrompts,
    /// The stream of ACP updates.
    updates: StreamSlot,
    /// The stream of raw events.
    events: StreamSlot,
    /// The report of the numbers of clients and queued prompts, if the client asked for it.
    activity: Option<ActivityReport>,
}

/// An update stream to start after the reply that introduces its session.
pub(crate) struct UpdateStart {
    /// The first event to send.
    pub(crate) from: Seq,
    /// Whether each update carries its event number.
    pub(crate) with_seq: bool,
    /// Whether it replaces a running stream, which otherwise continues.
    pub(crate) replaces: bool,
    pub(crate) after: GateWaiter,
}

impl Attachments {
    pub(crate) fn new(engine: Engine, store: Arc<dyn Store>) -> Self {
        let (url_elicitations, attached, created) = Default::default();
        Self { engine, store, url_elicitations, attached, created }
    }

    /// Marks a record as in use by the client, stores how the client would start its agent, registers or unregisters
    /// the client as a responder, and starts its update stream.
    pub(crate) fn attach(
        &self,
        session: &Session,
        restore: RestoreSession,
        responder: Option<ResponderGuard>,
        updates: Option<UpdateStart>,
        link: &ClientLink,
    ) {
        let record = session.record_id();
        let mut attached = self.attached.lock();
        let attachment = attached.entry(record.clone()).or_default();
        attachment.hold.get_or_insert_with(|| session.hold());
        attachment.restore = Some(restore.without_reset());
        let is_streaming = attachment.updates.is_running();
        if let Some(responder) = &responder
            && !is_streaming
        {
            // Requests that wait for this responder's progress now wait for the stream that starts next.
            attachment.updates.progress = responder.progress().clone();
        }
        attachment.responder = responder;
        if let Some(UpdateStart { from, with_seq, replaces, after }) = updates
            && (replaces || !is_streaming)
        {
            let kind = self.update_stream(record, &attachment.own_prompts, with_seq, link);
            attachment.updates.start(self.stream(kind, record, from, after, link));
        }
    }

    /// Streams the raw events of a record, with a report of its activity if the client wants one. A second watch of
    /// the same record replaces the first.
    pub(crate) fn watch(&self, record: &RecordId, from: Seq, wants_activity: bool, link: &ClientLink) {
        let stream = self.stream(StreamKind::Events, record, from, GateWaiter::default(), link);
        let mut attached = self.attached.lock();
        let attachment = attached.entry(record.clone()).or_default();
        attachment.events.start(stream);
        attachment.activity = wants_activity.then(|| ActivityReport::start(&self.engine, record, link));
    }

    /// Releases a record, and waits until its streams have stopped. Returns how the client would start its agent; `None`
    /// if the client was not attached.
    pub(crate) async fn detach(&self, record: &RecordId) -> Option<RestoreSession> {
        let attachment = self.attached.lock().remove(record)?;
        let Attachment { hold, responder, restore, updates, events, .. } = attachment;
        drop((hold, responder));
        updates.stop().await;
        events.stop().await;
        Some(restore.unwrap_or_else(RestoreSession::unchanged))
    }

    /// How the client would start the agent of a record that it uses.
    pub(crate) fn restore_params(&self, record: &RecordId) -> Option<RestoreSession> {
        let attached = self.attached.lock();
        attached.get(record).filter(|known| known.hold.is_some())?.restore.clone()
    }

    /// The client's own prompts to a record that it is attached to.
    pub(crate) fn own_prompts(&self, record: &RecordId) -> Option<OwnPrompts> {
        self.attached.lock().get(record).map(|known| known.own_prompts.clone())
    }

    /// This client as a responder for a record.
    pub(crate) fn responder(
        &self,
        record: &RecordId,
        connection: ConnectionId,
        services: ClientServices,
        link: &ClientLink,
    ) -> Responder {
        let progress = |known: &Attachment| (known.updates.progress.clone(), known.events.progress.clone());
        let (updates, events) = self.attached.lock().get(record).map(progress).unwrap_or_default();
        let url_elicitations = self.url_elicitations.clone();
        Responder { connection, link: link.clone(), services, updates, events, url_elicitations }
    }

    /// Whether the client receives the updates of a record.
    pub(crate) fn receives_updates(&self, record: &RecordId) -> bool {
        self.attached.lock().get(record).is_some_and(|known| known.updates.is_running())
    }

    /// Waits until both streams of a record have delivered this event.
    pub(crate) async fn delivered(&self, record: &RecordId, last: Option<Seq>) {
        let progress = |known: &Attachment| [known.updates.progress.clone(), known.events.progress.clone()];
        let streams = self.attached.lock().get(record).map(progress);
        for progress in streams.into_iter().flatten() {
            progress.delivered(last).await;
        }
    }

    /// Pauses the update stream of a record after the event it is sending; `None` if no update stream is running.
    pub(crate) async fn pause_updates(&self, record: &RecordId) -> Option<PausedStream> {
        let pausing = self.attached.lock().get(record).and_then(|known| known.updates.pause());
        match pausing {
            Some(pausing) => Some(pausing.await),
            None => None,
        }
    }

    pub(crate) fn add_created(&self, record: RecordId) {
        self.created.lock().insert(record);
    }

    /// Whether this client created the record.
    pub(crate) fn has_created(&self, record: &RecordId) -> bool {
        self.created.lock().contains(record)
    }

    /// Recognises the ids of sessions that clients use.
    pub(crate) fn session_ids(&self) -> SessionIds {
        let engine = self.engine.clone();
        SessionIds::new(move |id| RecordId::new(id).is_ok_and(|record| engine.is_held(&record)))
    }

    fn stream(
        &self,
        kind: StreamKind,
        record: &RecordId,
        from: Seq,
        after: GateWaiter,
        link: &ClientLink,
    ) -> StreamSpec {
        let (follower, record) = (self.engine.follow(record, from), record.clone());
        StreamSpec { kind, follower, record, after, link: link.clone() }
    }

    fn update_stream(
        &self,
        record: &RecordId,
        own_prompts: &OwnPrompts,
        with_seq: bool,
        link: &ClientLink,
    ) -> StreamKind {
        let client = link.client();
        StreamKind::Updates(Box::new(UpdateContext {
            foreign_turns: wants_states(&client).then(|| ForeignTurns::new(record)),
            renderer: RecordRenderer::new(record, client)
                .with_seq(with_seq)
                .excluding_sessions(self.session_ids()),
            own_prompts: own_prompts.clone(),
            store: Arc::clone(&self.store),
            engine: self.engine.clone(),
            url_elicitations: self.url_elicitations.clone(),
        }))
    }
}
