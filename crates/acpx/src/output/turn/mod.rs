//! Shows a turn while it runs: one event at a time, and a result at the end.
//!
//! Text is for people, JSON is the exact lines exchanged with the agent, quiet is the agent's words alone. Every format
//! reports the loss of a session: on stderr, and in JSON on stdout too.

mod activity;
mod answer;
mod denials;
mod follow;
mod quiet;
mod recent_tool_calls;
mod result;
mod suppressed_reads;
mod terminal;
mod text;
mod tool;
mod tool_io;

use std::collections::HashMap;
use std::io;
use std::io::Write;

use acpx_core::acp::translate::UpdatesToV1;
use acpx_core::model::{
    AcpSessionId, AgentSessionId, ClientName, Decision, Direction, EndedProcess, Fact, HistoryExtent,
    MessageKind, PermissionPolicy, PromptRetry, ProtocolVersion, ReplayVerdict, RestoreError,
    SessionIdentity, SessionUsage, SettingValue, Timestamp, TurnId, Update,
};
use acpx_core::wire::RpcMessage;
use serde::Serialize;
use serde_json::value::RawValue;

use self::activity::AgentActivity;
use self::answer::AnswerReader;
use self::denials::DenialTracker;
use self::quiet::QuietView;
use self::suppressed_reads::ReadSuppressor;
use self::text::TextView;
use super::settings::not_restored;
use super::{Console, OutputMode, WatchedEvent, error, json_line};
use crate::cli::Format;
use crate::error::ErrorReport;
use crate::output::sanitize::{ellipsize, on_one_line};

pub(crate) use self::activity::TimeoutCause;
pub(crate) use self::denials::DenialSummary;
pub(crate) use self::follow::{FollowView, prompt};
pub(crate) use self::recent_tool_calls::RecentToolCalls;
pub(crate) use self::result::{PromptResult, ResultIds, TurnStatus, cost, money};
pub(super) use self::terminal::thousands;
pub(crate) use self::terminal::{percent, stop_words, without_fence};
pub(crate) use self::tool::{command_line, first_named};

/// Shows one turn.
#[derive(Debug)]
pub(crate) struct TurnView {
    /// The current ids of its session; an `exec` begins with none.
    session: Option<SessionIdentity>,
    view: TurnRenderer,
    activity: AgentActivity,
    denials: DenialTracker,
    reads: ReadSuppressor,
    /// The policy that decides which requests wait for an answer from another command, if any may.
    waiting: Option<PermissionPolicy>,
}

/// The method of a form request.
const ELICITATION: &str = "elicitation/create";
/// Shown with a pending request.
const HOW_TO_ANSWER: &str =
    "it waits for an answer: acpx pending shows the request, acpx approve ID or acpx deny ID answers it";

#[derive(Debug)]
enum TurnRenderer {
    Text(Box<TextView>),
    Json(Box<JsonView>),
    Quiet(QuietView),
}

/// Writes the lines as they were exchanged.
#[derive(Debug, Default)]
struct JsonView {
    /// The agent's last error that was shown.
    shown_error: Option<Box<str>>,
    answer: AnswerReader,
    /// Whether only the result is written.
    is_result_only: bool,
}

impl TurnView {
    /// A view of a turn that has not begun.
    pub(crate) fn new(mode: OutputMode, session: Option<SessionIdentity>) -> Self {
        let view = match mode.format {
            Format::Text => TurnRenderer::Text(TextView::new(mode).into()),
            Format::Json => TurnRenderer::Json(Box::default()),
            Format::Quiet => TurnRenderer::Quiet(QuietView::default()),
        };
        Self {
            session,
            view,
            activity: AgentActivity::default(),
            denials: DenialTracker::default(),
            reads: ReadSuppressor::new(mode.reads),
            waiting: None,
        }
    }

    /// A view of a recorded turn: only its result in JSON, only the answer otherwise.
    pub(crate) fn of_record(mode: OutputMode, session: SessionIdentity) -> Self {
        let format = if mode.format == Format::Json { Format::Json } else { Format::Quiet };
        let mut view = Self::new(OutputMode { format, ..mode }, Some(session));
        if let TurnRenderer::Json(view) = &mut view.view {
            view.is_result_only = true;
        }
        view
    }

