//! `acpx sessions replay`: shows a stored session again, from any event on. It starts no process.

use acpx_core::acp::Cursor;
use acpx_core::model::Seq;
use acpx_core::protocol::WatchedEvent;

use crate::cli::ReplayArgs;
use crate::error::CliError;
use crate::output::{Console, FollowView};
use crate::session::host_locator::block_on;
use crate::session::host_session::unsent_turn;
use crate::session::settings::CommandSettings;
use crate::session::shown_session::{ShownConversation, ShownSession};

/// Shows the selected session.
pub(crate) fn run(settings: &CommandSettings, command: &ReplayArgs) -> Result<(), CliError> {
    block_on(async {
        let Some(shown) = ShownSession::find(settings, "replay").await?.into_conversation() else {
            return Ok(());
        };
        let identity = shown.identity()?;
        let replayed = async {
            let mut console = Console::of_program(settings.mode);
            let next = beginning(command, &shown, &mut console).await?;
            show(settings, &shown, next, &mut console).await
        };
        replayed.await.map_err(|error: CliError| error.about(identity))
    })
}

async fn beginning(
    command: &ReplayArgs,
    shown: &ShownConversation,
    console: &mut Console<'_>,
) -> Result<Seq, CliError> {
    let next = shown.position(command.start.from.as_ref().unwrap_or(&Cursor::Start), console).await?;
    match command.last {
        Some(turns) => Ok(next.max(shown.last_turns(turns.get(), console).await?)),
        None => Ok(next),
    }
}

/// Shows the stored events, from this one on.
pub(super) async fn show(
    settings: &CommandSettings,
    shown: &ShownConversation,
    next: Seq,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let mut view = FollowView::new(settings.mode, shown.identity()?);
    let mut events = shown.events(next)?;
    loop {
        let page = events.next().await?;
        if page.is_empty() {
            break;
        }
        for event in page.iter().filter_map(WatchedEvent::of) {
            if let Some((store, record)) = shown.stored()
                && let Some(turn) = unsent_turn(&view, &event, store, &record.id).await?
            {
                view.unsent(&turn, console)?;
            }
            view.event(&event, console)?;
        }
        console.flush()?;
    }
    Ok(view.finish(console)?)
}
