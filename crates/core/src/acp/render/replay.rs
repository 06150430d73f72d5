//! Telling a conversation again: chunks of a message joined, each tool call once as it ended, of what is told whole
//! the last telling.
//!
//! What stands for several events is told at the place of the last of them and says its number. So numbers only rise,
//! and whoever has seen one goes on with the next without a repeat and without a gap.

use std::collections::{HashMap, HashSet};

use super::bounded::OutputTrimmer;
use super::echo::PromptResolution;
use super::entities::{EntityKind, MessageRef};
use super::fields::Fields;
use super::line::{SessionStateKind, UpdateKind, UpdateLine, text_of};
use super::live::{RecordRenderer, version};
use super::outgoing::{UpdateMeta, notification};
use super::run::{Run, whole};
use super::survey::{EntityKey, ReplayIndex, own_terminal};
use super::terminals::has_terminal_meta;
use super::tool::{MergedToolCall, ToolRenderSpec};
use crate::model::{
    Direction, Event, EventKind, LineageIndex, MessageKind, ProtocolVersion, Seq, prompt_message_id,
};
use crate::wire::encode::json_string;

/// How much of a conversation a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    /// Output of a tool that is longer is left out.
    pub(crate) tool_output_bytes: Option<usize>,
}

/// A replay under way. It takes the events that were surveyed, in their order.
pub(crate) struct ReplayRenderer {
    rendering: RecordRenderer,
    survey: ReplayIndex,
    bounds: Bounds,
    /// What sees to it that no line has longer output, if there is a bound.
    bounded: Option<OutputTrimmer>,
    /// The first event that is told. Those before are only taken in.
    from: Seq,
    tools: HashMap<EntityKey, MergedToolCall>,
    /// The tool calls that are told line by line: their agent tells the output of a command beside the protocol, in
    /// pieces that a client appends.
    line_by_line: HashSet<EntityKey>,
    /// What the session is about, as told so far.
    info: Option<Fields>,
    /// The messages with ids of the agent that have begun.
    begun: HashSet<(LineageIndex, MessageKind, Box<str>)>,
    run: Option<Run>,
    out: Vec<String>,
}

impl ReplayRenderer {
    /// A replay of what was surveyed, told from an event on.
    pub(crate) fn new(mut rendering: RecordRenderer, survey: ReplayIndex, from: Seq, bounds: Bounds) -> Self {
        if survey.begins_late() {
            rendering.begins_late();
        }
        let (tools, line_by_line, begun) = (HashMap::new(), HashSet::new(), HashSet::new());
        let (info, run, out) = (None, None, Vec::new());
        let bounded = bounds.tool_output_bytes.map(OutputTrimmer::to);
        Self { rendering, survey, bounds, bounded, from, tools, line_by_line, info, begun, run, out }
    }

    /// Takes the next event; the lines that can be told by now.
    pub(crate) fn take(&mut self, event: &Event) -> Vec<String> {
        match (event.direction, event.kind) {
            (Direction::Ours, EventKind::Fact) => {
                self.flush();
                let settled = self.rendering.ends_turn(event);
                self.settle(event, settled);
                let lines = self.rendering.fact(event, &|_| false, true);
                self.tell(event, lines);
                if let Some(terminal) = own_terminal(event) {
                    self.tell_calls_of(event, &terminal);
                }
            }
            (Direction::ToAgent, EventKind::Request) => {
                if let Some(prompt) = self.rendering.prompt(event) {
                    self.flush();
                    self.prompt(self.out.len(), &prompt);
                }
            }
            (Direction::FromAgent, EventKind::Response) => {
                let settled = self.rendering.answered(event);
                self.settle(event, settled);
            }
            // A change of modes or options is ours to tell where the agent has told only who asked for it.
            (Direction::FromAgent | Direction::Ours, EventKind::Update) => self.update(event),
            (Direction::FromAgent, EventKind::Notification) => {
                let lines = self.rendering.child_lines(event);
                if !lines.is_empty() {
                    self.flush();
                    self.tell(event, lines);
                }
            }
            _ => {}
        }
        std::mem::take(&mut self.out)
    }