    /// The terminal asks for permissions, so the view does not show them before they are answered.
    pub(crate) fn prompt_here(&mut self) {
        if let TurnRenderer::Text(view) = &mut self.view {
            view.prompt_here();
        }
    }

    /// The session's usage before the turn, for what the turn costs.
    pub(crate) fn begin_with(&mut self, usage: Option<&SessionUsage>) {
        let cost = usage.and_then(|usage| usage.cost.as_ref());
        match &mut self.view {
            TurnRenderer::Text(view) => view.begin_with(cost),
            TurnRenderer::Quiet(view) => view.begin_with(cost),
            TurnRenderer::Json(_) => {}
        }
    }

    /// What this policy would ask stays pending until another command answers it.
    pub(crate) fn wait_for_answers(&mut self, policy: &PermissionPolicy) {
        self.waiting = Some(policy.clone());
    }

    /// What the agent was denied, if anything.
    pub(crate) fn denied(&self) -> Option<&DenialSummary> {
        self.denials.denied()
    }

    /// What was missing when the time was over, if anything.
    pub(crate) fn timeout_cause(&self) -> Option<TimeoutCause> {
        self.activity.timeout_cause()
    }

    /// Shows the next event. The caller flushes the console when no more events are queued.
    pub(crate) fn event(&mut self, event: &WatchedEvent, console: &mut Console<'_>) -> io::Result<()> {
        if event.direction == Direction::Ours {
            return self.fact(event, console);
        }
        let event = &*self.reads.apply(event);
        let message = RpcMessage::parse(event.message.get()).ok();
        let tool = message.as_ref().and_then(|message| {
            self.activity.observe(event.direction, message);
            self.denials.observe(event, message)
        });
        match (&mut self.view, &message) {
            (TurnRenderer::Text(view), Some(message)) => view.message(event, message, console)?,
            (TurnRenderer::Quiet(view), Some(message)) => view.message(event, message),
            (TurnRenderer::Json(view), message) => {
                view.message(event, message.as_ref(), &mut console.out)?;
            }
            (TurnRenderer::Text(_) | TurnRenderer::Quiet(_), None) => {}
        }
        let is_form = event.direction == Direction::FromAgent
            && message.as_ref().and_then(RpcMessage::method) == Some(ELICITATION);
        let waits = self.waiting.as_ref().is_some_and(|policy| match tool {
            Some(tool) => policy.rule(&tool).decision == Decision::Ask,
            None => is_form,
        });
        if waits {
            console.flush_and_notice(HOW_TO_ANSWER)?;
        }
        Ok(())
    }

    /// Shows how the turn ended.
    pub(crate) fn finish(self, mut result: PromptResult, console: &mut Console<'_>) -> io::Result<()> {
        if let (Some(error), Some(session)) = (&mut result.error, &self.session) {
            let hint = error.hint.take();
            error.hint = hint.map(|hint| error.code.fill_record(&hint, &session.record));
        }
        match self.view {
            TurnRenderer::Text(view) => view.finish(&result, console),
            TurnRenderer::Json(view) => view.finish(result, &mut console.out),
            TurnRenderer::Quiet(view) => view.finish(&result, console),
        }?;
        console.flush()
    }

    /// The agent's answer, which the view for JSON collects.
    pub(crate) fn into_answer(self) -> String {
        match self.view {
            TurnRenderer::Json(view) => view.answer.finish().text,
            TurnRenderer::Text(_) | TurnRenderer::Quiet(_) => String::new(),
        }
    }

    /// Whether the turn was in another ACP session than this one.
    pub(crate) fn has_left(&self, session: &AcpSessionId) -> bool {
        self.session.as_ref().is_some_and(|now| now.session != *session)
    }

