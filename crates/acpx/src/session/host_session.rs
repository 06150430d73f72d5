//! A command's exchange with the host: sends its requests, shows events in order, and handles interrupts.
//!
//! An interrupt cancels the turn and waits for its end, so that the output shows how it ended; a second signal exits at
//! once. SIGTERM ends only the `prompt` command and leaves its turn running. Signals and the time limit are handled
//! during every request. A host that is silent for long is probed over the same connection. If it does not answer the
//! probe, the command fails and the turn continues in the host: only its user cancels it.
//!
//! An unwritable stdout does not stop a prompt: the turn continues in the host without being shown.

mod pending_notices;
mod person;
mod showing;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::client::HostClient;
use acpx_core::host::RecordEvents;
use acpx_core::model::{AgentSpec, RecordId, Seq, Turn};
use acpx_core::protocol::meta::WaitReasonAnswer;
use acpx_core::protocol::{HostError, HostErrorResponse, HostMessage, WatchedEvent};
use acpx_core::store::{Store, StoreError};
use acpx_core::wire::RpcId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::pending_notices::PendingNotices;
use self::person::answered;
use self::showing::SessionDisplay;
use super::host_locator::HostLocator;
use super::interrupt::{EXPLANATION, InterruptWatcher, SLOW, STILL_SLOW};
use super::prompt_request::PromptSubmission;
use crate::cli::Wait;
use crate::error::{CliError, InterruptReason};
use crate::output::{Console, FollowView, awaited};
use crate::terminal::prompt::TerminalPrompter;

/// Shown for a prompt that is not sent at once.
const QUEUED: &str = "the prompt is queued behind earlier turns; see acpx queue list and acpx pending";
/// How long a cancelled turn may take to end. The host kills an agent that does not stop sooner.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the end of a turn that can no longer be shown.
const UNSHOWN_CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the host may be silent before it is probed: turns may take hours.
const SILENCE: Duration = Duration::from_secs(20);
/// How long the host may take to answer a probe. It may be suspended, or blocked on its disk.
const PROBE_TIMEOUT: Duration = Duration::from_mins(2);
/// How many messages in a row may delay the handling of a signal.
const BURST: usize = 256;
/// How often a request is retried because the host disconnected.
const TRIES: usize = 10;

/// A command's exchange with its host.
pub(crate) struct HostSession<'a> {
    pub(crate) console: &'a mut Console<'static>,
    interrupts: InterruptWatcher,
    /// Locates the host; `None` for a host in this process.
    locator: Option<&'a HostLocator>,
    /// The part of a session to show.
    shown: Option<SessionDisplay<'a>>,
    /// How long the host may be silent before it is probed, and how long it may take to answer the probe.
    silence: (Duration, Duration),
    /// When the host will have been silent for too long.
    silent_at: Instant,
    /// Whether the host was probed since its last message.
    is_probed: bool,
    /// How many messages were handled in a row without checking for signals.
    burst: usize,
    /// Why the prompt was cancelled, if it was. The cancel is repeated to the next host.
    stopped: Option<InterruptReason>,
    /// Whether the command ends as soon as a host has accepted the prompt; the next host's acceptance counts too.
    detaches: bool,
    /// Why stdout can no longer be written, if it cannot.
    unwritable: Option<io::Error>,
    /// The first event that was not shown, if the reply to the turn arrived before all of its events.
    unshown: Option<Seq>,
    /// The terminal where a person answers the agent's requests.
    prompter: Option<TerminalPrompter>,
    /// The display name of the agent that was started last.
    agent: String,
}

/// The next thing to handle.
enum HostSessionEvent {
    Message(HostMessage),
    Stop(InterruptReason),
    /// The deadline has passed.
    Waited,
    /// Stdout became unwritable.
    Unwritable,
    /// The agent of the followed record requests something.
    Request,
}

/// How a request ended without a reply.
#[derive(Debug)]
pub(crate) enum HostSessionError {
    /// The host disconnected. The store knows what became of the prompt.
    Lost,
    /// The command was interrupted, and waits for nothing more.
    Stopped(InterruptReason),
    /// Anything else.
    Failed(CliError),
}

