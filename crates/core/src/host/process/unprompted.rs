//! Removes sessions that an ACP client created and never prompted. Editors create a session each time they open, and
//! each would stay in the store forever. `session/close` removes it at once; otherwise the host removes it a day after
//! its last client disconnected.

use std::collections::HashMap;
use std::time::Duration;

use crate::engine::SessionError;
use crate::model::{RecordId, Timestamp};

use crate::host::Host;
use crate::sync::Lock;

/// When the host first looks for such sessions after its start.
pub(crate) const FIRST_LOOK: Duration = Duration::from_secs(10);
/// How often it looks after that.
pub(crate) const EVERY: Duration = Duration::from_hours(1);
/// How long such a session stays after its last client disconnected.
const KEPT_FOR: Duration = Duration::from_hours(24);
/// How many are removed at a time. The rest is left for the next time.
const MOST: usize = 1000;

/// When unprompted sessions were last seen in use. A session that is released also changes, since its agent ends; this
/// covers agents that end later, or had ended before.
#[derive(Debug, Default)]
pub(crate) struct LastUses(Lock<HashMap<RecordId, Timestamp>>);

impl LastUses {
    /// Whether a session has been unused for long enough, given whether it is used now.
    fn is_long_ago(&self, record: &RecordId, is_used: bool, now: Timestamp) -> bool {
        let mut uses = self.0.lock();
        if is_used {
            uses.insert(record.clone(), now);
            return false;
        }
        let is_long_ago = uses.get(record).is_none_or(|used| now.since(*used) >= KEPT_FOR + EVERY);
        if is_long_ago {
            uses.remove(record);
        }
        is_long_ago
    }
}

impl Host {
    /// Removes the sessions that were never prompted and that no client has used for a day.
    pub(crate) async fn remove_unprompted(&self) {
        let now = self.engine.now();
        let millis = i64::try_from(KEPT_FOR.as_millis()).unwrap_or(i64::MAX);
        let Ok(before) = Timestamp::from_millis(now.as_millis().saturating_sub(millis)) else { return };
        // A failed read is retried the next time.
        let Ok(records) = self.store.unprompted(before, MOST).await else { return };
        for record in records {
            if self.last_uses.is_long_ago(&record, self.engine.is_held(&record), now) {
                // A failed removal is retried the next time.
                drop(self.delete_unprompted(&record).await);
            }
        }
    }

    /// Removes a record that was never prompted and that no client uses, and returns whether it did.
    pub(crate) async fn remove_if_unprompted(&self, record: &RecordId) -> Result<bool, SessionError> {
        let stored = self.engine.record(record).await?;
        Ok(stored.is_some_and(|stored| stored.is_unprompted()) && self.delete_unprompted(record).await?)
    }

    async fn delete_unprompted(&self, record: &RecordId) -> Result<bool, SessionError> {
        let is_deleted = self.engine.delete_unprompted(record).await?;
        if is_deleted {
            self.confined_records.remove(record);
        }
        Ok(is_deleted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::engine::{Engine, EngineSettings, RestoreSession};
    use crate::model::{
        AbsolutePath, AcpSessionId, AgentKey, AgentMemory, AgentSpec, HostId, Lifecycle, Lineage, Record,
        RecordSettings, Scope,
    };
    use crate::store::{MemoryStore, Store};

    static NOW: AtomicI64 = AtomicI64::new(0);

    fn now() -> Timestamp {
        Timestamp::from_millis(NOW.load(Ordering::Relaxed)).unwrap()
    }

    fn pass(hours: i64) {
        NOW.fetch_add(hours * 3_600_000, Ordering::Relaxed);
    }

    fn record(name: &str) -> Record {
        let directory = || AbsolutePath::new("/").unwrap();
        Record {
            id: RecordId::new(name).unwrap(),
            agent: AgentSpec::new("/no/such/agent", [""; 0]),
            cwd: directory(),
            real_cwd: directory(),
            additional_directories: Vec::new(),
            scope: None,
            mcp_servers: Vec::new(),
            info: crate::model::SessionInfo::default(),
            lifecycle: Lifecycle::Open,
            lineage: Lineage::begin(AcpSessionId::new(name).unwrap(), None, now()),
            agent_run: None,
            settings: RecordSettings::default(),
            memory: AgentMemory::default(),
            restore_error: None,
            created_at: now(),
            updated_at: now(),
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        }
    }

    async fn left(host: &Host) -> Vec<&'static str> {
        host.remove_unprompted().await;
        let mut left = Vec::new();
        for name in ["abandoned", "used", "shell"] {
            if host.engine.record(&RecordId::new(name).unwrap()).await.unwrap().is_some() {
                left.push(name);
            }
        }
        left
    }

    #[tokio::test]
    async fn an_unprompted_session_is_removed_a_day_after_its_last_client_disconnected() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let id = || HostId::new("h").unwrap();
        let scope = Some(Scope { agent: AgentKey::new("a"), name: None });
        for record in [record("abandoned"), record("used"), Record { scope, ..record("shell") }] {
            store.create(record, Vec::new(), id()).await.unwrap();
        }
        let settings = EngineSettings { clock: now, ..EngineSettings::default() };
        let engine = Engine::new(Arc::clone(&store), id(), settings);
        let host = Arc::new(Host::new(engine, store, "1", crate::host::ClientTimeouts::default()));
        let [used, abandoned] = ["used", "abandoned"].map(|id| RecordId::new(id).unwrap());
        host.confined_records.insert(&abandoned);
        let session = host.engine.attach(&used, &RestoreSession::unchanged()).await.unwrap();
        let hold = session.hold();
        pass(24);
        assert_eq!(left(&host).await, ["abandoned", "used", "shell"]);
        pass(1);
        assert_eq!(left(&host).await, ["used", "shell"]);
        assert!(!host.confined_records.contains(&abandoned));
        drop(hold);
        pass(24);
        assert_eq!(left(&host).await, ["used", "shell"]);
        pass(1);
        assert_eq!(left(&host).await, ["shell"]);
        host.shut_down().await;
    }
}
