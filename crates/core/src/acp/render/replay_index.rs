//! Indexes a conversation before its replay: finds the last update of each tool call and of each state that is sent
//! whole. It parses only lines that can be one of these, and stores seqs, not lines.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::line::{SessionStateKind, UpdateKind, UpdateLine};
use super::output_limit::TerminalSizes;
use crate::model::{
    Direction, Event, EventKind, Fact, LineageIndex, ProtocolVersion, Seq, TurnId, is_another_call,
};
use crate::wire::json;

/// The id of a tool call or a terminal. An agent's ids are unique only within their ACP session.
pub(super) type EntityKey = (LineageIndex, Box<str>);

/// The seqs of the last updates, for one replay.
#[derive(Debug, Default)]
pub(crate) struct ReplayIndex {
    /// Whether the replay is for a version 1 client, which sees terminal output in the tool calls that refer to the
    /// terminal.
    shows_terminals: bool,
    tools: HashMap<EntityKey, ToolCallSeqs>,
    /// The terminals that acpx started.
    started: HashSet<EntityKey>,
    /// The tool calls that refer to a terminal.
    shown_in: HashMap<EntityKey, Vec<EntityKey>>,
    /// The output sizes of terminals.
    pub(super) sizes: TerminalSizes,
    states: HashMap<SessionStateKind, Seq>,
    plans: HashMap<(Option<TurnId>, Option<Box<str>>), Seq>,
    running: Option<TurnId>,
    own_state: OwnState,
    /// The last event that ended or replaced the agent process or its session.
    gone: Option<Seq>,
    /// Whether there are events before the indexed range.
    begins_late: bool,
    client_state: ClientState,
    lacks_beginning: bool,
}

/// What a client has of the conversation before its replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ClientState {
    /// Perhaps everything before.
    #[default]
    Earlier,
    /// Nothing: it wants only the last part.
    Empty,
}

/// The last state update of a version 2 agent.
#[derive(Debug, Default)]
struct OwnState {
    /// Whether the agent works.
    works: bool,
    /// The tool calls and terminals listed as background work; `None` without a list.
    background: Option<HashSet<EntityKey>>,
}

/// The tool calls with one id. Normally there is one, but some agents reuse an id in a later turn.
#[derive(Debug)]
struct ToolCallSeqs {
    /// The turn in which the last of them began.
    turn: Option<TurnId>,
    /// The last events of the earlier calls.
    earlier: Vec<Seq>,
    last: Seq,
}

impl ReplayIndex {
    /// An empty index for a client of this version, from an event on.
    pub(crate) fn of(client: ProtocolVersion, from: Seq, client_state: ClientState) -> Self {
        let (shows_terminals, begins_late) = (client == ProtocolVersion::V1, from > Seq::FIRST);
        Self { shows_terminals, begins_late, client_state, ..Self::default() }
    }