/// The outcome of a prompt.
#[derive(Debug)]
pub(crate) enum PromptOutcome {
    /// It was accepted, and the command does not wait for its turn.
    Queued,
    /// It was accepted, and its turn continues in the host: stdout cannot be written.
    Unshown(io::Error),
    /// It was accepted, and stays in the host: SIGTERM ended the command.
    Detached {
        /// Whether its turn has begun; otherwise it is queued.
        has_begun: bool,
    },
    /// The agent's reply, and why the prompt was cancelled if it was.
    Answered(Box<str>, Option<InterruptReason>),
    /// Its turn failed.
    Failed(Box<HostErrorResponse>, Option<InterruptReason>),
}

impl HostSessionError {
    /// The command was interrupted while doing this. A timeout error names what took the time.
    fn stopped(stop: InterruptReason, doing: &str) -> Self {
        match stop {
            InterruptReason::Signalled | InterruptReason::Terminated | InterruptReason::HungUp => {
                Self::Stopped(stop)
            }
            InterruptReason::TimedOut(_) => Self::Failed(stop.while_doing(doing)),
        }
    }
}

impl From<HostError> for HostSessionError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Lost => Self::Lost,
            other => Self::Failed(other.into()),
        }
    }
}

impl From<CliError> for HostSessionError {
    fn from(error: CliError) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for HostSessionError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a> HostSession<'a> {
    /// An exchange with the host found by `locator`, or with one in this process.
    pub(crate) fn new(
        console: &'a mut Console<'static>,
        interrupts: InterruptWatcher,
        locator: Option<&'a HostLocator>,
    ) -> Self {
        let silent_at = Instant::now() + SILENCE;
        Self {
            console,
            interrupts,
            locator,
            shown: None,
            silence: (SILENCE, PROBE_TIMEOUT),
            silent_at,
            is_probed: false,
            burst: 0,
            stopped: None,
            detaches: false,
            unwritable: None,
            unshown: None,
            prompter: None,
            agent: String::new(),
        }
    }

    /// An exchange with the host of this home, with a time limit.
    pub(crate) fn with_timeout(
        console: &'a mut Console<'static>,
        timeout: Option<Duration>,
        locator: &'a HostLocator,
    ) -> Result<Self, CliError> {
        Ok(Self::new(console, InterruptWatcher::new(timeout)?, Some(locator)))
    }

    /// Lets a person at this terminal, if there is one, answer the agent's requests.
    pub(crate) fn with_prompter(self, prompter: Option<TerminalPrompter>) -> Self {
        Self { prompter, ..self }
    }

    /// Shows watched events until the record is deleted.
    pub(crate) async fn show_events(&mut self, client: &mut HostClient) -> Result<(), HostSessionError> {
        let mut notices = PendingNotices::default();
        notices.expect();
        loop {
            match self.next_event(client, notices.due()).await? {
                HostSessionEvent::Message(HostMessage::WatchEnded { error: None, .. }) => return Ok(()),
                HostSessionEvent::Message(HostMessage::Answer { id, result }) if notices.is_of(&id) => {
                    notices.show(result, self.console);
                }
                HostSessionEvent::Message(
                    HostMessage::WatchEnded { error: Some(refusal), .. }
                    | HostMessage::Answer { result: Err(refusal), .. },
                ) => {
                    return Err(HostError::Refused(refusal).into());
                }
                HostSessionEvent::Request => notices.expect(),
                HostSessionEvent::Waited => {
                    let record = self.followed();
                    notices.sent(self.send(client, "_acpx/pending", &record).await?);
                }
                HostSessionEvent::Message(_) => {}
                HostSessionEvent::Stop(stop) => return Err(HostSessionError::Stopped(stop)),
                HostSessionEvent::Unwritable => {
                    return self.unwritable.take().map_or(Ok(()), |error| Err(error.into()));
                }
            }
        }
    }

