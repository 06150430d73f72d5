//! One conversation of a command with the host: what it asks, what it shows meanwhile, and how it is stopped.
//!
//! Everything a host sends is shown in order. A turn that is to stop is cancelled and waited for, so that what
//! is shown is how it ended; a second signal waits for nothing. SIGTERM ends a `prompt` alone and leaves its turn running.
//! Whatever a host is asked, a signal and the time limit are heard. A host that is silent for long is probed over the same
//! connection. If it does not answer the probe the command fails, and the turn goes on in the host: only its user cancels
//! it.
//!
//! A prompt is sent whatever becomes of stdout: what cannot be written is not shown, and its turn goes on in the host.

mod person;
mod showing;
mod unsent;
mod waited;

use std::io;
use std::time::Duration;

use acpx_core::client::HostClient;
use acpx_core::model::Seq;
use acpx_core::protocol::{HostError, HostErrorResponse, HostMessage};
use acpx_core::wire::RpcId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::host_locator::HostLocator;
use super::interrupt::{EXPLANATION, InterruptWatcher, SLOW, STILL_SLOW};
use super::prompt_request::PromptSubmission;
use crate::cli::Wait;
use crate::error::CliError;
use crate::error::InterruptReason;
use crate::output::Console;
use crate::terminal::prompt::TerminalPrompter;

pub(crate) use self::unsent::unsent_turn;
pub(crate) use self::waited::waiting_for;

use self::person::answered;
use self::showing::SessionDisplay;
use self::waited::waiting_as_told;

/// What is said of a prompt that is not sent at once.
const NOT_SENT_YET: &str = "the prompt waits for the turns before it; acpx status says what they wait for, and acpx pending what is to be answered";
/// How long a turn may take to end once it was cancelled. The host ends an agent that does not stop before.
const FAREWELL: Duration = Duration::from_secs(30);
/// How long a turn is waited for that nobody can be shown any more.
const SHORT_FAREWELL: Duration = Duration::from_secs(2);
/// How long the host may say nothing before it is probed: turns may take hours.
const SILENCE: Duration = Duration::from_secs(20);
/// How long the host may take to answer a probe. It may be stopped, or wait for its disk.
const PROBE_PATIENCE: Duration = Duration::from_mins(2);
/// How many messages in a row may keep a signal waiting.
const BURST: usize = 256;
/// How often something is asked again because the host went away.
const TRIES: usize = 10;

/// What a command and its host say to each other.
pub(crate) struct HostSession<'a> {
    pub(crate) console: &'a mut Console<'static>,
    patience: InterruptWatcher,
    /// The way to the host; a host in this process needs none.
    reach: Option<&'a HostLocator>,
    /// What is shown of a session.
    shown: Option<SessionDisplay<'a>>,
    /// How long the host may say nothing before it is probed, and how long it may take to answer that.
    silence: (Duration, Duration),
    /// When the host will have said nothing for too long.
    silent_at: Instant,
    /// Whether the host was probed since it last said something.
    is_probed: bool,
    /// How many messages were taken without looking at anything else.
    burst: usize,
    /// Why the prompt was cancelled, if it was. The next host has to be told so too.
    stopped: Option<InterruptReason>,
    /// Whether the command ends as soon as a host has accepted the prompt, be it the next host.
    detaches: bool,
    /// Why nothing can be shown any more, if it cannot.
    unwritable: Option<io::Error>,
    /// The first event that is not shown of a turn that was answered before all of it was told, if it was.
    unshown: Option<Seq>,
    /// The person who can be asked what the agent asks.
    desk: Option<TerminalPrompter>,
}

/// What comes next in a talk.
enum HostSessionEvent {
    Said(HostMessage),
    Stop(InterruptReason),
    /// The time has come.
    Waited,
    /// From here on nothing can be shown.
    Unwritable,
}

/// How an exchange ended without an answer.
#[derive(Debug)]
pub(crate) enum HostSessionError {
    /// The host is gone. What became of the prompt is in the store.
    Lost,
    /// The command was stopped, and nothing is to be waited for.
    Stopped(InterruptReason),
    /// Anything else.
    Failed(CliError),
}

