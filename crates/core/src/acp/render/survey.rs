//! The first look at a conversation that is to be replayed: where each tool call, and each thing that is told whole,
//! is told last. It reads only the lines that may be one of these, and holds numbers, not lines.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::bounded::TerminalSizes;
use super::line::{SessionStateKind, UpdateKind, UpdateLine, text_of};
use crate::model::{
    Direction, Event, EventKind, Fact, LineageIndex, ProtocolVersion, Seq, TurnId, is_another_call,
};
use crate::wire::splice::{PathStep, elements, locate};

/// A tool call or a terminal: an agent's ids are its ACP session's.
pub(super) type EntityKey = (LineageIndex, Box<str>);

/// What was told last, and where.
#[derive(Debug, Default)]
pub(crate) struct ReplayIndex {
    /// Whether it is for a client of version 1: what a terminal shows is told it as a part of the tool calls that
    /// refer to the terminal.
    shows_terminals: bool,
    tools: HashMap<EntityKey, ToolCallSeqs>,
    /// The terminals of ours that began.
    started: HashSet<EntityKey>,
    /// The tool calls that refer to a terminal.
    shown_in: HashMap<EntityKey, Vec<EntityKey>>,
    /// How much terminals show.
    pub(super) sizes: TerminalSizes,
    states: HashMap<SessionStateKind, Seq>,
    plans: HashMap<(Option<TurnId>, Option<Box<str>>), Seq>,
    running: Option<TurnId>,
    said: OwnState,
    /// Where an agent's process was last known to be gone.
    gone: Option<Seq>,
    /// Whether something may have begun before what is looked at.
    begins_late: bool,
    lacks_beginning: bool,
}

/// The state that an agent of version 2 last told.
#[derive(Debug, Default)]
struct OwnState {
    /// Whether it does something.
    works: bool,
    /// The tool calls and terminals that go on beside that, if it says so at all.
    background: Option<HashSet<EntityKey>>,
}

/// The tool calls that an agent gave one id. There should be one; but some agents use an id again in a later turn.
#[derive(Debug)]
struct ToolCallSeqs {
    /// The turn in which the last of them began.
    turn: Option<TurnId>,
    /// Where those before it were told last.
    earlier: Vec<Seq>,
    last: Seq,
}

impl ReplayIndex {
    /// A look at a conversation for a client of this version, from an event on.
    pub(crate) fn of(client: ProtocolVersion, from: Seq) -> Self {
        let (shows_terminals, begins_late) = (client == ProtocolVersion::V1, from > Seq::FIRST);
        Self { shows_terminals, begins_late, ..Self::default() }
    }

