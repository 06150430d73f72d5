//! `acpx sessions list --remote`: shows the agent's own list, joined with the stored records.

use std::sync::Arc;

use acpx_core::acp::client::ListedSession;
use acpx_core::model::{AbsolutePath, DirectoryNameKind, DirectoryNames, Record};
use acpx_core::store::{MemoryStore, RecordFilter};

use super::list::{listed, names};
use crate::cli::ListArgs;
use crate::error::CliError;
use crate::output::{Console, ListRow, ListedState, RemoteSessionRow, remote_list};
use crate::session::host_locator::block_on;
use crate::session::host_session::waiting_for;
use crate::session::interrupt::InterruptWatcher;
use crate::session::own_engine::own_engine;
use crate::session::settings::CommandSettings;

/// Requests the list from the agent. An agent without a list is an error; the stored records are no substitute.
pub(crate) fn run(settings: &CommandSettings, command: &ListArgs) -> Result<(), CliError> {
    let directory =
        command.filter_cwd.as_deref().map(|path| names(settings.cwd.as_path(), path)).transpose()?;
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let filter = RecordFilter { agent: Some(settings.agent.key()), real_cwd: None };
        let records = listed(&filter, usize::MAX, &mut console).await?;
        let mut interrupts = InterruptWatcher::new(settings.timeout)?;
        let request = Box::pin(ask(settings, directory.as_ref(), command.cursor.as_deref()));
        let slow = waiting_for(&settings.agent);
        let page = interrupts.during_start(&slow, &mut console, request).await?;
        let page = page.map_err(|error| error.with_help_of(&settings.agent))?;
        let (sessions, next) =
            page.ok_or_else(|| CliError::NoRemoteList { agent: settings.typed_agent() })?;
        let rows: Vec<ListRow<'_>> =
            sessions.iter().map(|session| row(session, &records, settings)).collect();
        Ok(remote_list(&rows, next.as_deref(), &mut console)?)
    })
}

type RemoteSessionPage = (Vec<ListedSession>, Option<String>);

/// The prefix of a cursor in the second list of a directory with two names. Cursors of the first list are the agent's
/// own.
const WRITTEN: &str = "written:";

/// A page of the agent's sessions. Agents compare paths literally, so a directory with two names needs two lists: the
/// second one follows the end of the first.
async fn ask(
    settings: &CommandSettings,
    directory: Option<&DirectoryNames>,
    cursor: Option<&str>,
) -> Result<Option<RemoteSessionPage>, CliError> {
    let engine = own_engine("list", settings, Arc::new(MemoryStore::new())).await?;
    let two = directory.filter(|directory| directory.are_two());
    let written = two.and_then(|_| cursor?.strip_prefix(WRITTEN));
    let mut named = if written.is_some() { DirectoryNameKind::AsWritten } else { DirectoryNameKind::Really };
    let (mut cursor, mut all) = (written.or(cursor).map(str::to_owned), Vec::new());
    loop {
        let cwd = directory.map(|directory| directory.get(named));
        let page = engine.list_agent_sessions(settings.new_session(), cwd, cursor.as_deref()).await?;
        let Some(page) = page else { return Ok(None) };
        let is_listed = |session: &ListedSession| {
            let cwd = session.cwd.as_deref().and_then(|cwd| AbsolutePath::new(cwd).ok());
            two.zip(cwd).is_none_or(|(directory, cwd)| directory.lists(named, &cwd))
        };
        all.extend(page.sessions.into_iter().filter(is_listed));
        match (page.next, named) {
            (None, DirectoryNameKind::Really) if two.is_some() => {
                (named, cursor) = (DirectoryNameKind::AsWritten, None);
            }
            (Some(next), DirectoryNameKind::AsWritten) => {
                return Ok(Some((all, Some(format!("{WRITTEN}{next}")))));
            }
            (next, _) => return Ok(Some((all, next))),
        }
    }
}

/// Shows a session that has a record as that record.
fn row<'a>(
    session: &ListedSession,
    records: &'a [(Record, Option<ListedState>)],
    settings: &CommandSettings,
) -> ListRow<'a> {
    match records.iter().find(|(record, _)| record.lineage.current().session == session.session) {
        Some((record, state)) => ListRow::Kept(record, *state),
        None => ListRow::Remote(RemoteSessionRow {
            session: session.session.clone(),
            agent: settings.agent.label().into_owned(),
            cwd: session.cwd.clone(),
            title: session.title.clone(),
            updated_at: session.updated_at,
        }),
    }
}
