//! `acpx approve` and `acpx deny`: answer a pending request of an agent, from any terminal on this machine.

use acpx_core::client::HostClient;
use acpx_core::model::SessionIdentity;
use acpx_core::protocol::{AnswerParams, PendingMeta, PendingParams};
use acpx_core::wire::RpcId;

use crate::cli::{AnswerCommand, OutputArgs};
use crate::error::{CliError, InterruptReason};
use crate::output;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::interrupt::InterruptWatcher;
use crate::session::settings::LazyConfig;
use crate::terminal::prompt::{TerminalAnswer, TerminalPrompter};

/// Answers a pending request. Without a host there is none.
pub(super) fn run(command: &AnswerCommand, output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let mut console = config.console(output)?;
    block_on(async {
        let mut session = HostSession::new(&mut console, InterruptWatcher::new(None)?, Some(&locator));
        // Pending requests end with their host, so the answer is not retried.
        let (ids, approved) = match answer(command, &locator, &mut session).await {
            Err(HostSessionError::Lost) => Err(no_question(command)),
            Err(HostSessionError::Stopped(stop)) => Err(stop.into()),
            Err(HostSessionError::Failed(error)) => Err(error),
            Ok(answered) => Ok(answered),
        }?;
        Ok(output::answered(&ids, &command.question, approved, &mut console)?)
    })
}

/// Answers it; returns whether it was approved. A form is filled in on the terminal first, and may be declined there.
async fn answer(
    command: &AnswerCommand,
    locator: &HostLocator,
    session: &mut HostSession<'_>,
) -> Result<(SessionIdentity, bool), HostSessionError> {
    let Some(mut client) = session.during(locator.running()).await? else {
        return Err(no_question(command).into());
    };
    let AnswerCommand { question, mut approve, option } = command.clone();
    let mut content = None;
    if approve && let Some(form) = form(&mut client, &question, session).await? {
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
    let params = AnswerParams { question_id: question, approve, option_id: option, content };
    Ok((session.call(&mut client, "_acpx/answer", &params).await?, approve))
}

/// The form of a pending request, if it has one to fill in.
async fn form(
    client: &mut HostClient,
    question: &str,
    session: &mut HostSession<'_>,
) -> Result<Option<String>, HostSessionError> {
    let pending: PendingMeta = session.call(client, "_acpx/pending", &PendingParams::default()).await?;
    let pending_request =
        pending.questions.into_iter().find(|pending_request| pending_request.question_id == question);
    let form = pending_request
        .filter(|pending_request| pending_request.kind == "form")
        .and_then(|pending_request| pending_request.elicitation);
    Ok(form.and_then(|form| serde_json::to_string(&form).ok()))
}

fn no_question(command: &AnswerCommand) -> CliError {
    CliError::NoQuestion { id: command.question.clone() }
}
