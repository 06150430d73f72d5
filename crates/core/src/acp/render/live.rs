//! Telling events as they come. What an agent says goes on as it said it; what somebody else asked is told as the
//! user's words, with who asked.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::entities::{KnownIds, OpenMessage, Sort};
use super::line::{Kind, State, UpdateLine, text_of};
use super::outgoing::{Asked, Beside, PassedOn, notification};
use crate::acp::agent::ClientFacts;
use crate::acp::content::is_carried;
use crate::model::{Direction, Event, EventKind, Fact, LineageIndex, MessageKind, RecordId};
use crate::wire::encode::json_string;
use crate::wire::splice::{Step, elements, locate};

/// How one client is told one record. It takes every event in order, also those that are not told: what an event means
/// may depend on the one before.
#[derive(Debug, Clone)]
pub(crate) struct Rendering {
    pub(super) record: RecordId,
    /// What the client calls the session, as JSON.
    pub(super) session: String,
    pub(super) client: Arc<ClientFacts>,
    /// Whether every update says which event it is.
    with_seq: bool,
    pub(super) known: KnownIds,
    /// The last lineage row whose predecessors' ids are known.
    row: LineageIndex,
    pub(super) open: OpenMessage,
    /// The prompt of the turn that runs.
    pub(super) asked: Option<Asked>,
    /// Whether that is this client's own.
    is_own: bool,
}

/// Whether the prompt of a request is the client's own.
pub(crate) type IsOwn<'a> = &'a dyn Fn(&str) -> bool;

impl Rendering {
    /// A client that is told a record from some event on.
    pub(crate) fn new(record: &RecordId, client: Arc<ClientFacts>) -> Self {
        Self {
            record: record.clone(),
            session: json_string(record.as_str()),
            client,
            with_seq: false,
            known: KnownIds::default(),
            row: LineageIndex::FIRST,
            open: OpenMessage::default(),
            asked: None,
            is_own: false,
        }
    }

    /// The same, with every update saying which event it is.
    #[must_use]
    pub(crate) fn with_seq(self, with_seq: bool) -> Self {
        Self { with_seq, ..self }
    }

    /// Whether the ids of the rows before this event's must be known to tell it.
    pub(crate) fn lacks_ids(&self, event: &Event) -> bool {
        event.lineage > self.row
    }

    /// Takes the ids of all rows before this one.
    pub(crate) fn learn(&mut self, known: KnownIds, row: LineageIndex) {
        self.known = known;
        self.row = row;
    }

    /// Takes an event that the client is not told.
    pub(crate) fn pass_over(&mut self, event: &Event) {
        drop(self.tell(event, &|_| false));
    }

    /// The lines that tell the next event.
    pub(crate) fn tell(&mut self, event: &Event, is_own: IsOwn<'_>) -> Vec<String> {
        match (event.direction, event.kind) {
            (Direction::Ours, _) => {
                self.fact(event, is_own);
                Vec::new()
            }
            (Direction::ToAgent, EventKind::Request) => {
                let blocks = self.prompt(event);
                if self.is_own { Vec::new() } else { self.prompt_lines(event, &blocks, self.with_seq) }
            }
            (Direction::FromAgent, EventKind::Update) => {
                let Some(line) = UpdateLine::read(&event.body) else { return Vec::new() };
                let is_told = self.update(event, &line);
                if !is_told {
                    return Vec::new();
                }
                let beside = if self.with_seq { Beside::of(event.seq, event.at) } else { Beside::default() };
                vec![self.pass_on(event, &line, &beside)]
            }
            _ => Vec::new(),
        }
    }

    /// Takes a fact.
    pub(super) fn fact(&mut self, event: &Event, is_own: IsOwn<'_>) {
        match Fact::from_body(&event.body) {
            Some(Fact::TurnStarted { turn, request_id, client }) => {
                self.open.end();
                self.is_own = is_own(&request_id);
                self.asked = Some(Asked { turn, request_id, client });
            }
            Some(Fact::TurnEnded { turn, .. }) => {
                self.open.end();
                // One that never began may end while another runs.
                self.asked = self.asked.take().filter(|asked| asked.turn != turn);
            }
            Some(Fact::SessionReset { announced: true, .. }) => self.open.end(),
            _ => {}
        }
    }

