//! `acpx sessions close`: ends a session's turns and its agent, and hides it from lookup.

use std::process::ExitCode;

use acpx_core::protocol::meta::IdsMeta;
use serde_json::json;

use crate::error::{CliError, CliExit, Intent};
use crate::output::{self, Console};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::HostSession;
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup::{RecordLookup, SessionFilter};
use crate::session::settings::CommandSettings;

/// Closes the selected session.
pub(crate) fn run(settings: &CommandSettings) -> Result<ExitCode, CliError> {
    let reach = HostLocator::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let kept = RecordLookup::open()?;
        let record = kept.meant(settings, SessionFilter::Open).await?;
        let Some(record) = record else { return Err(kept.missing(settings, Intent::Closed).await?) };
        drop(kept);
        let params = json!({ "sessionId": record.id });
        let mut talk = HostSession::new(&mut console, InterruptWatcher::new(settings.timeout)?, Some(&reach));
        let asked = talk.persist(async |talk| {
            let mut client = talk.host(&reach).await?;
            talk.call::<IdsMeta>(&mut client, "_acpx/close", &params).await
        });
        let ids = asked.await.map_err(|error| error.about(record.identity()))?;
        let identity = ids.identity().unwrap_or_else(|| record.identity());
        output::closed(&identity, &mut console)?;
        Ok(CliExit::Success.into())
    })
}
