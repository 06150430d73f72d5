//! `acpx sessions result`: prints the recorded result of a turn from the store. It starts no process.

use std::process::ExitCode;
use std::sync::Arc;

use acpx_core::home::listens;
use acpx_core::model::{Direction, ErrorCode, Record, Turn, TurnId, TurnState};
use acpx_core::store::Store;

use crate::agents;
use crate::cli::ResultArgs;
use crate::error::{CliError, Origin, RemoteError};
use crate::output::{Console, TurnView};
use crate::session::denial::DenialContext;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::lookup::RecordLookup;
use crate::session::prompt_request::{PromptCompletion, done};
use crate::session::recorded_turn::RecordedTurn;
use crate::session::settings::CommandSettings;

/// Prints the result of the selected turn. The exit code is the one of the prompt.
pub(crate) fn run(settings: &CommandSettings, args: &ResultArgs) -> Result<ExitCode, CliError> {
    block_on(async {
        let lookup = RecordLookup::open()?;
        let (record, _) = lookup.need(settings, "result").await?;
        let Some((store, _)) = lookup.into_events(&record) else { return Err(no_turn(&record, args)) };
        let shown = show(settings, args, &store, &record).await;
        shown.map_err(|error| error.about(record.identity()))
    })
}

async fn show(
    settings: &CommandSettings,
    args: &ResultArgs,
    store: &Arc<dyn Store>,
    record: &Record,
) -> Result<ExitCode, CliError> {
    let turn = selected(args, store, record).await?.ok_or_else(|| no_turn(record, args))?;
    let is_lost = turn.state != TurnState::Queued && !listens(&HostLocator::of_environment()?.paths);
    if turn.is_open() && !is_lost {
        return Err(not_over(&turn, record));
    }
    let mut console = Console::of_program(settings.mode);
    let mut view = TurnView::of_record(settings.mode, record.identity());
    let mut events = RecordedTurn::whole(Arc::clone(store), record.id.clone(), turn.id).await?;
    while let Some(page) = events.next().await? {
        // Notices of acpx belong to the time of the turn.
        let of_turn = |event: &&_| is_exchanged_in(&turn, event);
        page.iter().filter(of_turn).try_for_each(|event| view.event(event, &mut console))?;
    }
    let PromptCompletion { mut result, exit } = PromptCompletion::stored(&turn, record.identity());
    result.explain_timeout(&agents::typed(&record.agent), view.timeout_cause());
    let terms = DenialContext { policy: &turn.policy, interactive: false, is_kept: true };
    result.explain_denial(view.denied(), terms);
    done(view.finish(result, &mut console), exit, "the result is still recorded")
}

async fn selected(
    args: &ResultArgs,
    store: &Arc<dyn Store>,
    record: &Record,
) -> Result<Option<Turn>, CliError> {
    let id = record.id.clone();
    if let Some(request) = &args.request_id {
        return Ok(store.turn(id, request.clone()).await?);
    }
    let number = args.turn.map(|number| TurnId(number.get())).or(record.last_turn);
    Ok(match number {
        Some(number) => store.turn_numbered(id, number).await?,
        None => None,
    })
}

fn is_exchanged_in(turn: &Turn, event: &acpx_core::protocol::WatchedEvent) -> bool {
    event.turn == Some(turn.id) && event.direction != Direction::Ours
}

fn no_turn(record: &Record, args: &ResultArgs) -> CliError {
    let which = match (&args.request_id, args.turn) {
        (Some(request), _) => format!("no prompt with the request id {request}"),
        (None, Some(turn)) => format!("no turn {turn}"),
        (None, None) => "no turn yet".to_owned(),
    };
    let message = format!("the session {} has {which}", record.id);
    CliError::Remote(RemoteError {
        code: ErrorCode::NoTurn,
        message,
        hint: ErrorCode::NoTurn.hint().map(str::to_owned),
        origin: Origin::Cli,
        acp: None,
    })
}

fn not_over(turn: &Turn, record: &Record) -> CliError {
    let how = if turn.state == TurnState::Queued { "is queued" } else { "still runs" };
    CliError::Remote(RemoteError {
        code: ErrorCode::SessionBusy,
        message: format!("turn {} {how}, so it has no result yet", turn.id),
        hint: Some(format!("acpx sessions wait {} waits for it", record.id)),
        origin: Origin::Cli,
        acp: None,
    })
}
