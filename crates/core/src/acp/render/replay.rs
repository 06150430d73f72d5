//! Renders a replay of a conversation: joins the chunks of a message, renders each tool call once in its final state,
//! and renders only the last version of state that is sent whole.
//!
//! A line that stands for several events has the place and the seq of the last one. So the seqs in a replay only
//! increase, and a client can continue after any of them without gaps or duplicates.

use std::collections::{HashMap, HashSet};

use super::chunk_run::{Run, whole};
use super::echo::PromptResolution;
use super::entities::{MessageRef, client_id};
use super::line::{SessionStateKind, UpdateKind, UpdateLine};
use super::live::{RecordRenderer, version};
use super::outgoing::{UpdateMeta, notification};
use super::output_limit::OutputTrimmer;
use super::replay_index::{EntityKey, ReplayIndex, own_terminal};
use super::terminals::has_terminal_meta;
use super::tool::{KIND, MergedToolCall, ToolRenderSpec};
use crate::model::{
    Direction, Event, EventKind, LineageIndex, MessageKind, ProtocolVersion, Seq, prompt_message_id,
};
use crate::wire::encode::json_string;
use crate::wire::json::{self, RawObject};

/// How much of a conversation a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    /// Longer tool output is left out.
    pub(crate) tool_output_bytes: Option<usize>,
}

/// A replay in progress. It takes the events that the [`ReplayIndex`] has seen, in the same order.
pub(crate) struct ReplayRenderer {
    rendering: RecordRenderer,
    index: ReplayIndex,
    bounds: Bounds,
    /// Trims output in the rendered lines, if there is a bound.
    bounded: Option<OutputTrimmer>,
    /// The first event that is sent. Earlier events only update the state.
    from: Seq,
    tools: HashMap<EntityKey, MergedToolCall>,
    /// The tool calls whose updates are sent one by one: their agent reports terminal output in `_meta`, in pieces
    /// that the client appends.
    line_by_line: HashSet<EntityKey>,
    /// The session info so far.
    info: Option<RawObject<'static>>,
    /// The messages with ids of the agent that have begun.
    begun: HashSet<(LineageIndex, MessageKind, Box<str>)>,
    /// Whether a state update follows each turn that the agent has not finished.
    has_outcomes: bool,
    run: Option<Run>,
    out: Vec<String>,
}

impl ReplayRenderer {
    /// Starts a replay of the indexed events that sends events from `from` on.
    pub(crate) fn new(mut rendering: RecordRenderer, index: ReplayIndex, from: Seq, bounds: Bounds) -> Self {
        if index.begins_late() {
            rendering.begins_late();
        }
        let (tools, line_by_line, begun) = (HashMap::new(), HashSet::new(), HashSet::new());
        let (info, run, out) = (None, None, Vec::new());
        let bounded = bounds.tool_output_bytes.map(OutputTrimmer::to);
        let has_outcomes = false;
        Self {
            rendering,
            index,
            bounds,
            bounded,
            from,
            tools,
            line_by_line,
            info,
            begun,
            has_outcomes,
            run,
            out,
        }
    }

    /// Adds a state update after each turn that the agent has not finished.
    #[must_use]
    pub(crate) fn with_outcomes(self) -> Self {
        Self { has_outcomes: true, ..self }
    }

