//! `acpx sessions wait`: waits until sessions are idle, or need an answer. It follows a running host and starts nothing.
//!
//! The store knows the open turns, and the host what a session waits for. Both are asked again when an event may have
//! changed the answer, and once a second for what is no event.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::client::HostClient;
use acpx_core::model::{Direction, ErrorCode, Lifecycle, Record, SessionName, TurnState};
use acpx_core::protocol::meta::WaitReasonAnswer;
use acpx_core::protocol::{HostError, HostMessage, WatchedEvent};
use acpx_core::store::Store;
use acpx_core::wire::RpcMessage;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::cli::{UsageError, WaitArgs};
use crate::error::{CliError, CliExit};
use crate::output::{self, Console, WaitedState};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;

/// How often the state is checked if no event announces a change.
const RECHECK: Duration = Duration::from_secs(1);

/// Waits for the selected sessions, and writes one result for each as soon as it is known.
pub(crate) fn run(settings: &CommandSettings, args: &WaitArgs) -> Result<ExitCode, CliError> {
    let locator = HostLocator::of_environment()?;
    block_on(async {
        let lookup = RecordLookup::open()?;
        let records = selected(&lookup, settings, args).await?;
        let Some((store, _)) = records.first().and_then(|record| lookup.into_events(record)) else {
            return Ok(CliExit::Success.into());
        };
        let mut interrupts = InterruptWatcher::new(settings.timeout)?;
        let mut console = Console::of_program(settings.mode);
        let is_stalled = false;
        let left = records.into_iter().map(|record| AwaitedSession { record, is_stalled }).collect();
        let mut waiter = SessionWaiter { store, left, any: args.any, exit: None, console: &mut console };
        let done = interrupts.during(waiter.wait(&locator)).await;
        done.map_err(|stop| stop.while_doing("waiting for the session"))??;
        Ok(waiter.exit.unwrap_or(CliExit::Success).into())
    })
}

async fn selected(
    lookup: &RecordLookup,
    settings: &CommandSettings,
    args: &WaitArgs,
) -> Result<Vec<Record>, CliError> {
    if args.sessions.is_empty() {
        return Ok(vec![lookup.need(settings, "wait").await?.0]);
    }
    let mut records: Vec<Record> = Vec::new();
    for name in &args.sessions {
        let mut settings = settings.clone();
        settings.session = Some(SessionName::new(name.as_str()).map_err(UsageError::Name)?);
        let (record, _) = lookup.need(&settings, "wait").await?;
        if records.iter().all(|other| other.id != record.id) {
            records.push(record);
        }
    }
    Ok(records)
}

struct AwaitedSession {
    record: Record,
    /// Whether it had open turns at the last check, and the host did not work on them.
    is_stalled: bool,
}

struct SessionWaiter<'a> {
    store: Arc<dyn Store>,
    left: Vec<AwaitedSession>,
    /// Whether the first result ends the wait.
    any: bool,
    /// The exit code so far; `None` before the first result.
    exit: Option<CliExit>,
    console: &'a mut Console<'static>,
}