    /// Takes the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        // Version 1 is told what is new of a message or a tool call, however long ago that began.
        self.lacks_beginning |= self.shows_terminals && event.protocol == ProtocolVersion::V2.number();
        if self.begins_late && !self.shows_terminals && event.kind == EventKind::Update {
            // Version 2 says that a message begins, and what a client had of it is void then. One that the agent named
            // may have begun at any time.
            self.lacks_beginning |= memchr::memmem::find(event.body.as_bytes(), b"\"messageId\"").is_some();
        }
        match (event.direction, event.kind) {
            (Direction::Ours, EventKind::Fact) => self.fact(event),
            // What a client has changed is kept as an update of ours.
            (Direction::FromAgent | Direction::Ours, EventKind::Update) if may_count(&event.body) => {
                self.update(event);
            }
            _ => {}
        }
    }

    fn fact(&mut self, event: &Event) {
        let fact = Fact::from_body(&event.body);
        if let Some(fact) = &fact {
            self.sizes.fact(event.lineage, fact);
        }
        match fact {
            Some(Fact::TurnStarted { turn, .. }) => self.running = Some(TurnId(turn)),
            Some(Fact::TurnEnded { turn, .. }) if self.running == Some(TurnId(turn)) => {
                self.running = None;
            }
            // A process that is there again, or a session that is another, is none of the one before.
            Some(
                Fact::AgentEnded { .. }
                | Fact::Restored { .. }
                | Fact::SessionReset { .. }
                | Fact::SessionReturned { .. },
            ) => {
                (self.gone, self.said) = (Some(event.seq), OwnState::default());
            }
            Some(Fact::TerminalStarted { terminal_id, .. }) => {
                self.started.insert((event.lineage, terminal_id.into()));
            }
            Some(Fact::TerminalOutput { .. } | Fact::TerminalEnded { .. }) if self.shows_terminals => {
                let Some(terminal) = own_terminal(event) else { return };
                self.lacks_beginning |= !self.started.contains(&terminal);
                self.shown_by(&terminal, event.seq);
            }
            _ => {}
        }
    }

    /// A terminal shows something by this event, and so do the tool calls that refer to it.
    fn shown_by(&mut self, terminal: &EntityKey, seq: Seq) {
        for call in self.shown_in.get(terminal).into_iter().flatten() {
            if let Some(calls) = self.tools.get_mut(call) {
                calls.last = seq;
            }
        }
    }

    /// A tool call is told by this event; whether it is the first time.
    fn called(&mut self, call: EntityKey, event: &Event, is_new: bool) -> bool {
        match self.tools.entry(call) {
            Entry::Vacant(place) => {
                place.insert(ToolCallSeqs { turn: event.turn, earlier: Vec::new(), last: event.seq });
                true
            }
            Entry::Occupied(mut calls) => {
                let calls = calls.get_mut();
                let is_another = is_another_call(is_new, calls.turn, event.turn);
                if is_another {
                    calls.earlier.push(calls.last);
                    calls.turn = event.turn;
                }
                calls.last = event.seq;
                is_another
            }
        }
    }

    fn update(&mut self, event: &Event) {
        let Some(UpdateLine { head, update, .. }) = UpdateLine::of(event) else { return };
        let key = |id: Option<&RawValue>| Some((event.lineage, Box::from(&*text_of(id?)?)));
        match head.kind {
            UpdateKind::Tool | UpdateKind::ToolContent => {
                let Some(call) = key(head.tool_call) else { return };
                for terminal in terminals(head.content) {
                    let shown = self.shown_in.entry((event.lineage, terminal)).or_default();
                    if !shown.contains(&call) {
                        shown.push(call.clone());
                    }
                }
                let is_first = self.called(call, event, head.is_new_call);
                // Only version 1 says that a call is new. Any other may have begun before what is looked at.
                self.lacks_beginning |= is_first && !head.is_new_call;
            }
            UpdateKind::Terminal => {
                let Some(terminal) = key(head.terminal) else { return };
                self.sizes.update(&terminal, update);
                if self.shows_terminals {
                    self.shown_by(&terminal, event.seq);
                }
            }
            UpdateKind::State(SessionStateKind::Plan) => {
                let plan = head.plan.and_then(text_of).map(|id| Box::from(&*id));
                self.plans.insert((event.turn, plan), event.seq);
            }
            UpdateKind::State(state) => {
                // What a session is about is told in pieces.
                self.lacks_beginning |= self.begins_late && state == SessionStateKind::Info;
                self.states.insert(state, event.seq);
            }
            UpdateKind::Running => {
                let works = member(update, "state").is_some_and(|state| &*state != "idle");
                self.said = OwnState { works, background: background(update, event.lineage) };
            }
            _ => {}
        }
    }

    /// Whether a tool call is told no more after this event.
    pub(super) fn is_last_of(&self, tool: &EntityKey, event: &Event) -> bool {
        // One that was overlooked is told each time.
        self.tools
            .get(tool)
            .is_none_or(|calls| calls.last <= event.seq || calls.earlier.binary_search(&event.seq).is_ok())
    }

    /// The tool calls that a terminal is shown in.
    pub(super) fn calls_of(&self, terminal: &EntityKey) -> &[EntityKey] {
        let calls = self.shown_in.get(terminal).filter(|_| self.shows_terminals);
        calls.map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether this event tells such a thing last.
    pub(super) fn is_last(&self, state: SessionStateKind, event: &Event, line: &UpdateLine<'_>) -> bool {
        let last = match state {
            SessionStateKind::Plan => {
                let plan = line.head.plan.and_then(text_of).map(|id| Box::from(&*id));
                self.plans.get(&(event.turn, plan))
            }
            other => self.states.get(&other),
        };
        last.is_none_or(|last| *last <= event.seq)
    }

    /// Whether nothing more is to come of a tool call that began in this turn and is told last by this event. Work of
    /// an agent of version 2 goes on beside its turns as long as it lists it, and its process is there. One that lists
    /// nothing does not say that nothing goes on; but whoever is told the conversation again is not left with a call
    /// that nothing ends. What comes of it after all is told then.
    pub(super) fn is_over(&self, tool: &EntityKey, turn: Option<TurnId>, event: &Event) -> bool {
        let has_ended = turn.is_none() || turn != self.running;
        if ProtocolVersion::from_number(event.protocol) != Some(ProtocolVersion::V2) {
            return has_ended;
        }
        let goes_on = |listed: &EntityKey| {
            listed == tool || self.shown_in.get(listed).is_some_and(|calls| calls.contains(tool))
        };
        let is_left_out = match &self.said.background {
            Some(list) => !list.iter().any(goes_on),
            // A turn of the agent's own is over when it says so.
            None => turn.is_some() || !self.said.works,
        };
        self.gone.is_some_and(|gone| event.seq < gone) || has_ended && is_left_out
    }

    /// Whether there is something before what was looked at.
    pub(super) fn begins_late(&self) -> bool {
        self.begins_late
    }

    /// Whether something that must be known may have begun before what was looked at.
    pub(crate) fn lacks_beginning(&self) -> bool {
        self.lacks_beginning
    }
}

