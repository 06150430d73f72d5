//! `_acpx/sessions`: the sessions of a home as rows for a client that shows many of them, and reports of their changes.
//!
//! The last change comes first. A subscriber gets changed rows at most four times a second, however often they change,
//! and nothing while nothing changes. A session that an ACP client created and never prompted is listed only by its id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::preview;
use super::title::title;
use crate::acp::agent::{CallError, ClientLink};
use crate::acp::{content, prompt_text};
use crate::engine::{ChangedRecords, SessionStatus};
use crate::host::Host;
use crate::host::connection::Connection;
use crate::host::connection::access::ClientAccess;
use crate::model::{
    AgentSpec, ChunkContent, Content, Direction, Event, EventKind, Fact, Lifecycle, MessageKind, Record,
    RecordId, Seq, Timestamp, TurnState, Update,
};
use crate::protocol::acpx_meta::problem;
use crate::protocol::rpc_error;
use crate::protocol::sessions::{
    LastMessageMeta, RowState, SESSIONS_CHANGED, SessionRowMeta, SessionsChangedMeta, SessionsMeta,
    SessionsParams,
};
use crate::store::{OpenTurns, RecordFilter, Store, StoreError};

/// The usual and the largest number of sessions in a page.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 500;
/// How many changed sessions one report has at most; the others follow in the next one.
const REPORTED: usize = 100;
/// The least time between two reports.
const REPORT_PAUSE: Duration = Duration::from_millis(250);
/// How long after an error the changes are read again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How many of the last events are searched for the last message.
const LAST_EVENTS: u64 = 64;
/// How many events are read at a time, the last ones first.
const EVENTS_READ: u64 = 16;

/// Lists a page of sessions. A subscriber gets every change after that.
pub(crate) async fn list(
    client: &Connection,
    params: SessionsParams,
    link: &ClientLink,
) -> Result<String, CallError> {
    let SessionsParams { subscribe, limit, cursor, ids } = params;
    let mut after = cursor.map(|cursor| read_cursor(&cursor).ok_or_else(unknown_cursor)).transpose()?;
    let limit = limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
    let host = &client.host;
    let (access, own_agent) = (client.access.clone(), client.defaults.agent(None));
    if subscribe {
        let changes = SessionChanges {
            host: Arc::clone(host),
            access: access.clone(),
            own_agent: own_agent.clone(),
            changed: host.engine.watch_records(),
        };
        client.subscriptions.sessions.start(changes.report(link.clone()));
    }
    let view = HomeView::read(host).await.map_err(rpc_error::not_kept)?;
    if let Some(ids) = ids {
        let sessions = rows_of(client, &view, &ids).await.map_err(rpc_error::not_kept)?;
        return Ok(page_json(&SessionsMeta { sessions, next_cursor: None }));
    }
    let mut sessions = Vec::new();
    let next_cursor = loop {
        let page = host.store.records(RecordFilter::default(), after, limit).await;
        let page = page.map_err(rpc_error::not_kept)?;
        let last = page.last().filter(|_| page.len() == limit);
        after = last.map(|last| (last.updated_at, last.id.clone()));
        for record in page.iter().filter(|record| is_listed(record, &access, own_agent.as_ref())) {
            sessions.push(view.row(&*host.store, record).await.map_err(rpc_error::not_kept)?);
        }
        // A page may have none that is listed.
        if after.is_none() || !sessions.is_empty() {
            break after.map(|(at, record)| format!("{}.{record}", at.as_millis()));
        }
    };
    Ok(page_json(&SessionsMeta { sessions, next_cursor }))
}

/// The rows of these records, as far as the client sees them.
async fn rows_of(
    client: &Connection,
    view: &HomeView,
    ids: &[String],
) -> Result<Vec<SessionRowMeta>, StoreError> {
    let store = &*client.host.store;
    let mut rows = Vec::new();
    // No record has an id that is not valid.
    for id in ids.iter().take(LARGEST_PAGE).filter_map(|id| RecordId::new(id.as_str()).ok()) {
        let record = store.record(id).await?.filter(|record| !record.lifecycle.is_deleted());
        if let Some(record) = record.filter(|record| client.can_see(record)) {
            rows.push(view.row(store, &record).await?);
        }
    }
    Ok(rows)
}

fn page_json(page: &SessionsMeta) -> String {
    serde_json::to_string(page).expect("rows are text and numbers")
}

fn is_listed(record: &Record, access: &ClientAccess, own_agent: Option<&AgentSpec>) -> bool {
    !record.lifecycle.is_deleted() && !record.is_unprompted() && access.can_see(record, own_agent)
}

fn read_cursor(text: &str) -> Option<(Timestamp, RecordId)> {
    let (millis, record) = text.split_once('.')?;
    Some((Timestamp::from_millis(millis.parse().ok()?).ok()?, RecordId::new(record).ok()?))
}

fn unknown_cursor() -> CallError {
    problem("cursor", "is none that _acpx/sessions gave")
}

/// A client's subscription to the sessions that it sees.
struct SessionChanges {
    host: Arc<Host>,
    access: ClientAccess,
    own_agent: Option<AgentSpec>,
    changed: ChangedRecords,
}

