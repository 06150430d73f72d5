//! Finds where the last exchanges of a conversation begin. Each turn is an exchange, and so is a user message outside
//! our turns, as in the history of an adopted session.

use crate::acp::content;
use crate::model::{Content, Direction, Event, EventKind, MessageKind, Seq, Update};
use crate::store::StoreError;

use super::{PAGE, Pages, RecordEvents, YieldBudget, started};

/// How an event counts towards exchanges.
enum ExchangeMark {
    /// The event starts a turn.
    Turn,
    /// A chunk of a user message outside any turn, with the agent's id for the message.
    User(Option<Box<str>>),
    /// A later message or tool call.
    Other,
}

/// Counts the starts of exchanges backwards.
struct ExchangeCounter {
    left: u64,
    /// The earliest chunk seen so far of the current user message.
    open: Option<(Seq, Option<Box<str>>)>,
}

impl RecordEvents {
    /// The first event of the last `count` turns. A user message outside our turns counts as one.
    pub async fn last_turns(&self, count: u64) -> Result<Seq, StoreError> {
        let mut end = self.until.next();
        if count == 0 {
            return Ok(end);
        }
        let mut counter = ExchangeCounter { left: count, open: None };
        let mut budget = YieldBudget::default();
        while end > Seq::FIRST {
            let start = Seq(end.0.saturating_sub(PAGE as u64).max(1));
            let mut pages = Pages { events: self, next: start, until: Seq(end.0 - 1) };
            let mut marks = Vec::new();
            while let Some(page) = pages.next().await? {
                for event in &page {
                    marks.extend(mark(event).map(|mark| (event.seq, mark)));
                    budget.count(event).await;
                }
            }
            for (seq, mark) in marks.into_iter().rev() {
                if let Some(found) = counter.on_mark(seq, mark) {
                    return Ok(found);
                }
            }
            end = start;
        }
        Ok(Seq::FIRST)
    }
}

impl ExchangeCounter {
    /// Takes the preceding event, and returns the start of the wanted exchange once it is known.
    fn on_mark(&mut self, seq: Seq, mark: ExchangeMark) -> Option<Seq> {
        match mark {
            ExchangeMark::User(id) => {
                let is_same = self.open.as_ref().is_some_and(|(_, open)| *open == id);
                let found = if is_same { None } else { self.close() };
                self.open = Some((seq, id));
                found
            }
            ExchangeMark::Other => self.close(),
            ExchangeMark::Turn => self.close().or_else(|| self.count(seq)),
        }
    }

    /// Ends the current message: it starts at the last chunk taken.
    fn close(&mut self) -> Option<Seq> {
        let (seq, _) = self.open.take()?;
        self.count(seq)
    }

    fn count(&mut self, seq: Seq) -> Option<Seq> {
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(seq)
    }
}

fn mark(event: &Event) -> Option<ExchangeMark> {
    if event.kind == EventKind::Fact {
        return started(event).map(|_| ExchangeMark::Turn);
    }
    if (event.kind, event.direction, event.turn) != (EventKind::Update, Direction::FromAgent, None) {
        return None;
    }
    match content(event) {
        Content::Update(Update::Chunk { kind: MessageKind::User, message_id, .. }) => {
            Some(ExchangeMark::User(message_id))
        }
        Content::Update(Update::Message { kind: MessageKind::User, message_id, .. }) => {
            Some(ExchangeMark::User(Some(message_id)))
        }
        // Other updates do not end a message.
        Content::Update(
            Update::Chunk { .. } | Update::Message { .. } | Update::Tool { .. } | Update::ToolContent { .. },
        ) => Some(ExchangeMark::Other),
        _ => None,
    }
}
