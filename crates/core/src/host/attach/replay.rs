//! Replays a stored conversation to a client: finds the first event, and reads events in pages, so that memory use does
//! not grow with the record.

mod exchanges;

use std::sync::Arc;

use crate::acp::agent::ClientFacts;
use crate::acp::render::{
    Bounds, ClientState, RecordRenderer, ReplayIndex, ReplayRenderer, SessionIds, SessionState,
};
use crate::acp::{Cursor, content};
use crate::model::{
    Content, Direction, Event, EventKind, Fact, LineageReason, OwnMessageId, ProtocolVersion, RecordId, Seq,
    TurnId, Update,
};
use crate::store::{Store, StoreError};
use crate::wire::encode;
use crate::wire::json;

/// How many events are read at a time.
const PAGE: usize = 1024;

/// A record's stored events.
#[derive(Clone)]
pub struct RecordEvents {
    store: Arc<dyn Store>,
    record: RecordId,
    /// The last event to read.
    until: Seq,
}

/// How many bytes are processed before yielding: all sessions of a host share one thread.
const YIELD_BYTES: usize = 64 << 10;

/// The fixed cost of an event, added to its bytes.
const EVENT_BYTES: usize = 256;

/// The bytes processed since the last yield.
#[derive(Default)]
struct YieldBudget(usize);

