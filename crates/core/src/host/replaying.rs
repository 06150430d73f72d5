//! Telling a client what is kept of a conversation: where that begins, and the events in pages, so that a record of
//! any length needs the memory of one.

use std::sync::Arc;

use crate::acp::agent::ClientFacts;
use crate::acp::render::{Bounds, KnownIds, Rendering, Replay, SessionState, Survey};
use crate::acp::{Cursor, content};
use crate::model::{
    Content, Event, EventKind, Fact, LineageIndex, OwnMessageId, RecordId, Seq, TurnId, Update,
};
use crate::store::{Store, StoreError};

/// How many events are read at a time.
const PAGE: usize = 1024;

/// A record's events as they are kept.
#[derive(Clone)]
pub struct KeptEvents {
    store: Arc<dyn Store>,
    record: RecordId,
    /// The last one that counts.
    until: Seq,
}

/// A page of events, in order.
struct Pages<'a> {
    kept: &'a KeptEvents,
    next: Seq,
    until: Seq,
}

/// Why there is no place to begin at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// The conversation has no such place.
    #[error("the conversation has no {0}")]
    NotThere(String),
    /// What is kept cannot be read.
    #[error("what is kept cannot be read")]
    Store(#[from] StoreError),
}

impl KeptEvents {
    /// Those up to an event.
    pub fn new(store: Arc<dyn Store>, record: RecordId, until: Option<Seq>) -> Self {
        Self { store, record, until: until.unwrap_or(Seq(0)) }
    }

    /// The event that a cursor stands for. The one after the last is a place too: whoever has seen all goes on there.
    pub async fn find(&self, cursor: &Cursor) -> Result<Seq, CursorError> {
        match cursor {
            Cursor::Start => Ok(Seq::FIRST),
            Cursor::Seq(seq) if *seq <= self.until.next() => Ok(*seq),
            Cursor::Seq(seq) => Err(CursorError::NotThere(format!("event {seq}"))),
            Cursor::Turn(turn) => self.first_of(*turn).await,
            Cursor::Message(id) => match OwnMessageId::read(&self.record, id) {
                Some(OwnMessageId::Prompt(turn)) => self.first_of(turn).await,
                Some(OwnMessageId::Run(seq)) if seq <= self.until && seq.0 > 0 => Ok(seq),
                _ => self.first_named(id).await,
            },
        }
    }

    /// The event that comes after those.
    pub(super) fn end(&self) -> Seq {
        self.until.next()
    }

    /// The event that ended a turn; `None` if it has not ended.
    pub(super) async fn end_of(&self, turn: TurnId) -> Result<Option<Seq>, StoreError> {
        let ended = |event: &Event| match (event.kind, Fact::from_body(&event.body)) {
            (EventKind::Fact, Some(Fact::TurnEnded { turn: ended, .. })) if TurnId(ended) == turn => {
                Some(event.seq)
            }
            _ => None,
        };
        self.backwards(self.until.next(), ended).await
    }

    /// Where the last turns begin, so many of them.
    pub async fn last_turns(&self, count: u64) -> Result<Seq, StoreError> {
        let mut left = count;
        self.backwards(self.until.next(), |event| {
            let is_wanted = started(event).is_some() && {
                left = left.saturating_sub(1);
                left == 0
            };
            is_wanted.then_some(event.seq)
        })
        .await
        .map(|found| found.unwrap_or(Seq::FIRST))
    }

    /// Whether a turn has begun: one that was cancelled before that is no part of the conversation.
    pub(super) async fn has_begun(&self, turn: TurnId) -> Result<bool, StoreError> {
        let begun = self.backwards(self.until.next(), |event| started(event).filter(|begun| *begun <= turn));
        Ok(begun.await? == Some(turn))
    }

    async fn first_of(&self, turn: TurnId) -> Result<Seq, CursorError> {
        // A turn that never began has no first event; the next one that did stands for it.
        let mut first = None;
        self.backwards(self.until.next(), |event| {
            let begun = started(event)?;
            if begun >= turn {
                first = Some(event.seq);
            }
            (begun <= turn).then_some(())
        })
        .await?;
        first.ok_or_else(|| CursorError::NotThere(format!("turn {turn}")))
    }

    async fn first_named(&self, id: &str) -> Result<Seq, CursorError> {
        let mut pages = self.pages(Seq::FIRST);
        while let Some(page) = pages.next().await? {
            let found = page.iter().find(|event| names(event, id));
            if let Some(event) = found {
                return Ok(event.seq);
            }
        }
        Err(CursorError::NotThere(format!("message {id:?}")))
    }

    /// Where to begin reading, so that an event is understood: with the turn that was last begun before it.
    async fn context_of(&self, seq: Seq) -> Result<Seq, StoreError> {
        if seq == Seq::FIRST {
            return Ok(seq);
        }
        let begun = self.backwards(seq, |event| started(event).map(|_| event.seq)).await?;
        Ok(begun.unwrap_or(Seq::FIRST))
    }

