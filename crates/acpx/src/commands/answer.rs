//! `acpx approve` and `acpx deny`: answer a pending request of an agent, from any terminal on this machine.

use acpx_core::model::{SessionIdentity, Timestamp};
use acpx_core::protocol::{AnswerParams, PendingMeta, PendingParams, PendingRequestMeta};
use acpx_core::wire::{RpcId, since_1970};

use crate::cli::{AnswerArgs, OutputArgs, UsageError};
use crate::error::{CliError, InterruptReason};
use crate::output;
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::id_prefix::by_prefix;
use crate::session::settings::LazyConfig;
use crate::terminal::prompt::{TerminalAnswer, TerminalPrompter};
use crate::terminal::tty::ControllingTerminal;

/// An answered request.
struct Answered {
    ids: SessionIdentity,
    request: String,
    approved: bool,
}

/// Answers a pending request. Without a host there is none.
pub(super) fn run(
    args: &AnswerArgs,
    approve: bool,
    output: OutputArgs,
    config: &LazyConfig,
) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    refuse_inside(&locator.paths, "answer what an agent asks")?;
    let mut console = config.console(output)?;
    block_on(async {
        let mut session = HostSession::with_timeout(&mut console, None, &locator)?;
        // Pending requests end with their host, so the answer is not retried.
        let answered = match answer(args, approve, &locator, &mut session).await {
            Err(HostSessionError::Lost) => Err(CliError::NoQuestion { id: args.request.clone() }),
            Err(HostSessionError::Stopped(stop)) => Err(stop.into()),
            Err(HostSessionError::Failed(error)) => Err(error),
            Ok(answered) => Ok(answered),
        }?;
        match answered {
            Some(Answered { ids, request, approved }) => {
                Ok(output::answered(&ids, &request, approved, &mut console)?)
            }
            None => Ok(output::left_pending(&mut console)?),
        }
    })
}

/// Answers the request that is typed or chosen; `None` if the person leaves it pending. A form is filled in on the
/// terminal first, and may be declined there.
async fn answer(
    args: &AnswerArgs,
    mut approve: bool,
    locator: &HostLocator,
    session: &mut HostSession<'_>,
) -> Result<Option<Answered>, HostSessionError> {
    let mut client = session.during(locator.running()).await?;
    let pending = match &mut client {
        Some(client) => session.call(client, "_acpx/pending", &PendingParams::default()).await?,
        None => PendingMeta::default(),
    };
    let request = match &args.request {
        Some(typed) => {
            let found = by_prefix(typed, &pending.questions, |request| &request.question_id);
            found.map_err(CliError::from)?
        }
        None => match chosen(&pending.questions, approve, session).await? {
            RequestChoice::Request(request) => Some(request),
            RequestChoice::NonePending => None,
            RequestChoice::Left => return Ok(None),
        },
    };
    let (Some(mut client), Some(request)) = (client, request) else {
        return Err(CliError::NoQuestion { id: args.request.clone() }.into());
    };
    let mut content = None;
    if approve
        && let Some(form) = form(request)
        // Without a terminal the host reports the missing fields.
        && let Some(mut prompter) = TerminalPrompter::of_program()
    {
        prompter.ask_form(RpcId::null(), &form);
        let (filled, is_gone) = session
            .during(async {
                let typed = prompter.answered().await;
                let is_gone = matches!(typed, TerminalAnswer::HungUp(..));
                Ok((typed.or_refusal().1, is_gone))
            })
            .await?;
        if is_gone {
            return Err(HostSessionError::Stopped(InterruptReason::HungUp));
        }
        approve = filled["action"] == "accept";
        content = filled["content"].as_object().cloned();
    }
    let request = request.question_id.clone();
    let params =
        AnswerParams { question_id: request.clone(), approve, option_id: args.option.clone(), content };
    let ids = session.call(&mut client, "_acpx/answer", &params).await?;
    Ok(Some(Answered { ids, request, approved: approve }))
}

/// The form of a pending request as JSON, if it has one to fill in.
fn form(request: &PendingRequestMeta) -> Option<String> {
    let form = request.elicitation.as_ref().filter(|_| request.kind == "form")?;
    serde_json::to_string(form).ok()
}

/// What a person chose to answer.
enum RequestChoice<'a> {
    Request(&'a PendingRequestMeta),
    NonePending,
    /// Nothing; the requests stay pending.
    Left,
}

/// Shows the pending requests on the terminal and asks which one is meant.
async fn chosen<'a>(
    pending: &'a [PendingRequestMeta],
    approve: bool,
    session: &mut HostSession<'_>,
) -> Result<RequestChoice<'a>, HostSessionError> {
    let verb = if approve { "approve" } else { "deny" };
    let mode = session.console.mode;
    let may_ask = mode.is_for_a_person() && mode.is_text_on_terminal();
    let terminal = may_ask.then(ControllingTerminal::of_program).flatten();
    let Some(mut terminal) = terminal else {
        let ids = pending.iter().map(|request| request.question_id.clone()).collect();
        return Err(CliError::from(UsageError::NoRequestId { verb, ids }).into());
    };
    let now = Timestamp::since_1970(since_1970());
    let request = match pending {
        [] => return Ok(RequestChoice::NonePending),
        [only] => only,
        several => {
            let question = format!("{}Which one? (1 to {}) ", output::choice(several, now), several.len());
            let typed = ask(&mut terminal, &question, session).await?;
            let number = typed.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match number.and_then(|index| several.get(index)) {
                Some(request) => request,
                None => return Ok(RequestChoice::Left),
            }
        }
    };
    let verb = if approve { "Approve" } else { "Deny" };
    let question = format!("{}{verb} it? (y/N) ", output::shown_request(request, pending, now));
    let is_yes = session.during(async { Ok(terminal.confirm(&question).await) }).await?;
    Ok(if is_yes { RequestChoice::Request(request) } else { RequestChoice::Left })
}

/// Shows a text and reads a line; empty at the end of the input.
async fn ask(
    terminal: &mut ControllingTerminal,
    question: &str,
    session: &mut HostSession<'_>,
) -> Result<String, HostSessionError> {
    session.during(async { Ok(terminal.ask(question).await.unwrap_or_default()) }).await
}