impl YieldBudget {
    /// Counts an event, and yields to other tasks at [`YIELD_BYTES`].
    async fn count(&mut self, event: &Event) {
        self.0 += event.body.len() + EVENT_BYTES;
        if self.0 >= YIELD_BYTES {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Reads a range of events page by page, in order.
struct Pages<'a> {
    events: &'a RecordEvents,
    next: Seq,
    until: Seq,
}

/// Why a cursor cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// The conversation has no such event, turn or message.
    #[error("the conversation has no {place}{}", last.as_ref().map(|last| format!("; its last one is {last}")).unwrap_or_default())]
    NotThere {
        /// The wanted event, turn or message.
        place: String,
        /// The last of its kind, if there is one.
        last: Option<u64>,
    },
    /// The conversation before an adoption has no turns of ours.
    #[error("only what was said since the session was adopted has turns: it has no turn {turn}{}", last.as_ref().map(|last| format!("; its last one is {last}")).unwrap_or_default())]
    NotAmongOurs {
        /// The wanted turn.
        turn: TurnId,
        /// The last turn, if there is one.
        last: Option<u64>,
    },
    /// The store cannot be read.
    #[error("the events cannot be read")]
    Store(#[from] StoreError),
}

impl RecordEvents {
    /// The events up to `until`.
    pub fn new(store: Arc<dyn Store>, record: RecordId, until: Option<Seq>) -> Self {
        Self { store, record, until: until.unwrap_or(Seq(0)) }
    }

    /// Resolves a cursor to an event. The position after the last event is valid: a client that has seen everything
    /// continues there.
    pub async fn find(&self, cursor: &Cursor) -> Result<Seq, CursorError> {
        match cursor {
            Cursor::Start => Ok(Seq::FIRST),
            Cursor::Seq(seq) if *seq <= self.until.next() => Ok(*seq),
            Cursor::Seq(seq) => {
                let last = Some(self.until.0).filter(|last| *last > 0);
                Err(CursorError::NotThere { place: format!("event {seq}"), last })
            }
            Cursor::Turn(turn) => self.turn_start(*turn).await,
            Cursor::Message(id) => match OwnMessageId::read(&self.record, id) {
                Some(OwnMessageId::Prompt(turn)) => self.turn_start(turn).await,
                Some(OwnMessageId::Run(seq)) if self.begins_message(seq, id).await? => Ok(seq),
                _ => self.message_start(id).await,
            },
        }
    }

    /// Whether an event begins a message that is rendered under this id of ours.
    async fn begins_message(&self, seq: Seq, id: &str) -> Result<bool, StoreError> {
        if seq > self.until || seq < Seq::FIRST {
            return Ok(false);
        }
        // Version 2 renders every message with its id.
        let client = ClientFacts { protocol: ProtocolVersion::V2, ..ClientFacts::default() };
        let mut renderer = RecordRenderer::new(&self.record, Arc::new(client));
        catch_up(&mut renderer, &self.store, &self.record, seq).await?;
        let page = Pages { events: self, next: seq, until: seq }.next().await?.unwrap_or_default();
        let Some(event) = page.first() else { return Ok(false) };
        let (id, path) = (encode::json_string(id), ["params", "update", "messageId"]);
        let has_id = |line: &String| json::get(line, &path) == Some(&*id);
        Ok(renderer.render(event, &|_| false).iter().any(has_id))
    }

    /// The position after the last event.
    pub(crate) fn end(&self) -> Seq {
        self.until.next()
    }

    /// The event that ended a turn; `None` if it has not ended.
    pub(crate) async fn turn_end(&self, turn: TurnId) -> Result<Option<Seq>, StoreError> {
        let ended = |event: &Event| match (event.kind, Fact::from_body(&event.body)) {
            (EventKind::Fact, Some(Fact::TurnEnded { turn: ended, .. })) if TurnId(ended) == turn => {
                Some(event.seq)
            }
            _ => None,
        };
        self.find_last_fact(self.until.next(), ended).await
    }

    /// Whether a turn has started. A turn cancelled before its start is not part of the conversation.
    pub async fn has_begun(&self, turn: TurnId) -> Result<bool, StoreError> {
        let begun =
            self.find_last_fact(self.until.next(), |event| started(event).filter(|begun| *begun <= turn));
        Ok(begun.await? == Some(turn))
    }

    async fn turn_start(&self, turn: TurnId) -> Result<Seq, CursorError> {
        let mut last = None;
        let first = self.find_last_fact(self.until.next(), |event| {
            let begun = started(event)?;
            last.get_or_insert(begun.0);
            (begun <= turn).then_some((begun, event.seq))
        });
        // A turn that is queued, or was cancelled before it started, is not part of the conversation.
        match first.await? {
            Some((begun, seq)) if begun == turn => Ok(seq),
            _ if self.is_adopted().await? => Err(CursorError::NotAmongOurs { turn, last }),
            _ => Err(CursorError::NotThere { place: format!("turn {turn}"), last }),
        }
    }

    /// Whether the record was adopted from an agent.
    async fn is_adopted(&self) -> Result<bool, StoreError> {
        let events = self.store.record(self.record.clone()).await?;
        let first = events.and_then(|events| events.lineage.rows().first().map(|row| row.reason));
        Ok(first == Some(LineageReason::Adopted))
    }

    async fn message_start(&self, id: &str) -> Result<Seq, CursorError> {
        let mut pages = self.pages(Seq::FIRST);
        while let Some(page) = pages.next().await? {
            let found = page.iter().find(|event| belongs_to_message(event, id));
            if let Some(event) = found {
                return Ok(event.seq);
            }
        }
        Err(CursorError::NotThere { place: format!("message {id:?}"), last: None })
    }

    /// Where to begin reading so that an event can be rendered: at the start of the turn that was last started before
    /// it.
    async fn render_start(&self, seq: Seq) -> Result<Seq, StoreError> {
        if seq == Seq::FIRST {
            return Ok(seq);
        }
        let begun = self.find_last_fact(seq, |event| started(event).map(|_| event.seq)).await?;
        Ok(begun.unwrap_or(Seq::FIRST))
    }

    /// The event that ended the last turn, if it is within the last page and no turn started since. Only for version 1
    /// agents: a version 2 agent may continue outside its turns.
    async fn last_turn_end(&self) -> Result<Option<Seq>, StoreError> {
        let mut pages = self.pages(Seq(self.until.0.saturating_sub(PAGE as u64).max(1)));
        let (mut works, mut rest) = (None, None);
        while let Some(page) = pages.next().await? {
            for event in &page {
                if event.direction == Direction::FromAgent && event.turn.is_some() {
                    (works, rest) = (event.turn, None);
                }
                if event.kind != EventKind::Fact {
                    continue;
                }
                match Fact::from_body(&event.body) {
                    Some(Fact::TurnStarted { .. }) => (works, rest) = (None, None),
                    // A turn that never started may end while another runs.
                    Some(Fact::TurnEnded { turn, .. }) if works == Some(TurnId(turn)) => {
                        let is_v1 = event.protocol == ProtocolVersion::V1.number();
                        (works, rest) = (None, is_v1.then_some(event.seq));
                    }
                    _ => {}
                }
            }
        }
        Ok(rest)
    }

    /// Applies `look` to the facts before an event, last first, until it returns something.
    async fn find_last_fact<T>(
        &self,
        before: Seq,
        mut look: impl FnMut(&Event) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut end = before;
        while end > Seq::FIRST {
            let start = Seq(end.0.saturating_sub(PAGE as u64).max(1));
            let mut pages = Pages { events: self, next: start, until: Seq(end.0 - 1) };
            // Callers look only for facts, and facts are few.
            let mut facts = Vec::new();
            while let Some(page) = pages.next().await? {
                facts.extend(page.into_iter().filter(|event| event.kind == EventKind::Fact));
            }
            if let Some(found) = facts.iter().rev().find_map(&mut look) {
                return Ok(Some(found));
            }
            end = start;
        }
        Ok(None)
    }

    fn pages(&self, from: Seq) -> Pages<'_> {
        Pages { events: self, next: from, until: self.until }
    }

    /// Indexes the events from `from` on for a client. Stops early if an event refers to one before `from`.
    async fn index(
        &self,
        from: Seq,
        client: &ClientFacts,
        client_state: ClientState,
    ) -> Result<ReplayIndex, StoreError> {
        let mut index = ReplayIndex::of(client.protocol, from, client_state);
        let (mut pages, mut budget) = (self.pages(from), YieldBudget::default());
        while let Some(page) = pages.next().await? {
            if from > Seq::FIRST && index.lacks_beginning() {
                break;
            }
            for event in &page {
                index.take(event);
                budget.count(event).await;
            }
        }
        Ok(index)
    }

    /// Visits the events from the start of the last started turn on.
    pub(crate) async fn visit_last_turn(&self, mut look: impl FnMut(&Event)) -> Result<(), StoreError> {
        let mut pages = self.pages(self.render_start(self.until.next()).await?);
        let mut budget = YieldBudget::default();
        while let Some(page) = pages.next().await? {
            for event in &page {
                look(event);
                budget.count(event).await;
            }
        }
        Ok(())
    }
}

impl Pages<'_> {
    /// The next page; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        if self.next > self.until {
            return Ok(None);
        }
        let left = usize::try_from(self.until.0 - self.next.0 + 1).unwrap_or(PAGE);
        let page = self.events.store.events(self.events.record.clone(), self.next, left.min(PAGE)).await?;
        if let Some(last) = page.last() {
            self.next = last.seq.next();
        }
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}

