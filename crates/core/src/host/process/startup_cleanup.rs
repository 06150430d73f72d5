//! Cleans up after a killed host: ends its remaining agents and their processes, and stores that in their records.
//! Processes of killed commands are ended too; they belong to no record.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::EngineSettings;
use crate::home::HostPaths;
use crate::home::direct_runs::StaleRuns;
use crate::model::{
    AgentEnd, AgentExit, AgentRun, Direction, EndedProcess, Event, EventKind, Fact, HostId,
    NotificationEvent, NotificationKind, ProcessIdentity, Record, RecordId, Seq, TurnId,
};
use crate::store::{Change, Durability, SessionWriter, Store, StoreError};
use crate::tools::{GracePeriods, SweepReport, sweep};

/// Ends the remaining processes, and stores in each record which of them ended.
pub(crate) async fn end(
    store: &Arc<dyn Store>,
    host: &HostId,
    (paths, home): (&HostPaths, &str),
    settings: &EngineSettings,
) -> Result<SweepReport, StoreError> {
    let running = store.running().await?;
    let runs: Vec<ProcessIdentity> = running.iter().map(|(_, run)| run.process.clone()).collect();
    let (home, grace): (String, GracePeriods) = (home.to_owned(), settings.process);
    let commands = StaleRuns::of(paths);
    let keep = Arc::clone(&settings.keep_programs);
    let sweeping = move || {
        let swept = sweep(&home, &runs, &keep, grace);
        commands.remove_after(&swept);
        swept
    };
    let swept = tokio::task::spawn_blocking(sweeping).await.unwrap_or_default();
    let mut left: BTreeMap<String, Left> = BTreeMap::new();
    for process in swept.ended.iter().chain(&swept.left) {
        if let Some(record) = &process.record {
            let named = EndedProcess { name: process.name.clone(), pid: process.identity.pid };
            left.entry(record.clone()).or_default().processes.push((process.group, named));
        }
    }
    for (record, run) in running {
        left.entry(record.to_string()).or_default().run = Some(run);
    }
    for (record, left) in left {
        // A process names its own record, and may name anything.
        let Ok(id) = RecordId::new(record) else { continue };
        let Some(record) = store.record(id.clone()).await? else { continue };
        let turn = lost_turn(store, &id, &left).await?;
        let changes = left.into_changes(&record, turn, settings);
        let has_notification = changes.iter().any(|change| matches!(change, Change::Notification(_)));
        let writer = SessionWriter::lease(Arc::clone(store), id, host.clone()).await?;
        writer.append(changes, Durability::Process).await?;
        if has_notification {
            settings.notifications.report_added();
        }
    }
    Ok(swept)
}

/// The turn that the previous host left open together with the agent. The agent's end is stored once, so a turn is
/// found once.
async fn lost_turn(
    store: &Arc<dyn Store>,
    record: &RecordId,
    left: &Left,
) -> Result<Option<TurnId>, StoreError> {
    if left.run.is_none() {
        return Ok(None);
    }
    Ok(store.open_turns(record.clone()).await?.first().map(|turn| turn.id))
}

/// The remaining processes of one record's agents.
#[derive(Default)]
struct Left {
    /// The last agent, if its end was not recorded.
    run: Option<AgentRun>,
    /// Processes with their groups.
    processes: Vec<(u32, EndedProcess)>,
}

impl Left {
    fn into_changes(self, record: &Record, turn: Option<TurnId>, settings: &EngineSettings) -> Vec<Change> {
        let Self { run, mut processes } = self;
        let at = (settings.clock)();
        let last = run.as_ref().or(record.agent_run.as_ref()).map(|run| run.process.pid);
        // Processes in the agent's own group are part of the agent.
        processes.retain(|(group, _)| Some(*group) != last);
        let processes: Vec<_> = processes.into_iter().map(|(_, process)| process).collect();
        let run = run.map(|run| {
            let how = AgentEnd::Otherwise("its host went away".to_owned());
            Change::AgentRun(AgentRun { ended: Some(AgentExit { at, how }), ..run })
        });
        let fact = (!processes.is_empty()).then(|| {
            Change::Event(Event {
                seq: record.last_seq.map_or(Seq::FIRST, Seq::next),
                at,
                turn: None,
                lineage: record.lineage.current_index(),
                protocol: record.agent.protocol.number(),
                direction: Direction::Ours,
                kind: EventKind::Fact,
                body: Fact::ProcessesEnded { processes }.to_body(),
            })
        });
        let spoken = record.external_activity().map(Change::LastActivity);
        let notification = turn.and_then(|turn| {
            let event = |_| NotificationEvent::HostLost { turn: turn.0 };
            settings.notifications.notification(at, NotificationKind::HostLost, event)
        });
        // The agent's requests ended with it.
        let settled = run.as_ref().map(|_| Change::RequestSettled);
        let notification = notification.map(Change::Notification);
        run.into_iter().chain(fact).chain(spoken).chain(settled).chain(notification).collect()
    }
}
