//! Looks at the sinks of notifications: what waits for each, and whether its last attempt failed.

use super::super::notify::states;
use super::DoctorReport;
use crate::config::Config;
use crate::error::CliError;
use crate::output::Finding;
use crate::session::host_locator::HostLocator;

/// Reports every configured sink.
pub(super) async fn look(config: &Config, report: &mut DoctorReport) -> Result<(), CliError> {
    let sinks = &config.home.notify.sinks;
    let (false, Ok(locator)) = (sinks.is_empty(), HostLocator::of_environment()) else { return Ok(()) };
    // An unusable store is reported already.
    for state in states(&locator, sinks).await.unwrap_or_default() {
        let words = format!("{}: {}", state.sink.name, state.words());
        report.say(&match state.status.error {
            None => Finding::ok("notify", words),
            Some(_) => Finding::warn("notify", words, "acpx notify test sends it a test event"),
        })?;
    }
    Ok(())
}
