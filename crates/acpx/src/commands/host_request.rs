//! Requests to the host about one session, repeated if the host dies before it replies.

use acpx_core::model::{Record, SessionIdentity};
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{RestoreMeta, SessionMeta, WakeOptionsMeta};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::error::CliError;
use crate::output::{self, Console};
use crate::session::host_locator::HostLocator;
use crate::session::host_session::HostSession;
use crate::session::interrupt::InterruptWatcher;
use crate::session::settings::CommandSettings;
use crate::session::setup_request;
use crate::session::setup_request::ResumeParams;

/// Calls a method of the host.
pub(super) async fn call_host<T: DeserializeOwned>(
    method: &'static str,
    params: &impl Serialize,
    record: &Record,
    settings: &CommandSettings,
    console: &mut Console<'static>,
) -> Result<T, CliError> {
    let locator = HostLocator::of_environment()?;
    let mut session = HostSession::with_timeout(console, settings.timeout, &locator)?;
    let reply = session.retry_on_lost_host(async |session| {
        let mut client = session.host(&locator).await?;
        session.call(&mut client, method, params).await
    });
    reply.await.map_err(|error| error.about(record.identity()))
}

/// How to restore a session. One that was found by its id may belong to another agent than the selected one. A session
/// that was adopted and never prompted here is known from its transcript, so a fresh one gets the conversation.
pub(super) fn restore_meta(record: &Record, settings: &CommandSettings, model: Option<&str>) -> RestoreMeta {
    let is_same_agent = record.agent.key() == settings.agent.key();
    RestoreMeta {
        agent: is_same_agent.then(|| (&settings.agent).into()),
        start: settings.start(&record.agent, settings.ttl, model),
        wishes: WakeOptionsMeta { fallback: None, carry_history: is_unprompted_transcript(record) },
        ..RestoreMeta::default()
    }
}

/// Whether the record comes from an agent's own transcript and acpx has sent no prompt to it.
pub(super) fn is_unprompted_transcript(record: &Record) -> bool {
    record.is_adopted() && record.last_turn.is_none()
}

/// What the host replied to a request that sets a session up.
pub(super) struct StartedSession {
    pub(super) identity: SessionIdentity,
    pub(super) meta: SessionMeta,
    pub(super) reply: Box<str>,
}

/// Resumes a session, and starts its agent for it.
pub(super) async fn resume_session(
    resume: &ResumeParams<'_>,
    record: &Record,
    settings: &CommandSettings,
    console: &mut Console<'static>,
) -> Result<StartedSession, CliError> {
    start_session("session/resume", resume, Some(record), settings, Instant::now(), console).await
}

/// Requests a session with its agent: a new one, or the record's. The time limit starts when the command began.
pub(super) async fn start_session(
    method: &'static str,
    params: &impl Serialize,
    record: Option<&Record>,
    settings: &CommandSettings,
    begun: Instant,
    console: &mut Console<'static>,
) -> Result<StartedSession, CliError> {
    let agent = record.map_or(&settings.agent, |record| &record.agent);
    let locator = HostLocator::of_environment()?;
    let interrupts = InterruptWatcher::since(begun, settings.timeout)?;
    let mut session = HostSession::new(console, interrupts, Some(&locator));
    let reply = session.retry_on_lost_host(async |session| {
        let mut client = session.host(&locator).await?;
        if record.is_none() {
            output::starting(agent, settings.cwd.as_path(), session.console);
        }
        session.start(&mut client, method, params, agent, record.map(|record| record.id.as_str())).await
    });
    let reply = reply.await.map_err(|error| {
        let error = error.with_help_of(agent);
        record.map(Record::identity).into_iter().fold(error, CliError::about)
    })?;
    let unreadable = || HostError::BadAnswer { method: method.to_owned() };
    let (identity, meta) = setup_request::read(&reply).ok_or_else(unreadable)?;
    Ok(StartedSession { identity, meta, reply })
}
