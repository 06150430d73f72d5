//! Performs the steps of one turn: sends updates, waits, requests permissions, and records the updates for the archive.

use std::io::{self, Write};
use std::time::Duration;

use acpx_core::acp::agent::{
    CallError, CancelCause, Cancellation, ClientRequestError, PermissionOption, PermissionOptionKind,
    PermissionOutcome, PlanItem, PlanStatus, ToolCallKind, ToolCallStatus, ToolOutput, ToolPermissionRequest,
    ToolReport, TurnLink, UpdateBody,
};
use acpx_core::model::{AbsolutePath, AcpSessionId, StopReason};
use serde_json::{Value, json};

use super::servers::SessionServers;
use super::service::broken;
use super::words::DemoStep;

/// The exit code of a requested crash.
const CRASHED: i32 = 70;
/// How long a crash waits for the client to take the last chunk.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How many characters count as a token.
const CHARS_PER_TOKEN: usize = 4;
/// The option that allows an edit.
const ALLOW: &str = "allow";

/// A running turn.
pub(super) struct DemoTurn {
    pub(super) session: AcpSessionId,
    pub(super) cwd: AbsolutePath,
    pub(super) text: String,
    /// The prompts before this one.
    pub(super) earlier: Vec<String>,
    pub(super) link: TurnLink,
    pub(super) cancellation: Cancellation,
    /// Updates sent so far, to be archived.
    pub(super) sent: Vec<UpdateBody>,
    /// The mode that the turn switched to, to be archived.
    pub(super) mode: Option<String>,
    pub(super) tools: usize,
    /// Number of messages begun so far.
    pub(super) messages: usize,
    /// The kind of the current message; `None` if the next text starts a new one.
    pub(super) current: Option<DemoMessageKind>,
    pub(super) servers: SessionServers,
    /// Number of characters that it has written.
    pub(super) written: usize,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemoMessageKind {
    Aloud,
    Thought,
}

/// Why a turn stops before its last step.
pub(super) enum DemoTurnStop {
    Because(StopReason),
    Failed(CallError),
}

/// Why a tool call is not made, in words that follow its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallRefusal {
    #[error("rejected")]
    Rejected,
    #[error("not made: {0}")]
    NotAsked(ClientRequestError),
}

impl DemoTurn {
    /// Performs the steps and returns the stop reason.
    pub(super) async fn perform(&mut self, steps: &[DemoStep]) -> Result<StopReason, CallError> {
        for step in steps {
            // A disconnected client does not stop a turn that needs nothing from it.
            if self.cancellation.cause() == Some(CancelCause::Asked) {
                return Ok(StopReason::cancelled());
            }
            match self.step(step).await {
                Ok(()) => {}
                Err(DemoTurnStop::Because(reason)) => return Ok(reason),
                Err(DemoTurnStop::Failed(error)) => return Err(error),
            }
        }
        Ok(StopReason::new("end_turn"))
    }

    async fn step(&mut self, step: &DemoStep) -> Result<(), DemoTurnStop> {
        match step {
            DemoStep::Echo => self.send_text(format!("You said: {}", self.text)).await,
            DemoStep::Chunks(count) => return self.chunks(*count).await,
            DemoStep::Think => self.think(format!("Thinking about: {}", self.text)).await,
            DemoStep::Plan => self.plan().await,
            DemoStep::Tool => self.tool().await,
            DemoStep::Permission => return self.permission().await,
            DemoStep::Mode(mode) => self.go_into(mode).await,
            DemoStep::WaitUntilCancelled => {
                self.send_text("Waiting until cancelled.\n").await;
                self.cancellation.requested().await;
                return Err(DemoTurnStop::Because(StopReason::cancelled()));
            }
            DemoStep::Wait(time) => return self.wait(*time).await,
            DemoStep::Recall => self.recall().await,
            DemoStep::McpServers => self.list_servers().await,
            DemoStep::McpTools(server) => self.list_tools(server).await,
            DemoStep::McpCall(call) => return self.call_mcp_tool(call).await,
            DemoStep::Refuse => {
                self.send_text("I will not do that.").await;
                return Err(DemoTurnStop::Because(StopReason::new("refusal")));
            }
            DemoStep::Fail => return Err(DemoTurnStop::Failed(broken("the prompt asked for a failure"))),
            DemoStep::Crash => self.crash().await,
        }
        Ok(())
    }

