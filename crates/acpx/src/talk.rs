//! One conversation of a command with the host: what it asks, what it shows meanwhile, and how it is stopped.
//!
//! Everything a host sends is shown in order. A turn that is to stop is cancelled and waited for, so that what
//! is shown is how it ended; a second signal waits for nothing.

use std::time::Duration;

use acpx_core::host::{FromHost, HostClient, HostError, Refusal, WatchedEvent};
use acpx_core::model::{Direction, Fact, RequestId, Seq, TurnId};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::cli::Wait;
use crate::error::CliError;
use crate::output::{Console, TurnView};
use crate::patience::{Patience, Stop};

/// How long a turn may take to end once it was cancelled. The host ends an agent that does not stop before.
const FAREWELL: Duration = Duration::from_secs(30);
/// When a person is told that something takes long, for the first time and from then on.
const SLOW: Duration = Duration::from_secs(2);
const STILL_SLOW: Duration = Duration::from_secs(15);
/// How many messages in a row may keep a signal waiting.
const BURST: usize = 256;

/// What is said when a host went away and its work is asked of the next one.
pub(crate) const ASKING_AGAIN: &str = "the host went away; asking again";

/// What a command shows of a session.
pub(crate) struct Talk<'a> {
    pub(crate) console: &'a mut Console<'static>,
    view: &'a mut TurnView,
    patience: Patience,
    /// The name of our prompt, if there is one; by it its turn is known.
    request: Option<RequestId>,
    turn: Option<TurnId>,
    /// The first event that was not seen yet.
    next: Seq,
    /// How many messages were taken without looking at anything else.
    burst: usize,
}

/// What comes next in a talk.
enum Heard {
    Said(FromHost),
    Stop(Stop),
    /// The time has come.
    Waited,
}

/// How an exchange ended without an answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The host is gone. What became of the prompt is in the store.
    Lost,
    /// The command was stopped, and nothing is to be waited for.
    Stopped(Stop),
    /// Anything else.
    Failed(CliError),
}

/// What came of a prompt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was accepted, and that is all that was wanted.
    Queued,
    /// It was answered, after it was cancelled for this reason, if it was.
    Answered(Box<str>, Option<Stop>),
    /// Its turn failed.
    Failed(Box<Refusal>, Option<Stop>),
}

impl From<HostError> for Trouble {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Lost => Self::Lost,
            other => Self::Failed(other.into()),
        }
    }
}

impl From<CliError> for Trouble {
    fn from(error: CliError) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a> Talk<'a> {
    /// A talk about one prompt; `next` is the first event of its record that is to be shown.
    pub(crate) fn new(
        console: &'a mut Console<'static>,
        view: &'a mut TurnView,
        patience: Patience,
        request: Option<RequestId>,
        next: Seq,
    ) -> Self {
        Self { console, view, patience, request, turn: None, next, burst: 0 }
    }

    /// Asks to be told every event that was not seen yet.
    pub(crate) async fn watch(&self, client: &HostClient, record: &str) -> Result<(), Trouble> {
        client.ask("_acpx/watch", &json!({ "sessionId": record, "from": self.next.0 })).await?;
        Ok(())
    }

    /// Asks for something that may take an agent's start, and waits for the answer. `slow` is said if it takes
    /// long.
    pub(crate) async fn ask(
        &mut self,
        client: &mut HostClient,
        method: &str,
        params: &impl Serialize,
        slow: &str,
    ) -> Result<Box<str>, Trouble> {
        let asked = client.ask(method, params).await?;
        let mut tell_at = Instant::now() + SLOW;
        loop {
            match self.hear(client, Some(tell_at)).await? {
                Heard::Said(FromHost::Answer { id, result }) if id == asked => {
                    return result.map_err(|refusal| HostError::Refused(refusal).into());
                }
                Heard::Said(_) => {}
                Heard::Stop(stop) => return Err(Trouble::Stopped(stop)),
                Heard::Waited => {
                    self.console.banner(slow);
                    tell_at = Instant::now() + STILL_SLOW;
                }
            }
        }
    }

    /// Prompts, and shows the turn to its end; or only until it is accepted.
    pub(crate) async fn prompt(
        &mut self,
        client: &mut HostClient,
        record: &str,
        params: &impl Serialize,
        wait: Wait,
    ) -> Result<Outcome, Trouble> {
        let asked = client.ask("session/prompt", params).await?;
        let mut stopped = None;
        let mut until = None;
        loop {
            match self.hear(client, until).await? {
                Heard::Said(FromHost::Answer { id, result }) if id == asked => {
                    return match result {
                        Ok(answer) => Ok(Outcome::Answered(answer, stopped)),
                        Err(refusal) if refusal.turn().is_some() => {
                            Ok(Outcome::Failed(refusal.into(), stopped))
                        }
                        Err(refusal) => Err(HostError::Refused(refusal).into()),
                    };
                }
                Heard::Said(FromHost::Accepted { request, .. })
                    if wait == Wait::JustQueue && self.is_ours(&request) =>
                {
                    return Ok(Outcome::Queued);
                }
                Heard::Said(_) => {}
                Heard::Stop(stop) if stopped.is_none() => {
                    stopped = Some(stop);
                    until = Some(Instant::now() + FAREWELL);
                    client.tell("session/cancel", &json!({ "sessionId": record })).await?;
                }
                Heard::Stop(stop) => return Err(Trouble::Stopped(stopped.unwrap_or(stop))),
                Heard::Waited => return Err(Trouble::Stopped(stopped.unwrap_or(Stop::Signalled))),
            }
        }
    }

    /// What comes next. Events are shown as they come; what was shown is seen once nothing more waits.
    async fn hear(&mut self, client: &mut HostClient, until: Option<Instant>) -> Result<Heard, Trouble> {
        loop {
            let ready = if self.burst < BURST { client.try_next() } else { None };
            let said = if let Some(said) = ready {
                self.burst += 1;
                said
            } else {
                self.burst = 0;
                self.console.flush()?;
                tokio::select! {
                    said = client.next() => said.ok_or(Trouble::Lost)?,
                    stop = self.patience.over() => return Ok(Heard::Stop(stop)),
                    () = at(until) => return Ok(Heard::Waited),
                }
            };
            match said {
                FromHost::Event(event) => self.show(&event)?,
                other => return Ok(Heard::Said(other)),
            }
        }
    }

    fn is_ours(&self, request: &str) -> bool {
        self.request.as_ref().is_some_and(|ours| ours.as_str() == request)
    }

    /// Shows what belongs to our turn, and what belongs to none: how the agent was brought back for it.
    fn show(&mut self, event: &WatchedEvent) -> Result<(), Trouble> {
        self.next = event.seq.next();
        if event.direction == Direction::Ours
            && let Some(Fact::TurnStarted { turn, request_id }) = Fact::from_body(event.message.get())
            && self.is_ours(&request_id)
        {
            self.turn = Some(TurnId(turn));
        }
        if event.turn.is_none() || event.turn == self.turn {
            self.view.event(event, self.console)?;
        }
        Ok(())
    }
}

/// Waits until then; for ever, if there is no then.
async fn at(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}
