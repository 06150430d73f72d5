//! Where the last exchanges of a conversation begin: each turn is one, and so is what came from a user in no turn of
//! ours, as in what an agent told of an adopted session.

use crate::acp::content;
use crate::model::{Content, Direction, Event, EventKind, MessageKind, Seq, Update};
use crate::store::StoreError;

use super::{PAGE, Pages, RecordEvents, Stretch, started};

/// What an event is to exchanges.
enum Mark {
    /// A turn begins.
    Turn,
    /// A piece of what a user said in no turn, by the agent's id for the message.
    User(Option<Box<str>>),
    /// Something that was said or done after it.
    Other,
}

/// Counts the beginnings of exchanges, the last first.
struct Count {
    left: u64,
    /// The earliest piece so far of the user's message that is looked at.
    open: Option<(Seq, Option<Box<str>>)>,
}

impl RecordEvents {
    /// Where the last turns begin, so many of them. What a user said in no turn of ours counts as one.
    pub async fn last_turns(&self, count: u64) -> Result<Seq, StoreError> {
        let mut end = self.until.next();
        if count == 0 {
            return Ok(end);
        }
        let mut counted = Count { left: count, open: None };
        let mut stretch = Stretch::default();
        while end > Seq::FIRST {
            let start = Seq(end.0.saturating_sub(PAGE as u64).max(1));
            let mut pages = Pages { kept: self, next: start, until: Seq(end.0 - 1) };
            let mut marks = Vec::new();
            while let Some(page) = pages.next().await? {
                for event in &page {
                    marks.extend(mark(event).map(|mark| (event.seq, mark)));
                    stretch.done(event).await;
                }
            }
            for (seq, mark) in marks.into_iter().rev() {
                if let Some(found) = counted.take(seq, mark) {
                    return Ok(found);
                }
            }
            end = start;
        }
        Ok(Seq::FIRST)
    }
}

impl Count {
    /// Takes the event before those that were taken; the one that the wanted exchange begins with, if it is known now.
    fn take(&mut self, seq: Seq, mark: Mark) -> Option<Seq> {
        match mark {
            Mark::User(id) => {
                let is_same = self.open.as_ref().is_some_and(|(_, open)| *open == id);
                let found = if is_same { None } else { self.close() };
                self.open = Some((seq, id));
                found
            }
            Mark::Other => self.close(),
            Mark::Turn => self.close().or_else(|| self.begins(seq)),
        }
    }

    /// The message that is looked at begins where it was seen last.
    fn close(&mut self) -> Option<Seq> {
        let (seq, _) = self.open.take()?;
        self.begins(seq)
    }

    fn begins(&mut self, seq: Seq) -> Option<Seq> {
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(seq)
    }
}

fn mark(event: &Event) -> Option<Mark> {
    if event.kind == EventKind::Fact {
        return started(event).map(|_| Mark::Turn);
    }
    if (event.kind, event.direction, event.turn) != (EventKind::Update, Direction::FromAgent, None) {
        return None;
    }
    match content(event) {
        Content::Update(Update::Chunk { kind: MessageKind::User, message_id, .. }) => {
            Some(Mark::User(message_id))
        }
        Content::Update(Update::Message { kind: MessageKind::User, message_id, .. }) => {
            Some(Mark::User(Some(message_id)))
        }
        // What is told of the session besides ends no message.
        Content::Update(
            Update::Chunk { .. } | Update::Message { .. } | Update::Tool { .. } | Update::ToolContent { .. },
        ) => Some(Mark::Other),
        _ => None,
    }
}