/// The terminal of ours that a fact is about, if it is about one.
pub(super) fn own_terminal(event: &Event) -> Option<EntityKey> {
    match Fact::from_body(&event.body)? {
        Fact::TerminalStarted { terminal_id, .. }
        | Fact::TerminalOutput { terminal_id, .. }
        | Fact::TerminalEnded { terminal_id, .. } => Some((event.lineage, terminal_id.into())),
        _ => None,
    }
}

/// The terminals that a tool call's content refers to: a list, or an item of one.
fn terminals(content: Option<&RawValue>) -> Vec<Box<str>> {
    let Some(content) = content.map(RawValue::get) else { return Vec::new() };
    if memchr::memmem::find(content.as_bytes(), b"terminalId").is_none() {
        return Vec::new();
    }
    let items = match elements(content) {
        Some(items) => items.into_iter().filter_map(|range| content.get(range)).collect(),
        None => vec![content],
    };
    items.into_iter().filter_map(|item| member(item, "terminalId")).collect()
}

/// What a state of version 2 lists as going on; `None` if it says nothing of it.
fn background(update: &str, row: LineageIndex) -> Option<HashSet<EntityKey>> {
    let list = update.get(locate(update, &[PathStep::Key("background")])?)?;
    let items = elements(list)?.into_iter().filter_map(|range| list.get(range));
    let named = |item| member(item, "toolCallId").or_else(|| member(item, "terminalId"));
    Some(items.filter_map(named).map(|id| (row, id)).collect())
}

/// A text among the members of an object.
fn member(object: &str, name: &str) -> Option<Box<str>> {
    serde_json::from_str(object.get(locate(object, &[PathStep::Key(name)])?)?).ok()
}

/// Whether a line may tell a tool call or one of the things that are told whole: the names of all of them have one of
/// these in them.
fn may_count(body: &str) -> bool {
    ["_update", "tool_call", "plan", "terminal"]
        .iter()
        .any(|word| memchr::memmem::find(body.as_bytes(), word.as_bytes()).is_some())
}
