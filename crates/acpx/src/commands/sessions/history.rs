//! `acpx sessions history`: what was said last, in a session that is open or closed.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use acpx_core::host::listens;
use acpx_core::model::{Seq, TurnState};
use acpx_core::store::Store;

use crate::commands::kept::{Kept, agent_lives};
use crate::error::{CliError, Exit};
use crate::output::{Console, History, history};
use crate::reach::{Reach, block_on};
use crate::settings::Settings;

/// How many events are read at a time.
const PAGE: usize = 4096;

/// Shows the last entries of the session that is meant.
pub(crate) fn run(settings: &Settings, limit: NonZeroUsize) -> Result<ExitCode, CliError> {
    block_on(async {
        let kept = Kept::open()?;
        let (record, store) = kept.need(settings).await?;
        let mut said = History::new(record.id.clone());
        let mut from = Seq::FIRST;
        loop {
            let events = store.events(record.id.clone(), from, PAGE).await?;
            let Some(last) = events.last() else { break };
            from = last.seq.next();
            for event in &events {
                said.apply(event);
            }
        }
        for turn in said.silent_turns() {
            if let Some(turn) = store.turn_numbered(record.id.clone(), turn).await? {
                said.add_unsent(&turn);
            }
        }
        // Nobody goes on with what was sent by a host, or to an agent, that is gone.
        if !(agent_lives(&record) && listens(&Reach::of_environment()?.place)) {
            for turn in store.open_turns(record.id.clone()).await? {
                if let TurnState::Dispatched { at } = turn.state {
                    said.add_interrupted(turn.id, at);
                }
            }
        }
        let mut console = Console::of_program(settings.mode);
        Ok(history(&record.identity(), &said, limit.get(), &mut console)?)
    })?;
    Ok(Exit::Success.into())
}
