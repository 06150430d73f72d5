//! The demo agent as a service: its sessions, their modes and their archive.
//!
//! A session that was never prompted exists only in memory, as with most real agents. The handlers read files directly:
//! they are small, and the agent has only one client.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::PathBuf;
use std::{fmt, io};

use acpx_core::acp::agent::{
    AgentService, CallError, CallExtras, CancelCause, Cancellation, ClientLink, Feature, ListCall, Meta,
    Modes, NewCall, ParamProblem, PromptCall, PromptReply, RestoreCall, SessionMode, SessionPage,
    SessionSetup, SetCall, SetChoice, SlashCommand, TurnLink, UpdateBody,
};
use acpx_core::model::{AbsolutePath, AcpSessionId, AgentSessionId, StopReason, Timestamp};
use acpx_core::sync::Lock;
use acpx_core::wire::RpcError;
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::archive;
use super::archive::{Archive, ArchiveError, ArchiveLine, ArchiveSession, user_message};
use super::servers::{ServerSetupGuard, SessionServers};
use super::turn::DemoTurn;
use super::words::steps;
use crate::mcp::McpLimits;

/// The modes of every session; the first is the initial one.
pub(super) const MODES: [&str; 2] = ["ask", "code"];

/// The agent of one connection.
pub(super) struct DemoAgent {
    settings: DemoAgentSettings,
    archive: Archive,
    live: Lock<HashMap<AcpSessionId, DemoSession>>,
    servers: SessionServers,
}

/// In-memory state of an active session.
#[derive(Debug, Clone)]
struct DemoSession {
    cwd: AbsolutePath,
    mode: String,
}

impl DemoAgent {
    pub(super) fn new(settings: DemoAgentSettings) -> Self {
        let archive = Archive::new(settings.directory.clone());
        let servers = SessionServers::new(settings.mcp_limits);
        Self { settings, archive, live: Lock::default(), servers }
    }

    /// Waits for a signal that would end this process. Signals are watched from the first MCP server on.
    pub(super) async fn signalled(&self) -> u8 {
        self.servers.signalled().await
    }

    /// Ends the MCP servers of all sessions after the client has disconnected.
    pub(super) async fn end(&self) {
        self.servers.end_all().await;
    }

    fn setup(&self, session: AcpSessionId, live: DemoSession) -> SessionSetup {
        let mode = |id: &&str| SessionMode { id: (*id).into(), name: capitalised(id) };
        let modes = Modes { current: live.mode.clone(), available: MODES.iter().map(mode).collect() };
        let inner = format!("inner-{session}");
        let mut setup = SessionSetup::new(session.clone());
        setup.modes = Some(modes);
        if self.settings.has(Quirk::AgentSessionId) {
            setup.agent_session = AgentSessionId::from_agent(&inner);
        }
        if self.settings.has(Quirk::LateCommands) {
            let recall =
                SlashCommand { name: "recall".into(), description: "List every earlier prompt".into() };
            setup.afterwards.push(UpdateBody::available_commands([recall]));
        }
        self.live.lock().insert(session, live);
        setup
    }

    /// A guard for the servers of a session that is not active yet.
    fn unclaimed(&self, session: &AcpSessionId) -> Option<ServerSetupGuard> {
        let is_active = self.live.lock().contains_key(session);
        (!is_active).then(|| self.servers.unclaimed(session))
    }

    /// Gives a restored session exactly the servers of this request; a resume that names none has none.
    async fn connect(&self, call: &RestoreCall, archived: &ArchiveSession) -> Vec<UpdateBody> {
        let servers = call.mcp_servers.as_deref().unwrap_or_default();
        self.servers.set_up(&call.session, &archived.cwd, servers).await
    }

    fn restore(&self, archived: &ArchiveSession) -> SessionSetup {
        let mode = archived.mode.clone().unwrap_or_else(|| MODES[0].into());
        self.setup(archived.session.clone(), DemoSession { cwd: archived.cwd.clone(), mode })
    }

    /// How to replay from a client's cursor. This agent supports only the start.
    fn replay_from(&self, cursor: &str) -> Result<DemoReplayMode, CallError> {
        #[derive(Deserialize)]
        struct Cursor<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        match serde_json::from_str(cursor) {
            Ok(Cursor { kind }) if kind == "start" => Ok(self.settings.replay),
            _ => Err(ParamProblem::new("replayFrom", "must be of the type start").into()),
        }
    }