    /// Runs an operation that needs a host, and repeats it with the next host if the host disconnects.
    pub(crate) async fn retry_on_lost_host<T>(
        &mut self,
        mut attempt: impl AsyncFnMut(&mut Self) -> Result<T, HostSessionError>,
    ) -> Result<T, CliError> {
        for _ in 0..TRIES {
            match attempt(self).await {
                Ok(answer) => return Ok(answer),
                Err(HostSessionError::Lost) => {
                    self.console.detail("the host went away; asking again");
                    // Requests of the previous host are void.
                    self.prompter.iter_mut().for_each(TerminalPrompter::withdraw_all);
                }
                Err(HostSessionError::Stopped(stop)) => return Err(stop.into()),
                Err(HostSessionError::Failed(error)) => return Err(error),
            }
        }
        Err(HostError::Lost.into())
    }

    /// Connects to the host, starting it if necessary.
    pub(crate) async fn host(&mut self, locator: &HostLocator) -> Result<HostClient, HostSessionError> {
        self.interrupts.allow(Duration::ZERO);
        let reached = self.interrupts.during(locator.host(self.console)).await;
        let client = reached.map_err(|stop| HostSessionError::stopped(stop, "reaching the host"))??;
        self.reset_silence();
        Ok(client)
    }

    /// Runs other work, interrupted by a signal or the time limit.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, HostSessionError> {
        let done = self.interrupts.during(work).await.map_err(HostSessionError::Stopped)??;
        self.reset_silence();
        Ok(done)
    }

    /// Whether the prompt was cancelled.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Subscribes to every event that was not seen yet.
    pub(crate) async fn watch(&mut self, client: &HostClient, record: &str) -> Result<(), HostSessionError> {
        let from = self.shown.as_ref().map_or(Seq::FIRST, |shown| shown.next);
        self.send(client, "_acpx/watch", &json!({ "sessionId": record, "from": from.0 })).await?;
        Ok(())
    }

    /// Sends a request that may have to start an agent, in a record if there is one. The request carries our time
    /// limit, and on a timeout the host reports what the agent has not done.
    pub(crate) async fn start(
        &mut self,
        client: &mut HostClient,
        method: &str,
        params: &impl Serialize,
        agent: &AgentSpec,
        record: Option<&str>,
    ) -> Result<Box<str>, HostSessionError> {
        self.interrupts.allow(EXPLANATION);
        self.agent = agent.label().into_owned();
        let label = self.agent.clone();
        let of = record.map(|record| (record, label.as_str()));
        let started = self.ask(client, method, params, waiting_for(agent), of).await;
        self.console.stop_waiting();
        self.interrupts.allow(Duration::ZERO);
        started
    }

    /// Sends a request and waits for the reply. Shows `slow` if that takes long; for a record and its agent it shows
    /// the wait reason that the host reports.
    async fn ask(
        &mut self,
        client: &mut HostClient,
        method: &str,
        params: &impl Serialize,
        mut slow: String,
        of: Option<(&str, &str)>,
    ) -> Result<Box<str>, HostSessionError> {
        let request = self.send(client, method, params).await?;
        let mut notice_at = Instant::now() + SLOW;
        let mut looking = None;
        self.console.wait_for(&slow);
        loop {
            match self.next_event(client, Some(notice_at)).await? {
                HostSessionEvent::Message(HostMessage::Answer { id, result }) if id == request => {
                    return result.map_err(|refusal| HostError::Refused(refusal).into());
                }
                HostSessionEvent::Message(HostMessage::Answer { id, result })
                    if Some(&id) == looking.as_ref() =>
                {
                    looking = None;
                    let notice =
                        result.ok().zip(of).and_then(|(notice, (_, agent))| wait_notice(&notice, agent));
                    slow = notice.unwrap_or(slow);
                    self.show_slow(&slow);
                }
                HostSessionEvent::Message(_) | HostSessionEvent::Unwritable | HostSessionEvent::Request => {}
                HostSessionEvent::Stop(stop) => return Err(HostSessionError::stopped(stop, &slow)),
                HostSessionEvent::Waited => {
                    notice_at = Instant::now() + STILL_SLOW;
                    match of {
                        Some((record, _)) if looking.is_none() => {
                            let params = json!({ "sessionId": record });
                            looking = Some(self.send(client, "_acpx/waiting", &params).await?);
                        }
                        _ => self.show_slow(&slow),
                    }
                }
            }
        }
    }

    /// Sends a request that needs no agent.
    pub(crate) async fn call<T: DeserializeOwned>(
        &mut self,
        client: &mut HostClient,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, HostSessionError> {
        let slow = "waiting for the host to answer".to_owned();
        let answer = self.ask(client, method, params, slow, None).await;
        self.console.stop_waiting();
        let answer = answer?;
        let bad = |_| HostError::BadAnswer { method: method.to_owned() };
        Ok(serde_json::from_str(&answer).map_err(bad)?)
    }

    /// Shows what takes long: as what is awaited, or as a notice.
    fn show_slow(&mut self, words: &str) {
        if !self.console.wait_for(words) {
            self.console.banner(words);
        }
    }

    /// Shows that the agent is awaited, which has the prompt.
    fn wait_for_agent(&mut self) {
        self.console.stop_waiting();
        self.console.wait_for(&format!("waiting for {}", self.agent));
    }

    async fn send(
        &mut self,
        client: &HostClient,
        method: &str,
        params: &impl Serialize,
    ) -> Result<RpcId, HostSessionError> {
        Ok(self
            .interrupts
            .during(client.request(method, params))
            .await
            .map_err(HostSessionError::Stopped)??)
    }

    /// Sends the prompt and shows the turn to its end, or returns once it is accepted. The host enforces the turn's
    /// limits, so the record has its outcome; the command stops waiting only for a host that fails to enforce them.
    pub(crate) async fn prompt(
        &mut self,
        client: &mut HostClient,
        record: &str,
        asking: &PromptSubmission,
    ) -> Result<PromptOutcome, HostSessionError> {
        let outcome = self.prompt_to_end(client, record, asking).await;
        self.console.stop_waiting();
        outcome
    }

    async fn prompt_to_end(
        &mut self,
        client: &mut HostClient,
        record: &str,
        asking: &PromptSubmission,
    ) -> Result<PromptOutcome, HostSessionError> {
        let params = asking.params(record, self.interrupts.spent());
        let request = self.send(client, "session/prompt", &params).await?;
        self.interrupts.allow(CANCEL_TIMEOUT);
        let (mut until, mut notice_at) = (None, None);
        let mut accepted = false;
        if self.stopped.is_some() {
            until = Some(cancel(client, record, asking).await?);
        }
        loop {
            // A host in this process ends with the command, and so does its turn.
            if accepted
                && self.locator.is_some()
                && !self.is_stopped()
                && let Some(error) = self.unwritable.take()
            {
                return Ok(PromptOutcome::Unshown(error));
            }
            if accepted && self.detaches {
                return Ok(PromptOutcome::Detached { has_begun: self.has_begun() });
            }
            let event = match self.next_event(client, until.or(notice_at)).await {
                // Do not cancel the turn of a host that does not answer.
                Err(HostSessionError::Failed(error)) if !self.is_probed => {
                    give_up(client, record, asking, &request).await;
                    return Err(HostSessionError::Failed(error));
                }
                event => event?,
            };
            match event {
                HostSessionEvent::Message(HostMessage::Answer { id, result }) if id == request => {
                    return self.prompt_answered(result);
                }
                HostSessionEvent::Message(HostMessage::Accepted { request, .. })
                    if self.is_ours(&request) =>
                {
                    if asking.wait == Wait::JustQueue {
                        return Ok(PromptOutcome::Queued);
                    }
                    accepted = true;
                    self.wait_for_agent();
                    notice_at = Some(Instant::now() + SLOW);
                }
                HostSessionEvent::Message(_) | HostSessionEvent::Unwritable | HostSessionEvent::Request => {}
                HostSessionEvent::Waited if until.is_none() => {
                    if notice_at.take().is_some() && !self.has_begun() {
                        self.show_slow(QUEUED);
                    }
                }
                HostSessionEvent::Stop(InterruptReason::Terminated)
                    if self.stopped.is_none() && !self.detaches =>
                {
                    self.detaches = true;
                }
                HostSessionEvent::Stop(stop) if self.stopped.is_none() && !self.detaches => {
                    self.stopped = Some(stop);
                    self.console.detail("cancelling the turn");
                    self.prompter.iter_mut().for_each(TerminalPrompter::cancel);
                    until = Some(cancel(client, record, asking).await?);
                }
                HostSessionEvent::Stop(stop) => {
                    return Err(HostSessionError::Stopped(self.stopped.unwrap_or(stop)));
                }
                HostSessionEvent::Waited => {
                    return Err(HostSessionError::Stopped(
                        self.stopped.unwrap_or(InterruptReason::Signalled),
                    ));
                }
            }
        }
    }

    /// The end of a prompt that the host has answered.
    fn prompt_answered(
        &mut self,
        result: Result<Box<str>, HostErrorResponse>,
    ) -> Result<PromptOutcome, HostSessionError> {
        match result {
            Ok(answer) => Ok(PromptOutcome::Answered(answer, self.stopped)),
            Err(refusal) if refusal.turn().is_some() => {
                self.note_unshown(&refusal);
                Ok(PromptOutcome::Failed(refusal.into(), self.stopped))
            }
            Err(refusal) => Err(HostError::Refused(refusal).into()),
        }
    }

    /// Waits for the next thing to handle. Shows events as they arrive, and flushes stdout once nothing more is queued.
    async fn next_event(
        &mut self,
        client: &mut HostClient,
        until: Option<Instant>,
    ) -> Result<HostSessionEvent, HostSessionError> {
        loop {
            let ready = if self.burst < BURST { client.try_next() } else { None };
            let message = if let Some(message) = ready {
                self.burst += 1;
                message
            } else {
                self.burst = 0;
                if !self.flushed() {
                    return Ok(HostSessionEvent::Unwritable);
                }
                if let Some(prompter) = &mut self.prompter {
                    prompter.remind();
                }
                tokio::select! {
                    typed = answered(self.prompter.as_mut()) => match self.answer(client, typed).await? {
                        Some(stop) => return Ok(self.stop(stop)),
                        None => continue,
                    },
                    message = client.next() => message.ok_or(HostSessionError::Lost)?,
                    stop = self.interrupts.over() => return Ok(self.stop(stop)),
                    () = at(until) => return Ok(HostSessionEvent::Waited),
                    () = self.console.next_frame() => continue,
                    () = sleep_until(self.silent_at) => match self.probe(client).await? {
                        Some(stop) => return Ok(HostSessionEvent::Stop(stop)),
                        None => continue,
                    },
                }
            };
            self.reset_silence();
            match message {
                HostMessage::Event(event) => {
                    let unsent = self.unsent(&event).await?;
                    if let Err(error) = self.show(&event, unsent.as_ref()) {
                        self.stop_writing(error);
                        // Show it again without stdout: its notices go to stderr.
                        self.show(&event, None)?;
                        return Ok(HostSessionEvent::Unwritable);
                    }
                    self.report_if_closed(&event).await?;
                    if self.is_followed_request(&event) {
                        return Ok(HostSessionEvent::Request);
                    }
                }
                HostMessage::Question { id, params } => {
                    let flushed = self.flushed();
                    if let Some(prompter) = &mut self.prompter {
                        self.console.stop_waiting();
                        prompter.ask(id, &params);
                    }
                    if !flushed {
                        return Ok(HostSessionEvent::Unwritable);
                    }
                }
                HostMessage::Elicitation { id, params } => {
                    let flushed = self.flushed();
                    self.elicited(client, id, &params).await?;
                    if !flushed {
                        return Ok(HostSessionEvent::Unwritable);
                    }
                }
                HostMessage::Withdrawn { id } => {
                    if let Some(prompter) = &mut self.prompter {
                        prompter.withdraw(&id);
                    }
                }
                other => return Ok(HostSessionEvent::Message(other)),
            }
        }
    }

    /// Requests the status of a host that has been silent for long, over the open connection: a host at its connection
    /// limit refuses new ones but still works. A missing reply to the probe is an error.
    async fn probe(&mut self, client: &HostClient) -> Result<Option<InterruptReason>, HostSessionError> {
        // A host in this process is alive.
        let Some(locator) = self.locator else {
            self.reset_silence();
            return Ok(None);
        };
        if self.is_probed {
            return Err(HostError::Silent { home: locator.paths.home().to_owned() }.into());
        }
        self.is_probed = true;
        self.silent_at = Instant::now() + self.silence.1;
        // The reply arrives in the normal stream, and no request waits for it.
        match self.interrupts.during(client.request("_acpx/host/status", &json!({}))).await {
            Err(stop) => Ok(Some(stop)),
            Ok(request) => Ok(request.map(|_| None)?),
        }
    }

    fn reset_silence(&mut self) {
        self.silent_at = Instant::now() + self.silence.0;
        self.is_probed = false;
    }
}

