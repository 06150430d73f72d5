//! Kept, then shown: a store that holds its appends back shows what happens before one is acknowledged.

use std::sync::Mutex;

use acpx_core::model::{
    AcpSessionId, AgentAnswer, AgentBuild, AgentRun, AgentSpec, DeliveryOutcome, ExchangeCheckpoint,
    QueuedNotification, Record, RequestId, Scope, SinkStatus, Spending, Timestamp, TurnId,
};
use acpx_core::store::{
    Append, Change, Durability, Lease, OpenTurns, RecordFilter, ScopeQuery, SessionOwner, StoreFuture,
};
use tokio::sync::watch;

use super::*;

/// A store whose appends wait while its gate is shut.
struct GatedStore {
    inner: MemoryStore,
    open: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
    appended: Mutex<Vec<(Vec<Change>, Durability)>>,
}

impl GatedStore {
    fn new() -> Arc<Self> {
        let (open, waiting) = (watch::Sender::new(true), watch::Sender::new(0));
        Arc::new(Self { inner: MemoryStore::new(), open, waiting, appended: Mutex::default() })
    }

    fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Waits until an append stands before the gate.
    async fn someone_waits(&self) {
        self.waiting.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }
}

impl Store for GatedStore {
    fn append(&self, lease: Lease, changes: Vec<Change>, durability: Durability) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.waiting.send_modify(|count| *count += 1);
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
            self.waiting.send_modify(|count| *count -= 1);
            self.appended.lock().unwrap().push((changes.clone(), durability));
            self.inner.append(lease, changes, durability).await
        })
    }

    fn append_both(&self, one: Append, other: Append, durability: Durability) -> StoreFuture<'_, ()> {
        self.inner.append_both(one, other, durability)
    }

    fn create(&self, record: Record, changes: Vec<Change>, host: HostId) -> StoreFuture<'_, Lease> {
        self.inner.create(record, changes, host)
    }

    fn remove_damaged(&self, record: RecordId) -> StoreFuture<'_, ()> {
        self.inner.remove_damaged(record)
    }

    fn lease(&self, record: RecordId, host: HostId) -> StoreFuture<'_, Lease> {
        self.inner.lease(record, host)
    }

    fn records_by_id_prefix(
        &self,
        filter: RecordFilter,
        prefix: String,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        self.inner.records_by_id_prefix(filter, prefix, limit)
    }

    fn records_named(&self, named: Scope, limit: usize) -> StoreFuture<'_, Vec<Record>> {
        self.inner.records_named(named, limit)
    }

    fn exchanges(&self, record: RecordId) -> StoreFuture<'_, Option<ExchangeCheckpoint>> {
        self.inner.exchanges(record)
    }

    fn records_with_open_turns(&self) -> StoreFuture<'_, Vec<(RecordId, OpenTurns)>> {
        self.inner.records_with_open_turns()
    }

    fn spent(&self, record: RecordId) -> StoreFuture<'_, Spending> {
        self.inner.spent(record)
    }

    fn short_ids(&self, ids: Vec<RecordId>) -> StoreFuture<'_, Vec<String>> {
        self.inner.short_ids(ids)
    }

    fn agent_answer(&self, command: Vec<String>) -> StoreFuture<'_, Option<AgentAnswer>> {
        self.inner.agent_answer(command)
    }

    fn notifications(&self, sink: String, limit: usize) -> StoreFuture<'_, Vec<QueuedNotification>> {
        self.inner.notifications(sink, limit)
    }

    fn settle_notification(&self, id: String, sink: String, outcome: DeliveryOutcome) -> StoreFuture<'_, ()> {
        self.inner.settle_notification(id, sink, outcome)
    }

    fn notification_sinks(&self) -> StoreFuture<'_, Vec<SinkStatus>> {
        self.inner.notification_sinks()
    }

    fn shrink(&self) -> StoreFuture<'_, ()> {
        self.inner.shrink()
    }

    fn store_agent_answer(&self, agent: AgentBuild, answer: String) -> StoreFuture<'_, ()> {
        self.inner.store_agent_answer(agent, answer)
    }

    fn record(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.inner.record(id)
    }

    fn records(
        &self,
        filter: RecordFilter,
        after: Option<(Timestamp, RecordId)>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        self.inner.records(filter, after, limit)
    }

    fn records_by_creation(
        &self,
        filter: RecordFilter,
        after: Option<RecordId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Record>> {
        self.inner.records_by_creation(filter, after, limit)
    }

    fn owners(&self, agent: AgentSpec, sessions: Vec<AcpSessionId>) -> StoreFuture<'_, Vec<SessionOwner>> {
        self.inner.owners(agent, sessions)
    }

    fn deleted_records(&self) -> StoreFuture<'_, u64> {
        self.inner.deleted_records()
    }

    fn created_after(&self, than: RecordId, records: Vec<RecordId>) -> StoreFuture<'_, Vec<RecordId>> {
        self.inner.created_after(than, records)
    }

    fn find(&self, query: ScopeQuery) -> StoreFuture<'_, Option<Record>> {
        self.inner.find(query)
    }

    fn unprompted(&self, before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<RecordId>> {
        self.inner.unprompted(before, limit)
    }

    fn running(&self) -> StoreFuture<'_, Vec<(RecordId, AgentRun)>> {
        self.inner.running()
    }

    fn events(&self, record: RecordId, from: Seq, limit: usize) -> StoreFuture<'_, Vec<Event>> {
        self.inner.events(record, from, limit)
    }

    fn open_turns(&self, record: RecordId) -> StoreFuture<'_, Vec<Turn>> {
        self.inner.open_turns(record)
    }

    fn turn(&self, record: RecordId, request: RequestId) -> StoreFuture<'_, Option<Turn>> {
        self.inner.turn(record, request)
    }

    fn turn_numbered(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>> {
        self.inner.turn_numbered(record, turn)
    }

    fn first_turn_from(&self, record: RecordId, turn: TurnId) -> StoreFuture<'_, Option<Turn>> {
        self.inner.first_turn_from(record, turn)
    }
}

