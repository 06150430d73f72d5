//! What an agent has had done for it, read from the events of a record: files and commands, which are requests of the
//! agent and no part of the conversation.

use std::collections::HashMap;

use acpx_core::model::{Direction, Event, EventKind, Timestamp, TurnId};
use acpx_core::wire::{Message, RpcId};
use serde_json::Value;

use crate::output::errand::{Aim, End, Errand};

/// Files and commands that an agent asked for, in order.
#[derive(Debug, Default)]
pub(super) struct Works {
    all: Vec<Work>,
    /// Those that are not answered, by their requests.
    open: HashMap<RpcId, usize>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Work {
    /// The entry of the conversation that came after it.
    pub(super) before: usize,
    pub(super) turn: Option<TurnId>,
    pub(super) at: Timestamp,
    errand: Errand,
    end: Option<End>,
    /// The terminal of a command that was run.
    pub(super) terminal: Option<String>,
}

impl Works {
    /// Takes the next event; `entries` is how many the conversation has by now.
    pub(super) fn take(&mut self, event: &Event, entries: usize) {
        let message = || Message::parse(event.body.clone()).ok();
        match (event.direction, event.kind) {
            (Direction::FromAgent, EventKind::Request) => {
                let Some(message) = message() else { return };
                let (Some(method), Some(id)) = (message.method(), message.id()) else { return };
                let errand = Errand::read(method, message.params());
                if matches!(errand.aim, Aim::File(_) | Aim::Command(_)) {
                    self.open.insert(id.clone(), self.all.len());
                    let (before, turn, at) = (entries, event.turn, event.at);
                    self.all.push(Work { before, turn, at, errand, end: None, terminal: None });
                }
            }
            (Direction::ToAgent, EventKind::Response) if !self.open.is_empty() => {
                let Some(message) = message() else { return };
                let asked = message.id().and_then(|id| self.open.remove(id));
                if let Some(work) = asked.and_then(|index| self.all.get_mut(index)) {
                    let end = End::read(&message);
                    if let (Aim::Command(_), End::Done(result)) = (&work.errand.aim, &end) {
                        work.terminal = result.get("terminalId").and_then(Value::as_str).map(str::to_owned);
                    }
                    work.end = Some(end);
                }
            }
            _ => {}
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Work> {
        self.all.iter()
    }
}

impl Work {
    /// What it was and what came of it. Of a command that was run, its terminal tells the rest.
    pub(super) fn words(&self) -> String {
        let method = &self.errand.method;
        let subject = self.errand.subject().map(|(_, subject)| subject).unwrap_or_default();
        match &self.end {
            Some(End::Done(_)) if self.terminal.is_some() => format!("[client:{method}]"),
            Some(End::Done(_)) => format!("[client:{method}] {subject}"),
            Some(end) => {
                let error = end.error().map(|error| format!(": {error}")).unwrap_or_default();
                format!("[client:{method} ({})] {subject}{error}", end.word())
            }
            None => format!("[client:{method} (not answered)] {subject}"),
        }
    }
}
