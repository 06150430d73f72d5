//! `acpx sessions reset`: continues a session in a fresh ACP session, for an agent that keeps failing to restore it.

use acpx_core::model::{Fallback, LineageReason, Record};
use acpx_core::protocol::meta::{RestoreMeta, WakeOptionsMeta};

use crate::commands::host_request::{StartedSession, restore_meta, resume_session};
use crate::error::CliError;
use crate::output::{self, Console, SessionChange};
use crate::session::host_locator::block_on;
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;
use crate::session::setup_request::ResumeParams;

/// Resets the selected session.
pub(crate) fn run(settings: &CommandSettings, carry_history: bool) -> Result<(), CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let record = RecordLookup::open()?.open_one(settings).await?;
        let wishes = WakeOptionsMeta { fallback: Some(Fallback::Reset), carry_history };
        let meta = RestoreMeta { wishes, ..restore_meta(&record, settings, None) };
        change_session(meta, LineageReason::Reset, &record, settings, &mut console).await
    })
}

/// Resumes a session in another ACP session, and confirms it.
pub(super) async fn change_session(
    meta: RestoreMeta,
    reason: LineageReason,
    record: &Record,
    settings: &CommandSettings,
    console: &mut Console<'static>,
) -> Result<(), CliError> {
    let resume = ResumeParams::new(record, settings, None, meta);
    let StartedSession { identity, meta, .. } = resume_session(&resume, record, settings, console).await?;
    output::unmet(&meta.agent.unmet_settings, console);
    let from = &record.lineage.current().session;
    Ok(output::session_changed(&SessionChange { identity: &identity, from, reason }, console)?)
}
