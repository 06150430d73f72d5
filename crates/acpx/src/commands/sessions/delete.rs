//! `acpx sessions delete`: deletes a session permanently, from every list and from the agent if it supports that.
//!
//! A session selected without a name is deleted only while it is open: a repeated command does not delete a second one.

use acpx_core::host::title;
use acpx_core::model::{Record, RecordId};
use acpx_core::protocol::meta::{DeletedMeta, RestoreMeta};
use acpx_core::store::StoreError;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::cli::UsageError;
use crate::commands::host_request::restore_meta;
use crate::error::{CliError, Intent};
use crate::output::{self, Console};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::lookup::{RecordLookup, SessionFilter};
use crate::session::prompt_request::AcpxMeta;
use crate::session::settings::CommandSettings;
use crate::session::setup_request::ResumeParams;
use crate::terminal::tty::ControllingTerminal;

/// The reply to `session/delete`.
#[derive(Deserialize)]
struct Deleted {
    #[serde(rename = "_meta", default)]
    meta: Option<AcpxMeta<DeletedMeta>>,
}

/// Deletes the selected session, after asking on a terminal.
pub(crate) fn run(settings: &CommandSettings, is_confirmed: bool) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let which =
            if settings.session.is_some() { SessionFilter::OpenOrClosed } else { SessionFilter::Open };
        let lookup = RecordLookup::open()?;
        let record = match lookup.selected(settings, which).await {
            Err(CliError::Store(error @ StoreError::Corrupt { .. })) => {
                let Some(damaged) = lookup.damaged(settings).await else { return Err(error.into()) };
                drop(lookup);
                return delete_damaged(&damaged, settings, is_confirmed, &locator, &mut console).await;
            }
            record => record?,
        };
        let Some(record) = record else { return Err(lookup.missing(settings, Intent::Delete).await?) };
        if !is_confirmed && settings.mode.is_for_a_person() && !confirms(&lookup, &record).await? {
            return Ok(output::not_deleted(&mut console)?);
        }
        drop(lookup);
        let params = json!({ "sessionId": record.id });
        // An agent that has to be started for the delete gets the environment of this command.
        let meta = RestoreMeta { later: true, ..restore_meta(&record, settings, None) };
        let resume = ResumeParams::new(&record, settings, None, meta);
        let mut session = HostSession::with_timeout(&mut console, settings.timeout, &locator)?;
        let deleted = session.retry_on_lost_host(async |session| {
            let mut client = session.host(&locator).await?;
            match session.call::<IgnoredAny>(&mut client, "session/resume", &resume).await {
                // A session that cannot be resumed, for instance because its directory is missing, can still be
                // deleted.
                Ok(_) | Err(HostSessionError::Failed(_)) => {}
                Err(trouble) => return Err(trouble),
            }
            session.call::<Deleted>(&mut client, "session/delete", &params).await
        });
        let Deleted { meta } = deleted.await.map_err(|error| error.about(record.identity()))?;
        let kept_by_agent = meta.map(|AcpxMeta { acpx }| acpx.kept_by_agent);
        Ok(output::deleted(&record.identity(), kept_by_agent.as_deref(), &mut console)?)
    })
}

/// Deletes a record that cannot be read. Its agent is unknown, so only the record goes.
async fn delete_damaged(
    record: &RecordId,
    settings: &CommandSettings,
    is_confirmed: bool,
    locator: &HostLocator,
    console: &mut Console<'static>,
) -> Result<(), CliError> {
    let question = format!("Delete the damaged session {record}, for good? (y/N) ");
    if !is_confirmed && settings.mode.is_for_a_person() && !asked(&question).await? {
        return Ok(output::not_deleted(console)?);
    }
    let params = json!({ "sessionId": record });
    let mut session = HostSession::with_timeout(console, settings.timeout, locator)?;
    let deleted = session.retry_on_lost_host(async |session| {
        let mut client = session.host(locator).await?;
        session.call::<Deleted>(&mut client, "session/delete", &params).await
    });
    let Deleted { meta } = deleted.await?;
    let damage = meta.map(|AcpxMeta { acpx }| acpx.kept_by_agent).unwrap_or_default();
    Ok(output::damaged_deleted(record, &damage, console)?)
}

/// Asks the user at the terminal whether to delete a session.
async fn confirms(lookup: &RecordLookup, record: &Record) -> Result<bool, CliError> {
    let title = match lookup.store() {
        Some(store) => title(store, record).await?,
        None => None,
    };
    asked(&output::delete_question(record, title.as_deref())).await
}

async fn asked(question: &str) -> Result<bool, CliError> {
    // A command in the background cannot ask.
    let Some(mut terminal) = ControllingTerminal::of_program() else {
        return Err(UsageError::Unconfirmed { command: "sessions delete" }.into());
    };
    Ok(terminal.confirm(question).await)
}