    fn archived(&self, session: &AcpSessionId) -> Result<ArchiveSession, CallError> {
        self.read(session)?.ok_or_else(|| CallError::UnknownSession(session.clone()))
    }

    fn append_live(&self, session: &AcpSessionId, lines: &[ArchiveLine]) -> Result<(), CallError> {
        let live = self.known(session)?;
        self.append(session, &live.cwd, lines)
    }

    fn read(&self, session: &AcpSessionId) -> Result<Option<ArchiveSession>, CallError> {
        let failed =
            |error: ArchiveError| CallError::NotRead { session: session.clone(), source: error.into() };
        self.archive.read(session).map_err(failed)
    }

    fn append(
        &self,
        session: &AcpSessionId,
        cwd: &AbsolutePath,
        lines: &[ArchiveLine],
    ) -> Result<(), CallError> {
        let failed =
            |error: ArchiveError| CallError::NotStored { session: session.clone(), source: error.into() };
        self.archive.append(session, cwd, now(), lines).map_err(failed)
    }

    fn known(&self, session: &AcpSessionId) -> Result<DemoSession, CallError> {
        self.live.lock().get(session).cloned().ok_or_else(|| CallError::UnknownSession(session.clone()))
    }

    fn remember_mode(&self, session: &AcpSessionId, mode: &str) {
        if let Some(live) = self.live.lock().get_mut(session) {
            live.mode = mode.into();
        }
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        if self.settings.has(Quirk::Verbose) {
            // If stderr is closed, there is nowhere to report it.
            writeln!(io::stderr(), "acpx demo-agent: {line}").ok();
        }
    }
}

impl AgentService for DemoAgent {
    async fn new_session(&self, call: NewCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        let id = acpx_core::wire::new_uuid().to_string();
        let session = AcpSessionId::new(id).expect("a UUID has digits");
        if self.settings.has(Quirk::MaterialiseEarly) {
            self.append(&session, &call.cwd, &[])?;
        }
        self.log(format_args!("new session {session} in {}", call.cwd));
        let failed = self.servers.set_up(&session, &call.cwd, &call.mcp_servers).await;
        let mut setup = self.setup(session, DemoSession { cwd: call.cwd, mode: MODES[0].into() });
        setup.afterwards.splice(0..0, failed);
        Ok(setup)
    }

