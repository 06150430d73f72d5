//! `acpx sessions reset`: continues a session in a fresh ACP session, for an agent that keeps failing to restore it.

use std::process::ExitCode;

use acpx_core::model::{LineageReason, Record, SessionIdentity};
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{FallbackMeta, RestoreMeta, WakeOptionsMeta};

use crate::agents;
use crate::error::{CliError, CliExit};
use crate::output::{self, Console, SessionChange};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;
use crate::session::setup_request;
use crate::session::setup_request::ResumeParams;

/// Resets the selected session.
pub(crate) fn run(settings: &CommandSettings, carry_history: bool) -> Result<ExitCode, CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = RecordLookup::open()?.open_one(settings).await?;
        let wishes = WakeOptionsMeta { fallback: Some(FallbackMeta::Reset), carry_history };
        let meta = RestoreMeta { wishes, ..RestoreMeta::default() };
        let identity = resume(settings, &record, meta, &mut console).await?;
        let (from, reason) = (&record.lineage.current().session, LineageReason::Reset);
        output::session_changed(&SessionChange { identity: &identity, from, reason }, &mut console)?;
        Ok(CliExit::Success.into())
    })
}

/// Resumes a session in another ACP session; returns its new ids.
pub(super) async fn resume(
    settings: &CommandSettings,
    record: &Record,
    meta: RestoreMeta,
    console: &mut Console<'static>,
) -> Result<SessionIdentity, CliError> {
    let reach = HostLocator::of_environment()?;
    let is_with_it = record.agent.key() == settings.agent.key();
    let agent = is_with_it.then(|| (&settings.agent).into());
    let meta = RestoreMeta { agent, start: settings.start(&record.agent, settings.ttl, None), ..meta };
    let resume = ResumeParams::new(record, settings, None, meta);
    let mut talk = HostSession::new(console, InterruptWatcher::new(settings.timeout)?, Some(&reach));
    let (label, id) = (record.agent.label(), record.id.as_str());
    let asked = talk.persist(async |talk| {
        let mut client = talk.host(&reach).await?;
        talk.start(&mut client, "session/resume", &resume, &label, Some(id)).await
    });
    let about = |error: CliError| error.with_login_of(&agents::typed(&record.agent)).about(record.identity());
    let answer = asked.await.map_err(about)?;
    let bad = || HostError::BadAnswer { method: "session/resume".to_owned() };
    let (identity, meta) = setup_request::read(&answer).ok_or_else(bad)?;
    output::unmet(&meta.unmet_settings, console);
    Ok(identity)
}
