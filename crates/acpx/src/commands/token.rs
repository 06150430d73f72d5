//! `acpx token new|list|revoke`: who may come in from elsewhere.

use std::process::ExitCode;

use crate::cli::{OutputOptions, TokenCommand};
use crate::error::{CliError, Exit};
use crate::home::{acpx_home, make_private};
use crate::output::{self, Console};
use crate::remote::tokens::Tokens;
use crate::settings::{self, LazyConfig};

/// Does something about tokens.
pub(super) fn run(
    command: &TokenCommand,
    options: OutputOptions,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let mut console = Console::of_program(settings::mode(options, config.get()?)?);
    let home = acpx_home()?;
    make_private(&home)?;
    let tokens = Tokens::of(&home);
    match command {
        TokenCommand::New { name } => {
            let (secret, token) = tokens.make(name.as_deref())?;
            output::token_made(&secret, &token, &mut console)?;
        }
        TokenCommand::List => output::tokens(&tokens.list()?, &mut console)?,
        TokenCommand::Revoke { id } => output::token_revoked(&tokens.revoke(id)?, &mut console)?,
    }
    Ok(Exit::Success.into())
}
