//! `acpx remote-agent`: forwards an agent on another machine to stdin and stdout. The host starts it for an agent that
//! is given as a URL; users need not type it.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::cli::{ColorMode, Format, RemoteAgentArgs};
use crate::error::{CliError, CliExit};
use crate::http::address::Address;
use crate::http::client::{Relay, RelayError};
use crate::output::{self, stdio};
use crate::session::host_locator::block_on;

/// The variable with the token for the other machine.
const TOKEN: &str = "ACPX_REMOTE_TOKEN";

/// Forwards lines until stdin ends. Errors go to stderr in every format: stdout carries the protocol.
pub(super) fn run(args: &RemoteAgentArgs) -> ExitCode {
    match relay(args) {
        Ok(()) => CliExit::Success.into(),
        Err(error) => output::report(&error, Format::Text, ColorMode::Never),
    }
}

fn relay(args: &RemoteAgentArgs) -> Result<(), CliError> {
    let address = Address::parse(&args.url, args.insecure)?;
    let token = match &args.token_file {
        Some(file) => Some(token_in(file)?),
        None => std::env::var(TOKEN).ok().filter(|token| !token.is_empty()),
    };
    block_on(async {
        let (source, target) = stdio::open()?;
        Ok(Relay::new(address, token).run(source, target).await?)
    })
}

fn token_in(file: &Path) -> Result<String, CliError> {
    let unreadable = |source| RelayError::TokenFile { file: file.to_owned(), source };
    let bad = |why| unreadable(io::Error::new(io::ErrorKind::InvalidData, why));
    if !file.is_absolute() {
        // A relative path would depend on where the agent is started.
        return Err(bad("it is not an absolute path").into());
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let token = text.trim();
    if token.is_empty() { Err(bad("it is empty").into()) } else { Ok(token.to_owned()) }
}