impl SessionWaiter<'_> {
    async fn wait(&mut self, locator: &HostLocator) -> Result<(), CliError> {
        loop {
            let Some(mut client) = locator.running().await? else { return self.report_without_host().await };
            match self.follow(&mut client).await {
                // The next host may continue.
                Err(CliError::Remote(error)) if error.code == ErrorCode::HostLost => {}
                followed => return followed,
            }
        }
    }

    async fn report_without_host(&mut self) -> Result<(), CliError> {
        while !self.is_done() {
            let AwaitedSession { record, .. } = self.left.remove(0);
            let state = self.state_without_work(&record).await?;
            self.report(&record, &state)?;
        }
        Ok(())
    }

    async fn follow(&mut self, client: &mut HostClient) -> Result<(), CliError> {
        for AwaitedSession { record, .. } in &self.left {
            client.call::<Value>("_acpx/watch", &json!({ "sessionId": record.id })).await?;
        }
        loop {
            let mut has_changed = false;
            for mut awaited in std::mem::take(&mut self.left) {
                match self.state(client, &mut awaited, &mut has_changed).await? {
                    Some(state) if !self.is_done_with_any() => self.report(&awaited.record, &state)?,
                    _ => self.left.push(awaited),
                }
            }
            if self.is_done() {
                return Ok(());
            }
            if !has_changed {
                next_change(client).await?;
            }
        }
    }

    /// The state of a session that is idle or needs the user; `None` while it works.
    async fn state(
        &self,
        client: &mut HostClient,
        awaited: &mut AwaitedSession,
        has_changed: &mut bool,
    ) -> Result<Option<WaitedState>, CliError> {
        let id = awaited.record.id.clone();
        if self.store.open_turns(id.clone()).await?.is_empty() {
            return Ok(Some(self.state_without_work(&awaited.record).await?));
        }
        let on_message = |message: HostMessage| *has_changed |= may_change(&message);
        let answer: Result<WaitReasonAnswer, HostError> =
            client.call_while("_acpx/waiting", &json!({ "sessionId": id }), on_message).await;
        let reason = match answer {
            Ok(answer) => answer.waiting_for,
            Err(HostError::Refused(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let was_stalled = std::mem::replace(&mut awaited.is_stalled, reason.is_none());
        match reason {
            Some(reason) if matches!(reason.what.as_str(), "permission" | "elicitation") => {
                Ok(Some(WaitedState::Waiting { questions: reason.questions }))
            }
            // A prompt that was just accepted is not worked on for a moment.
            None if was_stalled => Ok(Some(self.state_without_work(&awaited.record).await?)),
            _ => Ok(None),
        }
    }

    /// The state of a session that no host works on: a sent turn is lost, queued prompts wait for the next prompt.
    async fn state_without_work(&self, record: &Record) -> Result<WaitedState, CliError> {
        let open = self.store.open_turns(record.id.clone()).await?;
        if open.iter().any(|turn| turn.state == TurnState::Queued) {
            return Ok(WaitedState::Queued);
        }
        let stored = self.store.record(record.id.clone()).await?;
        let is_open = stored.is_some_and(|record| record.lifecycle == Lifecycle::Open);
        Ok(if is_open { WaitedState::Idle } else { WaitedState::Closed })
    }

    fn report(&mut self, record: &Record, state: &WaitedState) -> Result<(), CliError> {
        let needs_user = matches!(state, WaitedState::Waiting { .. } | WaitedState::Queued);
        if needs_user {
            self.exit = Some(CliExit::NeedsUser);
        }
        self.exit.get_or_insert(CliExit::Success);
        Ok(output::waited(&record.identity(), state, self.console)?)
    }

    fn is_done(&self) -> bool {
        self.left.is_empty() || self.is_done_with_any()
    }

    fn is_done_with_any(&self) -> bool {
        self.any && self.exit.is_some()
    }
}

/// Waits for a message that may change a session's state, but not longer than until the next check.
async fn next_change(client: &mut HostClient) -> Result<(), HostError> {
    let deadline = Instant::now() + RECHECK;
    loop {
        match timeout_at(deadline, client.next()).await {
            Err(_) => return Ok(()),
            Ok(None) => return Err(HostError::Lost),
            Ok(Some(message)) if may_change(&message) => return Ok(()),
            Ok(Some(_)) => {}
        }
    }
}

/// Whether a message is a fact of acpx, a request of an agent, or the end of a watch.
fn may_change(message: &HostMessage) -> bool {
    let is_request = |event: &WatchedEvent| {
        RpcMessage::parse(event.message.get())
            .is_ok_and(|message| message.method().is_some() && message.id().is_some())
    };
    match message {
        HostMessage::Event(event) => event.direction == Direction::Ours || is_request(event),
        HostMessage::WatchEnded { .. } => true,
        _ => false,
    }
}
