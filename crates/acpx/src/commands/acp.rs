//! `acpx acp`: an agent for an editor, on stdin and stdout.
//!
//! The process only forwards lines between the editor and the host, which holds the sessions. Stdout carries only the
//! protocol: startup errors go to stderr in every format, and so do lines that are no message and get no reply.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use acpx_core::client::Bridged;

use crate::cli::{CliOptions, Format};
use crate::error::{CliError, CliExit};
use crate::output::{self, Console, stdio};
use crate::session::agent_child::refuse_own_terms;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::interrupt::InterruptWatcher;
use crate::session::settings::CommandSettings;

/// Serves the editor until it disconnects.
pub(super) fn run(settings: Result<CommandSettings, CliError>, options: &CliOptions) -> ExitCode {
    match settings.and_then(|settings| serve(&settings, options)) {
        Ok(()) => CliExit::Success.into(),
        Err(error) => output::report(&error, Format::Text, options.flags.output.color),
    }
}

fn serve(settings: &CommandSettings, options: &CliOptions) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    // The host drops terms that are only configured: the user has not typed them here.
    refuse_own_terms(&locator.paths, options.flags.mode(), options.flags.tool_policy().is_some())?;
    let mut console = Console::of_program(settings.mode);
    if io::stdin().is_terminal() {
        console.notice(AT_A_TERMINAL);
    }
    let client = settings.client();
    let bridge = locator.bridge(&client);
    let bridged = block_on(async {
        let (source, target) = stdio::open()?;
        let mut interrupts = InterruptWatcher::new(None)?;
        let stop = async {
            interrupts.over().await;
        };
        Ok(bridge.run(source, target, stop, stdio::reader_gone()).await?)
    })?;
    report_ignored_lines(&bridged, &mut console);
    Ok(())
}

/// Shown to a person who types this command and sees nothing happen.
const AT_A_TERMINAL: &str = "an editor starts this command and speaks the Agent Client Protocol with it; \
    acpx help acp says how, and Ctrl-D ends it";

fn report_ignored_lines(bridged: &Bridged, console: &mut Console<'_>) {
    // Lines that got a reply were not ignored.
    match bridged.garbage.lines - bridged.garbage.answerable {
        0 => {}
        1 => console.notice("ignored 1 line from the editor that is no message of the protocol"),
        lines => {
            console.notice(&format!(
                "ignored {lines} lines from the editor that are no messages of the protocol"
            ));
        }
    }
}
