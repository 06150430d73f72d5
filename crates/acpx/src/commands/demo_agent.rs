//! `acpx demo-agent`: the built-in agent on stdin and stdout.

use std::process::ExitCode;

use crate::cli::DemoAgentArgs;
use crate::demo_agent::serve_stdio;
use crate::error::CliError;
use crate::session::home::{acpx_home, make_private};

/// Serves until stdin ends.
pub(crate) fn run(args: &DemoAgentArgs) -> Result<ExitCode, CliError> {
    let directory = acpx_home()?.join("demo");
    make_private(&directory)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let code = runtime.block_on(serve_stdio(args.settings(directory)));
    // A pending read of stdin must not keep the process alive.
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}
