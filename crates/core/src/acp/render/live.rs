//! Telling events as they come. What an agent says goes on as it said it; what somebody else asked is told as the
//! user's words, with who asked. A client of version 2 is also told when the session works and when it does not.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::echo::{PromptEcho, PromptResolution, prompt_blocks};
use super::entities::{EntityKind, KnownIds, MessageContinuation};
use super::line::{SessionStateKind, UpdateKind, UpdateLine, text_of};
use super::notice::Notice;
use super::outgoing::{LineRewrite, PromptOrigin, UpdateMeta, notification, notifications};
use super::run::whole;
use super::session_ids::SessionIds;
use super::state::SessionState;
use crate::acp::agent::ClientFacts;
use crate::acp::children::ChildSessions;
use crate::acp::client::SessionOffer;
use crate::acp::translate::{UpdatesToV1, UpdatesToV2, block_to_v1};
use crate::model::{
    Direction, Event, EventKind, Fact, LineageIndex, MessageKind, ProtocolVersion, RecordId, Seq, Timestamp,
    TurnId, prompt_message_id, run_message_id,
};
use crate::wire::encode::json_string;
use crate::wire::splice::{PathStep, Splice, elements, locate, range_in, without};

/// How often the content of a tool call that goes on changing is told a client that can only be told all of it.
pub(crate) const CONTENT_EVERY: Duration = Duration::from_millis(250);

/// How one client is told one record. It takes every event in order, also those that are not told: what an event means
/// may depend on the one before.
#[derive(Debug)]
pub(crate) struct RecordRenderer {
    pub(super) record: RecordId,
    /// What the client calls the session, as JSON.
    pub(super) session: String,
    pub(super) client: Arc<ClientFacts>,
    /// Whether every update says which event it is.
    with_seq: bool,
    pub(super) known: KnownIds,
    /// The last lineage row whose predecessors' ids are known.
    row: LineageIndex,
    pub(super) open: MessageContinuation,
    /// The prompt of the turn that runs.
    asked: Option<PromptOrigin>,
    /// Whether that is this client's own.
    is_own: bool,
    /// What its agent may say of it.
    prompted: PromptEcho,
    /// The turn whose prompt was shown before and is sent a second time.
    resent: Option<u64>,
    /// The turns of prompts, by the ids that agents of version 2 gave their messages.
    prompts: HashMap<(LineageIndex, Box<str>), TurnId>,
    state: SessionState,
    pub(super) to_v1: UpdatesToV1,
    pub(super) to_v2: UpdatesToV2,
    /// The sub-agents that the session has announced so far.
    children: ChildSessions,
    sessions: SessionIds,
    /// The tool calls with terminals of their agent's own, by their ids as JSON.
    pub(super) agents_terminals: HashSet<Box<str>>,
    /// Whether a client of version 1 was told what a terminal of ours shows.
    pub(super) has_terminals: bool,
    /// The last event and when it was, and when content was last told that had changed.
    heard: Option<(Seq, Timestamp)>,
    settled: Option<Timestamp>,
}

/// Whether the prompt of a request is the client's own.
pub(crate) type IsOwn<'a> = &'a dyn Fn(&str) -> bool;

impl RecordRenderer {
    /// A client that is told a record from some event on.
    pub(crate) fn new(record: &RecordId, client: Arc<ClientFacts>) -> Self {
        Self {
            record: record.clone(),
            session: json_string(record.as_str()),
            state: SessionState::to(&client),
            client,
            with_seq: false,
            known: KnownIds::default(),
            row: LineageIndex::FIRST,
            open: MessageContinuation::default(),
            asked: None,
            is_own: false,
            prompted: PromptEcho::default(),
            resent: None,
            prompts: HashMap::new(),
            to_v1: UpdatesToV1::new(),
            to_v2: UpdatesToV2::new(),
            children: ChildSessions::default(),
            sessions: SessionIds::default(),
            agents_terminals: HashSet::new(),
            has_terminals: false,
            heard: None,
            settled: None,
        }
    }

