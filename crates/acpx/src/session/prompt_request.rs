//! A prompt as a command submits it, and the one result that the command makes of every outcome.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::model::{
    AgentError, ErrorCode, FactError, PermissionCount, PermissionPolicy, RequestId, SessionIdentity,
    SpendingLimits, StopReason, Turn, TurnError, TurnLimits, WakeOptions,
};
use acpx_core::protocol::meta::{CancelMeta, PromptMeta, TurnMeta, TurnTermsMeta};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::denial::DenialContext;
use super::host_session::PromptOutcome;
use super::settings::CommandSettings;
use crate::cli::PromptAttachment;
use crate::cli::Wait;
use crate::config::environment;
use crate::error::InterruptReason;
use crate::error::{CliError, CliExit, ErrorReport, cli_hint, login_hint};
use crate::output::{PromptResult, ResultIds, TimeoutCause, TurnStatus};

/// A prompt to be sent.
pub(crate) struct PromptSubmission {
    blocks: Box<RawValue>,
    /// The display name of the agent.
    agent: String,
    /// Our request id for it.
    pub(crate) request: RequestId,
    policy: PermissionPolicy,
    /// Whether a person can answer permission requests.
    interactive: bool,
    wake: WakeOptions,
    /// How long the turn may take, and how long the agent may be silent.
    limits: TurnLimits,
    /// Whether to wait for the answer.
    pub(crate) wait: Wait,
}

/// A command's result and exit code.
pub(crate) struct PromptCompletion {
    pub(crate) result: PromptResult,
    pub(crate) exit: CliExit,
}

/// The params of `session/prompt`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostPromptParams<'a> {
    session_id: &'a str,
    prompt: &'a RawValue,
    #[serde(rename = "_meta")]
    meta: AcpxMeta<PromptMeta>,
}

/// The params of `session/cancel`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelParams<'a> {
    session_id: &'a str,
    #[serde(rename = "_meta")]
    meta: AcpxMeta<CancelMeta>,
}

/// The `acpx` member of `_meta`.
#[derive(Serialize, Deserialize)]
pub(crate) struct AcpxMeta<T> {
    pub(crate) acpx: T,
}

/// The host's reply to a prompt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostPromptAnswer {
    stop_reason: String,
    #[serde(default)]
    usage: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: AcpxMeta<TurnMeta>,
}

impl PromptSubmission {
    /// A prompt of these content blocks.
    pub(crate) fn new(
        blocks: &Arc<str>,
        settings: &CommandSettings,
        policy: &PermissionPolicy,
        wake: WakeOptions,
        wait: Wait,
    ) -> Result<Self, CliError> {
        let blocks = RawValue::from_string(blocks.to_string())
            .map_err(|_| acpx_core::engine::PromptProblem::NoBlocks)?;
        if let Some(limit) = environment::request_bytes()?.filter(|limit| blocks.get().len() > *limit) {
            let bytes = blocks.get().len();
            return Err(CliError::PromptTooLarge { bytes, limit });
        }
        let request = RequestId::new(acpx_core::wire::new_uuid().to_string()).expect("a UUID is not empty");
        let (agent, policy) = (settings.agent.label().into_owned(), policy.clone());
        let limits = settings.limits();
        Ok(Self { blocks, agent, request, policy, interactive: false, wake, limits, wait })
    }

    /// Lowers its limits of usage to others.
    pub(crate) fn within(mut self, limits: &SpendingLimits) -> Self {
        self.limits.spending = self.limits.spending.within(limits);
        self
    }

