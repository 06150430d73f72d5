//! `acpx acp`: an agent for an editor, on stdin and stdout.
//!
//! The process only passes lines between the editor and the host, which has the sessions. Stdout carries the protocol
//! alone: what goes wrong before it begins is said on stderr, in whatever format.

use std::process::ExitCode;

use acpx_core::host::Bridged;

use crate::cli::Format;
use crate::error::{CliError, Exit};
use crate::output::{self, Console, stdio};
use crate::patience::Patience;
use crate::reach::Reach;
use crate::settings::Settings;

/// Serves the editor until it is gone.
pub(super) fn run(settings: Result<Settings, CliError>) -> ExitCode {
    match settings.and_then(|settings| serve(&settings)) {
        Ok(()) => Exit::Success.into(),
        Err(error) => output::report(&error, Format::Text),
    }
}

fn serve(settings: &Settings) -> Result<(), CliError> {
    let client = settings.client();
    let bridge = Reach::of_environment()?.bridge(&client);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let bridged = runtime.block_on(async {
        let unusable = |source| CliError::System { doing: "use stdin and stdout".to_owned(), source };
        let (source, target) = (stdio::source().map_err(unusable)?, stdio::target().map_err(unusable)?);
        let mut patience = Patience::new(None)?;
        let stop = async {
            patience.over().await;
        };
        Ok::<_, CliError>(bridge.run(source, target, stop, stdio::nobody_reads()).await?)
    });
    // A read of stdin that nobody waits for any more must not keep the process.
    runtime.shutdown_background();
    tell(&bridged?, settings);
    Ok(())
}

fn tell(bridged: &Bridged, settings: &Settings) {
    let Bridged { garbage, dropped_lines } = bridged;
    let mut console = Console::of_program(settings.mode);
    if *dropped_lines > 0 {
        console.say(&format!("{dropped_lines} lines of the editor were too long and were not taken"));
    }
    if garbage.lines > 0 {
        console.detail(&format!("{} lines of the editor were no messages", garbage.lines));
    }
}
