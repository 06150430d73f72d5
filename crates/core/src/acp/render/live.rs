//! Renders events live for one client. An agent's update is forwarded as received, or translated if the client uses
//! the other protocol version. The prompt of another client is rendered as a user message that names the client;
//! version 2 clients also receive state updates.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::chunk_run::whole;
use super::echo::{PromptEcho, PromptResolution, prompt_blocks};
use super::entities::{MessageContinuation, client_id_json};
use super::line::{SessionStateKind, UpdateKind, UpdateLine};
use super::notice::Notice;
use super::outgoing::{LineRewrite, PromptOrigin, SessionIds, UpdateMeta, notification, notifications};
use super::state::{SessionState, turn_state};
use crate::acp::agent::ClientFacts;
use crate::acp::children::ChildSessions;
use crate::acp::client::SessionOffer;
use crate::acp::translate::{UpdatesToV1, UpdatesToV2, block_to_v1};
use crate::model::{
    Direction, Event, EventKind, Fact, LineageIndex, MessageKind, ProtocolVersion, RecordId, Seq, Timestamp,
    TurnId, prompt_message_id, run_message_id,
};
use crate::wire::encode::json_string;
use crate::wire::json;
use crate::wire::splice::Splice;

/// Minimum interval between updates that resend the whole content of a changing tool call.
pub(crate) const CONTENT_EVERY: Duration = Duration::from_millis(250);

/// Renders one record for one client. It must receive every event in order, including events that the client does not
/// receive: the meaning of an event may depend on an earlier one.
#[derive(Debug)]
pub(crate) struct RecordRenderer {
    pub(super) record: RecordId,
    /// The session id that the client uses, as JSON.
    pub(super) session: String,
    pub(super) client: Arc<ClientFacts>,
    /// Whether every update carries the seq of its event.
    with_seq: bool,
    pub(super) open: MessageContinuation,
    running: RunningPrompt,
    /// The turns of prompts, by the message ids that version 2 agents gave them.
    prompts: HashMap<(LineageIndex, Box<str>), TurnId>,
    state: SessionState,
    pub(super) to_v1: UpdatesToV1,
    pub(super) to_v2: UpdatesToV2,
    /// The child sessions of sub-agents announced so far.
    children: ChildSessions,
    sessions: SessionIds,
    /// The tool calls with terminals that the agent runs itself, by their ids as JSON.
    pub(super) agents_terminals: HashSet<Box<str>>,
    /// Whether a version 1 client has received output of a terminal.
    pub(super) has_terminals: bool,
    /// The last event, and the time at which changed tool call content was last sent.
    last_event: Option<(Seq, Timestamp)>,
    settled: Option<Timestamp>,
}

/// The prompt of the running turn.
#[derive(Debug, Default)]
struct RunningPrompt {
    origin: Option<PromptOrigin>,
    /// Whether this client sent it.
    is_own: bool,
    /// Matches the agent's user messages against it.
    echo: PromptEcho,
    /// The turn whose prompt was rendered before and is being resent.
    resent: Option<u64>,
}

/// Whether this client sent the prompt with this request id.
pub(crate) type IsOwn<'a> = &'a dyn Fn(&str) -> bool;

impl RecordRenderer {
    /// Renders a record for this client, from any event on.
    pub(crate) fn new(record: &RecordId, client: Arc<ClientFacts>) -> Self {
        Self {
            record: record.clone(),
            session: json_string(record.as_str()),
            state: SessionState::to(&client),
            client,
            with_seq: false,
            open: MessageContinuation::default(),
            running: RunningPrompt::default(),
            prompts: HashMap::new(),
            to_v1: UpdatesToV1::new(),
            to_v2: UpdatesToV2::new(),
            children: ChildSessions::default(),
            sessions: SessionIds::default(),
            agents_terminals: HashSet::new(),
            has_terminals: false,
            last_event: None,
            settled: None,
        }
    }

    /// Sets the session ids that no child session may use.
    #[must_use]
    pub(crate) fn excluding_sessions(self, sessions: SessionIds) -> Self {
        Self { sessions, ..self }
    }