/// Cancels the turn of our prompt only, not one that runs before it. Returns until when to wait for its end.
async fn cancel(
    client: &HostClient,
    record: &str,
    asking: &PromptSubmission,
) -> Result<Instant, HostSessionError> {
    client.notify("session/cancel", &asking.cancel_params(record)).await?;
    Ok(Instant::now() + CANCEL_TIMEOUT)
}

/// Cancels a turn that can no longer be shown, and waits briefly for its end.
async fn give_up(client: &mut HostClient, record: &str, asking: &PromptSubmission, request: &RpcId) {
    let cancelled = async {
        client.notify("session/cancel", &asking.cancel_params(record)).await.ok()?;
        loop {
            if matches!(client.next().await?, HostMessage::Answer { id, .. } if id == *request) {
                return Some(());
            }
        }
    };
    // A turn that takes longer ends without us.
    drop(timeout_at(Instant::now() + UNSHOWN_CANCEL_TIMEOUT, cancelled).await);
}

/// Sleeps until then; forever for `None`.
async fn at(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}

/// Shown when an agent takes long to start. `npx` downloads an agent the first time.
pub(crate) fn waiting_for(agent: &AgentSpec) -> String {
    let npx = if agent.program == "npx" { " (npx may download it)" } else { "" };
    format!("waiting for the agent {} to start{npx}", agent.label())
}

