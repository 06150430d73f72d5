//! `acpx pending`: lists the pending requests of agents in all sessions of the home. They exist only in the host, so
//! without a running host there are none, and none is started.

use std::time::Duration;

use acpx_core::model::Record;
use acpx_core::protocol::{PendingMeta, PendingParams, PendingRequestMeta};

use crate::cli::OutputArgs;
use crate::error::CliError;
use crate::output;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError};
use crate::session::settings::LazyConfig;

const METHOD: &str = "_acpx/pending";
/// How long a host may take to report the pending requests of one session.
const HOST_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the command.
pub(super) fn run(output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    let mut console = config.console(output)?;
    block_on(async {
        let mut session = HostSession::with_timeout(&mut console, None, &locator)?;
        let pending = session.retry_on_lost_host(async |session| questions(&locator, session).await).await?;
        Ok(output::pending(&pending.questions, &mut console)?)
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

/// Those of one record, for a command that shows more than these: empty if the host does not answer in time.
pub(super) async fn of_record(locator: &HostLocator, record: &Record) -> Vec<PendingRequestMeta> {
    let request = async {
        let mut client = locator.running().await.ok()??;
        let params = PendingParams { session_id: Some(record.id.to_string()) };
        client.call::<PendingMeta>(METHOD, &params).await.ok()
    };
    let answered = tokio::time::timeout(HOST_TIMEOUT, request).await.ok().flatten();
    answered.map(|pending| pending.questions).unwrap_or_default()
}