    /// Sets whether every update carries the seq of its event.
    #[must_use]
    pub(crate) fn with_seq(self, with_seq: bool) -> Self {
        Self { with_seq, ..self }
    }

    /// The client may have received turns that precede the first event given to this renderer.
    pub(crate) fn begins_late(&mut self) {
        self.to_v2.begins_late();
    }

    /// Takes an event without rendering it for the client.
    pub(crate) fn apply_silently(&mut self, event: &Event) {
        drop(self.render(event, &|_| false));
    }

    /// Whether rendering the event needs the session's options: version 2 sends all options when one changes, and
    /// represents modes as options.
    pub(crate) fn lacks_offers(&self, event: &Event) -> bool {
        let is_translated =
            (version(event), self.client.protocol) == (ProtocolVersion::V1, ProtocolVersion::V2);
        let has = |word: &str| memchr::memmem::find(event.body.as_bytes(), word.as_bytes()).is_some();
        is_translated
            && event.kind == EventKind::Update
            && (has("current_mode_update") || has("config_option_update"))
    }

    /// Takes the session's options and modes: the setup result, in version 1 form.
    pub(crate) fn offers(&mut self, setup: &str) {
        self.to_v2.setup_answer(setup);
    }

    /// The lines to send when no further event is available.
    pub(crate) fn pause(&mut self) -> Vec<String> {
        let state = if self.has_states() { self.state.pause() } else { None };
        let state = state.map(|state| notification(&self.session, &state, &UpdateMeta::default()));
        let mut lines: Vec<String> = state.into_iter().collect();
        let is_recent = match (self.last_event, self.settled) {
            (Some((_, last_event)), Some(settled)) => last_event.since(settled) < CONTENT_EVERY,
            _ => false,
        };
        if self.has_pending() && !is_recent {
            lines.extend(self.settle());
        }
        lines
    }

    /// Whether tool call content has changed and is not sent yet. The caller sends it after a pause.
    pub(crate) fn has_pending(&self) -> bool {
        self.to_v1.has_pending()
    }

    /// The lines with that content. After them the client is up to date with the last event.
    pub(crate) fn settle(&mut self) -> Vec<String> {
        self.settled = self.last_event.map(|(_, at)| at);
        let meta = self.last_event.filter(|_| self.with_seq).map(|(seq, at)| UpdateMeta::of(seq, at));
        notifications(&self.session, &self.to_v1.settle(), &meta.unwrap_or_default())
    }

    /// Whether this client needs the record from its first event to understand this one: a version 1 client receives
    /// only the difference to earlier messages and tool calls.
    pub(crate) fn remembers_all(&self, event: &Event) -> bool {
        (version(event), self.client.protocol) == (ProtocolVersion::V2, ProtocolVersion::V1)
    }

    /// The request id of this client's own prompt, if the event just rendered made it part of the conversation. For a
    /// version 2 agent that is its reply to the prompt.
    pub(crate) fn inserted(&self, event: &Event) -> Option<&str> {
        let origin = self.running.origin.as_ref().filter(|_| self.running.is_own && self.has_states())?;
        let is_said = match (event.direction, event.kind, version(event)) {
            (Direction::ToAgent, EventKind::Request, ProtocolVersion::V1)
            | (Direction::FromAgent, EventKind::Response, ProtocolVersion::V2) => {
                self.running.echo.is_named(id_of(&event.body))
            }
            _ => false,
        };
        is_said.then_some(&*origin.request_id)
    }

    /// Only version 2 has state updates.
    fn has_states(&self) -> bool {
        self.client.protocol == ProtocolVersion::V2
    }