    /// The same, with the ids that no child session can have.
    #[must_use]
    pub(crate) fn beside_sessions(self, sessions: SessionIds) -> Self {
        Self { sessions, ..self }
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

    /// The client may have been told turns before the first one that this takes.
    pub(crate) fn begins_late(&mut self) {
        self.to_v2.begins_late();
    }

    /// Takes an event that the client is not told.
    pub(crate) fn pass_over(&mut self, event: &Event) {
        drop(self.tell(event, &|_| false));
    }

    /// Whether what the session offers must be known to tell an event: version 2 tells all options when one changes,
    /// and modes are options there.
    pub(crate) fn lacks_offers(&self, event: &Event) -> bool {
        let is_translated =
            (version(event), self.client.protocol) == (ProtocolVersion::V1, ProtocolVersion::V2);
        let has = |word: &str| memchr::memmem::find(event.body.as_bytes(), word.as_bytes()).is_some();
        is_translated
            && event.kind == EventKind::Update
            && (has("current_mode_update") || has("config_option_update"))
    }

    /// Takes what the session offers: the result of its setup, as version 1 says it.
    pub(crate) fn offers(&mut self, setup: &str) {
        self.to_v2.setup_answer(setup);
    }

    /// The lines to tell when no event is at hand.
    pub(crate) fn pause(&mut self) -> Vec<String> {
        let state = if self.has_states() { self.state.pause() } else { None };
        let state = state.map(|state| notification(&self.session, &state, &UpdateMeta::default()));
        let mut lines: Vec<String> = state.into_iter().collect();
        let is_recent = match (self.heard, self.settled) {
            (Some((_, heard)), Some(settled)) => heard.since(settled) < CONTENT_EVERY,
            _ => false,
        };
        if self.owes() && !is_recent {
            lines.extend(self.settle());
        }
        lines
    }

    /// Whether content of a tool call has changed and was not told: it is if nothing else happens for a while.
    pub(crate) fn owes(&self) -> bool {
        self.to_v1.owes()
    }

    /// The lines that tell it. By them all is told up to the last event.
    pub(crate) fn settle(&mut self) -> Vec<String> {
        self.settled = self.heard.map(|(_, at)| at);
        let beside = self.heard.filter(|_| self.with_seq).map(|(seq, at)| UpdateMeta::of(seq, at));
        notifications(&self.session, &self.to_v1.settle(), &beside.unwrap_or_default())
    }

    /// Whether this client must be told from the first event on to understand what changes by this one: version 1 is
    /// told what is new of a message or a tool call, however long ago that began.
    pub(crate) fn remembers_all(&self, event: &Event) -> bool {
        (version(event), self.client.protocol) == (ProtocolVersion::V2, ProtocolVersion::V1)
    }

    /// The prompt of this client's own that is part of the conversation by an event which was just told: in version 2
    /// that is when it is answered.
    pub(crate) fn inserted(&self, event: &Event) -> Option<&str> {
        let asked = self.asked.as_ref().filter(|_| self.is_own && self.has_states())?;
        let is_said = match (event.direction, event.kind, version(event)) {
            (Direction::ToAgent, EventKind::Request, ProtocolVersion::V1)
            | (Direction::FromAgent, EventKind::Response, ProtocolVersion::V2) => {
                self.prompted.is_named(id_of(&event.body))
            }
            _ => false,
        };
        is_said.then_some(&*asked.request_id)
    }

    /// Only version 2 tells which state a session is in.
    fn has_states(&self) -> bool {
        self.client.protocol == ProtocolVersion::V2
    }

    /// The lines that tell the next event.
    pub(crate) fn tell(&mut self, event: &Event, is_own: IsOwn<'_>) -> Vec<String> {
        let state = if self.has_states() { self.state.take(event) } else { None };
        self.heard = Some((event.seq, event.at));
        let mut lines = self.lines(event, is_own);
        lines.extend(state.map(|state| {
            // A number is told once; the end of a turn always has its own.
            let with_seq = self.with_seq && lines.is_empty() || self.state.is_idle();
            notification(&self.session, &state, &beside(event, with_seq))
        }));
        lines
    }

    fn lines(&mut self, event: &Event, is_own: IsOwn<'_>) -> Vec<String> {
        match (event.direction, event.kind) {
            (Direction::Ours, EventKind::Fact) => {
                let settled = self.ends_turn(event);
                let mut lines = self.settled(event, settled);
                lines.extend(self.fact(event, is_own, self.with_seq));
                lines
            }
            (Direction::ToAgent, EventKind::Request) => {
                let prompt = self.prompt(event);
                let beside = beside(event, self.with_seq);
                prompt.map(|prompt| self.prompt_lines(&prompt, &beside)).unwrap_or_default()
            }
            (Direction::FromAgent, EventKind::Response) => {
                let settled = self.answered(event);
                self.settled(event, settled)
            }
            // A change of modes or options is ours to tell where the agent has told only who asked for it.
            (Direction::FromAgent | Direction::Ours, EventKind::Update) => self.update_lines(event),
            (Direction::FromAgent, EventKind::Notification) => self.child_lines(event),
            _ => Vec::new(),
        }
    }

    /// The update of a sub-agent, as it was sent, for a client that shows sub-agents, has been told of this one and
    /// speaks the agent's version.
    pub(super) fn child_lines(&mut self, event: &Event) -> Vec<String> {
        if self.children.is_empty() || !event.body.contains(r#""session/update""#) {
            return Vec::new();
        }
        let Some(line) = UpdateLine::read(&event.body) else { return Vec::new() };
        let Some(session) = line.params.session.and_then(text_of) else { return Vec::new() };
        // An agent names its children itself, and must not write into another session of the client.
        let is_session = *session == *self.record.as_str() || self.sessions.contain(&session);
        if is_session || !self.children.contains(&session) {
            return Vec::new();
        }
        self.children.learn(line.update);
        let is_told = self.client.subagents && version(event) == self.client.protocol;
        // What stands there is ours to say.
        let ours = ["params", "_meta", "acpx"];
        is_told
            .then(|| without(&event.body, &ours).unwrap_or_else(|| event.body.to_string()))
            .into_iter()
            .collect()
    }

    fn update_lines(&mut self, event: &Event) -> Vec<String> {
        let Some(line) = UpdateLine::of(event) else { return Vec::new() };
        let begun = self.begun(event, &line);
        let mut lines = Vec::new();
        if self.update(event, &line) && !self.state.repeats() {
            let stops = line.head.kind == UpdateKind::Running && self.state.is_idle();
            let beside = beside(event, self.with_seq || stops);
            lines = self.as_received(event, &line, &beside);
        }
        self.behind(begun, lines)
    }

    /// A prompt that is part of the conversation by an event, and the lines that come of the same event behind it. The
    /// last one has the number: whoever has heard that has heard all.
    fn behind(&self, prompt: Option<Event>, lines: Vec<String>) -> Vec<String> {
        let Some(prompt) = prompt else { return lines };
        let with_seq = self.with_seq && lines.is_empty();
        let mut told = self.prompt_lines(&prompt, &beside(&prompt, with_seq));
        told.extend(lines);
        told
    }

    /// The lines of a prompt that is part of the conversation by this event, and of what waited for that.
    fn settled(&mut self, event: &Event, settled: PromptResolution) -> Vec<String> {
        let by = |waited: Event| Event { seq: event.seq, at: event.at, ..waited };
        // The agent may have said nothing but the prompt itself, and that is not told again.
        let held = settled.held.into_iter().flat_map(|held| self.update_lines(&by(held))).collect();
        self.behind(settled.prompt.map(by), held)
    }

    /// Takes a fact; the lines that tell it.
    pub(super) fn fact(&mut self, event: &Event, is_own: IsOwn<'_>, with_seq: bool) -> Vec<String> {
        match Fact::from_body(&event.body) {
            Some(Fact::TurnStarted { turn, request_id, client }) => {
                self.open.end();
                self.is_own = is_own(&request_id);
                self.asked = Some(PromptOrigin { turn, request_id, client });
                self.prompted = PromptEcho::default();
                Vec::new()
            }
            Some(Fact::TurnEnded { turn, .. }) => {
                self.open.end();
                // One that never began may end while another runs.
                self.asked = self.asked.take().filter(|asked| asked.turn != turn);
                if self.owes() { self.settle() } else { Vec::new() }
            }
            Some(Fact::SessionReset { announced: true, reason, carried, error, .. }) => {
                self.open.end();
                let notice = Notice::fresh_session(&reason, carried, error.as_ref());
                let update = notice.update(&self.client, &self.record, event);
                vec![notification(&self.session, &update, &beside(event, with_seq))]
            }
            Some(Fact::SessionReturned { acpx_session_id, .. }) => {
                self.open.end();
                let update = Notice::returned(&acpx_session_id).update(&self.client, &self.record, event);
                vec![notification(&self.session, &update, &beside(event, with_seq))]
            }
            Some(Fact::PromptResent { turn }) => {
                self.resent = Some(turn);
                Vec::new()
            }
            Some(fact) => self.terminal(event, &fact, with_seq),
            None => Vec::new(),
        }
    }

    /// What becomes of the prompt of the turn that ends by this fact.
    pub(super) fn ends_turn(&mut self, event: &Event) -> PromptResolution {
        let running = self.asked.as_ref().map(|asked| asked.turn);
        match Fact::from_body(&event.body) {
            Some(Fact::TurnEnded { turn, .. }) if running == Some(turn) => self.prompted.over(),
            _ => PromptResolution::default(),
        }
    }

    /// Takes a request to the agent; itself, if it is a prompt that is told at once. An agent of version 2 may refuse
    /// it, so there its answer is waited for.
    pub(super) fn prompt(&mut self, event: &Event) -> Option<Event> {
        let blocks = prompt_blocks(&event.body);
        if blocks.is_empty() {
            return None;
        }
        self.open.end();
        self.prompted = PromptEcho::new(id_of(&event.body), &blocks);
        let is_shown = self.resent.take().is_some_and(|turn| event.turn == Some(TurnId(turn)));
        match version(event) {
            ProtocolVersion::V1 if is_shown => None,
            ProtocolVersion::V1 => Some(event.clone()),
            ProtocolVersion::V2 => {
                self.prompted.wait(event.clone());
                None
            }
        }
    }

    /// Takes an answer of the agent; what becomes of the prompt by it.
    pub(super) fn answered(&mut self, event: &Event) -> PromptResolution {
        match version(event) {
            ProtocolVersion::V1 => PromptResolution::default(),
            ProtocolVersion::V2 => {
                let settled = self.prompted.answered(&event.body);
                if let (Some(message), Some(asked)) = (self.prompted.message(), &self.asked) {
                    self.prompts.insert((event.lineage, message.into()), TurnId(asked.turn));
                }
                settled
            }
        }
    }

    /// The prompt that an agent works on by this update, if it was not told yet.
    pub(super) fn begun(&mut self, event: &Event, line: &UpdateLine<'_>) -> Option<Event> {
        let works = match line.head.kind {
            UpdateKind::Chunk(kind) | UpdateKind::Message(kind) => kind != MessageKind::User,
            UpdateKind::Tool | UpdateKind::ToolContent | UpdateKind::Terminal | UpdateKind::Running => true,
            UpdateKind::State(_) | UpdateKind::Notice | UpdateKind::Compaction | UpdateKind::Other => false,
        };
        let prompt = if works && event.turn.is_some() { self.prompted.begins() } else { None };
        prompt.map(|prompt| Event { seq: event.seq, at: event.at, ..prompt })
    }

    /// A prompt as the user's words: in version 2 a message with the id that the prompt was answered with. A client of
    /// version 1 has said its own itself.
    pub(super) fn prompt_lines(&self, event: &Event, beside: &UpdateMeta<'_>) -> Vec<String> {
        if self.is_own && self.client.protocol == ProtocolVersion::V1 {
            return Vec::new();
        }
        let blocks = prompt_blocks(&event.body);
        let beside = UpdateMeta { asked: self.asked.as_ref(), ..beside.clone() };
        let texts: Vec<&str> = blocks.iter().map(|block| block.get()).collect();
        // Two prompts with nothing between them are told apart by this alone.
        let id = json_string(&match event.turn {
            Some(turn) => prompt_message_id(&self.record, turn),
            None => run_message_id(&self.record, event.seq),
        });
        let updates = match self.client.protocol {
            ProtocolVersion::V1 => {
                let said = format!(r#"{{"sessionUpdate":"user_message_chunk","messageId":{id},"content":"#);
                // Only version 2 has others than version 1 can read.
                let is_open = version(event) == ProtocolVersion::V2;
                let told = |block| if is_open { block_to_v1(block) } else { Cow::Borrowed(block) };
                texts.into_iter().map(|block| format!("{said}{}}}", told(block))).collect()
            }
            ProtocolVersion::V2 => vec![whole(MessageKind::User, &id, &texts.join(","))],
        };
        notifications(&self.session, &updates, &beside)
    }

    /// Takes an update; whether this client is told it, now that it comes. One that waits for the answer to the prompt
    /// comes again.
    pub(super) fn update(&mut self, event: &Event, line: &UpdateLine<'_>) -> bool {
        let kind = line.head.kind;
        if kind == UpdateKind::Other {
            self.children.learn(line.update);
        }
        let is_users =
            matches!(kind, UpdateKind::Chunk(MessageKind::User) | UpdateKind::Message(MessageKind::User));
        if is_users && event.turn.is_some() {
            let is_first = version(event) == ProtocolVersion::V1;
            if !is_first && self.prompted.holds(event) {
                return false;
            }
            let id = line.head.message_id.and_then(text_of);
            if self.prompted.is_repeated(id.as_deref(), line.head.content) {
                self.open.end();
                let is_changed = kind == UpdateKind::Message(MessageKind::User)
                    && self.prompted.is_changed_by(line.update, line.head.content);
                // Whoever speaks to its agent in version 1 would hear it from that.
                return match self.client.protocol {
                    ProtocolVersion::V1 => self.is_own && is_first,
                    ProtocolVersion::V2 => is_changed,
                };
            }
        }
        // Version 1 cannot change what was told, and has the prompt.
        if is_users && !self.has_states() && self.prompt_id(event, line).is_some() {
            self.open.end();
            return false;
        }
        match kind {
            UpdateKind::Chunk(kind) => {
                let id = self.prompt_id(event, line).map(Cow::Owned);
                let id = id.or_else(|| line.head.message_id.and_then(text_of));
                self.open.chunk(event, kind, id);
                true
            }
            UpdateKind::Tool | UpdateKind::ToolContent | UpdateKind::Message(_) => {
                self.open.end();
                true
            }
            UpdateKind::Notice => self.client.notices,
            UpdateKind::Compaction => self.client.compaction,
            UpdateKind::State(_) | UpdateKind::Running | UpdateKind::Terminal | UpdateKind::Other => true,
        }
    }

    /// What the agent said, as it said it where its version is the client's.
    pub(super) fn as_received(
        &mut self,
        event: &Event,
        line: &UpdateLine<'_>,
        beside: &UpdateMeta<'_>,
    ) -> Vec<String> {
        let spoken = version(event);
        if spoken == self.client.protocol {
            if line.head.kind == UpdateKind::Tool {
                let update = self.renamed(event, line);
                if let Some(update) = self.with_terminals(spoken, &update) {
                    return vec![self.pass_on_as(line, &update, beside)];
                }
            }
            if event.direction == Direction::Ours && SessionOffer::tells_model_alone(line.update) {
                return Vec::new();
            }
            return vec![self.pass_on(event, line, beside)];
        }
        let update = self.renamed(event, line);
        self.to_v2.in_turn(event.turn);
        self.told(spoken, event.lineage, &update, beside)
    }

    /// The lines that tell an update of this version.
    pub(super) fn told(
        &mut self,
        spoken: ProtocolVersion,
        row: LineageIndex,
        update: &str,
        beside: &UpdateMeta<'_>,
    ) -> Vec<String> {
        let updates = match (spoken, self.client.protocol) {
            (ProtocolVersion::V1, ProtocolVersion::V2) => {
                let message = self.open.message().map(|message| message.id(&self.record, &self.known, row));
                self.to_v2.update(update, &message.unwrap_or_default())
            }
            (ProtocolVersion::V2, ProtocolVersion::V1) => {
                let updates = self.to_v1.update(update).into_iter();
                updates.map(|update| self.without_booleans(update)).collect()
            }
            _ => {
                let shown = self.with_terminals(spoken, update);
                let update = shown.as_deref().unwrap_or(update);
                return vec![notification(&self.session, update, beside)];
            }
        };
        notifications(&self.session, &updates, beside)
    }

    fn without_booleans(&self, update: Box<str>) -> Box<str> {
        if self.client.boolean_options || !update.contains("config_option_update") {
            return update;
        }
        let Some((list, fewer)) = without_booleans(&update) else { return update };
        let mut splice = Splice::new(&update);
        // The list lies in the update, and nothing else is replaced.
        drop(splice.replace(range_in(&update, list), &fewer));
        splice.finish().into()
    }

    /// The agent's line, for a client of its version.
    fn pass_on(&self, event: &Event, line: &UpdateLine<'_>, beside: &UpdateMeta<'_>) -> String {
        let mut passed = LineRewrite::new(line, &self.session);
        for (id, other) in self.renames(event, line) {
            passed.put(id, &other);
        }
        if line.head.kind == UpdateKind::State(SessionStateKind::Options)
            && !self.client.boolean_options
            && let Some((list, fewer)) = without_booleans(line.update)
        {
            passed.put(list, &fewer);
        }
        passed.say(line, beside);
        passed.finish()
    }

    /// The update with the ids it is told under.
    fn renamed<'a>(&self, event: &Event, line: &UpdateLine<'a>) -> Cow<'a, str> {
        let mut splice = Splice::new(line.update);
        let mut is_changed = false;
        for (id, other) in self.renames(event, line) {
            is_changed |= splice.replace(range_in(line.update, id), &other).is_ok();
        }
        if is_changed { splice.finish().into() } else { line.update.into() }
    }