    /// The rest.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.flush();
        self.out
    }

    /// Tells a prompt that is part of the conversation by this event, in its place: before what else is told by the same
    /// event. That has the number then.
    fn prompt(&mut self, place: usize, prompt: &Event) {
        if let Some(turn) = prompt.turn {
            let id = prompt_message_id(&self.rendering.record, turn);
            self.begun.insert((prompt.lineage, MessageKind::User, id.into()));
        }
        if prompt.seq < self.from {
            return;
        }
        let is_last = self.out.len() == place && self.run.is_none();
        let beside = UpdateMeta::of(prompt.seq, prompt.at);
        let seq = beside.seq.filter(|_| is_last);
        let lines = self.rendering.prompt_lines(prompt, &UpdateMeta { seq, ..beside });
        self.out.splice(place..place, lines);
    }

    /// Tells what waited for the answer to the prompt.
    fn settle(&mut self, event: &Event, settled: PromptResolution) {
        let by = |waited: Event| Event { seq: event.seq, at: event.at, ..waited };
        if settled.prompt.is_some() {
            self.flush();
        }
        let place = self.out.len();
        for held in settled.held {
            self.update(&by(held));
        }
        if let Some(prompt) = settled.prompt {
            self.prompt(place, &by(prompt));
        }
    }

    fn update(&mut self, event: &Event) {
        let Some(line) = UpdateLine::of(event) else { return };
        let begun = self.rendering.begun(event, &line);
        if begun.is_some() {
            self.flush();
        }
        let place = self.out.len();
        self.tell_update(event, &line);
        if let Some(prompt) = begun {
            self.prompt(place, &prompt);
        }
    }

    fn tell_update(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let is_told = self.rendering.update(event, line);
        match line.head.kind {
            UpdateKind::Chunk(MessageKind::User) | UpdateKind::Message(MessageKind::User) if !is_told => {
                self.flush();
            }
            UpdateKind::Chunk(kind) => self.chunk(event, line, kind),
            UpdateKind::Tool | UpdateKind::ToolContent => self.tool(event, line),
            UpdateKind::Terminal => self.terminal(event, line),
            UpdateKind::State(SessionStateKind::Info) => self.info(event, line),
            UpdateKind::State(state) => {
                // It does not end the message. But whoever has seen it goes on behind it, so what came before it is
                // told before it.
                let is_answered = matches!(state, SessionStateKind::Mode | SessionStateKind::Options)
                    && self.is_translated_up(event);
                if self.survey.is_last(state, event, line) && !is_answered {
                    self.flush();
                    self.as_received(event, line);
                } else if state == SessionStateKind::Plan {
                    // Several are told in the order in which they first came.
                    self.take_in(event, line);
                }
            }
            UpdateKind::Notice | UpdateKind::Running => {}
            UpdateKind::Message(_) | UpdateKind::Compaction | UpdateKind::Other => {
                self.flush();
                if is_told {
                    self.note_begun(event, line);
                    self.as_received(event, line);
                }
            }
        }
    }

    /// What a session is about is told in pieces: the last telling of each counts, and all are told with the last.
    fn info(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let Some(mut told) = Fields::read(line.update) else { return };
        let is_last = self.survey.is_last(SessionStateKind::Info, event, line);
        match self.info.take() {
            None if is_last => {
                self.flush();
                self.as_received(event, line);
            }
            known => {
                let mut all = known.unwrap_or_default();
                all.take(std::mem::take(&mut told));
                if !is_last {
                    self.info = Some(all);
                    return;
                }
                self.flush();
                let mut update = String::from(r#"{"sessionUpdate":"session_info_update""#);
                all.write_behind(&mut update);
                update.push('}');
                self.made(event, &update);
            }
        }
    }

    /// A client of version 1 is told what a terminal shows with the tool calls that refer to it.
    fn terminal(&mut self, event: &Event, line: &UpdateLine<'_>) {
        self.flush();
        self.as_received(event, line);
        let Some(id) = line.head.terminal.and_then(text_of) else { return };
        self.tell_calls_of(event, &(event.lineage, Box::from(&*id)));
    }

    fn tell_calls_of(&mut self, event: &Event, terminal: &EntityKey) {
        for call in self.survey.calls_of(terminal).to_vec() {
            self.tell_tool(event, &call);
        }
    }

    fn chunk(&mut self, event: &Event, line: &UpdateLine<'_>, kind: MessageKind) {
        let Some(message) = self.rendering.open.message().cloned() else { return };
        let begins = self.begins(event, kind, &message);
        let Some(text) = line.plain_text() else {
            self.flush();
            // A piece that has nothing in it is told to nobody who could be told that it begins something.
            if begins && line.head.content.is_some() {
                self.begin_message(event, kind, &message);
            }
            return self.as_received(event, line);
        };
        if event.seq < self.from {
            return self.take_in(event, line);
        }
        let next = Run {
            kind,
            message,
            begins,
            given: line.head.message_id.map(|id| id.get().into()),
            row: event.lineage,
            protocol: version(event),
            last: event.seq,
            at: event.at,
            text: text.to_owned(),
        };
        match &mut self.run {
            Some(run) if run.goes_on_with(&next) => run.join(&next),
            _ => {
                self.flush();
                self.run = Some(next);
            }
        }
    }

    /// Whether a chunk is the first of its message. Only version 2 can say so.
    fn begins(&mut self, event: &Event, kind: MessageKind, message: &MessageRef) -> bool {
        match message {
            _ if self.rendering.client.protocol == ProtocolVersion::V1 => false,
            MessageRef::First(first) => *first == event.seq,
            MessageRef::Given(id) => self.begun.insert((event.lineage, kind, id.clone())),
        }
    }

    /// Takes note of a message that was told whole: chunks that come then go on with it.
    fn note_begun(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let id = line.head.message_id.and_then(text_of);
        if let (UpdateKind::Message(kind), Some(id), Some(_)) = (line.head.kind, id, line.head.content) {
            self.begun.insert((event.lineage, kind, id.into()));
        }
    }

    /// Tells a message that begins with a chunk which goes out as it came: what a client had of it before is void.
    fn begin_message(&mut self, event: &Event, kind: MessageKind, message: &MessageRef) {
        let id = message.id(&self.rendering.record, &self.rendering.known, event.lineage);
        let beside = UpdateMeta { seq: None, ..UpdateMeta::of(event.seq, event.at) };
        let empty = whole(kind, &json_string(&id), "");
        let line = notification(&self.rendering.session, &empty, &beside);
        self.tell(event, vec![line]);
    }

    fn tool(&mut self, event: &Event, line: &UpdateLine<'_>) {
        self.flush();
        let Some(id) = line.head.tool_call else { return self.as_received(event, line) };
        let Some(call) = text_of(id) else { return self.as_received(event, line) };
        let key = (event.lineage, Box::from(&*call));
        if self.line_by_line.contains(&key) || has_terminal_meta(line.update) {
            // What came before is told first, without a number: this line has it.
            if let Some(tool) = self.tools.remove(&key) {
                let telling = ToolRenderSpec { is_over: false, has_cancelled: false };
                let update = self.folded(event, &key, tool, telling);
                let beside = UpdateMeta { seq: None, ..UpdateMeta::of(event.seq, event.at) };
                let lines = self.rendering.told(version(event), event.lineage, &update, &beside);
                self.tell(event, lines);
            }
            self.line_by_line.insert(key);
            return self.as_received(event, line);
        }
        let output_bytes = self.bounds.tool_output_bytes;
        let tool =
            self.tools.entry(key.clone()).or_insert_with(|| MergedToolCall::new(event.turn, output_bytes));
        match (line.head.kind, line.head.content) {
            (UpdateKind::ToolContent, Some(content)) => tool.take_content(content),
            _ => tool.take(line.update, version(event)),
        }
        self.tell_tool(event, &key);
    }

    /// Tells a tool call, if nothing more is told of it.
    fn tell_tool(&mut self, event: &Event, key: &EntityKey) {
        if !self.survey.is_last_of(key, event) {
            return;
        }
        let Some(tool) = self.tools.remove(key) else { return };
        let spoken = version(event);
        let is_first = [spoken, self.rendering.client.protocol] == [ProtocolVersion::V1; 2];
        let is_over = self.survey.is_over(key, tool.turn, event);
        let telling = ToolRenderSpec { is_over, has_cancelled: !is_first };
        let update = self.folded(event, key, tool, telling);
        self.made(event, &update);
    }

    /// The update that tells a tool call with all its fields.
    fn folded(
        &mut self,
        event: &Event,
        key: &EntityKey,
        tool: MergedToolCall,
        telling: ToolRenderSpec,
    ) -> String {
        let other = self.rendering.known.other_text(EntityKind::ToolCall, &key.1, event.lineage);
        let id = json_string(other.as_deref().unwrap_or(&key.1));
        self.rendering.to_v2.in_turn(tool.turn);
        tool.update(&id, version(event), telling)
    }

    /// Tells an update that was made of several.
    fn made(&mut self, event: &Event, update: &str) {
        let beside = UpdateMeta::of(event.seq, event.at);
        let lines = self.rendering.told(version(event), event.lineage, update, &beside);
        self.tell(event, lines);
    }

    /// Whether version 1 is told to version 2. What a session offers is then in the answer alone, where all of it is
    /// known.
    fn is_translated_up(&self, event: &Event) -> bool {
        (version(event), self.rendering.client.protocol) == (ProtocolVersion::V1, ProtocolVersion::V2)
    }

    /// What is not told is taken in all the same: a translation may depend on it.
    fn as_received(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let lines = self.rendering.as_received(event, line, &UpdateMeta::of(event.seq, event.at));
        self.tell(event, lines);
    }

    /// Takes in what is not told, where what is told later is told by what was before.
    fn take_in(&mut self, event: &Event, line: &UpdateLine<'_>) {
        if self.rendering.remembers_all(event) {
            drop(self.rendering.as_received(event, line, &UpdateMeta::default()));
        }
    }

    fn tell(&mut self, event: &Event, lines: Vec<String>) {
        if event.seq >= self.from {
            self.push(event.lineage, lines);
        }
    }

    /// Puts lines of a lineage row behind the others, without what is longer than the client wants.
    fn push(&mut self, row: LineageIndex, lines: Vec<String>) {
        let Self { bounded, survey, out, .. } = self;
        match bounded {
            None => out.extend(lines),
            Some(bounded) => {
                out.extend(lines.into_iter().filter_map(|line| bounded.line(line, row, &survey.sizes)));
            }
        }
    }

    /// Tells the chunks that were joined.
    fn flush(&mut self) {
        let Some(run) = self.run.take() else { return };
        let beside = UpdateMeta::of(run.last, run.at);
        let id = json_string(&run.message.id(&self.rendering.record, &self.rendering.known, run.row));
        match self.rendering.client.protocol {
            ProtocolVersion::V2 => {
                let update = if run.begins { run.whole(&id) } else { run.chunk(Some(&id)) };
                self.out.push(notification(&self.rendering.session, &update, &beside));
            }
            ProtocolVersion::V1 => {
                let update = run.chunk(run.given.is_some().then_some(&*id));
                let lines = self.rendering.told(run.protocol, run.row, &update, &beside);
                self.push(run.row, lines);
            }
        }
    }
}