    /// Takes the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        // A version 1 client receives only the difference to earlier messages and tool calls of a version 2 agent.
        self.lacks_beginning |= self.shows_terminals && event.protocol == ProtocolVersion::V2.number();
        let may_discard = self.begins_late && self.client_state == ClientState::Earlier;
        if may_discard && !self.shows_terminals && event.kind == EventKind::Update {
            // In version 2, beginning a message discards what the client had of it. A message with an id of the agent
            // may have begun before the indexed range.
            self.lacks_beginning |= memchr::memmem::find(event.body.as_bytes(), b"\"messageId\"").is_some();
        }
        match (event.direction, event.kind) {
            (Direction::Ours, EventKind::Fact) => self.fact(event),
            // A change that a client made is stored as an update by acpx.
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
            // Background work does not survive a new process or another session.
            Some(
                Fact::AgentEnded { .. }
                | Fact::Restored { .. }
                | Fact::SessionReset { .. }
                | Fact::SessionReturned { .. },
            ) => {
                (self.gone, self.own_state) = (Some(event.seq), OwnState::default());
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

    /// A terminal produced output: the tool calls that refer to it have changed too.
    fn shown_by(&mut self, terminal: &EntityKey, seq: Seq) {
        for call in self.shown_in.get(terminal).into_iter().flatten() {
            if let Some(calls) = self.tools.get_mut(call) {
                calls.last = seq;
            }
        }
    }

    /// Records an update of a tool call; returns whether the call is new here.
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
        let key = |id: Option<&str>| Some((event.lineage, Box::from(json::string(id?)?)));
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
                // Only version 1 marks a new call. Any other call may have begun before the indexed range; what a
                // client without earlier events needs of it is then in its title.
                let is_whole = head.is_new_call || self.client_state == ClientState::Empty && head.has_title;
                self.lacks_beginning |= is_first && !is_whole;
            }
            UpdateKind::Terminal => {
                let Some(terminal) = key(head.terminal) else { return };
                self.sizes.update(&terminal, update);
                if self.shows_terminals {
                    self.shown_by(&terminal, event.seq);
                }
            }
            UpdateKind::State(SessionStateKind::Plan) => {
                let plan = head.plan.and_then(json::string).map(Box::from);
                self.plans.insert((event.turn, plan), event.seq);
            }
            UpdateKind::State(state) => {
                self.states.insert(state, event.seq);
            }
            UpdateKind::RunState => {
                let works = member(update, "state").is_some_and(|state| &*state != "idle");
                self.own_state = OwnState { works, background: background(update, event.lineage) };
            }
            _ => {}
        }
    }

    /// Whether this event is the last update of a tool call.
    pub(super) fn is_last_of(&self, tool: &EntityKey, event: &Event) -> bool {
        // A call that is not indexed is rendered at each update.
        self.tools
            .get(tool)
            .is_none_or(|calls| calls.last <= event.seq || calls.earlier.binary_search(&event.seq).is_ok())
    }

    /// The tool calls that show a terminal.
    pub(super) fn calls_of(&self, terminal: &EntityKey) -> &[EntityKey] {
        let calls = self.shown_in.get(terminal).filter(|_| self.shows_terminals);
        calls.map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether this event is the last update of such a state.
    pub(super) fn is_last(&self, state: SessionStateKind, event: &Event, line: &UpdateLine<'_>) -> bool {
        let last = match state {
            SessionStateKind::Plan => {
                let plan = line.head.plan.and_then(json::string).map(Box::from);
                self.plans.get(&(event.turn, plan))
            }
            other => self.states.get(&other),
        };
        last.is_none_or(|last| *last <= event.seq)
    }

    /// Whether a tool call that began in `turn`, and whose last update is this event, is over. Work of a version 2
    /// agent can continue after its turns while the agent lists it as background work and its process runs. An agent
    /// that lists nothing may still work, but a replay must not leave a call open that nothing ends. A later update
    /// is sent anyway.
    pub(super) fn is_over(&self, tool: &EntityKey, turn: Option<TurnId>, event: &Event) -> bool {
        let has_ended = turn.is_none() || turn != self.running;
        if ProtocolVersion::from_number(event.protocol) != Some(ProtocolVersion::V2) {
            return has_ended;
        }
        let goes_on = |listed: &EntityKey| {
            listed == tool || self.shown_in.get(listed).is_some_and(|calls| calls.contains(tool))
        };
        let is_left_out = match &self.own_state.background {
            Some(list) => !list.iter().any(goes_on),
            // A turn of the agent's own is over when the agent reports that it is idle.
            None => turn.is_some() || !self.own_state.works,
        };
        self.gone.is_some_and(|gone| event.seq < gone) || has_ended && is_left_out
    }

    /// Whether there are events before the indexed range.
    pub(super) fn begins_late(&self) -> bool {
        self.begins_late
    }

    /// Whether a message, call or state that the replay needs may have begun before the indexed range.
    pub(crate) fn lacks_beginning(&self) -> bool {
        self.lacks_beginning
    }
}

/// The acpx terminal that a fact is about, if any.
pub(super) fn own_terminal(event: &Event) -> Option<EntityKey> {
    match Fact::from_body(&event.body)? {
        Fact::TerminalStarted { terminal_id, .. }
        | Fact::TerminalOutput { terminal_id, .. }
        | Fact::TerminalEnded { terminal_id, .. } => Some((event.lineage, terminal_id.into())),
        _ => None,
    }
}

/// The terminals that tool call content refers to. `content` is a list or one of its items.
fn terminals(content: Option<&str>) -> Vec<Box<str>> {
    let Some(content) = content else { return Vec::new() };
    if memchr::memmem::find(content.as_bytes(), b"terminalId").is_none() {
        return Vec::new();
    }
    json::items(content)
        .unwrap_or_else(|| vec![content])
        .into_iter()
        .filter_map(|item| member(item, "terminalId"))
        .collect()
}

/// The background work that a version 2 state lists; `None` without a list.
fn background(update: &str, row: LineageIndex) -> Option<HashSet<EntityKey>> {
    let items = json::items(json::get(update, &["background"])?)?;
    let named = |item| member(item, "toolCallId").or_else(|| member(item, "terminalId"));
    Some(items.into_iter().filter_map(named).map(|id| (row, id)).collect())
}

/// A string member of an object.
fn member(object: &str, name: &str) -> Option<Box<str>> {
    json::string(json::get(object, &[name])?).map(Box::from)
}

/// Whether a line can be a tool call or a state that is sent whole: the names of all of these contain one of the
/// words.
fn may_count(body: &str) -> bool {
    ["_update", "tool_call", "plan", "terminal"]
        .iter()
        .any(|word| memchr::memmem::find(body.as_bytes(), word.as_bytes()).is_some())
}
