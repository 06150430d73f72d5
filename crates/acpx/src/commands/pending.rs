//! `acpx pending`: lists the pending requests of agents in all sessions of the home. They exist only in the host, so
//! without a running host there are none, and none is started.

use acpx_core::model::Timestamp;
use acpx_core::protocol::{PendingMeta, PendingParams};
use acpx_core::wire::since_1970;

use crate::cli::OutputArgs;
use crate::error::CliError;
use crate::output;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::settings::LazyConfig;

const METHOD: &str = "_acpx/pending";

/// Runs the command.
pub(super) fn run(output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let mut console = config.console(output)?;
    block_on(async {
        let mut session = HostSession::with_timeout(&mut console, None, &locator)?;
        let pending = session.retry_on_lost_host(async |session| questions(&locator, session).await).await?;
        let now = Timestamp::since_1970(since_1970());
        Ok(output::pending(&pending.questions, now, &mut console)?)
    })
}

/// The pending requests, if a host runs.
async fn questions(
    locator: &HostLocator,
    session: &mut HostSession<'_>,
) -> Result<PendingMeta, HostSessionError> {
    match session.during(locator.running()).await? {
        Some(mut client) => session.call(&mut client, METHOD, &PendingParams::default()).await,
        None => Ok(PendingMeta::default()),
    }
}