    async fn chunks(&mut self, count: u32) -> Result<(), DemoTurnStop> {
        for number in 1..=count {
            if self.cancellation.cause() == Some(CancelCause::Asked) {
                return Err(DemoTurnStop::Because(StopReason::cancelled()));
            }
            self.send_text(format!("chunk {number} of {count}\n")).await;
        }
        Ok(())
    }

    async fn plan(&mut self) {
        let plan = |first, second| {
            let item = |text: &str, status| PlanItem { text: text.into(), status };
            UpdateBody::plan([item("Read the prompt", first), item("Answer it", second)])
        };
        self.send_update(plan(PlanStatus::InProgress, PlanStatus::Pending)).await;
        self.send_update(plan(PlanStatus::Completed, PlanStatus::Completed)).await;
    }

    async fn tool(&mut self) {
        let id = self.next_tool();
        let report = || ToolReport::new(id.clone());
        let call = report().title("Read notes.txt").kind(ToolCallKind::Read).status(ToolCallStatus::Pending);
        self.send_update(UpdateBody::tool_call(call)).await;
        self.send_update(UpdateBody::tool_call_update(report().status(ToolCallStatus::InProgress))).await;
        let output = ToolOutput::Text("one note: all is well".into());
        let done = report().status(ToolCallStatus::Completed).output(output);
        self.send_update(UpdateBody::tool_call_update(done)).await;
    }

    /// Simulates an edit: no file changes, but the client sees a complete tool call.
    async fn permission(&mut self) -> Result<(), DemoTurnStop> {
        let id = self.next_tool();
        let report = || ToolReport::new(id.clone());
        let call = report().title("Edit notes.txt").kind(ToolCallKind::Edit).status(ToolCallStatus::Pending);
        // The person who decides sees the change.
        let call = call.output(self.edit());
        match self.ask(call).await? {
            Ok(()) => {
                self.send_update(UpdateBody::tool_call_update(report().status(ToolCallStatus::InProgress)))
                    .await;
                let done = report().status(ToolCallStatus::Completed);
                self.send_update(UpdateBody::tool_call_update(done)).await;
                self.send_text("The edit was made.\n").await;
            }
            Err(refusal) => self.send_text(format!("The edit was {refusal}.\n")).await,
        }
        Ok(())
    }