/// What came of a prompt.
#[derive(Debug)]
pub(crate) enum PromptOutcome {
    /// It was accepted, and that is all that was wanted.
    Queued,
    /// It was accepted, and its turn goes on in the host: stdout cannot be written.
    Unshown(io::Error),
    /// It was accepted, and stays in the host: the command was told to end.
    Detached {
        /// Whether its turn has begun; without, it waits in the queue.
        has_begun: bool,
    },
    /// It was answered, after it was cancelled for this reason, if it was.
    Answered(Box<str>, Option<InterruptReason>),
    /// Its turn failed.
    Failed(Box<HostErrorResponse>, Option<InterruptReason>),
}

impl HostSessionError {
    /// The command was stopped while it did this. Whose time is over is told what took it.
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
    /// A talk with the host that is reached this way, or with one in this process.
    pub(crate) fn new(
        console: &'a mut Console<'static>,
        patience: InterruptWatcher,
        reach: Option<&'a HostLocator>,
    ) -> Self {
        let silent_at = Instant::now() + SILENCE;
        Self {
            console,
            patience,
            reach,
            shown: None,
            silence: (SILENCE, PROBE_PATIENCE),
            silent_at,
            is_probed: false,
            burst: 0,
            stopped: None,
            detaches: false,
            unwritable: None,
            unshown: None,
            desk: None,
        }
    }

    /// The same talk of a command that has a person before it, if it has.
    pub(crate) fn asking_at(self, desk: Option<TerminalPrompter>) -> Self {
        Self { desk, ..self }
    }

    /// Shows what is watched until no more will come, since its record is deleted.
    pub(crate) async fn look_on(&mut self, client: &mut HostClient) -> Result<(), HostSessionError> {
        loop {
            match self.hear(client, None).await? {
                HostSessionEvent::Said(HostMessage::WatchEnded { error: None, .. }) => return Ok(()),
                HostSessionEvent::Said(
                    HostMessage::WatchEnded { error: Some(refusal), .. }
                    | HostMessage::Answer { result: Err(refusal), .. },
                ) => {
                    return Err(HostError::Refused(refusal).into());
                }
                HostSessionEvent::Said(_) | HostSessionEvent::Waited => {}
                HostSessionEvent::Stop(stop) => return Err(HostSessionError::Stopped(stop)),
                HostSessionEvent::Unwritable => {
                    return self.unwritable.take().map_or(Ok(()), |error| Err(error.into()));
                }
            }
        }
    }

    /// Does something that needs a host, with the next one if it went away meanwhile.
    pub(crate) async fn persist<T>(
        &mut self,
        mut attempt: impl AsyncFnMut(&mut Self) -> Result<T, HostSessionError>,
    ) -> Result<T, CliError> {
        for _ in 0..TRIES {
            match attempt(self).await {
                Ok(answer) => return Ok(answer),
                Err(HostSessionError::Lost) => {
                    self.console.detail("the host went away; asking again");
                    // What the last host asked, it no longer wants to know.
                    self.desk.iter_mut().for_each(TerminalPrompter::withdraw_all);
                }
                Err(HostSessionError::Stopped(stop)) => return Err(stop.into()),
                Err(HostSessionError::Failed(error)) => return Err(error),
            }
        }
        Err(HostError::Lost.into())
    }

    /// The host, started if it has to be.
    pub(crate) async fn host(&mut self, reach: &HostLocator) -> Result<HostClient, HostSessionError> {
        self.patience.allow(Duration::ZERO);
        let reached = self.patience.during(reach.host(self.console)).await;
        let client = reached.map_err(|stop| HostSessionError::stopped(stop, "reaching the host"))??;
        self.heard_something();
        Ok(client)
    }