    /// Takes a request to the agent; the user's blocks, if it is a prompt.
    pub(super) fn prompt<'e>(&mut self, event: &'e Event) -> Vec<&'e RawValue> {
        let blocks = prompt_blocks(&event.body);
        if !blocks.is_empty() {
            self.open.end();
        }
        blocks
    }

    /// A prompt as the user's words. Of several lines only the last stands for the event: whoever has seen it has
    /// seen all of it.
    pub(super) fn prompt_lines(&self, event: &Event, blocks: &[&RawValue], with_seq: bool) -> Vec<String> {
        let lines = blocks.iter().enumerate().map(|(index, block)| {
            let update = format!(r#"{{"sessionUpdate":"user_message_chunk","content":{}}}"#, block.get());
            let seq = (with_seq && index + 1 == blocks.len()).then_some(event.seq.0);
            let at = with_seq.then_some(event.at);
            notification(&self.session, &update, &Beside { seq, at, asked: self.asked.as_ref() })
        });
        lines.collect()
    }

    /// Takes an update; whether this client is told it.
    pub(super) fn update(&mut self, event: &Event, line: &UpdateLine<'_>) -> bool {
        match line.head.kind {
            // Within a turn the user has spoken already: agents echo the prompt.
            Kind::Chunk(MessageKind::User) | Kind::Message(MessageKind::User) if event.turn.is_some() => {
                self.open.end();
                self.is_own
            }
            Kind::Chunk(kind) => {
                self.open.chunk(event, kind, line.head.message_id.and_then(text_of));
                true
            }
            Kind::Tool | Kind::ToolContent | Kind::Message(_) => {
                self.open.end();
                true
            }
            Kind::Notice => self.client.notices,
            Kind::Compaction => self.client.compaction,
            Kind::State(_) | Kind::Running | Kind::Other => true,
        }
    }

    /// The agent's line, for a client of its version.
    pub(super) fn pass_on(&self, event: &Event, line: &UpdateLine<'_>, beside: &Beside<'_>) -> String {
        let mut passed = PassedOn::new(line, &self.session);
        for (sort, id) in [(Sort::Message, line.head.message_id), (Sort::ToolCall, line.head.tool_call)] {
            if let Some(id) = id
                && let Some(other) = self.known.other(sort, id, event.lineage)
            {
                passed.put(id.get(), &json_string(&other));
            }
        }
        if line.head.kind == Kind::State(State::Options)
            && !self.client.boolean_options
            && let Some((list, fewer)) = without_booleans(line.update)
        {
            passed.put(list, &fewer);
        }
        passed.say(line, beside);
        passed.finish()
    }
}

/// The options of an update, and the same without those that are true or false; `None` if there is none of them.
fn without_booleans(update: &str) -> Option<(&str, String)> {
    let list = update.get(locate(update, &[Step::Key("configOptions")])?)?;
    let all: Vec<&str> = elements(list)?.into_iter().filter_map(|range| list.get(range)).collect();
    let is_boolean = |option: &&str| {
        locate(option, &[Step::Key("type")]).and_then(|kind| option.get(kind)) == Some(r#""boolean""#)
    };
    let fewer: Vec<&str> = all.iter().copied().filter(|option| !is_boolean(option)).collect();
    (fewer.len() < all.len()).then(|| (list, format!("[{}]", fewer.join(","))))
}

/// What the user said, if a line is a prompt. A conversation that a fresh session was told is not said twice.
fn prompt_blocks(body: &str) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct PromptLine<'a> {
        #[serde(borrow)]
        method: &'a RawValue,
        #[serde(borrow)]
        params: PromptParams<'a>,
    }
    #[derive(Deserialize)]
    struct PromptParams<'a> {
        #[serde(borrow)]
        prompt: Vec<&'a RawValue>,
    }
    match serde_json::from_str(body) {
        Ok(PromptLine { method, params }) if method.get() == r#""session/prompt""# => {
            params.prompt.into_iter().filter(|block| !is_carried(block.get())).collect()
        }
        _ => Vec::new(),
    }
}