    /// An empty prompt, for tests.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            blocks: RawValue::from_string("[]".to_owned()).unwrap(),
            agent: "demo".to_owned(),
            request: RequestId::new("r").unwrap(),
            policy: PermissionPolicy::default(),
            interactive: false,
            wake: WakeOptions::default(),
            limits: TurnLimits::default(),
            wait: Wait::ForAnswer,
        }
    }

    /// Uses this request id, if one is given.
    pub(crate) fn with_request(mut self, request: Option<RequestId>) -> Self {
        self.request = request.unwrap_or(self.request);
        self
    }

    /// Whether a turn has the same content blocks.
    pub(crate) fn is_prompt_of(&self, turn: &Turn) -> bool {
        let ours = serde_json::from_str::<Vec<&RawValue>>(self.blocks.get());
        let stored = serde_json::from_str::<Vec<&RawValue>>(&turn.prompt);
        let (Ok(ours), Ok(stored)) = (ours, stored) else { return false };
        ours.iter().map(|block| block.get()).eq(stored.iter().map(|block| block.get()))
    }

    /// Addresses the prompt to the agent of a session, which may differ from the configured one.
    pub(crate) fn for_agent(self, agent: &str) -> Self {
        Self { agent: agent.to_owned(), ..self }
    }

    /// The same with these options of restoring the session.
    pub(crate) fn with_wake_options(self, wake: WakeOptions) -> Self {
        Self { wake, ..self }
    }

    /// Whether a person can answer the agent's requests.
    pub(crate) fn interactive(self, interactive: bool) -> Self {
        Self { interactive, ..self }
    }

    /// The permission terms of the turn; `is_kept` is whether it is recorded.
    pub(crate) fn permission_terms(&self, is_kept: bool) -> DenialContext<'_> {
        DenialContext { policy: &self.policy, interactive: self.interactive, is_kept }
    }

    /// The params of `session/prompt`, when `spent` of the time limit has passed.
    pub(crate) fn params<'a>(&'a self, record: &'a str, spent: Option<Duration>) -> HostPromptParams<'a> {
        let PermissionPolicy { mode, ref tools, unasked } = self.policy;
        let meta = PromptMeta {
            request_id: Some(self.request.to_string()),
            terms: TurnTermsMeta::of(Some(mode), tools.as_deref(), Some(unasked), self.limits.clone()),
            interactive: Some(self.interactive),
            spent_ms: spent.map(|spent| u64::try_from(spent.as_millis()).unwrap_or(u64::MAX)),
            answer_at_limit: true,
            wishes: self.wake.into(),
        };
        HostPromptParams { session_id: record, prompt: &self.blocks, meta: AcpxMeta { acpx: meta } }
    }

    /// The params of `session/cancel` for it.
    pub(crate) fn cancel_params<'a>(&self, record: &'a str) -> CancelParams<'a> {
        let meta = CancelMeta { request_id: Some(self.request.to_string()) };
        CancelParams { session_id: record, meta: AcpxMeta { acpx: meta } }
    }

    /// The result of a reply, or of the turn's failure; `None` if the reply cannot be read as one.
    pub(crate) fn ending(&self, outcome: &PromptOutcome, ids: ResultIds) -> Option<PromptCompletion> {
        let (result, stop) = match outcome {
            PromptOutcome::Queued | PromptOutcome::Unshown(_) | PromptOutcome::Detached { .. } => {
                return None;
            }
            PromptOutcome::Answered(answer, stop) => (self.answered(answer, ids)?, *stop),
            PromptOutcome::Failed(refusal, stop) => {
                let status = match refusal.code() {
                    ErrorCode::Interrupted => TurnStatus::Interrupted,
                    _ => TurnStatus::Failed,
                };
                let mut result = PromptResult::new(ids, self.request.clone(), status);
                let mut error =
                    ErrorReport::of_turn(refusal.code().clone(), refusal.to_string(), refusal.acp());
                error.hint = cli_hint(refusal.code(), refusal.hint());
                result.error = Some(error);
                result.add_turn(refusal.turn()?);
                (result, *stop)
            }
        };
        Some(PromptCompletion::new(result, stop, &self.agent))
    }

    fn answered(&self, answer: &str, ids: ResultIds) -> Option<PromptResult> {
        let HostPromptAnswer { stop_reason, usage, mut meta } = serde_json::from_str(answer).ok()?;
        let stop_reason = meta.acpx.stop_reason.take().unwrap_or(stop_reason);
        let cancelled = stop_reason == StopReason::cancelled().as_str();
        let status = if cancelled { TurnStatus::Cancelled } else { TurnStatus::Completed };
        let mut result = PromptResult::new(ids, self.request.clone(), status);
        match meta.acpx.limit.take() {
            Some(FactError { code, message }) => {
                result.status = TurnStatus::Failed;
                result.error = Some(ErrorReport::of_turn(code, message, None));
            }
            None => result.stop_reason = Some(stop_reason),
        }
        result.usage = usage;
        result.add_turn(&meta.acpx);
        Some(result)
    }
}

impl PromptCompletion {
    /// The result of a stored turn, for a command that lost its host.
    pub(crate) fn stored(turn: &Turn, identity: SessionIdentity) -> Self {
        let result = PromptResult::of_turn(identity.into(), turn).with_denial();
        Self { exit: result.exit(), result }
    }

    /// Exits by the agent's stop reason where nothing else decides the exit code.
    pub(crate) fn by_stop_reason(self, is_wanted: bool) -> Self {
        match &self.result.stop_reason {
            Some(reason) if is_wanted && self.exit == CliExit::Success => {
                Self { exit: CliExit::of_stop_reason(reason), ..self }
            }
            _ => self,
        }
    }

    fn new(mut result: PromptResult, stop: Option<InterruptReason>, agent: &str) -> Self {
        match stop {
            None => {
                let result = result.with_denial();
                Self { exit: result.exit(), result }
            }
            Some(InterruptReason::Signalled | InterruptReason::Terminated | InterruptReason::HungUp) => {
                Self { result, exit: CliExit::Interrupted }
            }
            Some(InterruptReason::TimedOut(limit)) => {
                result.status = TurnStatus::Failed;
                let TurnError { code, message, .. } = TurnError::took_too_long(agent, limit);
                result.error = Some(ErrorReport::of_turn(code, message.into(), None));
                Self { exit: CliExit::Timeout, result }
            }
        }
    }
}