    /// The id that a message of the user is told under if it is the prompt of a turn.
    fn prompt_id(&self, event: &Event, line: &UpdateLine<'_>) -> Option<String> {
        let is_users = matches!(
            line.head.kind,
            UpdateKind::Chunk(MessageKind::User) | UpdateKind::Message(MessageKind::User)
        );
        let id = line.head.message_id.filter(|_| is_users && !self.prompts.is_empty()).and_then(text_of)?;
        let turn = self.prompts.get(&(event.lineage, id.into()))?;
        Some(prompt_message_id(&self.record, *turn))
    }

    /// The ids of a line that are told as others, both as JSON.
    fn renames<'a>(&self, event: &Event, line: &UpdateLine<'a>) -> Vec<(&'a str, String)> {
        if let (Some(prompt), Some(id)) = (self.prompt_id(event, line), line.head.message_id) {
            return vec![(id.get(), json_string(&prompt))];
        }
        let ids = [(EntityKind::Message, line.head.message_id), (EntityKind::ToolCall, line.head.tool_call)];
        let renamed = |(sort, id): (EntityKind, Option<&'a RawValue>)| {
            let id = id?;
            Some((id.get(), json_string(&self.known.other(sort, id, event.lineage)?)))
        };
        ids.into_iter().filter_map(renamed).collect()
    }
}