    /// Handles a fact of acpx, which is not a line of the agent's. Reports those that change what a person may expect.
    fn fact(&mut self, event: &WatchedEvent, console: &mut Console<'_>) -> io::Result<()> {
        match Fact::from_body(event.message.get()) {
            Some(Fact::SessionReset {
                reason,
                from_acpx_session_id,
                acpx_session_id,
                agent_session_id,
                announced,
                carried,
                error,
            }) => {
                if announced {
                    let why =
                        error.as_ref().map_or_else(|| reason.clone(), |error| format!("{reason}: {error}"));
                    console.flush_and_notice(&format!(
                        "the agent could not restore the session ({why}); this is a fresh one, which {}",
                        knows_before(carried)
                    ))?;
                }
                self.switch_session(&acpx_session_id, agent_session_id.as_deref());
                self.emit_notice(
                    &TurnNotice::SessionReset { from_acpx_session_id, reason, announced, carried, error },
                    console,
                )
            }
            Some(Fact::PromptResent { retry, .. }) => console.flush_and_notice(&resent(retry)),
            Some(Fact::McpServersLeftOut { names, reason }) => {
                let why = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                console.flush_and_notice(&format!(
                    "left out, since their values are not known any more{why}: the MCP servers {}",
                    names.join(", ")
                ))?;
                self.emit_notice(&TurnNotice::McpServersLeftOut { names, reason }, console)
            }
            Some(Fact::LoadDelayed { until }) => {
                console.flush_and_notice(&format!(
                    "waiting until {until}: this agent cannot load a session in the minute it began"
                ))?;
                self.emit_notice(&TurnNotice::LoadDelayed { until }, console)
            }
            Some(Fact::SettingNotRestored { option, value, reason }) => {
                console.flush_and_notice(&not_restored(option.as_deref(), &value, &reason))?;
                self.emit_notice(&TurnNotice::SettingNotRestored { option, value, reason }, console)
            }
            Some(Fact::LimitNotEnforced { limit, reason, .. }) => {
                // It comes after the answer, whose line may not have ended.
                if let TurnRenderer::Text(view) = &mut self.view {
                    view.end_line(&mut console.out)?;
                }
                console.flush_and_notice(&format!("the limit of {limit} cannot be enforced: {reason}"))?;
                self.emit_notice(&TurnNotice::LimitNotEnforced { limit, reason }, console)
            }
            Some(fact @ (Fact::LinesDropped { .. } | Fact::LinesUnread { .. })) => {
                self.show_fact(&fact, console)
            }
            Some(fact @ Fact::AgentAway {}) => {
                self.show_fact(&fact, console)?;
                self.emit_notice(&TurnNotice::AgentAway {}, console)
            }
            Some(fact @ Fact::AgentBack {}) => {
                self.show_fact(&fact, console)?;
                self.emit_notice(&TurnNotice::AgentBack {}, console)
            }
            fact => {
                if let (Some(fact), TurnRenderer::Text(view)) = (&fact, &mut self.view) {
                    view.fact(fact);
                }
                fact.as_ref().and_then(detail).iter().for_each(|text| console.detail(text));
                Ok(())
            }
        }
    }

    /// Shows a fact to people, on its own line.
    fn show_fact(&mut self, fact: &Fact, console: &mut Console<'_>) -> io::Result<()> {
        if let TurnRenderer::Text(view) = &mut self.view {
            view.end_line(&mut console.out)?;
        }
        console.flush_and_notice(&detail(fact).unwrap_or_default())
    }

    /// The record continues in another ACP session.
    fn switch_session(&mut self, session: &str, agent_session: Option<&str>) {
        if let (Some(identity), Ok(session)) = (&mut self.session, AcpSessionId::new(session)) {
            identity.session = session;
            identity.agent_session = agent_session.and_then(AgentSessionId::from_agent);
        }
    }

    /// Reports a notice to programs, in addition to the agent's lines.
    fn emit_notice(&self, notice: &TurnNotice, console: &mut Console<'_>) -> io::Result<()> {
        match self.view {
            TurnRenderer::Json(_) => {
                let (action, session) = (notice.action(), self.session.as_ref());
                json_line(&TurnNoticeObject { action, session, notice }, &mut console.out)
            }
            TurnRenderer::Text(_) | TurnRenderer::Quiet(_) => Ok(()),
        }
    }
}