    /// The lines for the next event.
    pub(crate) fn render(&mut self, event: &Event, is_own: IsOwn<'_>) -> Vec<String> {
        let state = if self.has_states() { self.state.take(event) } else { None };
        self.last_event = Some((event.seq, event.at));
        let mut lines = self.lines(event, is_own);
        lines.extend(state.map(|state| {
            // A seq is sent once per event; the end of a turn always carries its own.
            let with_seq = self.with_seq && lines.is_empty() || self.state.is_idle();
            notification(&self.session, &state, &update_meta(event, with_seq))
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
                let meta = update_meta(event, self.with_seq);
                prompt.map(|prompt| self.prompt_lines(&prompt, &meta)).unwrap_or_default()
            }
            (Direction::FromAgent, EventKind::Response) => {
                let settled = self.answered(event);
                self.settled(event, settled)
            }
            // If the agent reports a changed mode or option only to the client that requested it, acpx stores an
            // update for the others.
            (Direction::FromAgent | Direction::Ours, EventKind::Update) => self.update_lines(event),
            (Direction::FromAgent, EventKind::Notification) => self.child_lines(event),
            _ => Vec::new(),
        }
    }

    /// The update of a sub-agent as received, if the client supports sub-agents and uses the agent's version, and the
    /// agent has announced the sub-agent.
    pub(super) fn child_lines(&mut self, event: &Event) -> Vec<String> {
        if self.children.is_empty() || !event.body.contains(r#""session/update""#) {
            return Vec::new();
        }
        let Some(line) = UpdateLine::read(&event.body) else { return Vec::new() };
        let Some(session) = line.params.session.and_then(json::string) else { return Vec::new() };
        // An agent chooses the ids of its child sessions. It must not write into another session of the client.
        let is_session = *session == *self.record.as_str() || self.sessions.contain(&session);
        if is_session || !self.children.contains(&session) {
            return Vec::new();
        }
        self.children.learn(line.update);
        let is_told = self.client.subagents && version(event) == self.client.protocol;
        // `_meta.acpx` is reserved for acpx.
        let ours = ["params", "_meta", "acpx"];
        is_told
            .then(|| json::remove(&event.body, &ours).unwrap_or_else(|| event.body.to_string()))
            .into_iter()
            .collect()
    }

    fn update_lines(&mut self, event: &Event) -> Vec<String> {
        let Some(line) = UpdateLine::of(event) else { return Vec::new() };
        let begun = self.begun(event, &line);
        let mut lines = Vec::new();
        if self.update(event, &line) && !self.state.repeats() {
            let stops = line.head.kind == UpdateKind::RunState && self.state.is_idle();
            let meta = update_meta(event, self.with_seq || stops);
            lines = self.as_received(event, &line, &meta);
        }
        self.behind(begun, lines)
    }

    /// Puts a prompt before the other lines of the event that made it part of the conversation. Only the last line
    /// carries the seq, because a client that received it has all lines of the event.
    fn behind(&self, prompt: Option<Event>, lines: Vec<String>) -> Vec<String> {
        let Some(prompt) = prompt else { return lines };
        let with_seq = self.with_seq && lines.is_empty();
        let mut rendered = self.prompt_lines(&prompt, &update_meta(&prompt, with_seq));
        rendered.extend(lines);
        rendered
    }

    /// The lines of a prompt that this event resolves, and of the updates held until then.
    fn settled(&mut self, event: &Event, settled: PromptResolution) -> Vec<String> {
        let by = |waited: Event| Event { seq: event.seq, at: event.at, ..waited };
        // The held updates may only repeat the prompt; then they produce no lines.
        let held = settled.held.into_iter().flat_map(|held| self.update_lines(&by(held))).collect();
        self.behind(settled.prompt.map(by), held)
    }

    /// Takes a fact; returns its lines.
    pub(super) fn fact(&mut self, event: &Event, is_own: IsOwn<'_>, with_seq: bool) -> Vec<String> {
        match Fact::from_body(&event.body) {
            Some(Fact::TurnStarted { turn, request_id, client }) => {
                self.open.end();
                self.running.is_own = is_own(&request_id);
                self.running.origin = Some(PromptOrigin { turn, request_id, client });
                self.running.echo = PromptEcho::default();
                Vec::new()
            }
            Some(Fact::TurnEnded { turn, .. }) => {
                self.open.end();
                // A turn that never started can end while another one runs.
                self.running.origin = self.running.origin.take().filter(|origin| origin.turn != turn);
                if self.has_pending() { self.settle() } else { Vec::new() }
            }
            Some(Fact::SessionReset { announced: true, reason, carried, error, .. }) => {
                self.open.end();
                let notice = Notice::fresh_session(&reason, carried, error.as_ref());
                let update = notice.update(&self.client, &self.record, event);
                vec![notification(&self.session, &update, &update_meta(event, with_seq))]
            }
            Some(Fact::SessionReturned { acpx_session_id, .. }) => {
                self.open.end();
                let update = Notice::returned(&acpx_session_id).update(&self.client, &self.record, event);
                vec![notification(&self.session, &update, &update_meta(event, with_seq))]
            }
            Some(Fact::PromptResent { turn, .. }) => {
                self.running.resent = Some(turn);
                Vec::new()
            }
            Some(fact) => self.terminal(event, &fact, with_seq),
            None => Vec::new(),
        }
    }

    /// Resolves the prompt of the turn that this fact ends.
    pub(super) fn ends_turn(&mut self, event: &Event) -> PromptResolution {
        let running = self.running.origin.as_ref().map(|origin| origin.turn);
        match Fact::from_body(&event.body) {
            Some(Fact::TurnEnded { turn, .. }) if running == Some(turn) => self.running.echo.over(),
            _ => PromptResolution::default(),
        }
    }

    /// The version 2 update for the running turn's end by this fact, unless the agent has finished the turn.
    pub(super) fn outcome(&self, event: &Event) -> Option<Box<str>> {
        let origin = self.running.origin.as_ref().filter(|_| self.has_states())?;
        let fact = Fact::from_body(&event.body)?;
        let Fact::TurnEnded { turn, stop_reason, .. } = &fact else { return None };
        let is_finished = stop_reason.as_deref() == Some("end_turn");
        (*turn == origin.turn && !is_finished).then(|| turn_state(&fact, &origin.request_id)).flatten()
    }

    /// Takes a request to the agent; returns it if it is a prompt to render at once. A version 2 agent may reject the
    /// prompt, so it is rendered after the agent's reply.
    pub(super) fn prompt(&mut self, event: &Event) -> Option<Event> {
        let blocks = prompt_blocks(&event.body);
        if blocks.is_empty() {
            return None;
        }
        self.open.end();
        self.running.echo = PromptEcho::new(id_of(&event.body), &blocks);
        let is_shown = self.running.resent.take().is_some_and(|turn| event.turn == Some(TurnId(turn)));
        match version(event) {
            ProtocolVersion::V1 if is_shown => None,
            ProtocolVersion::V1 => Some(event.clone()),
            ProtocolVersion::V2 => {
                self.running.echo.wait(event.clone());
                None
            }
        }
    }

    /// Takes a response of the agent; returns how it resolves the prompt.
    pub(super) fn answered(&mut self, event: &Event) -> PromptResolution {
        match version(event) {
            ProtocolVersion::V1 => PromptResolution::default(),
            ProtocolVersion::V2 => {
                let settled = self.running.echo.answered(&event.body);
                if let (Some(message), Some(origin)) = (self.running.echo.message(), &self.running.origin) {
                    self.prompts.insert((event.lineage, message.into()), TurnId(origin.turn));
                }
                settled
            }
        }
    }

    /// The prompt, if it is not rendered yet and this update shows that the agent works on it.
    pub(super) fn begun(&mut self, event: &Event, line: &UpdateLine<'_>) -> Option<Event> {
        let works = match line.head.kind {
            UpdateKind::Chunk(kind) | UpdateKind::Message(kind) => kind != MessageKind::User,
            UpdateKind::Tool | UpdateKind::ToolContent | UpdateKind::Terminal | UpdateKind::RunState => true,
            UpdateKind::State(_) | UpdateKind::Notice | UpdateKind::Compaction | UpdateKind::Other => false,
        };
        let prompt = if works && event.turn.is_some() { self.running.echo.begins() } else { None };
        prompt.map(|prompt| Event { seq: event.seq, at: event.at, ..prompt })
    }

    /// Renders a prompt as a user message; in version 2 with the id that the client received in reply to the prompt.
    /// A version 1 client does not receive its own prompt.
    pub(super) fn prompt_lines(&self, event: &Event, meta: &UpdateMeta<'_>) -> Vec<String> {
        if self.running.is_own && self.client.protocol == ProtocolVersion::V1 {
            return Vec::new();
        }
        let blocks = prompt_blocks(&event.body);
        let meta = UpdateMeta { origin: self.running.origin.as_ref(), ..meta.clone() };
        // Only this id separates two consecutive prompts.
        let id = json_string(&match event.turn {
            Some(turn) => prompt_message_id(&self.record, turn),
            None => run_message_id(&self.record, event.seq),
        });
        let updates = match self.client.protocol {
            ProtocolVersion::V1 => {
                let prefix = format!(r#"{{"sessionUpdate":"user_message_chunk","messageId":{id},"content":"#);
                // Only version 2 has block types that version 1 cannot read.
                let is_open = version(event) == ProtocolVersion::V2;
                let rendered = |block| if is_open { block_to_v1(block) } else { Cow::Borrowed(block) };
                blocks.into_iter().map(|block| format!("{prefix}{}}}", rendered(block))).collect()
            }
            ProtocolVersion::V2 => vec![whole(MessageKind::User, &id, &blocks.join(","))],
        };
        notifications(&self.session, &updates, &meta)
    }

    /// Takes an update; returns whether the client receives it now. An update held until the reply to the prompt is
    /// passed in again later.
    pub(super) fn update(&mut self, event: &Event, line: &UpdateLine<'_>) -> bool {
        let kind = line.head.kind;
        if kind == UpdateKind::Other {
            self.children.learn(line.update);
        }
        let is_users =
            matches!(kind, UpdateKind::Chunk(MessageKind::User) | UpdateKind::Message(MessageKind::User));
        if is_users && event.turn.is_some() {
            let is_v1 = version(event) == ProtocolVersion::V1;
            if !is_v1 && self.running.echo.holds(event) {
                return false;
            }
            let id = line.head.message_id.and_then(json::string);
            if self.running.echo.is_repeated(id.as_deref(), line.head.content) {
                self.open.end();
                let is_changed = kind == UpdateKind::Message(MessageKind::User)
                    && self.running.echo.is_changed_by(line.update, line.head.content);
                // A version 1 client that talks to its agent directly would receive the repetition too.
                return match self.client.protocol {
                    ProtocolVersion::V1 => self.running.is_own && is_v1,
                    ProtocolVersion::V2 => is_changed,
                };
            }
        }
        // Version 1 cannot change a message that was sent, and the client already has the prompt.
        if is_users && !self.has_states() && self.prompt_id(event, line).is_some() {
            self.open.end();
            return false;
        }
        match kind {
            UpdateKind::Chunk(kind) => {
                let id = self.prompt_id(event, line).map(Cow::Owned);
                let id = id.or_else(|| line.head.message_id.and_then(json::string));
                self.open.chunk(event, kind, id);
                true
            }
            UpdateKind::Tool | UpdateKind::ToolContent | UpdateKind::Message(_) => {
                self.open.end();
                true
            }
            UpdateKind::Notice => self.client.notices,
            UpdateKind::Compaction => self.client.compaction,
            UpdateKind::State(_) | UpdateKind::RunState | UpdateKind::Terminal | UpdateKind::Other => true,
        }
    }

    /// Forwards the agent's line as received if client and agent use the same version; translates it otherwise.
    pub(super) fn as_received(
        &mut self,
        event: &Event,
        line: &UpdateLine<'_>,
        meta: &UpdateMeta<'_>,
    ) -> Vec<String> {
        let agent_version = version(event);
        if agent_version == self.client.protocol {
            if line.head.kind == UpdateKind::Tool {
                let update = self.renamed(event, line);
                if let Some(update) = self.with_terminals(agent_version, &update) {
                    return vec![self.pass_on_as(line, &update, meta)];
                }
            }
            if event.direction == Direction::Ours && SessionOffer::tells_model_alone(line.update) {
                return Vec::new();
            }
            return vec![self.pass_on(event, line, meta)];
        }
        let update = self.renamed(event, line);
        self.to_v2.in_turn(event.turn);
        self.translated(agent_version, event.lineage, &update, meta)
    }

    /// The lines for an update of this version.
    pub(super) fn translated(
        &mut self,
        agent_version: ProtocolVersion,
        row: LineageIndex,
        update: &str,
        meta: &UpdateMeta<'_>,
    ) -> Vec<String> {
        let updates = match (agent_version, self.client.protocol) {
            (ProtocolVersion::V1, ProtocolVersion::V2) => {
                let message = self.open.message().map(|message| message.id(&self.record, row));
                self.to_v2.update(update, &message.unwrap_or_default())
            }
            (ProtocolVersion::V2, ProtocolVersion::V1) => {
                let updates = self.to_v1.update(update).into_iter();
                updates.map(|update| self.without_booleans(update)).collect()
            }
            _ => {
                let shown = self.with_terminals(agent_version, update);
                let update = shown.as_deref().unwrap_or(update);
                return vec![notification(&self.session, update, meta)];
            }
        };
        notifications(&self.session, &updates, meta)
    }

    fn without_booleans(&self, update: Box<str>) -> Box<str> {
        if self.client.boolean_options || !update.contains("config_option_update") {
            return update;
        }
        let Some((list, fewer)) = without_booleans(&update) else { return update };
        json::replace(&update, list, &fewer).into()
    }

    /// The agent's line, for a client of the same version.
    fn pass_on(&self, event: &Event, line: &UpdateLine<'_>, meta: &UpdateMeta<'_>) -> String {
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
        passed.write(line, meta);
        passed.finish()
    }

    /// The update with its ids replaced by those that the client sees.
    fn renamed<'a>(&self, event: &Event, line: &UpdateLine<'a>) -> Cow<'a, str> {
        let mut splice = Splice::new(line.update);
        let mut is_changed = false;
        for (id, other) in self.renames(event, line) {
            is_changed |= splice.replace(json::range_in(line.update, id), &other).is_ok();
        }
        if is_changed { splice.finish().into() } else { line.update.into() }
    }

