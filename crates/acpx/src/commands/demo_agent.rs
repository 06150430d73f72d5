//! `acpx demo-agent`: the built-in agent on stdin and stdout.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use crate::cli::DemoAgentArgs;
use crate::demo_agent::serve_stdio;
use crate::error::CliError;
use crate::output::{Console, OutputMode};
use crate::session::host_locator::{acpx_home, block_on, make_private};

/// Shown to a person who starts the agent by hand.
const BY_HAND: &str = "this is an agent: it waits for messages of the Agent Client Protocol on stdin, one JSON object a \
                       line, and Ctrl-D ends it; to talk to it, run acpx demo 'hello'";

/// Serves until stdin ends.
pub(crate) fn run(args: &DemoAgentArgs) -> Result<ExitCode, CliError> {
    if io::stdin().is_terminal() {
        Console::of_program(OutputMode::default()).notice(BY_HAND);
    }
    let directory = acpx_home()?.join("demo");
    make_private(&directory)?;
    block_on(async { Ok(ExitCode::from(serve_stdio(args.settings(directory)).await)) })
}
