//! `acpx sessions watch`: what happens in a session, whoever works in it, until it is interrupted. The agent is not
//! started, and may be parked meanwhile.

use std::process::ExitCode;

use acpx_core::acp::Cursor;
use acpx_core::model::{Record, Seq};

use crate::commands::kept::Kept;
use crate::error::{CliError, Exit};
use crate::output::{Console, FollowView};
use crate::patience::{Patience, Stop};
use crate::reach::{Reach, block_on};
use crate::settings::Settings;
use crate::talk::{Talk, Trouble};

/// Follows the session that is meant, from the next event on or from a place.
pub(crate) fn run(settings: &Settings, from: Option<&Cursor>) -> Result<ExitCode, CliError> {
    let reach = Reach::of_environment()?;
    block_on(async {
        let kept = Kept::open()?;
        let (record, _) = kept.need(settings).await?;
        let followed = follow(settings, from, &reach, kept, &record).await;
        followed.map_err(|error| error.about(record.identity()))
    })?;
    Ok(Exit::Success.into())
}

async fn follow(
    settings: &Settings,
    from: Option<&Cursor>,
    reach: &Reach,
    kept: Kept,
    record: &Record,
) -> Result<(), CliError> {
    let Some((store, events)) = kept.into_events(record) else { return Ok(()) };
    let next = match from {
        Some(place) => events.find(place).await?,
        None => record.last_seq.map_or(Seq::FIRST, Seq::next),
    };
    let mut console = Console::of_program(settings.mode);
    let mut view = FollowView::new(settings.mode, record.identity());
    let talk = Talk::new(&mut console, Patience::new(settings.timeout)?, Some(reach));
    let mut talk = talk.following(&mut view, record.id.clone(), store, next);
    let watched = talk.persist(async |talk| {
        let seen = async |talk: &mut Talk<'_>| {
            let mut client = talk.host(reach).await?;
            talk.watch(&client, record.id.as_str()).await?;
            talk.look_on(&mut client).await
        };
        match seen(talk).await {
            // This is how it ends.
            Err(Trouble::Stopped(Stop::Signalled)) => Ok(()),
            other => other,
        }
    });
    watched.await?;
    Ok(view.finish(&mut console)?)
}
