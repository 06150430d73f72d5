//! `acpx remote-agent`: an agent on another machine, on stdin and stdout. The host starts it for an agent that is
//! given as a URL; nobody has to type it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::cli::Format;
use crate::error::{CliError, Exit};
use crate::http::address::Address;
use crate::http::client::{Relay, RelayError};
use crate::output::{self, stdio};

/// The variable that has the token for the other machine.
const TOKEN: &str = "ACPX_REMOTE_TOKEN";

/// Be an agent on another machine, for a program that starts agents
#[derive(Debug, Args)]
#[command(after_help = "\
The host starts this for an agent that is given as a URL, as in
  acpx --agent wss://host.example/acp 'fix the tests'

The token for it is ACPX_REMOTE_TOKEN, or in the file of --token-file.")]
pub(crate) struct RemoteAgentArgs {
    /// Where the agent is: wss://, ws://, https:// or http://
    url: String,
    /// Go there without TLS, even though it is another machine
    #[arg(long)]
    insecure: bool,
    /// Read the token from this file instead of the environment
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Passes lines until stdin ends. What goes wrong is said on stderr, whatever the format: stdout has the protocol.
pub(super) fn run(args: &RemoteAgentArgs) -> ExitCode {
    match relay(args) {
        Ok(()) => Exit::Success.into(),
        Err(error) => output::report(&error, Format::Text),
    }
}

fn relay(args: &RemoteAgentArgs) -> Result<(), CliError> {
    let address = Address::parse(&args.url, args.insecure)?;
    let token = match &args.token_file {
        Some(file) => Some(token_in(file)?),
        None => std::env::var(TOKEN).ok().filter(|token| !token.is_empty()),
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let done = runtime.block_on(async {
        let unusable = |source| CliError::System { doing: "use stdin and stdout".to_owned(), source };
        let (source, target) = (stdio::source().map_err(unusable)?, stdio::target().map_err(unusable)?);
        Ok(Relay::new(address, token).run(source, target).await?)
    });
    // A read of stdin that nobody waits for any more must not keep the process.
    runtime.shutdown_background();
    done
}

fn token_in(file: &Path) -> Result<String, CliError> {
    let unreadable = |source| RelayError::TokenFile { file: file.to_owned(), source };
    let bad = |why| unreadable(io::Error::new(io::ErrorKind::InvalidData, why));
    if !file.is_absolute() {
        // It would be another file wherever the agent is started.
        return Err(bad("it is not an absolute path").into());
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let token = text.trim();
    if token.is_empty() { Err(bad("it is empty").into()) } else { Ok(token.to_owned()) }
}
