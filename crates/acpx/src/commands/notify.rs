//! `acpx notify status|test`: shows the sinks of notifications with their queues, and sends a test event. The host runs
//! the hidden `run`, which delivers what is queued.

use std::io::{self, Read as _};
use std::process::ExitCode;
use std::sync::Arc;

use acpx_core::model::Timestamp;
use acpx_core::store::{Access, SqliteStore, Store as _};
use acpx_core::wire::{new_uuid, since_1970};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::cli::{NotifyCommand, OutputArgs};
use crate::config::notify::NotifySink;
use crate::error::{CliError, CliExit};
use crate::notify::{DeliveryContext, NotificationPayload, deliver, deliver_queue, host_ended, lock_queue};
use crate::output::{self, NotifyTest, SinkState};
use crate::session::agent_child::{is_child_of_host, refuse_inside};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::settings::LazyConfig;
use crate::web::registration;

/// Runs a `notify` subcommand.
pub(super) fn run(
    command: &NotifyCommand,
    output: OutputArgs,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let locator = HostLocator::of_environment()?;
    match command {
        NotifyCommand::Status => {
            let mut console = config.console(output)?;
            let sinks = block_on(states(&locator, &config.get()?.home.notify.sinks))?;
            output::notify_status(&sinks, &mut console)?;
        }
        NotifyCommand::Test { sink } => {
            refuse_inside(&locator.paths, "send a notification")?;
            return test(sink.as_deref(), &locator, output, config);
        }
        NotifyCommand::Run => {
            if !is_child_of_host(&locator.paths) {
                refuse_inside(&locator.paths, "deliver notifications")?;
            }
            block_on(deliver_all(&locator))?;
        }
    }
    Ok(CliExit::Success.into())
}

/// The configured sinks with what the store knows of them.
pub(super) async fn states(locator: &HostLocator, sinks: &[NotifySink]) -> Result<Vec<SinkState>, CliError> {
    let stored = match locator.open_store()? {
        Some(store) => store.notification_sinks().await?,
        None => Vec::new(),
    };
    let state = |sink: &NotifySink| SinkState {
        sink: sink.clone(),
        status: stored.iter().find(|status| status.sink == sink.name).cloned().unwrap_or_default(),
    };
    Ok(sinks.iter().map(state).collect())
}

/// Sends a test event to one sink or all of them.
fn test(
    name: Option<&str>,
    locator: &HostLocator,
    output: OutputArgs,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let sinks = &config.get()?.home.notify.sinks;
    let is_meant = |sink: &&NotifySink| name.is_none_or(|name| sink.name == name);
    let meant: Vec<&NotifySink> = sinks.iter().filter(is_meant).collect();
    if meant.is_empty() {
        return Err(CliError::NoSink { name: name.map(str::to_owned) });
    }
    let mut console = config.console(output)?;
    let page = registration::last_url(locator.paths.home());
    let event_id = new_uuid().simple().to_string();
    let now = Timestamp::since_1970(since_1970());
    let payload = NotificationPayload::test(event_id, now, page.as_deref());
    let mut failures = Vec::new();
    for sink in meant {
        let delivered = block_on(async { Ok(deliver(sink, &payload, now).await) })?;
        let error = delivered.err().map(|error| error.to_string());
        let sent = NotifyTest { sink, event_id: &payload.event_id, error: error.as_deref() };
        output::notify_tested(&sent, &mut console)?;
        failures.extend(error.map(|reason| (sink.name.clone(), reason)));
    }
    if failures.is_empty() {
        Ok(CliExit::Success.into())
    } else {
        Err(CliError::NotificationFailed { failures })
    }
}

/// Delivers what is queued, as long as the host lives that started this process.
async fn deliver_all(locator: &HostLocator) -> Result<(), CliError> {
    let home = locator.paths.home();
    let (added, watched) = watch::channel(0);
    // It ends with the process.
    drop(spawn_blocking(move || count_reports(&added)));
    let lock = tokio::select! {
        lock = lock_queue(home) => lock,
        () = host_ended(watched.clone()) => return Ok(()),
    };
    let _lock = lock
        .map_err(|source| CliError::System { doing: "lock the queue of notifications".to_owned(), source })?;
    if !locator.paths.store().exists() {
        return Ok(());
    }
    let store = Arc::new(SqliteStore::open(&locator.paths.store(), Access::ReadWrite)?);
    let context = DeliveryContext { home: home.to_owned(), store };
    Ok(deliver_queue(&context, watched).await?)
}

/// Counts the host's reports that something was added, until it closes stdin or ends.
fn count_reports(added: &watch::Sender<u64>) {
    let mut reports = [0; 256];
    loop {
        match io::stdin().read(&mut reports) {
            Ok(0) => return,
            Ok(_) => added.send_modify(|count| *count += 1),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