impl JsonView {
    /// Writes the next line. The agent's message may be no JSON-RPC.
    fn message(
        &mut self,
        event: &WatchedEvent,
        message: Option<&RpcMessage>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if !self.is_result_only {
            out.write_all(event.message.get().as_bytes())?;
            out.write_all(b"\n")?;
        }
        let Some(message) = message else { return Ok(()) };
        self.answer.event(event, message);
        if let Some(error) = message.error().filter(|_| event.direction == Direction::FromAgent) {
            self.shown_error = Some(error.into());
        }
        Ok(())
    }

    /// Writes the result, after an error line in npm acpx's form unless the agent's own error was already shown.
    fn finish(self, result: PromptResult, out: &mut dyn Write) -> io::Result<()> {
        let result = result.with_answer(self.answer.finish());
        let shown = self.shown_error.as_deref();
        let is_shown = |error: &&ErrorReport| error.acp.as_ref().is_some_and(|acp| Some(acp.get()) == shown);
        let error = result.error_line().filter(|error| !self.is_result_only && !is_shown(error));
        if let Some(error) = error {
            error::json(error, out)?;
        }
        json_line(&result, out)
    }
}

/// The text of a fact that only verbose output shows.
pub(crate) fn detail(fact: &Fact) -> Option<String> {
    match fact {
        Fact::TurnStarted { turn, request_id, .. } => {
            Some(format!("turn {turn} is sent (request {request_id})"))
        }
        Fact::Restored { by, .. } => Some(format!("the session is restored by {by}")),
        Fact::ReplayedLate { replay: ReplayVerdict::Same } => {
            Some("the agent has replayed the whole session by now".to_owned())
        }
        Fact::AgentEnded { how } => Some(format!("the agent ended: {how}")),
        Fact::AgentAway {} => Some("the connection to the agent's machine is lost; reconnecting".to_owned()),
        Fact::AgentBack {} => Some("the connection to the agent's machine is restored".to_owned()),
        Fact::LinesDropped { lines, limit } => {
            Some(format!("not taken: {} of the agent, longer than {limit} bytes", counted(*lines)))
        }
        Fact::LinesUnread { lines } => {
            Some(format!("ignored: {} of the agent, not of the protocol", counted(*lines)))
        }
        Fact::ProcessesEnded { processes } => {
            let words = |process: &EndedProcess| format!("{} ({})", process.name, process.pid);
            let names: Vec<String> = processes.iter().map(words).collect();
            Some(format!("ended with the agent that had started them: {}", names.join(", ")))
        }
        _ => None,
    }
}

/// Why a prompt is sent again. The words for a retry are those of npm acpx.
fn resent(retry: Option<PromptRetry>) -> String {
    match retry {
        None => "the agent had lost the session and was restarted; the prompt is sent once more".to_owned(),
        Some(PromptRetry { attempt, of, delay_ms, reason }) => {
            let reason = on_one_line(&reason);
            format!("prompt failed ({reason}), retrying in {delay_ms}ms (attempt {attempt}/{of})")
        }
    }
}

/// What a fresh session knows of the earlier conversation.
pub(crate) fn knows_before(carried: Option<HistoryExtent>) -> &'static str {
    match carried {
        None => "does not remember what came before",
        Some(HistoryExtent::Whole) => "gets the earlier conversation with this prompt",
        Some(HistoryExtent::LastPart) => {
            "gets the earlier conversation with this prompt, without the beginning, which is too long"
        }
    }
}

/// A change of the session during the turn.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum TurnNotice {
    /// A fresh ACP session took over.
    SessionReset {
        from_acpx_session_id: String,
        reason: String,
        announced: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        carried: Option<HistoryExtent>,
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "error::write_restore_error")]
        error: Option<RestoreError>,
    },
    /// The agent did not get these servers.
    McpServersLeftOut {
        names: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The agent cannot load the session before this moment.
    LoadDelayed { until: Timestamp },
    /// A limit of cost or tokens cannot be enforced with this agent.
    LimitNotEnforced { limit: String, reason: String },
    /// The connection to the remote agent is lost and being restored.
    AgentAway {},
    /// The connection is restored.
    AgentBack {},
    /// A setting differs from the requested value.
    SettingNotRestored {
        #[serde(skip_serializing_if = "Option::is_none")]
        option: Option<String>,
        value: SettingValue,
        reason: String,
    },
}

