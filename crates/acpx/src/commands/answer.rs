//! `acpx approve` and `acpx deny`: answer a pending request of an agent, from any terminal on this machine.

use acpx_core::client::HostClient;
use acpx_core::model::SessionIdentity;
use acpx_core::protocol::{AnswerParams, PendingMeta, PendingParams};
use acpx_core::wire::RpcId;

use crate::cli::{AnswerArgs, OutputArgs};
use crate::error::{CliError, InterruptReason};
use crate::output;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::settings::LazyConfig;
use crate::terminal::prompt::{TerminalAnswer, TerminalPrompter};

/// Answers a pending request. Without a host there is none.
pub(super) fn run(
    args: &AnswerArgs,
    approve: bool,
    output: OutputArgs,
    config: &LazyConfig,
) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let mut console = config.console(output)?;
    block_on(async {
        let mut session = HostSession::with_timeout(&mut console, None, &locator)?;
        // Pending requests end with their host, so the answer is not retried.
        let (ids, approved) = match answer(args, approve, &locator, &mut session).await {
            Err(HostSessionError::Lost) => Err(no_question(&args.question)),
            Err(HostSessionError::Stopped(stop)) => Err(stop.into()),
            Err(HostSessionError::Failed(error)) => Err(error),
            Ok(answered) => Ok(answered),
        }?;
        Ok(output::answered(&ids, &args.question, approved, &mut console)?)
    })
}

/// Answers it; returns whether it was approved. A form is filled in on the terminal first, and may be declined there.
async fn answer(
    args: &AnswerArgs,
    mut approve: bool,
    locator: &HostLocator,
    session: &mut HostSession<'_>,
) -> Result<(SessionIdentity, bool), HostSessionError> {
    let Some(mut client) = session.during(locator.running()).await? else {
        return Err(no_question(&args.question).into());
    };
    let mut content = None;
    if approve && let Some(form) = form(&mut client, &args.question, session).await? {
        // Without a terminal the host reports the missing fields.
        if let Some(mut prompter) = TerminalPrompter::of_program() {
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
    }
    let params =
        AnswerParams { question_id: args.question.clone(), approve, option_id: args.option.clone(), content };
    Ok((session.call(&mut client, "_acpx/answer", &params).await?, approve))
}

/// The form of a pending request, if it has one to fill in.
async fn form(
    client: &mut HostClient,
    question: &str,
    session: &mut HostSession<'_>,
) -> Result<Option<String>, HostSessionError> {
    let pending: PendingMeta = session.call(client, "_acpx/pending", &PendingParams::default()).await?;
    let request = pending.questions.into_iter().find(|request| request.question_id == question);
    let form = request.filter(|request| request.kind == "form").and_then(|request| request.elicitation);
    Ok(form.and_then(|form| serde_json::to_string(&form).ok()))
}

fn no_question(question: &str) -> CliError {
    CliError::NoQuestion { id: question.to_owned() }
}
