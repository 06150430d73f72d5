//! `acpx compare`: sends one prompt to several agents, one after the other, and compares how they answer.
//!
//! Each turn is that of an `exec`, so nothing is stored. All agents are known before the first one starts.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::exec::{ExecEnd, ExecTurn};
use super::prompt::read_prompt;
use crate::agents;
use crate::cli::{AgentChoice, CliOptions, CompareCommand, ExecCommand, Format, PromptWords, UsageError};
use crate::error::{CliError, CliExit};
use crate::output::{self, CompareRow, CompareStatus, Console, OutputMode, TurnView};
use crate::prompt_input::InputError;
use crate::session::settings::{CommandSettings, LazyConfig};

/// The time limit of each agent, if none is set.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Runs the turns and prints the comparison.
pub(super) fn run(
    command: &CompareCommand,
    options: &CliOptions,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    if let AgentChoice::Line(name) = &options.agent {
        return Err(UsageError::NoAgentHere { name: name.clone() }.into());
    }
    let (names, input) = agents_and_prompt(command, config)?;
    let exec = ExecCommand { input, ..ExecCommand::default() };
    let started: Vec<(CliOptions, CommandSettings)> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let options = CliOptions { agent: AgentChoice::Named(name.clone()), ..options.clone() };
            // The notice about a project's file is shown once.
            let mut settings = if index == 0 {
                config.settings(&options)?
            } else {
                CommandSettings::new(&options, config.get()?)?
            };
            settings.timeout.get_or_insert(TIMEOUT);
            Ok((options, settings))
        })
        .collect::<Result<_, CliError>>()?;
    let turns = started.iter().map(|(options, settings)| {
        let turn = ExecTurn { command: &exec, settings, options, config: config.get()? };
        turn.check()?;
        Ok(turn)
    });
    let turns = turns.collect::<Result<Vec<_>, CliError>>()?;
    let Some((_, settings)) = started.first() else { return Err(UsageError::CompareWords.into()) };
    let mut console = Console::of_program(settings.mode);
    let is_from_stdin = exec.input.words.is_empty() && exec.input.file.is_none();
    let blocks = read_prompt(&exec.input, settings, &mut console)
        .map_err(|error| if is_from_stdin { without_prompt(error, &names) } else { error })?;
    let mut rows = Vec::new();
    for (turn, name) in turns.iter().zip(&names) {
        if turns.len() > 1 && console.mode.is_text_on_terminal() {
            console.banner(&format!("{name} ({} of {})", rows.len() + 1, turns.len()));
        }
        let row = compared(name, turn, &blocks);
        let is_interrupted = row.is_interrupted;
        rows.push(row);
        if is_interrupted {
            break;
        }
    }
    output::compared(&rows, &mut console)?;
    Ok(exit(&rows).into())
}

/// The agents and the prompt. A last word that names an agent is one, and the prompt then comes from stdin.
fn agents_and_prompt(
    command: &CompareCommand,
    config: &LazyConfig,
) -> Result<(Vec<String>, PromptWords), CliError> {
    let CompareCommand { agents: mut names, mut input, is_prompt_unmarked } = command.clone();
    if is_prompt_unmarked && let [word] = &input.words[..] {
        let name = agents::canonical(word);
        if agents::is_built_in(word) || config.get()?.agent_names().contains(&name) {
            names.append(&mut input.words);
        }
    }
    Ok((names, input))
}

/// The error if stdin has no prompt either.
fn without_prompt(error: CliError, names: &[String]) -> CliError {
    match (error, names.last()) {
        (CliError::Input(InputError::Missing | InputError::EmptyStdin), Some(last)) => {
            let agents = names.iter().map(|name| agents::quote(name)).collect::<Vec<_>>().join(" ");
            UsageError::ComparePrompt { last: last.clone(), agents }.into()
        }
        (other, _) => other,
    }
}

/// The turn of one agent. Its output is not shown, and its failure is a row.
fn compared(name: &str, turn: &ExecTurn<'_>, blocks: &Arc<str>) -> CompareRow {
    let begun = Instant::now();
    let mut console = Console::of_program(turn.settings.mode);
    console.stop_writing();
    // The view for JSON collects the answer.
    let view = TurnView::new(OutputMode { format: Format::Json, ..turn.settings.mode }, None);
    let ended = turn.run(begun, blocks, view, &mut console, |end, _| end);
    let (completion, answer) = match ended {
        Ok(ExecEnd { completion, view, .. }) => (completion, view.into_answer()),
        Err(error) => (Err(error), String::new()),
    };
    let row = match completion {
        Ok(completion) => CompareRow::of_result(name, &completion.result, completion.exit),
        Err(error) => CompareRow::of_error(name, &error),
    };
    let wall_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    row.with_answer(&answer, wall_ms)
}

/// The worst outcome decides.
fn exit(rows: &[CompareRow]) -> CliExit {
    let any = |status: CompareStatus| rows.iter().any(|row| row.status == status);
    if rows.iter().any(|row| row.is_interrupted) {
        CliExit::Interrupted
    } else if any(CompareStatus::Error) {
        CliExit::Failure
    } else if any(CompareStatus::PermissionDenied) {
        CliExit::PermissionDenied
    } else if any(CompareStatus::Cancelled) {
        CliExit::Timeout
    } else {
        CliExit::Success
    }
}
