//! Asks whether a word after an agent's name is a mistyped command or a prompt: a prompt costs money.

use crate::cli::{NearVerb, UsageError};
use crate::error::CliError;
use crate::output::OutputMode;
use crate::session::host_locator::block_on;
use crate::terminal::tty::ControllingTerminal;

/// The arguments that a person at the terminal means, if any. Without a terminal it is a usage error.
pub(crate) fn meant(near: NearVerb, mode: OutputMode) -> Result<Option<Vec<String>>, CliError> {
    let typed = block_on(async {
        let terminal = mode.is_for_a_person().then(ControllingTerminal::of_program).flatten();
        match terminal {
            Some(mut terminal) => Ok(terminal.ask(&question(&near)).await),
            None => Err(UsageError::NearVerb(near.clone()).into()),
        }
    })?;
    Ok(match typed.as_deref().map(str::trim) {
        Some("") => Some(near.command),
        Some("p" | "P") => Some(near.prompt),
        _ => None,
    })
}

fn question(near: &NearVerb) -> String {
    let command = near.command_line();
    format!(
        "acpx: {:?} is not a command. Did you mean {command}?\n\
         Enter runs it, p sends the text as a prompt, anything else ends: ",
        near.word
    )
}
