//! Serves an agent's file and terminal requests: resolves the path, then, with permission, executes. Terminal output is
//! stored as it arrives, each piece once. So polls of a terminal's output are answered without being stored, except for
//! the answer that reports the exit.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::acp::client::{PermissionRequest, RedactedLine, TerminalRequest, ToolAnswer, ToolRequest};
use crate::model::{AbsolutePath, PreviousContent, RecordId};
use crate::tools::{
    CommandLine, Environment, GracePeriods, RECORD_VARIABLE, RootedPath, Spawner, TerminalProcess,
    TerminalView, TerminationOutcome,
};
use crate::wire::RpcError;

use super::run::{ToolJobKind, ToolOutcome, ToolRequestOrigin, Tools, unusable};
use super::terminal_output::status;
use crate::engine::permissions::request::{ClientDecision, ClientOffer};

/// A file or terminal request of an agent.
pub(crate) struct PendingTool {
    pub(crate) request: ToolRequest,
    /// The request's params, unchanged.
    pub(crate) params: Arc<str>,
    /// Its line, if it is not persisted yet.
    pub(crate) line: Option<RedactedLine>,
    /// The resolved path.
    pub(crate) located: Option<RootedPath>,
    /// The file's content, if a client is asked for permission.
    pub(crate) old: Option<PreviousContent>,
    /// The permission request for it.
    pub(crate) question: Option<PermissionRequest>,
}

impl PendingTool {
    pub(crate) fn new(request: ToolRequest, params: Arc<str>) -> Self {
        Self { request, params, line: None, located: None, old: None, question: None }
    }

    /// Whether it polls a terminal's output.
    pub(crate) fn is_poll(&self) -> bool {
        matches!(self.request, ToolRequest::Output(_))
    }

    /// The client capability that makes asking unnecessary.
    pub(crate) fn offer(&self) -> Option<ClientOffer> {
        match self.request {
            ToolRequest::Read { .. } => Some(ClientOffer::Reading),
            ToolRequest::Write { .. } => Some(ClientOffer::Writing),
            ToolRequest::Create(_) => Some(ClientOffer::Terminals),
            _ => None,
        }
    }
}

/// What a command of the agent is started with.
pub(crate) struct CommandContext<'a> {
    pub(crate) spawner: &'a Spawner,
    pub(crate) environment: &'a Environment,
    pub(crate) record: &'a RecordId,
    pub(crate) grace: GracePeriods,
    pub(crate) terminal_bytes: Option<usize>,
}

/// The reply to a permitted request.
pub(crate) enum ToolReply {
    /// A job replies later.
    Later,
    Now(Result<ToolAnswer, RpcError>),
    /// Output that is already stored; the reply is not.
    Unpersisted(ToolAnswer),
}

impl Tools {
    /// Whether there is room for another job of this call's kind.
    pub(crate) fn has_room_for(&self, call: &PendingTool) -> bool {
        self.has_room(match call.request {
            ToolRequest::Output(_) => return true,
            ToolRequest::WaitForExit(_) => ToolJobKind::Wait,
            ToolRequest::Kill(_) | ToolRequest::Release(_) => ToolJobKind::End,
            _ => ToolJobKind::Work,
        })
    }

    /// Checks the path of a call in a job, and with `shown` reads what a write would replace. Returns whether the call
    /// has a path.
    pub(crate) fn check(
        &mut self,
        origin: ToolRequestOrigin,
        call: &PendingTool,
        cwd: &AbsolutePath,
        shown: bool,
    ) -> bool {
        let (path, length) = match &call.request {
            ToolRequest::Read { path, .. } => (path.clone(), 0),
            ToolRequest::Write { path, content, .. } => (path.clone(), content.len()),
            ToolRequest::Create(TerminalRequest { cwd: Some(cwd), .. }) => (cwd.clone(), 0),
            ToolRequest::Create(_) => (cwd.to_string(), 0),
            _ => return false,
        };
        self.check_path(origin, path, length, shown);
        true
    }

