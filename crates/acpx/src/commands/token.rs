//! `acpx token new|list|revoke`: manages access of remote clients.

use acpx_core::home::HostPaths;

use crate::cli::{OutputArgs, TokenCommand};
use crate::error::CliError;
use crate::http::tokens::{NewToken, Tokens};
use crate::output;
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{acpx_home, make_private};
use crate::session::settings::LazyConfig;

/// Runs a `token` subcommand.
pub(super) fn run(command: &TokenCommand, options: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let mut console = config.console(options)?;
    let home = acpx_home()?;
    make_private(&home)?;
    let tokens = Tokens::of(&home);
    let paths = HostPaths::new(home, None, &std::env::temp_dir());
    if !matches!(command, TokenCommand::List) {
        // A token grants the user's rights.
        refuse_inside(&paths, "make or revoke a token")?;
    }
    match command {
        TokenCommand::New { name, scope } => {
            let new = NewToken { name: name.as_deref(), scope: (*scope).into(), ..NewToken::default() };
            let (secret, token) = tokens.make(new)?;
            output::token_made(&secret, &token, &mut console)?;
        }
        TokenCommand::List => output::tokens(&tokens.list()?, &mut console)?,
        TokenCommand::Revoke { id } => output::token_revoked(&tokens.revoke(id)?, &mut console)?,
    }
    Ok(())
}
