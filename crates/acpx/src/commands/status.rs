//! `acpx status`: shows the status of a session from the store, without starting anything.

use std::time::Duration;

use acpx_core::home::listens;
use acpx_core::model::{Record, Timestamp, TurnId, TurnState};
use acpx_core::store::Store;
use acpx_core::wire::since_1970;

use super::wait_reason::{is_in_doubt, request, waiting_for};
use crate::config::{ProgramSearch, find_program};
use crate::error::{Alternatives, CliError, Intent, NoSessionHelp};
use crate::output::{CLIENT, Console, Snapshot, no_session, status};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::lookup::{LOOKED_THROUGH, RecordLookup, SessionFilter, agent_lives, last_usage};
use crate::session::restore_cause::transcript_view;
use crate::session::settings::CommandSettings;
use crate::session::states::pending_requests;

/// How long the host may take to report what a session waits for.
const WAIT_REASON_TIMEOUT: Duration = Duration::from_secs(2);

/// Shows the selected session. A missing session is a result, not an error.
pub(super) fn run(settings: &CommandSettings) -> Result<(), CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let lookup = RecordLookup::open()?;
        let record = lookup.selected(settings, SessionFilter::Open).await?;
        let (Some(record), Some(store)) = (record, lookup.store()) else {
            no_session(&settings.agent, settings.session.as_ref(), &mut console)?;
            let alternatives = match lookup.native_alternative(settings).await? {
                Some(native) => Alternatives::Native(native),
                // An editor's session without a scope counts too.
                None => Alternatives::Open(lookup.without_scope(settings).await?),
            };
            if alternatives != Alternatives::Open(Vec::new()) {
                let remedy = NoSessionHelp { intent: Intent::Use, alternatives };
                let name = settings.session.as_ref().map(ToString::to_string);
                console.banner(&remedy.hint(&settings.typed_agent(), name.as_deref()));
            }
            return Ok(());
        };
        let open_turns = store.open_turns(record.id.clone()).await?;
        let last_turn = lookup.last_turn(&record).await?;
        let locator = HostLocator::of_environment()?;
        let (has_turns, agent_lives) = (!open_turns.is_empty(), agent_lives(&record, &locator.paths));
        // For open turns, check whether a host continues them, and what they wait for.
        let recent = lookup.recent(&record, LOOKED_THROUGH).await?;
        let is_in_doubt = agent_lives && is_in_doubt(last_turn.as_ref(), &recent);
        let host_lives = (has_turns || is_in_doubt) && listens(&locator.paths);
        let waiting = if host_lives {
            request(&locator, &record, Timestamp::since_1970(since_1970()), WAIT_REASON_TIMEOUT).await
        } else {
            // A sent turn without a host has ended; the next host sends the queued ones.
            let queued = open_turns.iter().find(|turn| turn.state == TurnState::Queued);
            queued.map(|first| waiting_for(CLIENT, first.queued_at))
        };
        let questions = if has_turns && host_lives {
            pending_requests(&locator, Some(&record.id), WAIT_REASON_TIMEOUT).await
        } else {
            Vec::new()
        };
        // A queued turn does not show how the previous one ended.
        let first_queued = open_turns.iter().find(|turn| turn.state == TurnState::Queued);
        let last_sent = match first_queued {
            Some(queued) => {
                store.turn_numbered(record.id.clone(), TurnId(queued.id.0.saturating_sub(1))).await?
            }
            None => last_turn,
        };
        let snapshot = Snapshot {
            waiting: waiting.as_ref(),
            open_turns: &open_turns,
            last_turn: last_sent.as_ref(),
            usage: last_usage(&record, &recent),
            forgets: record.answered_turns > 0 && lookup.forgets(&record, settings).await?,
            agent_lives,
            missing_program: missing_program(&record, settings),
            host_lives,
            now: Timestamp::since_1970(since_1970()),
            questions: &questions,
            transcript: transcript_view(&record, settings),
            record: &record,
        };
        status(&snapshot, &mut console)?;
        lookup.leave();
        Ok(())
    })
}

/// The program that the next prompt would start, if it is missing. Without a PATH the system decides where to find it.
fn missing_program<'a>(record: &'a Record, settings: &'a CommandSettings) -> Option<&'a str> {
    let is_same_agent = record.agent.key() == settings.agent.key();
    let agent = if is_same_agent { &settings.agent } else { &record.agent };
    let environment = settings.environment();
    let path = environment.get("PATH");
    if agent.url().is_some() || path.is_none() {
        return None;
    }
    let around = ProgramSearch { cwd: record.cwd.as_path(), path };
    find_program(&agent.program, around).is_none().then_some(&*agent.program)
}