    async fn load_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        if let Some(fault) = self.settings.load_fault {
            return Err(fault.error(&call.session));
        }
        let archived = self.archived(&call.session)?;
        let unclaimed = self.unclaimed(&call.session);
        let failed = self.connect(&call, &archived).await;
        let mut setup = self.restore(&archived);
        let (before, after) = replay(archived, self.settings.replay);
        self.log(format_args!("load {}: {} updates", call.session, before.len() + after.len()));
        send(&link, &call.session, &before).await?;
        setup.afterwards.splice(0..0, after.into_iter().chain(failed));
        if let Some(unclaimed) = unclaimed {
            unclaimed.claim();
        }
        Ok(setup)
    }

    async fn resume_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        if let Some(fault) = self.settings.resume_fault {
            return Err(fault.error(&call.session));
        }
        let how = call.replay_from.as_deref().map(|cursor| self.replay_from(cursor)).transpose()?;
        let archived = self.archived(&call.session)?;
        let unclaimed = self.unclaimed(&call.session);
        let failed = self.connect(&call, &archived).await;
        let mut setup = self.restore(&archived);
        setup.afterwards.splice(0..0, failed);
        self.log(format_args!("resume {}", call.session));
        let always = self.settings.has(Quirk::ReplayOnResume).then_some(DemoReplayMode::Full);
        if let Some(how) = how.or(always) {
            let (before, after) = replay(archived, how);
            send(&link, &call.session, &before).await?;
            setup.afterwards.splice(0..0, after);
        }
        if let Some(unclaimed) = unclaimed {
            unclaimed.claim();
        }
        Ok(setup)
    }

    async fn list_sessions(&self, call: ListCall) -> Result<SessionPage, CallError> {
        let archived = self.archive.all().map_err(|error| CallError::NotListed { source: error.into() })?;
        Ok(archive::page(archived, &call, self.settings.page_size)?)
    }

    async fn close_session(&self, session: AcpSessionId) -> Result<(), CallError> {
        self.log(format_args!("close {session}"));
        self.servers.end(&session).await;
        self.live.lock().remove(&session);
        Ok(())
    }

    async fn delete_session(&self, session: AcpSessionId, _aside: CallExtras) -> Result<Meta, CallError> {
        self.log(format_args!("delete {session}"));
        self.servers.end(&session).await;
        self.live.lock().remove(&session);
        let removed = self.archive.remove(&session);
        removed.map(|()| Meta::new()).map_err(|error| CallError::NotDeleted { session, source: error.into() })
    }

    async fn set(&self, call: SetCall, _link: ClientLink) -> Result<String, CallError> {
        let SetChoice::Mode(mode) = &call.choice else { return Err(call.unknown_setting()) };
        if !MODES.contains(&mode.as_str()) {
            let problem = format!("is {mode:?}, and this session has the modes {}", MODES.join(", "));
            return Err(ParamProblem::new("modeId", problem).into());
        }
        // The mode of a session that is not archived yet stays in memory.
        if self.read(&call.session)?.is_some() {
            let line = ArchiveLine::Mode { mode: mode.clone(), at: now().to_string() };
            self.append_live(&call.session, &[line])?;
        }
        self.remember_mode(&call.session, mode);
        Ok("{}".to_owned())
    }

    async fn prompt(
        &self,
        call: PromptCall,
        cancellation: Cancellation,
        link: TurnLink,
    ) -> Result<PromptReply, CallError> {
        if cancellation.cause() == Some(CancelCause::Asked) {
            return Ok(StopReason::cancelled().into());
        }
        let live = self.known(&call.session)?;
        let turns = self.read(&call.session)?.map(|archived| archived.turns).unwrap_or_default();
        let message = user_message(turns.len());
        self.append_live(&call.session, &first_lines(&call, &live, turns.is_empty(), &message))?;
        link.inserted(&message, &Meta::new()).await;
        self.log(format_args!("prompt {}: {:?}", call.session, call.text));
        let mut turn = DemoTurn {
            session: call.session.clone(),
            cwd: live.cwd,
            earlier: turns.into_iter().map(|turn| turn.text).collect(),
            link,
            cancellation,
            sent: Vec::new(),
            mode: None,
            tools: 0,
            messages: 0,
            current: None,
            servers: self.servers.clone(),
            written: 0,
            text: call.text,
        };
        let ended = turn.perform(&steps(&turn.text.clone())).await;
        if let Some(mode) = &turn.mode {
            self.remember_mode(&call.session, mode);
        }
        let usage = turn.usage().to_string();
        self.append_live(&call.session, &last_lines(turn, ended.as_ref().ok()))?;
        ended.map(|reason| PromptReply { usage: Some(usage.into()), ..reason.into() })
    }
}

/// Lines to archive before a turn begins. The first turn includes a mode that was set before the file existed.
fn first_lines(call: &PromptCall, live: &DemoSession, is_first: bool, message: &str) -> Vec<ArchiveLine> {
    let at = now().to_string();
    let blocks = call.blocks.iter().map(|block| raw(block)).collect();
    let changed = is_first && live.mode != MODES[0];
    let mode = changed.then(|| ArchiveLine::Mode { mode: live.mode.clone(), at: at.clone() });
    let message_id = Some(message.to_owned());
    let prompt = ArchiveLine::Prompt { at, text: call.text.clone(), blocks, message_id };
    mode.into_iter().chain([prompt]).collect()
}

/// Lines to archive when a turn has ended.
fn last_lines(turn: DemoTurn, reason: Option<&StopReason>) -> Vec<ArchiveLine> {
    let at = now().to_string();
    let updates = turn.sent.iter().map(|update| ArchiveLine::Update(raw(update.as_json())));
    let mut lines: Vec<ArchiveLine> = updates.collect();
    lines.extend(turn.mode.map(|mode| ArchiveLine::Mode { mode, at: at.clone() }));
    lines.push(ArchiveLine::End { at, stop_reason: reason.map(|reason| reason.as_str().into()) });
    lines
}

