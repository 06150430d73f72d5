//! `acpx host log`: prints the last lines of the host's log, and follows it. It starts nothing and needs no host.

use std::io;
use std::time::Duration;

use crate::cli::HostLogArgs;
use crate::error::CliError;
use crate::log::reader::LogReader;
use crate::output::{self, Console};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::interrupt::InterruptWatcher;

/// How often a followed log is read.
const POLL: Duration = Duration::from_millis(200);

/// Prints the log of the home's host.
pub(super) fn run(
    args: HostLogArgs,
    locator: &HostLocator,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let path = locator.paths.log();
    let unreadable =
        |source: io::Error| CliError::System { doing: format!("read {}", path.display()), source };
    let (lines, mut reader) = LogReader::open(&path, args.lines).map_err(unreadable)?;
    if reader.has_file() {
        console.banner(&format!("the log is {}", path.display()));
    } else {
        console.banner(&format!(
            "there is no log yet at {}; a host writes it, and a command such as acpx demo hello starts one",
            path.display()
        ));
    }
    output::log_lines(&lines, console)?;
    if !args.follow {
        let rest: Vec<String> = reader.rest().filter(|_| args.lines > 0).into_iter().collect();
        return Ok(output::log_lines(&rest, console)?);
    }
    block_on(async {
        let mut interrupts = InterruptWatcher::new(None)?;
        // A signal is the usual end.
        while interrupts.during(tokio::time::sleep(POLL)).await.is_ok() {
            output::log_lines(&reader.next().map_err(unreadable)?, console)?;
        }
        Ok(())
    })
}
