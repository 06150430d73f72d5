//! `acpx status`: how a session stands, read from the store without starting anything.

use std::process::ExitCode;
use std::time::SystemTime;

use acpx_core::host::listens;
use acpx_core::model::Timestamp;
use acpx_core::store::Store;

use super::kept::{Kept, Which, agent_lives};
use super::pending;
use crate::error::{CliError, Exit};
use crate::output::{Console, Snapshot, no_session, status};
use crate::reach::{Reach, block_on};
use crate::settings::Settings;

/// Shows the session that is meant. That there is none is an answer too.
pub(super) fn run(settings: &Settings) -> Result<ExitCode, CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let kept = Kept::open()?;
        let record = kept.meant(settings, Which::Open).await?;
        let (Some(record), Some(store)) = (record, kept.store()) else {
            return Ok(no_session(&settings.agent, &mut console)?);
        };
        let open_turns = store.open_turns(record.id.clone()).await?;
        // Only of turns that are open it matters whether somebody goes on with them.
        let reach = Reach::of_environment()?;
        let host_lives = !open_turns.is_empty() && listens(&reach.place);
        let questions = if host_lives { pending::of_record(&reach, &record).await } else { Vec::new() };
        let snapshot = Snapshot {
            open_turns: &open_turns,
            last_prompt: kept.last_prompt(&record).await?,
            usage: kept.last_usage(&record).await?,
            agent_lives: agent_lives(&record),
            host_lives,
            now: now(),
            questions: &questions,
            record: &record,
        };
        Ok(status(&snapshot, &mut console)?)
    })?;
    Ok(Exit::Success.into())
}

/// This moment. A clock before 1970 or beyond the calendar says the beginning.
fn now() -> Timestamp {
    let millis = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let epoch = || Timestamp::from_millis(0).expect("the epoch is a moment");
    i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millis(millis).ok()).unwrap_or_else(epoch)
}