/// Updates to send before the reply to a load, and updates to send after it.
fn replay(archived: ArchiveSession, how: DemoReplayMode) -> (Vec<UpdateBody>, Vec<UpdateBody>) {
    let mut turns = archived.turns;
    match how {
        DemoReplayMode::Full | DemoReplayMode::Late => {}
        DemoReplayMode::Partial => drop(turns.drain(..turns.len().saturating_sub(1))),
        DemoReplayMode::None => turns.clear(),
    }
    let mut updates: Vec<UpdateBody> = turns.into_iter().flat_map(|turn| turn.updates).collect();
    let late = if how == DemoReplayMode::Late { updates.split_off(updates.len() / 2) } else { Vec::new() };
    (updates, late)
}

async fn send(link: &ClientLink, session: &AcpSessionId, updates: &[UpdateBody]) -> Result<(), CallError> {
    for update in updates {
        let sent = link.update(session, update).await;
        sent.map_err(|source| CallError::NotSent { session: session.clone(), source })?;
    }
    Ok(())
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("content blocks and updates are JSON already")
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn now() -> Timestamp {
    Timestamp::since_1970(acpx_core::wire::since_1970())
}

/// Settings of one run of the demo agent.
#[derive(Debug)]
pub(crate) struct DemoAgentSettings {
    /// Where sessions are stored.
    pub(crate) directory: PathBuf,
    pub(crate) features: BTreeSet<Feature>,
    pub(crate) page_size: usize,
    pub(crate) load_fault: Option<RestoreFault>,
    pub(crate) resume_fault: Option<RestoreFault>,
    pub(crate) replay: DemoReplayMode,
    pub(crate) quirks: BTreeSet<Quirk>,
    pub(crate) mcp_limits: McpLimits,
}

/// What `session/load` replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoReplayMode {
    /// The whole conversation, before the answer
    Full,
    /// The first half before the answer, the rest after it
    Late,
    /// Only the last exchange
    Partial,
    /// Nothing
    None,
}

/// Optional behaviour of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quirk {
    ReplayOnResume,
    MaterialiseEarly,
    AgentSessionId,
    LateCommands,
    Verbose,
}

impl DemoAgentSettings {
    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }
}

/// How load or resume fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestoreFault {
    /// -32002 with the session's id, as the protocol says
    NotFound,
    /// -32002 and nothing more
    NotFoundPlain,
    /// -32603 with "Session not found" in its details
    NotFoundInternal,
    /// -32603 with "no rollout found for thread id …" in its details
    NoRollout,
    /// -32603 with the name of a service that failed
    #[value(help = "-32603 \"OpenCode service failure\"")]
    ServiceFailure,
    /// -32602 for a session id it does not like
    InvalidParams,
    /// -32600: another process writes to the session
    BusyActiveWriter,
    /// -31002: the session is already open
    BusyOpen,
    /// -32003: the session is active
    BusyActive,
    /// -32000: a login is needed first
    Auth,
    /// -32603 and nothing more
    Internal,
}

impl RestoreFault {
    /// The error for a request about this session.
    pub(crate) fn error(self, session: &AcpSessionId) -> CallError {
        let plain = |code, message: &str| CallError::PassedOn(RpcError::new(code, message));
        let with = |code, message: &str, data: Value| {
            CallError::PassedOn(RpcError::new(code, message).with_data(&data.to_string()))
        };
        match self {
            Self::NotFound => CallError::UnknownSession(session.clone()),
            Self::NotFoundPlain => plain(RpcError::RESOURCE_NOT_FOUND, "Resource not found"),
            Self::NotFoundInternal => broken("Session not found"),
            Self::NoRollout => broken(&format!("no rollout found for thread id {session}")),
            Self::ServiceFailure => plain(RpcError::INTERNAL, "OpenCode service failure"),
            Self::InvalidParams => ParamProblem::new("sessionId", "is unknown").into(),
            Self::BusyActiveWriter => with(
                RpcError::INVALID_REQUEST,
                "Invalid request: the thread has an active writer",
                json!({ "reason": "thread_active_writer" }),
            ),
            Self::BusyOpen => plain(-31002, "Session is already open"),
            Self::BusyActive => plain(-32003, "Session is active"),
            Self::Auth => plain(RpcError::AUTH_REQUIRED, "Authentication required"),
            Self::Internal => plain(RpcError::INTERNAL, "Internal error"),
        }
    }
}

/// The -32603 error with these details that many agents use for internal failures.
pub(super) fn broken(details: &str) -> CallError {
    let data = json!({ "details": details });
    CallError::PassedOn(RpcError::new(RpcError::INTERNAL, "Internal error").with_data(&data.to_string()))
}