    /// Does something else for which neither a signal nor the limit is to wait.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, HostSessionError> {
        let done = self.patience.during(work).await.map_err(HostSessionError::Stopped)??;
        self.heard_something();
        Ok(done)
    }

    /// Whether the prompt was cancelled.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Asks to be told every event that was not seen yet.
    pub(crate) async fn watch(&mut self, client: &HostClient, record: &str) -> Result<(), HostSessionError> {
        let from = self.shown.as_ref().map_or(Seq::FIRST, |shown| shown.next);
        self.send(client, "_acpx/watch", &json!({ "sessionId": record, "from": from.0 })).await?;
        Ok(())
    }

    /// Asks for something that an agent may have to start for, in a record if there is one. The host knows how long we
    /// wait for it, and tells what the agent has not done by then.
    pub(crate) async fn start(
        &mut self,
        client: &mut HostClient,
        method: &str,
        params: &impl Serialize,
        agent: &str,
        record: Option<&str>,
    ) -> Result<Box<str>, HostSessionError> {
        self.patience.allow(EXPLANATION);
        let of = record.map(|record| (record, agent));
        let started = self.ask(client, method, params, waiting_for(agent), of).await;
        self.patience.allow(Duration::ZERO);
        started
    }

    /// Asks for something, and waits for the answer. `slow` is said if it takes long; where it is about a record and its
    /// agent, what the host says is waited for.
    async fn ask(
        &mut self,
        client: &mut HostClient,
        method: &str,
        params: &impl Serialize,
        mut slow: String,
        of: Option<(&str, &str)>,
    ) -> Result<Box<str>, HostSessionError> {
        let asked = self.send(client, method, params).await?;
        let mut tell_at = Instant::now() + SLOW;
        let mut looking = None;
        loop {
            match self.hear(client, Some(tell_at)).await? {
                HostSessionEvent::Said(HostMessage::Answer { id, result }) if id == asked => {
                    return result.map_err(|refusal| HostError::Refused(refusal).into());
                }
                HostSessionEvent::Said(HostMessage::Answer { id, result })
                    if Some(&id) == looking.as_ref() =>
                {
                    looking = None;
                    let told =
                        result.ok().zip(of).and_then(|(told, (_, agent))| waiting_as_told(&told, agent));
                    slow = told.unwrap_or(slow);
                    self.console.banner(&slow);
                }
                HostSessionEvent::Said(_) | HostSessionEvent::Unwritable => {}
                HostSessionEvent::Stop(stop) => return Err(HostSessionError::stopped(stop, &slow)),
                HostSessionEvent::Waited => {
                    tell_at = Instant::now() + STILL_SLOW;
                    match of {
                        Some((record, _)) if looking.is_none() => {
                            let params = json!({ "sessionId": record });
                            looking = Some(self.send(client, "_acpx/waiting", &params).await?);
                        }
                        _ => self.console.banner(&slow),
                    }
                }
            }
        }
    }

    /// Asks for something that the host does by itself.
    pub(crate) async fn call<T: DeserializeOwned>(
        &mut self,
        client: &mut HostClient,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, HostSessionError> {
        let slow = "waiting for the host to answer".to_owned();
        let answer = self.ask(client, method, params, slow, None).await?;
        let bad = |_| HostError::BadAnswer { method: method.to_owned() };
        Ok(serde_json::from_str(&answer).map_err(bad)?)
    }

    async fn send(
        &mut self,
        client: &HostClient,
        method: &str,
        params: &impl Serialize,
    ) -> Result<RpcId, HostSessionError> {
        Ok(self.patience.during(client.ask(method, params)).await.map_err(HostSessionError::Stopped)??)
    }

    /// Prompts, and shows the turn to its end; or only until it is accepted. The host sees to the turn's limits, and
    /// so the record says what became of it; only one that does not is waited for no longer.
    pub(crate) async fn prompt(
        &mut self,
        client: &mut HostClient,
        record: &str,
        asking: &PromptSubmission,
    ) -> Result<PromptOutcome, HostSessionError> {
        let params = asking.params(record, self.patience.spent());
        let asked = self.send(client, "session/prompt", &params).await?;
        self.patience.allow(FAREWELL);
        let (mut until, mut tell_at) = (None, None);
        let mut accepted = false;
        if self.stopped.is_some() {
            until = Some(cancel(client, record, asking).await?);
        }
        loop {
            // A host in this process ends with us, and the turn with the host.
            if accepted
                && self.reach.is_some()
                && !self.is_stopped()
                && let Some(error) = self.unwritable.take()
            {
                return Ok(PromptOutcome::Unshown(error));
            }
            if accepted && self.detaches {
                return Ok(PromptOutcome::Detached { has_begun: self.has_begun() });
            }
            let heard = match self.hear(client, until.or(tell_at)).await {
                // The turn of a host that does not answer is not ended for that.
                Err(HostSessionError::Failed(error)) if !self.is_probed => {
                    give_up(client, record, asking, &asked).await;
                    return Err(HostSessionError::Failed(error));
                }
                heard => heard?,
            };
            match heard {
                HostSessionEvent::Said(HostMessage::Answer { id, result }) if id == asked => {
                    return self.prompt_answered(result);
                }
                HostSessionEvent::Said(HostMessage::Accepted { request, .. }) if self.is_ours(&request) => {
                    if asking.wait == Wait::JustQueue {
                        return Ok(PromptOutcome::Queued);
                    }
                    accepted = true;
                    tell_at = Some(Instant::now() + SLOW);
                }
                HostSessionEvent::Said(_) | HostSessionEvent::Unwritable => {}
                HostSessionEvent::Waited if until.is_none() => {
                    if tell_at.take().is_some() && !self.has_begun() {
                        self.console.banner(NOT_SENT_YET);
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
                    self.desk.iter_mut().for_each(TerminalPrompter::cancel);
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

    /// What comes next. Events are shown as they come; what was shown is seen once nothing more waits.
    async fn hear(
        &mut self,
        client: &mut HostClient,
        until: Option<Instant>,
    ) -> Result<HostSessionEvent, HostSessionError> {
        loop {
            let ready = if self.burst < BURST { client.try_next() } else { None };
            let said = if let Some(said) = ready {
                self.burst += 1;
                said
            } else {
                self.burst = 0;
                if !self.flushed() {
                    return Ok(HostSessionEvent::Unwritable);
                }
                if let Some(desk) = &mut self.desk {
                    desk.remind();
                }
                tokio::select! {
                    typed = answered(self.desk.as_mut()) => match self.answer(client, typed).await? {
                        Some(stop) => return Ok(self.stop(stop)),
                        None => continue,
                    },
                    said = client.next() => said.ok_or(HostSessionError::Lost)?,
                    stop = self.patience.over() => return Ok(self.stop(stop)),
                    () = at(until) => return Ok(HostSessionEvent::Waited),
                    () = sleep_until(self.silent_at) => match self.probe(client).await? {
                        Some(stop) => return Ok(HostSessionEvent::Stop(stop)),
                        None => continue,
                    },
                }
            };
            self.heard_something();
            match said {
                HostMessage::Event(event) => {
                    let unsent = self.unsent(&event).await?;
                    if let Err(error) = self.show(&event, unsent.as_ref()) {
                        self.give_stdout_up(error);
                        // What it says to people is not on stdout.
                        self.show(&event, None)?;
                        return Ok(HostSessionEvent::Unwritable);
                    }
                    self.say_if_closed(&event).await?;
                }
                HostMessage::Question { id, params } => {
                    let flushed = self.flushed();
                    if let Some(desk) = &mut self.desk {
                        desk.ask(id, &params);
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
                    if let Some(desk) = &mut self.desk {
                        desk.withdraw(&id);
                    }
                }
                other => return Ok(HostSessionEvent::Said(other)),
            }
        }
    }

    /// Asks a host that has said nothing for long for its status, over the connection that is there: a host that is
    /// full lets nobody else in and works all the same. One that does not answer that either is an error.
    async fn probe(&mut self, client: &HostClient) -> Result<Option<InterruptReason>, HostSessionError> {
        // A host in this process is as alive as we are.
        let Some(reach) = self.reach else {
            self.heard_something();
            return Ok(None);
        };
        if self.is_probed {
            return Err(HostError::Silent { home: reach.place.home().to_owned() }.into());
        }
        self.is_probed = true;
        self.silent_at = Instant::now() + self.silence.1;
        // Its answer is read like everything else, and is one to nothing that is waited for.
        match self.patience.during(client.ask("_acpx/host/status", &json!({}))).await {
            Err(stop) => Ok(Some(stop)),
            Ok(asked) => Ok(asked.map(|_| None)?),
        }
    }

    fn heard_something(&mut self) {
        self.silent_at = Instant::now() + self.silence.0;
        self.is_probed = false;
    }
}

/// Cancels the turn of our prompt, and no other that may run before it; until when its end is waited for.
async fn cancel(
    client: &HostClient,
    record: &str,
    asking: &PromptSubmission,
) -> Result<Instant, HostSessionError> {
    client.tell("session/cancel", &asking.cancel_params(record)).await?;
    Ok(Instant::now() + FAREWELL)
}

/// Cancels a turn that cannot be shown any more, and waits a moment for its end.
async fn give_up(client: &mut HostClient, record: &str, asking: &PromptSubmission, asked: &RpcId) {
    let farewell = async {
        client.tell("session/cancel", &asking.cancel_params(record)).await.ok()?;
        loop {
            if matches!(client.next().await?, HostMessage::Answer { id, .. } if id == *asked) {
                return Some(());
            }
        }
    };
    // One that takes longer ends without us.
    drop(timeout_at(Instant::now() + SHORT_FAREWELL, farewell).await);
}

/// Waits until then; for ever, if there is no then.
async fn at(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