impl PromptResult {
    /// Corrects the hints where nothing is recorded.
    pub(crate) fn explain_missing_record(&mut self) {
        if let Some(error) = &mut self.error
            && let Some(hint) = error.code.hint_without_record()
        {
            error.hint = Some(hint.to_owned());
        }
    }

    /// Corrects the hint if the agent needs a login, sent nothing before the timeout, which may also mean a missing
    /// login, or waited for a person. `agent` is the agent as typed on a command line.
    pub(crate) fn explain_timeout(&mut self, agent: &str, missing: Option<TimeoutCause>) {
        let Some(error) = &mut self.error else { return };
        match &error.code {
            ErrorCode::AuthRequired if error.hint.as_deref() == Some(AgentError::LOGIN_FIRST) => {}
            ErrorCode::AuthRequired => error.hint = Some(login_hint(agent)),
            code @ (ErrorCode::Timeout | ErrorCode::IdleTimeout) => {
                let flag = if *code == ErrorCode::Timeout { "--timeout" } else { "--idle-timeout" };
                error.hint = match missing {
                    None => return,
                    Some(TimeoutCause::Sign) => Some(format!(
                        "the agent said nothing at all: it may lack a login, which acpx {agent} auth shows, or need more time, with {flag}"
                    )),
                    Some(TimeoutCause::Answer) => Some(format!(
                        "it waited for an answer: acpx pending lists open requests, and acpx approve or acpx deny answers them; {flag} gives it more time"
                    )),
                };
            }
            _ => {}
        }
    }

    /// Adds to a timed-out turn that not all of it is shown, and how to replay the rest; `None` if nothing is recorded.
    pub(crate) fn add_replay_hint(&mut self, replay: Option<&str>) {
        let Some(error) = self.error.as_mut().filter(|error| error.code == ErrorCode::Timeout) else {
            return;
        };
        let rest = match replay {
            Some(replay) => format!("what was said beyond this is kept: {replay}"),
            None => "what was said beyond this is not shown, and nothing of it is kept".to_owned(),
        };
        let hint = error.hint.get_or_insert_default();
        *hint = if hint.is_empty() { rest } else { format!("{hint}; {rest}") };
    }

    /// Corrects the hint if the agent does not support an attached file.
    pub(crate) fn add_attachment_hint(&mut self, attachments: &[PromptAttachment]) {
        let Some(error) = self.error.as_mut().filter(|error| error.code == ErrorCode::ContentUnsupported)
        else {
            return;
        };
        let typed = attachments.iter().map(PromptAttachment::typed);
        let refused = typed.filter(|(_, capability)| error.message.ends_with(capability));
        let flags: Vec<String> = refused.map(|(flag, _)| flag).collect();
        if !flags.is_empty() {
            error.hint =
                Some(format!("leave {} out, and write in the prompt where it is", flags.join(" and ")));
        }
    }

    /// Adds what is known of the turn.
    fn add_turn(&mut self, turn: &TurnMeta) {
        self.duration_ms = turn.duration_ms;
        self.usage = turn.usage.as_ref().and_then(|usage| to_raw_value(usage).ok()).or(self.usage.take());
        self.permissions = PermissionCount { approved: turn.approved, rejected: turn.rejected };
    }
}

/// How a command ends whose work is done, whether or not it could be shown. A closed pipe is no error; any other write
/// error is, and `fate` names what became of the work.
pub(crate) fn done(shown: io::Result<()>, exit: CliExit, fate: &'static str) -> Result<ExitCode, CliError> {
    match shown {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Unshown { source, fate }),
        _ => Ok(exit.into()),
    }
}

/// The ids in the host's reply to a prompt.
pub(crate) fn ids_of_outcome(outcome: &PromptOutcome) -> Option<SessionIdentity> {
    match outcome {
        PromptOutcome::Queued | PromptOutcome::Unshown(_) | PromptOutcome::Detached { .. } => None,
        PromptOutcome::Answered(answer, _) => {
            let answer: HostPromptAnswer = serde_json::from_str(answer).ok()?;
            answer.meta.acpx.ids
        }
        PromptOutcome::Failed(refusal, _) => refusal.turn()?.ids.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_out_turn_says_how_to_replay_the_rest() {
        let hints = |code: &str, replay| {
            let request = RequestId::new("r").unwrap();
            let mut result = PromptResult::new(ResultIds::default(), request, TurnStatus::Failed);
            result.error = Some(ErrorReport::of_turn(code.into(), "m".to_owned(), None));
            result.add_replay_hint(replay);
            result.error.and_then(|error| error.hint)
        };
        let more = "give it more time with --timeout; what was said beyond this is";
        let (stored, lost) =
            (format!("{more} kept: acpx x"), format!("{more} not shown, and nothing of it is kept"));
        assert_eq!(hints("TIMEOUT", Some("acpx x")), Some(stored));
        assert_eq!(hints("TIMEOUT", None), Some(lost));
        // An unsent turn has no output.
        assert_eq!(hints("AGENT_DIED", Some("acpx x")).as_deref(), ErrorCode::AgentDied.hint());
    }
}
