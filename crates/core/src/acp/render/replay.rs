//! Telling a conversation again: chunks of a message joined, each tool call once as it ended, of what is told whole
//! the last telling.
//!
//! What stands for several events is told at the place of the last of them and says its number. So numbers only rise,
//! and whoever has seen one goes on with the next without a repeat and without a gap.

use std::collections::HashMap;

use super::entities::Sort;
use super::line::{Kind, UpdateLine, text_of};
use super::live::Rendering;
use super::outgoing::{Beside, notification};
use super::run::Run;
use super::survey::Survey;
use super::tool::{Telling, Tool};
use crate::model::{Direction, Event, EventKind, LineageIndex, MessageKind, ProtocolVersion, Seq, TurnId};
use crate::wire::encode::json_string;

/// How much of a conversation a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    /// Output of a tool that is longer is left out.
    pub(crate) tool_output_bytes: Option<usize>,
}

/// A replay under way. It takes the events that were surveyed, in their order.
pub(crate) struct Replay {
    rendering: Rendering,
    survey: Survey,
    bounds: Bounds,
    /// The first event that is told. Those before are only taken in.
    from: Seq,
    tools: HashMap<(LineageIndex, Box<str>), Tool>,
    run: Option<Run>,
    out: Vec<String>,
}

impl Replay {
    /// A replay of what was surveyed, told from an event on.
    pub(crate) fn new(rendering: Rendering, survey: Survey, from: Seq, bounds: Bounds) -> Self {
        Self { rendering, survey, bounds, from, tools: HashMap::new(), run: None, out: Vec::new() }
    }

    /// Takes the next event; the lines that can be told by now.
    pub(crate) fn take(&mut self, event: &Event) -> Vec<String> {
        match (event.direction, event.kind) {
            (Direction::Ours, _) => {
                self.flush();
                self.rendering.fact(event, &|_| false);
            }
            (Direction::ToAgent, EventKind::Request) => {
                let blocks = self.rendering.prompt(event);
                if !blocks.is_empty() {
                    self.flush();
                    let lines = self.rendering.prompt_lines(event, &blocks, true);
                    self.tell(event, lines);
                }
            }
            (Direction::FromAgent, EventKind::Update) => self.update(event),
            _ => {}
        }
        std::mem::take(&mut self.out)
    }

    /// The rest, and the rendering that goes on live.
    pub(crate) fn finish(mut self) -> (Vec<String>, Rendering) {
        self.flush();
        (self.out, self.rendering)
    }

    fn update(&mut self, event: &Event) {
        let Some(line) = UpdateLine::read(&event.body) else { return };
        let is_told = self.rendering.update(event, &line);
        match line.head.kind {
            Kind::Chunk(MessageKind::User) | Kind::Message(MessageKind::User) if event.turn.is_some() => {
                self.flush();
            }
            Kind::Chunk(kind) => self.chunk(event, &line, kind),
            Kind::Tool | Kind::ToolContent => self.tool(event, &line),
            Kind::State(state) => {
                // It does not end the message. But whoever has seen it goes on behind it, so what came before it is
                // told before it.
                if self.survey.is_last(state, event) {
                    self.flush();
                    self.as_received(event, &line);
                }
            }
            Kind::Notice | Kind::Running => {}
            Kind::Message(_) | Kind::Compaction | Kind::Other => {
                self.flush();
                if is_told {
                    self.as_received(event, &line);
                }
            }
        }
    }

    fn chunk(&mut self, event: &Event, line: &UpdateLine<'_>, kind: MessageKind) {
        let (Some(text), Some(message)) = (line.plain_text(), self.rendering.open.message().cloned()) else {
            self.flush();
            return self.as_received(event, line);
        };
        if event.seq < self.from {
            return;
        }
        let next = Run {
            kind,
            message,
            given: line.head.message_id.map(|id| id.get().into()),
            row: event.lineage,
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

    fn tool(&mut self, event: &Event, line: &UpdateLine<'_>) {
        self.flush();
        let Some(id) = line.head.tool_call else { return self.as_received(event, line) };
        let Some(call) = text_of(id) else { return self.as_received(event, line) };
        let protocol = ProtocolVersion::from_number(event.protocol).unwrap_or_default();
        let key = (event.lineage, Box::from(&*call));
        let tool = self.tools.entry(key.clone()).or_insert_with(|| Tool::new(event.turn));
        match (line.head.kind, line.head.content) {
            (Kind::ToolContent, Some(content)) => tool.take_content(content),
            _ => tool.take(line.update, protocol),
        }
        if !self.survey.is_last_of(&key, event) {
            return;
        }
        let Some(tool) = self.tools.remove(&key) else { return };
        let is_over = self.is_over(tool.turn, protocol);
        let telling = Telling { is_over, output_bytes: self.bounds.tool_output_bytes };
        let other = self.rendering.known.other(Sort::ToolCall, id, event.lineage);
        let id = other.map_or_else(|| id.get().to_owned(), |other| json_string(&other));
        let update = tool.update(&id, protocol, telling);
        let told = notification(&self.rendering.session, &update, &Beside::of(event.seq, event.at));
        self.tell(event, vec![told]);
    }

    /// Whether nothing more is to come of what began in this turn. Work of a version 2 agent may go on outside of any.
    fn is_over(&self, turn: Option<TurnId>, protocol: ProtocolVersion) -> bool {
        match turn {
            Some(turn) => self.survey.running() != Some(turn),
            None => protocol == ProtocolVersion::V1,
        }
    }

    fn as_received(&mut self, event: &Event, line: &UpdateLine<'_>) {
        let told = self.rendering.pass_on(event, line, &Beside::of(event.seq, event.at));
        self.tell(event, vec![told]);
    }

    fn tell(&mut self, event: &Event, lines: Vec<String>) {
        if event.seq >= self.from {
            self.out.extend(lines);
        }
    }

    /// Tells the chunks that were joined.
    fn flush(&mut self) {
        if let Some(run) = self.run.take() {
            let id = run.given.as_deref().map(|given| {
                let told = run.message.id(&self.rendering.record, &self.rendering.known, run.row);
                if text_is(given, &told) { given.to_owned() } else { json_string(&told) }
            });
            let update = run.update(id.as_deref());
            self.out.push(notification(&self.rendering.session, &update, &Beside::of(run.last, run.at)));
        }
    }
}

/// Whether a string in JSON says this.
fn text_is(json: &str, text: &str) -> bool {
    serde_json::from_str::<std::borrow::Cow<'_, str>>(json).is_ok_and(|said| said == text)
}
