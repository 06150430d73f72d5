//! `acpx sessions history` shows the last entries of an open or closed session, and `sessions read` all of them in full.

use acpx_core::home::listens;
use acpx_core::model::{Record, RecordId, Seq, Timestamp, TurnId, TurnState};
use acpx_core::store::{Store, StoreError};

use crate::error::CliError;
use crate::output::{Console, History, HistoryPart, history};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::lookup::agent_lives;
use crate::session::settings::CommandSettings;
use crate::session::shown_session::{ShownConversation, ShownSession};

/// Shows a part of the selected session.
pub(crate) fn run(settings: &CommandSettings, part: HistoryPart) -> Result<(), CliError> {
    block_on(async {
        let session = ShownSession::find(settings, part.verb()).await?;
        let Some(shown) = session.into_conversation() else { return Ok(()) };
        let mut console = Console::of_program(settings.mode);
        let identity = shown.identity()?;
        let mut conversation = last_entries(&shown, &identity.record, part, &mut console).await?;
        if let Some((store, record)) = shown.stored() {
            // Turns that were sent by a dead host, or to a dead agent, are interrupted.
            let paths = HostLocator::of_environment()?.paths;
            let is_seen_to = |record: &Record| agent_lives(record, &paths) && listens(&paths);
            for (turn, at) in left_turns(&**store, &record.id, is_seen_to).await? {
                conversation.add_interrupted(turn, at);
            }
        }
        Ok(history(&identity, &conversation, part, &mut console)?)
    })
}

/// The last entries of a session: those of as many of its last turns as there are entries to show. A turn has at least
/// one entry unless its prompt has no words, so a second look further back is rare.
async fn last_entries(
    shown: &ShownConversation,
    record: &RecordId,
    part: HistoryPart,
    console: &mut Console<'_>,
) -> Result<History, CliError> {
    let limit = part.limit();
    let mut turns = limit as u64;
    loop {
        let start = if limit == 0 { Seq::FIRST } else { shown.last_turns(turns, console).await? };
        let mut conversation = History::of(record.clone(), start);
        let mut events = shown.events(start)?;
        loop {
            let page = events.next().await?;
            if page.is_empty() {
                break;
            }
            for event in &page {
                conversation.apply(event);
            }
        }
        for turn in conversation.silent_turns() {
            if let Some(turn) = shown.turn_numbered(turn).await? {
                conversation.add_unsent(&turn);
            }
        }
        if start == Seq::FIRST || conversation.entries(part).0.len() >= limit {
            return Ok(conversation);
        }
        turns = turns.saturating_mul(4);
    }
}

/// The interrupted turns: sent, not ended, without a host or agent that continues them; and when they were sent. An
/// agent is stored before a turn is sent to it, so the record is read after the turns: a turn that has just begun is
/// seen with its agent. A turn may also have ended before its agent did, so interrupted turns are read again.
async fn left_turns(
    store: &dyn Store,
    record: &RecordId,
    is_seen_to: impl Fn(&Record) -> bool,
) -> Result<Vec<(TurnId, Timestamp)>, StoreError> {
    let mut sent = sent_turns(store, record).await?;
    let read = if sent.is_empty() { None } else { store.record(record.clone()).await? };
    if read.is_none_or(|read| is_seen_to(&read)) {
        return Ok(Vec::new());
    }
    let still = sent_turns(store, record).await?;
    sent.retain(|turn| still.contains(turn));
    Ok(sent)
}

/// The turns that were sent and have not ended, and when they were sent.
async fn sent_turns(store: &dyn Store, record: &RecordId) -> Result<Vec<(TurnId, Timestamp)>, StoreError> {
    let open = store.open_turns(record.clone()).await?.into_iter();
    let sent = open.filter_map(|turn| match turn.state {
        TurnState::Dispatched { at } => Some((turn.id, at)),
        _ => None,
    });
    Ok(sent.collect())
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{
        AbsolutePath, AcpSessionId, AgentRun, AgentSpec, HostId, Lifecycle, Lineage, PermissionPolicy,
        ProcessIdentity, RequestId, StopReason, Turn, TurnOutcome,
    };
    use acpx_core::store::{Change, Durability, MemoryStore};
    use futures_util::FutureExt as _;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[tokio::test]
    async fn only_a_sent_turn_without_an_agent_is_interrupted() {
        let cwd = AbsolutePath::new("/w").unwrap();
        let record = Record {
            id: RecordId::new("r").unwrap(),
            scope: None,
            agent: AgentSpec::new("a", Vec::<String>::new()),
            cwd: cwd.clone(),
            real_cwd: cwd,
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
            info: acpx_core::model::SessionInfo::default(),
            lifecycle: Lifecycle::Open,
            lineage: Lineage::begin(AcpSessionId::new("s").unwrap(), None, at(0)),
            agent_run: None,
            settings: acpx_core::model::RecordSettings::default(),
            memory: acpx_core::model::AgentMemory::default(),
            restore_error: None,
            created_at: at(0),
            updated_at: at(0),
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        };
        let turn = Turn {
            id: TurnId(1),
            request: RequestId::new("q").unwrap(),
            prompt: "[]".into(),
            policy: PermissionPolicy::default(),
            wake_options: acpx_core::model::WakeOptions::default(),
            limits: acpx_core::model::TurnLimits::default(),
            queued_at: at(1),
            state: TurnState::Dispatched { at: at(2) },
            usage: None,
            cost: None,
            permissions: acpx_core::model::PermissionCount::default(),
        };
        let store = MemoryStore::new();
        let lease = store.create(record.clone(), Vec::new(), HostId::new("h").unwrap()).await.unwrap();
        // The record, read earlier, has no running agent.
        let process = ProcessIdentity { pid: 4242, started: 1, boot: "b".to_owned() };
        let run = AgentRun { process, since: at(1), ended: None };
        let begun = vec![Change::AgentRun(run), Change::Turn(turn.clone())];
        store.append(lease.clone(), begun, Durability::Process).await.unwrap();
        let runs = |record: &Record| record.agent_run.as_ref().is_some_and(|run| run.ended.is_none());
        assert_eq!(left_turns(&store, &record.id, runs).await.unwrap(), []);
        assert_eq!(left_turns(&store, &record.id, |_| false).await.unwrap(), [(TurnId(1), at(2))]);
        // The turn ends, and its agent after it, between the read of the turns and the read of the record.
        let ends = |_: &Record| {
            let outcome = TurnOutcome::Stopped(StopReason::cancelled());
            let ended = Turn { state: TurnState::Ended { at: at(3), outcome }, ..turn.clone() };
            let ending = store.append(lease.clone(), vec![Change::Turn(ended)], Durability::Process);
            ending.now_or_never().expect("a store in memory waits for nothing").unwrap();
            false
        };
        assert_eq!(left_turns(&store, &record.id, ends).await.unwrap(), []);
    }
}