    /// Executes a permitted call. A client that was asked for a file may serve it, because it may have unsaved changes.
    pub(crate) fn execute(
        &mut self,
        origin: ToolRequestOrigin,
        call: PendingTool,
        client: Option<oneshot::Receiver<ClientDecision>>,
        context: &CommandContext<'_>,
    ) -> ToolReply {
        let PendingTool { request, located, old: shown, .. } = call;
        match request {
            ToolRequest::Read { .. } | ToolRequest::Write { .. } => {
                if let (Some(path), Some(client)) = (located, client) {
                    self.serve_file(origin, request, path, shown, client);
                }
                ToolReply::Later
            }
            ToolRequest::Create(request) => match located {
                Some(cwd) => self.start_terminal(origin, request, &cwd, context),
                None => ToolReply::Later,
            },
            ToolRequest::Output(id) => self.show_terminal(&id),
            ToolRequest::WaitForExit(id) => {
                let Some(running) = self.terminal(&id) else { return ToolReply::Now(Err(no_terminal(&id))) };
                let exited = running.terminal.exited();
                self.begin(origin, ToolJobKind::Wait, async {
                    let exit = exited.await.as_ref().map(status).unwrap_or_default();
                    ToolOutcome::Ended(id, ToolAnswer::Exited(exit))
                });
                ToolReply::Later
            }
            ToolRequest::Kill(id) => self.end_terminal(origin, id, false, context.grace),
            ToolRequest::Release(id) => self.end_terminal(origin, id, true, context.grace),
        }
    }

    fn start_terminal(
        &mut self,
        origin: ToolRequestOrigin,
        request: TerminalRequest,
        cwd: &RootedPath,
        context: &CommandContext<'_>,
    ) -> ToolReply {
        if !self.make_room_for_terminal(origin.turn) {
            return ToolReply::Now(Err(unusable("too many terminals; release those that are done with")));
        }
        let TerminalRequest { command, args, env, output_bytes, .. } = request;
        let (cwd, most_output_bytes) = (cwd.real_path(), context.terminal_bytes);
        let line = CommandLine { command, args, env, cwd, output_bytes, most_output_bytes };
        let (spawner, grace) = (context.spawner.clone(), context.grace);
        let environment = context.environment.clone().with(RECORD_VARIABLE, context.record.as_str());
        let changed = Arc::clone(&self.changed);
        self.begin(origin, ToolJobKind::Start, async move {
            match TerminalProcess::start(&spawner, &line, &environment, grace, changed).await {
                Ok(terminal) => ToolOutcome::Started(Box::new((line.to_string(), terminal))),
                Err(error) => ToolOutcome::Answered(Err(unusable(&error.to_string()))),
            }
        });
        ToolReply::Later
    }

    /// A terminal's output. The output itself is already stored, so the reply is stored only once, when the command has
    /// ended.
    fn show_terminal(&mut self, id: &str) -> ToolReply {
        let Some(running) = self.terminal(id) else { return ToolReply::Now(Err(no_terminal(id))) };
        let TerminalView { output, is_cut: truncated, exit } = running.terminal.shown();
        let is_kept = exit.is_some() && !std::mem::replace(&mut running.is_reported, exit.is_some());
        let answer = ToolAnswer::Shown { output, truncated, exit: exit.as_ref().map(status) };
        if is_kept { ToolReply::Now(Ok(answer)) } else { ToolReply::Unpersisted(answer) }
    }

    /// Ends a terminal's command, and removes the terminal if it is released. Releasing an unknown terminal succeeds,
    /// so an agent may release one repeatedly.
    fn end_terminal(
        &mut self,
        origin: ToolRequestOrigin,
        id: Box<str>,
        is_released: bool,
        grace: GracePeriods,
    ) -> ToolReply {
        let Some(running) = self.terminal(&id) else {
            return ToolReply::Now(if is_released { Ok(ToolAnswer::Done) } else { Err(no_terminal(&id)) });
        };
        let terminal = Arc::clone(&running.terminal);
        self.begin(origin, ToolJobKind::End, async move {
            let _ended: TerminationOutcome = terminal.kill(grace).await;
            if is_released {
                ToolOutcome::Ended(id, ToolAnswer::Done)
            } else {
                ToolOutcome::Answered(Ok(ToolAnswer::Done))
            }
        });
        ToolReply::Later
    }
}

fn no_terminal(id: &str) -> RpcError {
    let data = serde_json::json!({ "terminalId": id });
    RpcError::new(RpcError::RESOURCE_NOT_FOUND, format!("there is no terminal {id}"))
        .with_data(&data.to_string())
}