impl TurnNotice {
    fn action(&self) -> &'static str {
        match self {
            Self::SessionReset { .. } => "session_reset",
            Self::McpServersLeftOut { .. } => "mcp_servers_left_out",
            Self::LoadDelayed { .. } => "load_delayed",
            Self::LimitNotEnforced { .. } => "limit_not_enforced",
            Self::AgentAway {} => "agent_away",
            Self::AgentBack {} => "agent_back",
            Self::SettingNotRestored { .. } => "setting_not_restored",
        }
    }
}

/// A notice with the ids of its session.
#[derive(Serialize)]
struct TurnNoticeObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    session: Option<&'a SessionIdentity>,
    #[serde(flatten)]
    notice: &'a TurnNotice,
}

/// A number of lines, in words.
fn counted(lines: u64) -> String {
    if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") }
}

/// How much of a client's name is shown.
const NAME_CHARS: usize = 40;

/// The message whose chunks are arriving.
#[derive(Debug, Default)]
pub(crate) struct MessageTracker(Option<MessageKey>);

/// What distinguishes a chunk's message from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageKey {
    pub(crate) kind: MessageKind,
    pub(crate) turn: Option<TurnId>,
    /// The agent's id for the message, where it gives one.
    pub(crate) id: Option<Box<str>>,
}

impl MessageTracker {
    /// Takes the next chunk; returns whether it begins a message. A chunk without an id continues the current message.
    pub(crate) fn begins(&mut self, piece: MessageKey) -> bool {
        let goes_on = self.0.as_ref().is_some_and(|open| {
            let is_same = piece.id.is_none() || piece.id == open.id;
            is_same && (open.kind, open.turn) == (piece.kind, piece.turn)
        });
        if !goes_on {
            self.0 = Some(piece);
        }
        !goes_on
    }
}

/// The label of the user's words: their turn, and their client if it is not the shell. The client's own name can
/// neither end the label nor begin another.
pub(super) fn user_label(turn: Option<TurnId>, client: Option<&ClientName>) -> String {
    let turn = turn.map(|turn| format!(", turn {}", turn.0)).unwrap_or_default();
    let name = client.and_then(ClientName::unless_shell);
    let name = name.map(|name| on_one_line(name).replace('[', "(").replace(']', ")"));
    let name = name.filter(|name| !name.trim().is_empty());
    let client = name.map(|name| format!(", {}", ellipsize(&name, NAME_CHARS))).unwrap_or_default();
    format!("[user{turn}{client}] ")
}

/// A line break within labelled words, which indents the next line.
pub(super) fn line_end_below(label: &str) -> String {
    format!("\n{:1$}", "", label.chars().count())
}

/// How many ACP sessions of a record are tracked. Updates after the end of an agent's process belong to none.
const SESSIONS: usize = 8;

/// Reads updates in order. Each ACP session has its own ids.
#[derive(Debug, Default)]
pub(crate) struct UpdateReader {
    sessions: HashMap<Box<str>, UpdatesToV1>,
}

impl UpdateReader {
    /// The updates in an event; none if it is not an update of the agent in this conversation.
    pub(crate) fn read(&mut self, event: &WatchedEvent, message: &RpcMessage) -> Vec<Update> {
        let is_own = event.direction == Direction::FromAgent && !event.is_outside_conversation;
        if !is_own || message.method() != Some("session/update") {
            return Vec::new();
        }
        let params = message.params().unwrap_or("null");
        match event.version {
            ProtocolVersion::V1 => vec![acpx_core::acp::update(params)],
            ProtocolVersion::V2 => self.translate(params),
        }
    }

    fn translate(&mut self, params: &str) -> Vec<Update> {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "sessionId")]
            session: std::borrow::Cow<'a, str>,
            #[serde(borrow)]
            update: &'a RawValue,
        }
        let Ok(Params { session, update }) = serde_json::from_str(params) else { return Vec::new() };
        if self.sessions.len() >= SESSIONS && !self.sessions.contains_key(&*session) {
            self.sessions.clear();
        }
        let translation = self.sessions.entry(Box::from(&*session)).or_default();
        let read = |update: Box<str>| acpx_core::acp::update(&format!(r#"{{"update":{update}}}"#));
        translation.update(update.get()).into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests;