impl SessionChanges {
    /// Reports changes until the client disconnects. A slow client gets fewer reports.
    async fn report(self, link: ClientLink) {
        let mut pending = self.host.responders.pending().watch();
        let mut waiting = self.host.responders.pending().records();
        let mut unreported = HashSet::new();
        loop {
            // The reply with the first page comes before any report.
            let due = Instant::now() + REPORT_PAUSE;
            tokio::select! {
                () = self.changed.changed() => {}
                changed = pending.changed() => if changed.is_err() { return },
            }
            sleep_until(due).await;
            pending.mark_unchanged();
            let waits_now = self.host.responders.pending().records();
            unreported.extend(self.changed.take(REPORTED.saturating_sub(unreported.len())));
            unreported.extend(waiting.symmetric_difference(&waits_now).cloned());
            waiting = waits_now;
            let changes = match self.changes(&unreported).await {
                Ok(changes) => changes,
                Err(error) => {
                    tracing::warn!(%error, "the changed sessions cannot be reported");
                    pending.mark_changed();
                    sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            unreported.clear();
            let is_empty = changes.changed.is_empty() && changes.removed.is_empty();
            let params = serde_json::to_string(&changes).expect("rows are text and numbers");
            if !is_empty && link.notify(SESSIONS_CHANGED, &params).await.is_err() {
                return;
            }
        }
    }

    async fn changes(&self, records: &HashSet<RecordId>) -> Result<SessionsChangedMeta, StoreError> {
        let view = HomeView::read(&self.host).await?;
        let mut changes = SessionsChangedMeta::default();
        for id in records {
            // A record that cannot be read keeps no other from being reported.
            if let Err(error) = self.add_change(id, &view, &mut changes).await {
                tracing::warn!(record = id.as_str(), %error, "a changed session cannot be reported");
            }
        }
        Ok(changes)
    }

    async fn add_change(
        &self,
        id: &RecordId,
        view: &HomeView,
        changes: &mut SessionsChangedMeta,
    ) -> Result<(), StoreError> {
        match self.host.store.record(id.clone()).await? {
            Some(record) if record.lifecycle.is_deleted() => changes.removed.push(id.to_string()),
            Some(record) if is_listed(&record, &self.access, self.own_agent.as_ref()) => {
                changes.changed.push(view.row(&*self.host.store, &record).await?);
            }
            // A session that is being created, or that the client does not see.
            Some(_) | None => {}
        }
        Ok(())
    }
}

/// What runs and waits in a home, read once for many rows.
struct HomeView {
    running: HashMap<RecordId, SessionStatus>,
    open_turns: HashMap<RecordId, OpenTurns>,
    waiting: HashSet<RecordId>,
}

impl HomeView {
    async fn read(host: &Host) -> Result<Self, StoreError> {
        Ok(Self {
            running: host.engine.running_states().await,
            open_turns: host.store.records_with_open_turns().await?.into_iter().collect(),
            waiting: host.responders.pending().records(),
        })
    }

    fn state(&self, record: &Record) -> RowState {
        let running = self.running.get(&record.id);
        match self.open_turns.get(&record.id) {
            _ if record.lifecycle != Lifecycle::Open => RowState::Closed,
            _ if self.waiting.contains(&record.id) => RowState::Waiting,
            // A turn that was sent by a dead host is interrupted.
            Some(turns) if turns.has_dispatched && running.is_some() => RowState::Working,
            Some(turns) if turns.has_queued => RowState::Queued,
            _ if running.is_some_and(|status| status.has_agent) => RowState::Idle,
            _ => RowState::Parked,
        }
    }

    async fn queued(&self, store: &dyn Store, record: &Record) -> Result<Option<usize>, StoreError> {
        if !self.open_turns.get(&record.id).is_some_and(|turns| turns.has_queued) {
            return Ok(None);
        }
        let open = store.open_turns(record.id.clone()).await?;
        Ok(Some(open.iter().filter(|turn| turn.state == TurnState::Queued).count()))
    }

    async fn row(&self, store: &dyn Store, record: &Record) -> Result<SessionRowMeta, StoreError> {
        let usage = record.info.usage.as_ref();
        let RecordTail { reply, outcome } = RecordTail::read(store, record).await?;
        Ok(SessionRowMeta {
            ids: record.identity(),
            agent: record.agent.label().into_owned(),
            cwd: record.cwd.to_string(),
            name: record.scope.as_ref().and_then(|scope| scope.name.as_ref()).map(ToString::to_string),
            title: title(store, record).await?,
            state: self.state(record),
            updated_at: record.updated_at.to_string(),
            created_at: record.created_at.to_string(),
            last_message: last_message(store, record, reply).await?,
            // A prompt may have been dropped from the queue since the running turn began.
            outcome: outcome.filter(|_| !self.open_turns.contains_key(&record.id)),
            cost: usage.and_then(|usage| usage.cost.clone()),
            tokens: usage.map(|usage| usage.used).filter(|used| *used > 0),
            queued: self.queued(store, record).await?,
        })
    }
}

/// The last message among the last events, or else the last prompt.
async fn last_message(
    store: &dyn Store,
    record: &Record,
    reply: Option<String>,
) -> Result<Option<LastMessageMeta>, StoreError> {
    if let Some(text) = reply {
        return Ok(Some(LastMessageMeta { role: "agent", text }));
    }
    let Some(turn) = record.last_turn else { return Ok(None) };
    let turn = store.turn_numbered(record.id.clone(), turn).await?;
    let text = turn.map(|turn| preview::on_one_line(&prompt_text(&turn.prompt)));
    Ok(text.filter(|text| !text.is_empty()).map(|text| LastMessageMeta { role: "user", text }))
}

/// How an event relates to the agent's last message, read backwards.
pub(super) enum MessagePart {
    Text(String),
    /// It is no part of any message.
    Aside,
    /// Another message or a tool call.
    Boundary,
    /// The user's next prompt: the agent has not replied yet.
    Prompt,
}

/// What the last events of a record say.
#[derive(Default)]
struct RecordTail {
    /// The agent's last message, if no prompt follows it.
    reply: Option<String>,
    /// How the last turn ended, if it has: its stop reason, or `failed`.
    outcome: Option<String>,
}

impl RecordTail {
    async fn read(store: &dyn Store, record: &Record) -> Result<Self, StoreError> {
        let last = record.last_seq.map_or(0, |last| last.0);
        let earliest = last.saturating_sub(LAST_EVENTS - 1).max(1);
        let (mut parts, mut until) = (Vec::new(), last);
        let (mut turn, mut is_whole) = (None, false);
        'message: while until >= earliest {
            let from = until.saturating_sub(EVENTS_READ - 1).max(earliest);
            for event in events(store, record, from, until).await?.iter().rev() {
                turn = turn.or_else(|| LastTurn::of(event));
                match part(event) {
                    MessagePart::Text(text) => parts.push(text),
                    MessagePart::Aside => {}
                    MessagePart::Boundary if parts.is_empty() => {}
                    MessagePart::Prompt if parts.is_empty() => break 'message,
                    MessagePart::Boundary | MessagePart::Prompt => {
                        is_whole = true;
                        break 'message;
                    }
                }
            }
            until = from - 1;
        }
        let text: String = parts.into_iter().rev().collect();
        let lacks_beginning = !is_whole && earliest > Seq::FIRST.0;
        let reply = if lacks_beginning { preview::of_message_end(&text) } else { preview::of_message(&text) };
        let reply = Some(reply).filter(|reply| !reply.is_empty());
        let outcome = match turn {
            Some(LastTurn::Ended(outcome)) => Some(outcome),
            Some(LastTurn::Started) | None => None,
        };
        Ok(Self { reply, outcome })
    }
}

/// The last event that starts or ends a turn.
enum LastTurn {
    Started,
    /// With its stop reason, or `failed`.
    Ended(String),
}

impl LastTurn {
    fn of(event: &Event) -> Option<Self> {
        if event.kind != EventKind::Fact {
            return None;
        }
        match Fact::from_body(&event.body)? {
            Fact::TurnStarted { .. } => Some(Self::Started),
            Fact::TurnEnded { stop_reason, .. } => {
                Some(Self::Ended(stop_reason.unwrap_or_else(|| "failed".to_owned())))
            }
            _ => None,
        }
    }
}

/// A range of events. The store ends a page early if its events are large, so it may take several.
async fn events(store: &dyn Store, record: &Record, from: u64, until: u64) -> Result<Vec<Event>, StoreError> {
    let (mut events, mut next) = (Vec::new(), from);
    while next <= until {
        let limit = usize::try_from(until + 1 - next).unwrap_or(usize::MAX);
        let page = store.events(record.id.clone(), Seq(next), limit).await?;
        let Some(last) = page.last() else { break };
        next = last.seq.0 + 1;
        events.extend(page);
    }
    Ok(events)
}

pub(super) fn part(event: &Event) -> MessagePart {
    if (event.direction, event.kind) == (Direction::ToAgent, EventKind::Request) {
        return if event.turn.is_some() { MessagePart::Prompt } else { MessagePart::Aside };
    }
    if (event.direction, event.kind) != (Direction::FromAgent, EventKind::Update) {
        return MessagePart::Aside;
    }
    match content(event) {
        Content::Update(Update::Chunk {
            kind: MessageKind::Agent,
            content: ChunkContent::Text(text),
            ..
        }) => MessagePart::Text(text.into()),
        Content::Update(Update::Message { kind: MessageKind::Agent, content: Some(pieces), .. }) => {
            let text = |piece: &ChunkContent| match piece {
                ChunkContent::Text(text) => Some(text.to_string()),
                ChunkContent::Block(_) => None,
            };
            MessagePart::Text(pieces.iter().filter_map(text).collect())
        }
        Content::Update(
            Update::Chunk { .. } | Update::Message { .. } | Update::Tool { .. } | Update::ToolContent { .. },
        ) => MessagePart::Boundary,
        _ => MessagePart::Aside,
    }
}