/// The session's state before an event, for a client that has received nothing since `missed`. A turn that ended before
/// `missed` is not read, so its length does not matter.
pub(crate) async fn state_before(
    store: &Arc<dyn Store>,
    record: &RecordId,
    client: &ClientFacts,
    before: Seq,
    missed: Option<Seq>,
) -> Result<SessionState, StoreError> {
    let events = RecordEvents::new(Arc::clone(store), record.clone(), Some(Seq(before.0.saturating_sub(1))));
    let rest = events.last_turn_end().await?.filter(|ended| missed.is_none_or(|missed| missed > *ended));
    let start = match rest {
        Some(ended) => ended,
        None => events.render_start(before).await?,
    };
    let mut pages = events.pages(start);
    let (mut state, mut budget) = (SessionState::to(client), YieldBudget::default());
    while let Some(page) = pages.next().await? {
        for event in &page {
            state.take(event);
            budget.count(event).await;
        }
    }
    Ok(state)
}

/// Brings a renderer to its state before an event. It reads from the last started turn on, or the whole record if the
/// client receives changes relative to earlier messages.
pub(crate) async fn catch_up(
    renderer: &mut RecordRenderer,
    store: &Arc<dyn Store>,
    record: &RecordId,
    from: Seq,
) -> Result<(), StoreError> {
    let last = Seq(from.0.saturating_sub(1));
    let events = RecordEvents::new(Arc::clone(store), record.clone(), Some(last));
    let before = events.pages(last.max(Seq::FIRST)).next().await?.unwrap_or_default();
    let start = match before.first() {
        Some(event) if renderer.remembers_all(event) => Seq::FIRST,
        _ => events.render_start(from).await?,
    };
    if start > Seq::FIRST {
        renderer.begins_late();
    }
    let (mut pages, mut budget) = (events.pages(start), YieldBudget::default());
    while let Some(page) = pages.next().await? {
        for event in &page {
            renderer.apply_silently(event);
            budget.count(event).await;
        }
    }
    // The client has already received these lines.
    drop(renderer.settle());
    Ok(())
}

