//! `acpx sessions private`: marks sessions that `acpx mcp` never shows, and lists them.

use std::collections::HashSet;

use acpx_core::model::Record;
use acpx_core::store::Store;

use crate::cli::{PrivateArgs, PrivateState};
use crate::config::private::{PrivateMark, PrivateMarks};
use crate::error::{CliError, Intent};
use crate::output::{self, Console, PrivateChange};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on, make_private};
use crate::session::id_prefix::by_prefix;
use crate::session::lookup::{RecordLookup, SessionFilter};
use crate::session::native::NativeSessions;
use crate::session::private::{PrivateIds, ids_of};
use crate::session::settings::CommandSettings;

/// The session that a person means.
struct MeantSession {
    record: Option<String>,
    /// The agent's id of it.
    acp: String,
    agent: String,
    /// All ids that a mark of it may have.
    ids: HashSet<String>,
}

/// Lists the private sessions, or changes whether the selected one is private.
pub(crate) fn run(settings: &CommandSettings, args: &PrivateArgs) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let home = locator.paths.home();
    let marks = PrivateMarks::of(home);
    let mut console = Console::of_program(settings.mode);
    let Some(state) = args.state else {
        return Ok(output::private_sessions(&marks.list()?, &mut console)?);
    };
    refuse_inside(&locator.paths, "decide which session is private")?;
    make_private(home)?;
    block_on(async {
        let lookup = RecordLookup::open()?;
        let MeantSession { record, acp, agent, ids } = match meant(&lookup, settings).await {
            // The mark of a session that is gone can still be removed.
            Err(error) if state == PrivateState::Off => marked(&marks, settings)?.ok_or(error)?,
            meant => meant?,
        };
        match state {
            PrivateState::On => marks.add(record.as_ref().unwrap_or(&acp), &agent)?,
            PrivateState::Off => marks.remove(&ids)?,
        }
        let store = lookup.store().map(|store| store as &dyn Store);
        let private = PrivateIds::read(home, store, &[]).await?;
        let private = ids.iter().any(|id| private.contains(id));
        if private && state == PrivateState::Off {
            console.notice(
                "a session that shares its conversation is still private; acpx sessions private lists it",
            );
        }
        let (acpx_record_id, acpx_session_id) = (record.as_deref(), acp.as_str());
        let change = PrivateChange { acpx_record_id, acpx_session_id, agent: &agent, private };
        Ok(output::private_changed(&change, &mut console)?)
    })
}

/// The record that the name or id refers to, or else the transcript that only the agent keeps.
async fn meant(lookup: &RecordLookup, settings: &CommandSettings) -> Result<MeantSession, CliError> {
    if let Some(record) = lookup.selected(settings, SessionFilter::OpenOrClosed).await? {
        return Ok(MeantSession::of_record(&record));
    }
    let reference = settings.session.as_ref().map(ToString::to_string).unwrap_or_default();
    match NativeSessions::of(settings).find(&reference)? {
        Some(source) => Ok(MeantSession {
            record: None,
            acp: source.session.to_string(),
            agent: source.agent.to_owned(),
            ids: HashSet::from([source.session.to_string()]),
        }),
        None => Err(lookup.missing(settings, Intent::Show("private")).await?),
    }
}

/// The marked session whose id is typed or begins like this.
fn marked(marks: &PrivateMarks, settings: &CommandSettings) -> Result<Option<MeantSession>, CliError> {
    let reference = settings.session.as_ref().map(ToString::to_string).unwrap_or_default();
    let known = marks.list()?;
    let mark = by_prefix(&reference, &known, |mark| &mark.session)?;
    Ok(mark.map(|PrivateMark { session, agent, .. }| MeantSession {
        record: None,
        acp: session.clone(),
        agent: agent.clone(),
        ids: HashSet::from([session.clone()]),
    }))
}

impl MeantSession {
    fn of_record(record: &Record) -> Self {
        Self {
            record: Some(record.id.to_string()),
            acp: record.lineage.current().session.to_string(),
            agent: record.agent.label().into_owned(),
            ids: ids_of(record).into_iter().collect(),
        }
    }
}