    /// Reports a tool call and requests permission for it; reports the call as failed if it is refused.
    pub(super) async fn ask(&mut self, call: ToolReport) -> Result<Result<(), CallRefusal>, DemoTurnStop> {
        let failed = ToolReport::new(call.id()).status(ToolCallStatus::Failed);
        self.send_update(UpdateBody::tool_call(call.clone())).await;
        let option = |id: &str, name: &str, kind| PermissionOption { id: id.into(), name: name.into(), kind };
        let ask = ToolPermissionRequest {
            session: self.session.clone(),
            tool_call: call,
            options: vec![
                option(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
                option("reject", "Reject", PermissionOptionKind::RejectOnce),
            ],
        };
        let refusal = match self.link.request_permission(&ask, &mut self.cancellation).await {
            Ok(PermissionOutcome::Selected(choice)) if choice == ALLOW => return Ok(Ok(())),
            Ok(PermissionOutcome::Selected(_) | PermissionOutcome::Unknown) => Some(CallRefusal::Rejected),
            Ok(PermissionOutcome::Cancelled) => None,
            Err(error) => Some(CallRefusal::NotAsked(error)),
        };
        self.send_update(UpdateBody::tool_call_update(failed)).await;
        refusal.map(Err).ok_or_else(|| DemoTurnStop::Because(StopReason::cancelled()))
    }

    fn edit(&self) -> ToolOutput {
        let path = format!("{}/notes.txt", self.cwd.as_str().trim_end_matches('/'));
        let new = "one note: all is well\nanother note: it was edited\n".to_owned();
        match AbsolutePath::new(path) {
            Ok(path) => ToolOutput::Diff { path, old: Some("one note: all is well\n".into()), new },
            Err(_) => ToolOutput::Text(new),
        }
    }

    async fn go_into(&mut self, mode: &str) {
        if !super::service::MODES.contains(&mode) {
            return self.send_text(format!("There is no mode {mode}.\n")).await;
        }
        self.mode = Some(mode.into());
        // The archive stores the mode separately, so this update is not recorded. A disconnected client misses it.
        self.link.update(&self.session, &UpdateBody::current_mode(mode)).await.ok();
    }

    async fn wait(&mut self, time: Duration) -> Result<(), DemoTurnStop> {
        self.send_text(format!("Waiting {} ms.\n", time.as_millis())).await;
        tokio::select! {
            _ = self.cancellation.requested() => Err(DemoTurnStop::Because(StopReason::cancelled())),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }

    async fn recall(&mut self) {
        if self.earlier.is_empty() {
            return self.send_text("You said nothing before.").await;
        }
        let numbered = |(index, prompt): (usize, &String)| format!("\n{}. {prompt}", index + 1);
        let list: String = self.earlier.iter().enumerate().map(numbered).collect();
        self.send_text(format!("You said before:{list}")).await;
    }

    #[expect(clippy::disallowed_methods, reason = "dying in mid-turn is what the prompt asked for")]
    async fn crash(&mut self) {
        self.servers.kill_all();
        self.send_text(format!("You said: {}", self.text)).await;
        tokio::time::timeout(LAST_WORDS, self.link.close()).await.ok();
        writeln!(io::stderr(), "acpx demo-agent: the prompt asked for a crash").ok();
        std::process::exit(CRASHED);
    }

    /// What the turn used: one token for each four characters of the conversation's prompts and of its own text. The
    /// same prompts always have the same usage.
    pub(super) fn usage(&self) -> Value {
        let prompts = self.earlier.iter().chain([&self.text]);
        let input = prompts.map(|prompt| prompt.chars().count()).sum::<usize>().div_ceil(CHARS_PER_TOKEN);
        let output = self.written.div_ceil(CHARS_PER_TOKEN);
        json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output })
    }

    pub(super) async fn send_text(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.written += text.chars().count();
        let message = self.message(DemoMessageKind::Aloud);
        self.send(UpdateBody::agent_text(text).in_message(&message)).await;
    }

    async fn think(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.written += text.chars().count();
        let message = self.message(DemoMessageKind::Thought);
        self.send(UpdateBody::thought(text).in_message(&message)).await;
    }

    /// Sends an update that is not part of a message. Text after it starts a new message.
    pub(super) async fn send_update(&mut self, update: UpdateBody) {
        self.current = None;
        self.send(update).await;
    }

    /// Sends an update and records it. A disconnected client misses it; the turn continues.
    async fn send(&mut self, update: UpdateBody) {
        self.link.update(&self.session, &update).await.ok();
        self.sent.push(update);
    }

    /// The id of the current message, derived from its position like tool call ids.
    fn message(&mut self, kind: DemoMessageKind) -> String {
        if self.current != Some(kind) {
            self.current = Some(kind);
            self.messages += 1;
        }
        format!("agent-{}-{}", self.earlier.len() + 1, self.messages)
    }

    /// Ids derive from the turn's position in the session, so they are the same in every run.
    pub(super) fn next_tool(&mut self) -> String {
        self.tools += 1;
        format!("call-{}-{}", self.earlier.len() + 1, self.tools)
    }
}
