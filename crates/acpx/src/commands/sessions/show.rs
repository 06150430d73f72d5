//! `acpx sessions show`: one session, open or closed, with the ACP sessions it went through.

use std::process::ExitCode;

use crate::commands::kept::{Kept, wait_for};
use crate::error::{CliError, Exit};
use crate::output::{Console, show};
use crate::settings::Settings;

/// Shows the session that is meant.
pub(crate) fn run(settings: &Settings) -> Result<ExitCode, CliError> {
    wait_for(async {
        let kept = Kept::open()?;
        let (record, _) = kept.need(settings).await?;
        let last_prompt = kept.last_prompt(&record).await?;
        Ok(show(&record, last_prompt, &mut Console::of_program(settings.mode))?)
    })?;
    Ok(Exit::Success.into())
}