    /// Sets the title that the session had before the first event.
    #[must_use]
    pub(crate) fn with_title(mut self, title: Option<&str>) -> Self {
        if let Some(title) = title.map(|title| format!(r#"{{"title":{}}}"#, json_string(title)))
            && let Some(part) = RawObject::parse(&title)
        {
            self.info.get_or_insert_default().merge(&part);
        }
        self
    }

    /// Takes the next event; returns the lines that are complete.
    pub(crate) fn take(&mut self, event: &Event) -> Vec<String> {
        match (event.direction, event.kind) {
            (Direction::Ours, EventKind::Fact) => {
                self.flush();
                let settled = self.rendering.ends_turn(event);
                self.settle(event, settled);
                let outcome = if self.has_outcomes { self.rendering.outcome(event) } else { None };
                let lines = self.rendering.fact(event, &|_| false, true);
                self.push_lines(event, lines);
                if let Some(outcome) = outcome {
                    let meta = UpdateMeta::of(event.seq, event.at);
                    self.push_lines(event, vec![notification(&self.rendering.session, &outcome, &meta)]);
                }
                if let Some(terminal) = own_terminal(event) {
                    self.render_calls_of(event, &terminal);
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
            // If the agent reports a changed mode or option only to the client that requested it, acpx stores an
            // update for the others.
            (Direction::FromAgent | Direction::Ours, EventKind::Update) => self.update(event),
            (Direction::FromAgent, EventKind::Notification) => {
                let lines = self.rendering.child_lines(event);
                if !lines.is_empty() {
                    self.flush();
                    self.push_lines(event, lines);
                }
            }
            _ => {}
        }
        std::mem::take(&mut self.out)
    }

    /// The remaining lines.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.flush();
        self.out
    }

    /// Inserts the lines of a prompt before the other lines of the same event. If there are such lines, the last of
    /// them carries the seq.
    fn prompt(&mut self, place: usize, prompt: &Event) {
        if let Some(turn) = prompt.turn {
            let id = prompt_message_id(&self.rendering.record, turn);
            self.begun.insert((prompt.lineage, MessageKind::User, id.into()));
        }
        if prompt.seq < self.from {
            return;
        }
        let is_last = self.out.len() == place && self.run.is_none();
        let meta = UpdateMeta::of(prompt.seq, prompt.at);
        let seq = meta.seq.filter(|_| is_last);
        let lines = self.rendering.prompt_lines(prompt, &UpdateMeta { seq, ..meta });
        self.out.splice(place..place, lines);
    }

    /// Renders the updates held until the reply to the prompt.
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
        self.render_update(event, &line);
        if let Some(prompt) = begun {
            self.prompt(place, &prompt);
        }
    }

    fn render_update(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let is_rendered = self.rendering.update(event, line);
        match line.head.kind {
            UpdateKind::Chunk(MessageKind::User) | UpdateKind::Message(MessageKind::User) if !is_rendered => {
                self.flush();
            }
            UpdateKind::Chunk(kind) => self.chunk(event, line, kind),
            UpdateKind::Tool | UpdateKind::ToolContent => self.tool(event, line),
            UpdateKind::Terminal => self.terminal(event, line),
            UpdateKind::State(SessionStateKind::Info) => self.info(event, line),
            UpdateKind::State(state) => {
                // State does not end the message. But a client may continue after its seq, so all earlier lines must
                // come first.
                let is_answered = matches!(state, SessionStateKind::Mode | SessionStateKind::Options)
                    && self.is_translated_up(event);
                if self.index.is_last(state, event, line) && !is_answered {
                    self.flush();
                    self.as_received(event, line);
                } else if state == SessionStateKind::Plan {
                    // The translation keeps several plans in the order of their first updates.
                    self.track(event, line);
                }
            }
            UpdateKind::Notice | UpdateKind::RunState => {}
            UpdateKind::Message(_) | UpdateKind::Compaction | UpdateKind::Other => {
                self.flush();
                if is_rendered {
                    self.note_begun(event, line);
                    self.as_received(event, line);
                }
            }
        }
    }

    /// Session info comes in parts: merges them, the last value of each field wins, and renders all of them with the
    /// last part.
    fn info(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let Some(mut info) = RawObject::parse(line.update) else { return };
        let is_last = self.index.is_last(SessionStateKind::Info, event, line);
        match self.info.take() {
            None if is_last => {
                self.flush();
                self.as_received(event, line);
            }
            known => {
                let mut all = known.unwrap_or_default();
                info.remove(KIND);
                all.merge(&info);
                if !is_last {
                    self.info = Some(all);
                    return;
                }
                self.flush();
                let mut update = String::from(r#"{"sessionUpdate":"session_info_update""#);
                all.write_members(&mut update);
                update.push('}');
                self.made(event, &update);
            }
        }
    }

    /// A version 1 client sees terminal output in the tool calls that refer to the terminal.
    fn terminal(&mut self, event: &Event, line: &UpdateLine<'_>) {
        self.flush();
        self.as_received(event, line);
        let Some(id) = line.head.terminal.and_then(json::string) else { return };
        self.render_calls_of(event, &(event.lineage, Box::from(id)));
    }

    fn render_calls_of(&mut self, event: &Event, terminal: &EntityKey) {
        for call in self.index.calls_of(terminal).to_vec() {
            self.render_tool(event, &call);
        }
    }

    fn chunk(&mut self, event: &Event, line: &UpdateLine<'_>, kind: MessageKind) {
        let Some(message) = self.rendering.open.message().cloned() else { return };
        let begins = self.begins(event, kind, &message);
        let Some(text) = line.plain_text() else {
            self.flush();
            // A chunk without content produces no line, so it does not begin a message.
            if begins && line.head.content.is_some() {
                self.begin_message(event, kind, &message);
            }
            return self.as_received(event, line);
        };
        if event.seq < self.from {
            return self.track(event, line);
        }
        let next = Run {
            kind,
            message,
            begins,
            given: line.head.message_id.map(Into::into),
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

    /// Whether a chunk is the first of its message. Only version 2 can express this.
    fn begins(&mut self, event: &Event, kind: MessageKind, message: &MessageRef) -> bool {
        match message {
            _ if self.rendering.client.protocol == ProtocolVersion::V1 => false,
            MessageRef::First(first) => *first == event.seq,
            MessageRef::Given(id) => self.begun.insert((event.lineage, kind, id.clone())),
        }
    }

    /// Records a message that was sent whole: later chunks continue it.
    fn note_begun(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let id = line.head.message_id.and_then(json::string);
        if let (UpdateKind::Message(kind), Some(id), Some(_)) = (line.head.kind, id, line.head.content) {
            self.begun.insert((event.lineage, kind, id.into()));
        }
    }

    /// Begins a message whose first chunk is forwarded as received: clears what the client had of it before.
    fn begin_message(&mut self, event: &Event, kind: MessageKind, message: &MessageRef) {
        let id = message.id(&self.rendering.record, event.lineage);
        let meta = UpdateMeta { seq: None, ..UpdateMeta::of(event.seq, event.at) };
        let empty = whole(kind, &json_string(&id), "");
        let line = notification(&self.rendering.session, &empty, &meta);
        self.push_lines(event, vec![line]);
    }

    fn tool(&mut self, event: &Event, line: &UpdateLine<'_>) {
        self.flush();
        let Some(id) = line.head.tool_call else { return self.as_received(event, line) };
        let Some(call) = json::string(id) else { return self.as_received(event, line) };
        let key = (event.lineage, Box::from(call));
        if self.line_by_line.contains(&key) || has_terminal_meta(line.update) {
            // Earlier updates are rendered first, without a seq: this line carries it.
            if let Some(tool) = self.tools.remove(&key) {
                let telling = ToolRenderSpec { is_over: false, has_cancelled: false };
                let update = self.folded(event, &key, tool, telling);
                let meta = UpdateMeta { seq: None, ..UpdateMeta::of(event.seq, event.at) };
                let lines = self.rendering.translated(version(event), event.lineage, &update, &meta);
                self.push_lines(event, lines);
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
        self.render_tool(event, &key);
    }

    /// Renders a tool call if this event is its last.
    fn render_tool(&mut self, event: &Event, key: &EntityKey) {
        if !self.index.is_last_of(key, event) {
            return;
        }
        let Some(tool) = self.tools.remove(key) else { return };
        let agent_version = version(event);
        let is_v1 = [agent_version, self.rendering.client.protocol] == [ProtocolVersion::V1; 2];
        let is_over = self.index.is_over(key, tool.turn, event);
        let telling = ToolRenderSpec { is_over, has_cancelled: !is_v1 };
        let update = self.folded(event, key, tool, telling);
        self.made(event, &update);
    }

    /// The update with all fields of a tool call.
    fn folded(
        &mut self,
        event: &Event,
        key: &EntityKey,
        tool: MergedToolCall,
        telling: ToolRenderSpec,
    ) -> String {
        let other = client_id(&key.1, event.lineage);
        let id = json_string(other.as_deref().unwrap_or(&key.1));
        self.rendering.to_v2.in_turn(tool.turn);
        tool.update(&id, version(event), telling)
    }

    /// Renders an update that was merged from several.
    fn made(&mut self, event: &Event, update: &str) {
        let meta = UpdateMeta::of(event.seq, event.at);
        let lines = self.rendering.translated(version(event), event.lineage, update, &meta);
        self.push_lines(event, lines);
    }

    /// Whether a version 1 update is translated for a version 2 client. Such a client receives the options in the
    /// response alone, where all of them are known.
    fn is_translated_up(&self, event: &Event) -> bool {
        (version(event), self.rendering.client.protocol) == (ProtocolVersion::V1, ProtocolVersion::V2)
    }

    /// Renders an update as received. Updates before `from` pass through too, because a translation may depend on
    /// them.
    fn as_received(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let lines = self.rendering.as_received(event, line, &UpdateMeta::of(event.seq, event.at));
        self.push_lines(event, lines);
    }

    /// Passes an update that is not sent to the translator, if later translations depend on it.
    fn track(&mut self, event: &Event, line: &UpdateLine<'_>) {
        if self.rendering.remembers_all(event) {
            drop(self.rendering.as_received(event, line, &UpdateMeta::default()));
        }
    }

    fn push_lines(&mut self, event: &Event, lines: Vec<String>) {
        if event.seq >= self.from {
            self.push(event.lineage, lines);
        }
    }

    /// Appends the lines of a lineage row, trimmed to the client's bound.
    fn push(&mut self, row: LineageIndex, lines: Vec<String>) {
        let Self { bounded, index, out, .. } = self;
        match bounded {
            None => out.extend(lines),
            Some(bounded) => {
                out.extend(lines.into_iter().filter_map(|line| bounded.line(line, row, &index.sizes)));
            }
        }
    }

    /// Renders the joined chunks.
    fn flush(&mut self) {
        let Some(run) = self.run.take() else { return };
        let meta = UpdateMeta::of(run.last, run.at);
        let id = json_string(&run.message.id(&self.rendering.record, run.row));
        match self.rendering.client.protocol {
            ProtocolVersion::V2 => {
                let update = if run.begins { run.whole(&id) } else { run.chunk(Some(&id)) };
                self.out.push(notification(&self.rendering.session, &update, &meta));
            }
            ProtocolVersion::V1 => {
                let update = run.chunk(run.given.is_some().then_some(&*id));
                let lines = self.rendering.translated(run.protocol, run.row, &update, &meta);
                self.push(run.row, lines);
            }
        }
    }
}