    /// Looks at the events before one, last first, until something is found.
    async fn backwards<T>(
        &self,
        before: Seq,
        mut look: impl FnMut(&Event) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut end = before;
        while end > Seq::FIRST {
            let start = Seq(end.0.saturating_sub(PAGE as u64).max(1));
            let mut pages = Pages { kept: self, next: start, until: Seq(end.0 - 1) };
            // What is looked at backwards is a fact, and facts are few.
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
        Pages { kept: self, next: from, until: self.until }
    }

    /// What is to be told from an event on, and the last lineage row in it.
    async fn survey(&self, from: Seq) -> Result<(Survey, LineageIndex), StoreError> {
        let (mut survey, mut row) = (Survey::default(), LineageIndex::FIRST);
        let mut pages = self.pages(from);
        while let Some(page) = pages.next().await? {
            for event in &page {
                row = row.max(event.lineage);
                survey.take(event);
            }
        }
        Ok((survey, row))
    }

    /// The ids that agents have used so far.
    pub(super) async fn known_ids(&self) -> Result<KnownIds, StoreError> {
        let mut known = KnownIds::default();
        let mut pages = self.pages(Seq::FIRST);
        while let Some(page) = pages.next().await? {
            for event in &page {
                known.take(event);
            }
        }
        Ok(known)
    }
}

impl Pages<'_> {
    /// The next page; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        if self.next > self.until {
            return Ok(None);
        }
        let left = usize::try_from(self.until.0 - self.next.0 + 1).unwrap_or(PAGE);
        let page = self.kept.store.events(self.kept.record.clone(), self.next, left.min(PAGE)).await?;
        if let Some(last) = page.last() {
            self.next = last.seq.next();
        }
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}

/// Sees to it that a rendering knows the ids it needs for an event.
pub(super) async fn teach(
    rendering: &mut Rendering,
    store: &Arc<dyn Store>,
    record: &RecordId,
    event: &Event,
) -> Result<(), StoreError> {
    if rendering.lacks_ids(event) {
        let kept = KeptEvents::new(Arc::clone(store), record.clone(), Some(event.seq));
        rendering.learn(kept.known_ids().await?, event.lineage);
    }
    Ok(())
}

/// How a session stands before an event.
pub(super) async fn standing(
    store: &Arc<dyn Store>,
    record: &RecordId,
    before: Seq,
) -> Result<SessionState, StoreError> {
    let kept = KeptEvents::new(Arc::clone(store), record.clone(), Some(Seq(before.0.saturating_sub(1))));
    let mut pages = kept.pages(kept.context_of(before).await?);
    let mut state = SessionState::default();
    while let Some(page) = pages.next().await? {
        for event in &page {
            state.take(event);
        }
    }
    Ok(state)
}

/// Lets a rendering take in what it needs to go on from an event.
pub(super) async fn catch_up(
    rendering: &mut Rendering,
    store: &Arc<dyn Store>,
    record: &RecordId,
    from: Seq,
) -> Result<(), StoreError> {
    let kept = KeptEvents::new(Arc::clone(store), record.clone(), Some(Seq(from.0.saturating_sub(1))));
    let mut pages = kept.pages(kept.context_of(from).await?);
    while let Some(page) = pages.next().await? {
        for event in &page {
            teach(rendering, store, record, event).await?;
            rendering.pass_over(event);
        }
    }
    Ok(())
}

/// A conversation told again, page by page.
pub(super) struct Replaying {
    kept: KeptEvents,
    replay: Option<Replay>,
    next: Seq,
}

impl Replaying {
    /// Looks through what is to be told, from an event on.
    pub(super) async fn begin(
        kept: KeptEvents,
        client: Arc<ClientFacts>,
        from: Seq,
        bounds: Bounds,
    ) -> Result<Self, StoreError> {
        let mut next = kept.context_of(from).await?;
        let (mut survey, mut row) = kept.survey(next).await?;
        if survey.lacks_beginning() && next > Seq::FIRST {
            next = Seq::FIRST;
            (survey, row) = kept.survey(next).await?;
        }
        let mut rendering = Rendering::new(&kept.record, client);
        if row > LineageIndex::FIRST {
            rendering.learn(kept.known_ids().await?, row);
        }
        Ok(Self { replay: Some(Replay::new(rendering, survey, from, bounds)), kept, next })
    }

    /// The lines of the next page; `None` when all is told.
    pub(super) async fn page(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let Some(replay) = &mut self.replay else { return Ok(None) };
        let mut pages = self.kept.pages(self.next);
        let page = pages.next().await?;
        self.next = pages.next;
        match page {
            Some(page) => Ok(Some(page.iter().flat_map(|event| replay.take(event)).collect())),
            None => Ok(self.replay.take().map(Replay::finish)),
        }
    }
}

/// The turn that an event begins.
fn started(event: &Event) -> Option<TurnId> {
    match (event.kind, Fact::from_body(&event.body)) {
        (EventKind::Fact, Some(Fact::TurnStarted { turn, .. })) => Some(TurnId(turn)),
        _ => None,
    }
}

/// Whether an event belongs to a message that is told under this id.
fn names(event: &Event, id: &str) -> bool {
    // One whose id an earlier ACP session had used is told with its row behind it.
    let given = id.strip_suffix(&format!("~{}", event.lineage)).unwrap_or(id);
    // Few lines have the id in them, and only those are read.
    let may_be = event.kind == EventKind::Update && event.body.contains(given);
    match may_be.then(|| content(event)) {
        Some(Content::Update(Update::Chunk { message_id: Some(said), .. })) => {
            *said == *id || *said == *given
        }
        _ => false,
    }
}