#[tokio::test]
async fn nothing_is_published_or_sent_before_its_commit() {
    let gate = GatedStore::new();
    let store: Arc<dyn Store> = gate.clone();
    let engine = Engine::new(store.clone(), HostId::new("host").unwrap(), quick());
    let bench = Bench { home: TempHome::new(), store, engine };
    let (go, prompted) = (bench.home.join("go"), bench.home.join("prompted"));
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.touch(&prompted).await_file(&go).say("hello").end("end_turn"));
    let (session, _) = bench.open(&script).await;
    let mut follower = session.follow(Seq::FIRST);
    follower.page().await.unwrap();

    gate.set_open(false);
    let prompting = tokio::spawn({
        let session = session.clone();
        async move { session.prompt(Prompt::text("hi").unwrap()).await }
    });
    gate.someone_waits().await;
    // The agent says at once when it is prompted; it is given time to, and must not.
    let heard = async {
        while !prompted.exists() {
            tokio::task::yield_now().await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_millis(300), heard).await.is_err(),
        "sent before it was kept"
    );
    assert_eq!(follower.page().await.unwrap(), []);
    assert!(!prompting.is_finished());
    gate.set_open(true);
    let ticket = prompting.await.unwrap().expect("the prompt is accepted");
    let shown: Vec<_> = follower.page().await.unwrap().iter().map(brief).collect();
    assert_eq!(shown, ["# turn_started", "> session/prompt"]);

    gate.set_open(false);
    std::fs::write(&go, "").unwrap();
    gate.someone_waits().await;
    assert_eq!(follower.page().await.unwrap(), []);
    gate.set_open(true);
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "end_turn");
    let shown: Vec<_> = follower.page().await.unwrap().iter().map(brief).collect();
    assert_eq!(shown, ["< session/update agent_message_chunk", "< result", "# turn_ended"]);
}

#[tokio::test]
async fn acknowledged_sent_and_answered_events_are_synced_and_chunks_are_not() {
    let gate = GatedStore::new();
    let store: Arc<dyn Store> = gate.clone();
    let engine = Engine::new(store.clone(), HostId::new("host").unwrap(), quick());
    let bench = Bench { home: TempHome::new(), store, engine };
    let go = bench.home.join("go");
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.say("hello").await_file(&go).end("end_turn"));
    let (session, _) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("hi").unwrap()).await.unwrap();
    let mut follower = session.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("hello") {}
    std::fs::write(&go, "").unwrap();
    ticket.finished().await.unwrap();
    let appended = gate.appended.lock().unwrap();
    let turn_of =
        |change: &Change| if let Change::Turn(turn) = change { Some(turn.state.clone()) } else { None };
    for (changes, durability) in &*appended {
        let has_turn = changes.iter().any(|change| turn_of(change).is_some());
        let expected = if has_turn { Durability::Machine } else { Durability::Process };
        assert_eq!(*durability, expected, "{changes:?}");
    }
    let states: Vec<_> = appended.iter().flat_map(|(changes, _)| changes).filter_map(turn_of).collect();
    assert!(
        matches!(states[..], [TurnState::Queued, TurnState::Dispatched { .. }, TurnState::Ended { .. }]),
        "{states:?}"
    );
}
