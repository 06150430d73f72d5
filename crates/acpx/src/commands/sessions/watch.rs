//! `acpx sessions watch`: shows what happens in a session, from any client, until it is interrupted or the session is
//! deleted. For a closed session it shows the stored events and ends. It does not start the agent, and the agent may be
//! parked while it runs. Notices about the session go to stderr.

use acpx_core::acp::Cursor;
use acpx_core::model::{Lifecycle, Record, Seq};

use super::replay;
use crate::error::{CliError, InterruptReason};
use crate::output::{self, Console, FollowView, SessionLabel};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::lookup::RecordLookup;
use crate::session::settings::CommandSettings;
use crate::session::shown_session::ShownConversation;

/// Follows the selected session, from the next event on or from a cursor.
pub(crate) fn run(settings: &CommandSettings, from: Option<&Cursor>) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    block_on(async {
        let lookup = RecordLookup::open()?;
        let (record, _) = lookup.need(settings, "watch").await?;
        let followed = follow(settings, from, &locator, lookup, &record).await;
        followed.map_err(|error| error.about(record.identity()))
    })
}

async fn follow(
    settings: &CommandSettings,
    from: Option<&Cursor>,
    locator: &HostLocator,
    lookup: RecordLookup,
    record: &Record,
) -> Result<(), CliError> {
    let short = lookup.short_id(&record.id, settings.mode).await;
    let label = SessionLabel::of(record, &short);
    let Some((store, events)) = lookup.into_events(record) else { return Ok(()) };
    let mut console = Console::of_program(settings.mode);
    if record.lifecycle != Lifecycle::Open {
        // A closed session has no further events, so the stored ones are shown.
        output::watching_closed(label, &mut console);
        let next = events.find(from.unwrap_or(&Cursor::Start)).await?;
        let shown = ShownConversation::Stored { store, events, record: Box::new(record.clone()) };
        return replay::show(settings, &shown, next, &mut console).await;
    }
    let next = match from {
        Some(position) => events.find(position).await?,
        None => record.last_seq.map_or(Seq::FIRST, Seq::next),
    };
    output::watching(label, &beginning(from), &mut console);
    let mut view = FollowView::new(settings.mode, record.identity());
    let session = HostSession::with_timeout(&mut console, settings.timeout, locator)?;
    let mut session = session.following(&mut view, record.id.clone(), store, next);
    let watched = session.retry_on_lost_host(async |session| {
        let seen = async |session: &mut HostSession<'_>| {
            let mut client = session.host(locator).await?;
            session.watch(&client, record.id.as_str()).await?;
            session.show_events(&mut client).await
        };
        match seen(session).await {
            Ok(()) => Ok(WatchEnd::Deleted),
            // The normal end.
            Err(HostSessionError::Stopped(InterruptReason::Signalled)) => Ok(WatchEnd::Interrupted),
            Err(trouble) => Err(trouble),
        }
    });
    let end = watched.await?;
    view.finish(&mut console)?;
    if end == WatchEnd::Deleted {
        output::watched_deleted(&mut console);
    }
    Ok(())
}

/// Why the watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchEnd {
    Interrupted,
    Deleted,
}

/// Where it begins, in words.
fn beginning(from: Option<&Cursor>) -> String {
    match from {
        None => "from now on".to_owned(),
        Some(Cursor::Start) => "from the start".to_owned(),
        Some(Cursor::Turn(turn)) => format!("from turn {}", turn.0),
        Some(Cursor::Seq(seq)) => format!("from seq {seq}"),
        Some(Cursor::Message(id)) => format!("from message {id}"),
    }
}