/// A replay in progress, read page by page.
pub(crate) struct ReplayReader {
    events: RecordEvents,
    replay: Option<ReplayRenderer>,
    next: Seq,
    budget: YieldBudget,
}

impl ReplayReader {
    /// Indexes the events from `from` on, and prepares the replay.
    pub(crate) async fn open(
        events: RecordEvents,
        client: Arc<ClientFacts>,
        sessions: SessionIds,
        from: Seq,
        client_state: ClientState,
        bounds: Bounds,
    ) -> Result<Self, StoreError> {
        let mut next = events.render_start(from).await?;
        let mut index = events.index(next, &client, client_state).await?;
        if index.lacks_beginning() && next > Seq::FIRST {
            next = Seq::FIRST;
            index = events.index(next, &client, client_state).await?;
        }
        let renderer = RecordRenderer::new(&events.record, client).excluding_sessions(sessions);
        let mut replay = ReplayRenderer::new(renderer, index, from, bounds);
        if next > Seq::FIRST {
            // Session info comes in parts, and the title may be in an earlier one.
            let record = events.store.record(events.record.clone()).await?;
            replay = replay.with_title(record.as_ref().and_then(|record| record.info.title()));
        }
        Ok(Self { replay: Some(replay), events, next, budget: YieldBudget::default() })
    }

    /// Adds a state update after each turn that the agent has not finished.
    #[must_use]
    pub(crate) fn with_outcomes(self) -> Self {
        Self { replay: self.replay.map(ReplayRenderer::with_outcomes), ..self }
    }

    /// The lines of the next page; `None` after the last.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let Some(replay) = &mut self.replay else { return Ok(None) };
        let mut pages = self.events.pages(self.next);
        let page = pages.next().await?;
        self.next = pages.next;
        let Some(page) = page else { return Ok(self.replay.take().map(ReplayRenderer::finish)) };
        let mut lines = Vec::new();
        for event in &page {
            lines.extend(replay.take(event));
            self.budget.count(event).await;
        }
        Ok(Some(lines))
    }
}

/// The turn that an event starts.
fn started(event: &Event) -> Option<TurnId> {
    match (event.kind, Fact::from_body(&event.body)) {
        (EventKind::Fact, Some(Fact::TurnStarted { turn, .. })) => Some(TurnId(turn)),
        _ => None,
    }
}

/// Whether an event belongs to a message that is rendered under this id.
fn belongs_to_message(event: &Event, id: &str) -> bool {
    // A message re-sent to a version 1 client has its revision number as a suffix.
    let revised = id.rsplit_once('#').filter(|(_, revision)| revision.parse::<u32>().is_ok());
    revised.is_some_and(|(id, _)| has_message_id(event, id)) || has_message_id(event, id)
}

fn has_message_id(event: &Event, id: &str) -> bool {
    // An id that an earlier ACP session used has the lineage row as a suffix.
    let original = id.strip_suffix(&format!("~{}", event.lineage)).unwrap_or(id);
    // Cheap filter: parse only lines that may contain the id.
    let written = encode::json_string(original);
    let may_be = event.kind == EventKind::Update
        && (event.body.contains(written.trim_matches('"')) || event.body.contains("\\u"));
    match may_be.then(|| content(event)) {
        Some(Content::Update(
            Update::Chunk { message_id: Some(own), .. } | Update::Message { message_id: own, .. },
        )) => *own == *id || *own == *original,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
