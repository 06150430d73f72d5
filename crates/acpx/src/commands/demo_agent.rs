//! `acpx demo-agent`: the built-in agent on stdin and stdout.

use std::process::ExitCode;

use crate::cli::DemoAgentArgs;
use crate::demo_agent::serve_stdio;
use crate::error::CliError;
use crate::session::host_locator::{acpx_home, block_on, make_private};

/// Serves until stdin ends.
pub(crate) fn run(args: &DemoAgentArgs) -> Result<ExitCode, CliError> {
    let directory = acpx_home()?.join("demo");
    make_private(&directory)?;
    block_on(async { Ok(ExitCode::from(serve_stdio(args.settings(directory)).await)) })
}
