//! The first look at a conversation that is to be replayed: where each tool call, and each thing that is told whole,
//! is told last. It reads only the lines that may be one of these, and holds numbers, not lines.

use std::collections::HashMap;

use super::line::{Kind, State, UpdateLine, text_of};
use crate::model::{Direction, Event, EventKind, Fact, LineageIndex, Seq, TurnId};

/// What was told last, and where.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    tools: HashMap<(LineageIndex, Box<str>), Seq>,
    states: HashMap<State, Seq>,
    plans: HashMap<Option<TurnId>, Seq>,
    running: Option<TurnId>,
    lacks_beginning: bool,
}

impl Survey {
    /// Takes the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        match (event.direction, event.kind) {
            (Direction::Ours, _) => match Fact::from_body(&event.body) {
                Some(Fact::TurnStarted { turn, .. }) => self.running = Some(TurnId(turn)),
                Some(Fact::TurnEnded { turn, .. }) if self.running == Some(TurnId(turn)) => {
                    self.running = None;
                }
                _ => {}
            },
            (Direction::FromAgent, EventKind::Update) if may_count(&event.body) => self.update(event),
            _ => {}
        }
    }

    fn update(&mut self, event: &Event) {
        let Some(UpdateLine { head, .. }) = UpdateLine::read(&event.body) else { return };
        match head.kind {
            Kind::Tool | Kind::ToolContent => {
                if let Some(call) = head.tool_call.and_then(text_of) {
                    let before = self.tools.insert((event.lineage, call.into()), event.seq);
                    // A call begins with its title. One that does not may have begun before what is looked at.
                    self.lacks_beginning |= before.is_none() && !head.has_title;
                }
            }
            Kind::State(State::Plan) => {
                self.plans.insert(event.turn, event.seq);
            }
            Kind::State(state) => {
                self.states.insert(state, event.seq);
            }
            _ => {}
        }
    }

    /// Whether a tool call is told no more after this event.
    pub(super) fn is_last_of(&self, tool: &(LineageIndex, Box<str>), event: &Event) -> bool {
        // One that was overlooked is told each time.
        self.tools.get(tool).is_none_or(|last| *last <= event.seq)
    }

    /// Whether this event tells such a thing last.
    pub(super) fn is_last(&self, state: State, event: &Event) -> bool {
        let last = match state {
            State::Plan => self.plans.get(&event.turn),
            other => self.states.get(&other),
        };
        last.is_none_or(|last| *last <= event.seq)
    }

    /// Whether a tool call may have begun before what was looked at.
    pub(crate) fn lacks_beginning(&self) -> bool {
        self.lacks_beginning
    }

    /// The turn that runs when all has been looked at.
    pub(crate) fn running(&self) -> Option<TurnId> {
        self.running
    }
}

/// Whether a line may tell a tool call or one of the things that are told whole: the names of all of them have one of
/// these in them.
fn may_count(body: &str) -> bool {
    ["_update", "tool_call", "plan"]
        .iter()
        .any(|word| memchr::memmem::find(body.as_bytes(), word.as_bytes()).is_some())
}