    /// The id that the client sees for a user message that is the prompt of a turn.
    fn prompt_id(&self, event: &Event, line: &UpdateLine<'_>) -> Option<String> {
        let is_users = matches!(
            line.head.kind,
            UpdateKind::Chunk(MessageKind::User) | UpdateKind::Message(MessageKind::User)
        );
        let id =
            line.head.message_id.filter(|_| is_users && !self.prompts.is_empty()).and_then(json::string)?;
        let turn = self.prompts.get(&(event.lineage, id.into()))?;
        Some(prompt_message_id(&self.record, *turn))
    }

    /// The ids in a line that the client sees under other ids; both as JSON.
    fn renames<'a>(&self, event: &Event, line: &UpdateLine<'a>) -> Vec<(&'a str, String)> {
        if let (Some(prompt), Some(id)) = (self.prompt_id(event, line), line.head.message_id) {
            return vec![(id, json_string(&prompt))];
        }
        let ids = [line.head.message_id, line.head.tool_call].into_iter().flatten();
        ids.filter_map(|id| Some((id, client_id_json(id, event.lineage)?))).collect()
    }
}

/// The JSON-RPC id of a line, as JSON.
fn id_of(body: &str) -> Option<&str> {
    json::get(body, &["id"])
}

pub(super) fn update_meta(event: &Event, with_seq: bool) -> UpdateMeta<'static> {
    if with_seq { UpdateMeta::of(event.seq, event.at) } else { UpdateMeta::default() }
}

/// The protocol version of an event's line.
pub(super) fn version(event: &Event) -> ProtocolVersion {
    ProtocolVersion::from_number(event.protocol).unwrap_or_default()
}

/// The option list of an update or response, and the same list without boolean options; `None` if there are none.
pub(crate) fn without_booleans(update: &str) -> Option<(&str, String)> {
    let list = json::get(update, &["configOptions"])?;
    let mut options = json::items(list)?;
    let all = options.len();
    options.retain(|option| json::get(option, &["type"]) != Some(r#""boolean""#));
    (options.len() < all).then(|| (list, json::array(options)))
}
