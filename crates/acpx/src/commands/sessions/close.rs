//! `acpx sessions close`: ends a session's turns and its agent, and takes it out of the shell's way.

use std::process::ExitCode;

use acpx_core::protocol::meta::IdsMeta;
use serde_json::json;

use crate::error::{CliError, Exit, Wanted};
use crate::output::{self, Console};
use crate::session::host_locator::{Reach, block_on};
use crate::session::host_session::Talk;
use crate::session::interrupt::Patience;
use crate::session::lookup::{Kept, Which};
use crate::session::settings::Settings;

/// Closes the session that is meant.
pub(crate) fn run(settings: &Settings) -> Result<ExitCode, CliError> {
    let reach = Reach::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let kept = Kept::open()?;
        let record = kept.meant(settings, Which::Open).await?;
        let Some(record) = record else { return Err(kept.missing(settings, Wanted::Closed).await?) };
        drop(kept);
        let params = json!({ "sessionId": record.id });
        let mut talk = Talk::new(&mut console, Patience::new(settings.timeout)?, Some(&reach));
        let asked = talk.persist(async |talk| {
            let mut client = talk.host(&reach).await?;
            talk.call::<IdsMeta>(&mut client, "_acpx/close", &params).await
        });
        let ids = asked.await.map_err(|error| error.about(record.identity()))?;
        let identity = ids.identity().unwrap_or_else(|| record.identity());
        output::closed(&identity, &mut console)?;
        Ok(Exit::Success.into())
    })
}
