//! `acpx sessions delete`: takes a session away for good, from every list and from the agent where the agent can.
//!
//! What nobody named is deleted only while it is open: said twice, the command takes no second session with it.

use std::process::ExitCode;

use serde::de::IgnoredAny;
use serde_json::json;

use super::super::kept::{Kept, Which, no_session};
use crate::error::{CliError, Exit, Remedy};
use crate::output::{self, Console};
use crate::patience::Patience;
use crate::reach::{Reach, block_on};
use crate::settings::Settings;
use crate::talk::Talk;

/// Deletes the session that is meant.
pub(crate) fn run(settings: &Settings) -> Result<ExitCode, CliError> {
    let reach = Reach::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let which = if settings.session.is_some() { Which::OpenOrClosed } else { Which::Open };
        let record = Kept::open()?.meant(settings, which).await?;
        let Some(record) = record else { return Err(no_session(settings, Remedy::Look)?) };
        let params = json!({ "sessionId": record.id });
        let mut talk = Talk::new(&mut console, Patience::new(settings.timeout)?, Some(&reach));
        let asked = talk.persist(async |talk| {
            let mut client = talk.host(&reach).await?;
            talk.call::<IgnoredAny>(&mut client, "session/delete", &params).await
        });
        asked.await.map_err(|error| error.about(record.identity()))?;
        output::deleted(&record.identity(), &mut console)?;
        Ok(Exit::Success.into())
    })
}