/// The id of a line, as JSON.
fn id_of(body: &str) -> Option<&str> {
    body.get(locate(body, &[PathStep::Key("id")])?)
}

pub(super) fn beside(event: &Event, with_seq: bool) -> UpdateMeta<'static> {
    if with_seq { UpdateMeta::of(event.seq, event.at) } else { UpdateMeta::default() }
}

/// The version an event's line was spoken in.
pub(super) fn version(event: &Event) -> ProtocolVersion {
    ProtocolVersion::from_number(event.protocol).unwrap_or_default()
}

/// The options of an update or of an answer, and the same without those that are true or false; `None` if there is none of them.
pub(crate) fn without_booleans(update: &str) -> Option<(&str, String)> {
    let list = update.get(locate(update, &[PathStep::Key("configOptions")])?)?;
    let all: Vec<&str> = elements(list)?.into_iter().filter_map(|range| list.get(range)).collect();
    let is_boolean = |option: &&str| {
        locate(option, &[PathStep::Key("type")]).and_then(|kind| option.get(kind)) == Some(r#""boolean""#)
    };
    let fewer: Vec<&str> = all.iter().copied().filter(|option| !is_boolean(option)).collect();
    (fewer.len() < all.len()).then(|| (list, format!("[{}]", fewer.join(","))))
}
