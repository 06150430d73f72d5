//! `acpx approve` and `acpx deny`: answer what an agent asks, from anywhere on this machine.

use std::process::ExitCode;

use acpx_core::host::AnswerParams;
use acpx_core::host::meta::IdsMeta;

use crate::cli::{AnswerCommand, OutputOptions};
use crate::error::{CliError, Exit};
use crate::output;
use crate::patience::Patience;
use crate::reach::{Reach, block_on};
use crate::settings::LazyConfig;
use crate::talk::{Talk, Trouble};

/// Answers a question. Without a host there is none.
pub(super) fn run(
    command: &AnswerCommand,
    output: OutputOptions,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let reach = Reach::of_environment()?;
    let mut console = config.console(output)?;
    block_on(async {
        let mut talk = Talk::new(&mut console, Patience::new(None)?, Some(&reach));
        // A host that goes away takes its questions along, so it is asked once.
        let ids = match answer(command, &reach, &mut talk).await {
            Err(Trouble::Lost) => Err(no_question(command)),
            Err(Trouble::Stopped(stop)) => Err(stop.into()),
            Err(Trouble::Failed(error)) => Err(error),
            Ok(ids) => Ok(ids),
        }?;
        output::answered(&ids, &command.question, command.approve, &mut console)?;
        Ok(Exit::Success.into())
    })
}

async fn answer(command: &AnswerCommand, reach: &Reach, talk: &mut Talk<'_>) -> Result<IdsMeta, Trouble> {
    let Some(mut client) = talk.during(reach.running()).await? else {
        return Err(no_question(command).into());
    };
    let AnswerCommand { question, approve, option } = command.clone();
    let params = AnswerParams { question_id: question, approve, option_id: option };
    talk.call(&mut client, "_acpx/answer", &params).await
}

fn no_question(command: &AnswerCommand) -> CliError {
    CliError::NoQuestion { id: command.question.clone() }
}