/// The wait reason in the host's answer to `_acpx/waiting`; `None` if it only says that the agent is starting.
pub(super) fn wait_notice(answer: &str, agent: &str) -> Option<String> {
    let waiting = serde_json::from_str::<WaitReasonAnswer>(answer).ok()?.waiting_for?;
    match (waiting.what.as_str(), waiting.method.as_deref()) {
        ("agent-start", _) => None,
        ("answer", Some("session/prompt")) | ("turn-end" | "permission" | "elicitation" | "command", _) => {
            Some(format!("waiting for the agent {agent}, which works on a turn"))
        }
        _ => Some(format!("waiting for {}", awaited(&waiting))),
    }
}

/// The turn of such a prompt, if it ends with this event and the view would show its text.
pub(crate) async fn unsent_turn(
    view: &FollowView,
    event: &WatchedEvent,
    store: &Arc<dyn Store>,
    record: &RecordId,
) -> Result<Option<Turn>, StoreError> {
    let Some((turn, is_begun)) = view.ends_without_prompt(event) else { return Ok(None) };
    let events = RecordEvents::new(Arc::clone(store), record.clone(), Some(event.seq));
    // A turn that began before the view did is taken as sent.
    if !is_begun && events.has_begun(turn).await? {
        return Ok(None);
    }
    store.turn_numbered(record.clone(), turn).await
}

#[cfg(test)]
mod waited_tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn wait_notice_names_the_hosts_wait_reason() {
        let notice = |what: Value| {
            let mut waiting = json!({ "since": "2026-11-16T00:00:00.000Z" });
            waiting.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
            wait_notice(&json!({ "waitingFor": waiting }).to_string(), "a")
        };
        let cases = [
            (json!({ "what": "agent-start" }), None),
            (
                json!({ "what": "answer", "method": "session/set_mode" }),
                Some("waiting for the agent's answer to session/set_mode"),
            ),
            (json!({ "what": "agent-end" }), Some("waiting for the end of the agent's process")),
            (
                json!({ "what": "answer", "method": "session/prompt" }),
                Some("waiting for the agent a, which works on a turn"),
            ),
            (json!({ "what": "permission" }), Some("waiting for the agent a, which works on a turn")),
        ];
        for (what, expected) in cases {
            assert_eq!(notice(what.clone()).as_deref(), expected, "{what}");
        }
        for nothing in ["{}", "null", "7"] {
            assert_eq!(wait_notice(nothing, "a"), None);
        }
    }
}

#[cfg(test)]
mod tests;
