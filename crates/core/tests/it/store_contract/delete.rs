//! What every store promises of deleted records: nobody finds them, and what must still be known of them is.

use std::sync::Arc;

use acpx_core::model::{
    AgentKey, AgentMemory, AgentRun, Lifecycle, ProcessIdentity, Record, RecordSettings, SessionName, Turn,
    TurnId,
};
use acpx_core::store::{Change, Durability, Lease, RecordFilter, ScopeQuery};

use super::samples::{
    all_events, at, dispatched, event, events, host, id, record, request, settings_of, stopped, turn,
};
use super::scopes::{path, scoped};
use super::{AnyStore, create, kept, said};

async fn set(store: &AnyStore, lease: &Lease, lifecycle: Lifecycle) {
    store.append(lease.clone(), vec![Change::Lifecycle(lifecycle)], Durability::Process).await.unwrap();
}

fn deleted(time: i64) -> Lifecycle {
    Lifecycle::Deleted { at: at(time) }
}

/// What is left of a record that was deleted.
fn erased(record: Record, time: i64) -> Record {
    let (settings, mcp_servers) = (RecordSettings::default(), Vec::new());
    Record {
        lifecycle: deleted(time),
        info: acpx_core::model::SessionInfo::default(),
        settings,
        mcp_servers,
        ..record
    }
}

/// The ids of all records that a filter lists, in pages of two.
async fn listed(store: &AnyStore, filter: RecordFilter) -> Vec<String> {
    let mut listed: Vec<Record> = Vec::new();
    loop {
        let after = listed.last().map(|record| (record.updated_at, record.id.clone()));
        let page = store.records(filter.clone(), after, 2).await.unwrap();
        if page.is_empty() {
            return listed.iter().map(|record| record.id.to_string()).collect();
        }
        listed.extend(page);
    }
}

/// The id of the record that a shell in `/a` finds, open or closed.
async fn found(store: &AnyStore) -> Option<String> {
    let query = ScopeQuery {
        agent: AgentKey::new("claude"),
        directories: vec![path("/a")],
        name: SessionName::new("").ok(),
        closed: true,
    };
    store.find(query).await.unwrap().map(|found| found.id.to_string())
}

pub(super) async fn deleted_record_is_in_no_list_and_read_only_by_id(store: AnyStore) {
    let mut leases = Vec::new();
    for time in 1..=5 {
        leases.push(create(&store, record(&format!("r{time}"), time)).await);
    }
    for deletion in [1, 3, 4] {
        set(&store, &leases[deletion], deleted(50)).await;
    }
    create(&store, Record { lifecycle: deleted(9), ..record("born so", 9) }).await;
    let filters = [
        RecordFilter::default(),
        RecordFilter { agent: Some(AgentKey::new("claude")), real_cwd: Some(path("/srv/project")) },
    ];
    for filter in filters {
        assert_eq!(listed(&store, filter).await, ["r3", "r1"]);
    }
    let expected = Record { updated_at: at(50), ..erased(record("r4", 4), 50) };
    assert_eq!(kept(&store, "r4").await, expected);
    assert_eq!(kept(&store, "born so").await, Record { lifecycle: deleted(9), ..record("born so", 9) });
    // Its id is taken, and its writer may end what it has begun.
    let again = store.create(record("r4", 4), Vec::new(), host("h")).await;
    assert_eq!(said(again), "there is a record r4 already");
    store.append(leases[3].clone(), events(1, 1), Durability::Process).await.unwrap();
    assert_eq!(all_events(&*store, &id("r4"), 9).await.unwrap(), [event(1, "{\"n\":1}")]);
    assert_eq!(listed(&store, RecordFilter::default()).await, ["r3", "r1"]);
}

pub(super) async fn scope_lookup_finds_no_deleted_record_and_its_scope_is_free(store: AnyStore) {
    let first = create(&store, scoped("first", "/a", "")).await;
    set(&store, &first, Lifecycle::Closed { at: at(10) }).await;
    let second = create(&store, scoped("second", "/a", "")).await;
    set(&store, &second, deleted(20)).await;
    assert_eq!(found(&store).await.as_deref(), Some("first"));
    let third = create(&store, scoped("third", "/a", "")).await;
    assert_eq!(found(&store).await.as_deref(), Some("third"));
    // One that has the scope is in the way of whoever would have it again, deleted or not.
    let open = vec![Change::Lifecycle(Lifecycle::Open)];
    let taken = store.append(second.clone(), open, Durability::Process).await;
    assert_eq!(said(taken), "the record third has this agent, directory and name already");
    // A closed one that is deleted is not found either, and what it was before is forgotten.
    set(&store, &third, deleted(30)).await;
    set(&store, &first, deleted(40)).await;
    assert_eq!(found(&store).await, None);
    let expected = Record { updated_at: at(40), ..erased(scoped("first", "/a", ""), 40) };
    assert_eq!(kept(&store, "first").await, expected);
    set(&store, &second, Lifecycle::Open).await;
    assert_eq!(found(&store).await.as_deref(), Some("second"));
}

pub(super) async fn process_of_a_deleted_record_is_still_listed(store: AnyStore) {
    let run = AgentRun {
        process: ProcessIdentity { pid: 9, started: 1, boot: "boot".to_owned() },
        since: at(3),
        ended: None,
    };
    let lease = create(&store, Record { agent_run: Some(run.clone()), ..record("r", 5) }).await;
    set(&store, &lease, deleted(50)).await;
    assert_eq!(store.running().await.unwrap(), [(id("r"), run.clone())]);
    let expected = Record { agent_run: Some(run), updated_at: at(50), ..erased(record("r", 5), 50) };
    assert_eq!(kept(&store, "r").await, expected);
}

pub(super) async fn events_of_a_deleted_record_are_erased_and_no_others(store: AnyStore) {
    let long: Arc<str> = "long ".repeat(20_000).into();
    let said = |prompt: &Arc<str>| {
        let spoken = Turn { prompt: prompt.clone(), ..turn(1, "q1", stopped("end_turn")) };
        vec![
            Change::Event(event(1, "short")),
            Change::Event(event(2, long.clone())),
            Change::Turn(spoken),
            Change::Turn(turn(2, "q2", dispatched())),
            Change::Title(Some("secret".to_owned())),
            Change::Settings(settings_of("secret")),
            Change::Memory(AgentMemory::Compacted),
        ]
    };
    let prompt: Arc<str> = "prompt ".repeat(20_000).into();
    let gone = store.create(record("gone", 5), said(&prompt), host("h")).await.unwrap();
    store.create(record("stays", 5), said(&prompt), host("h")).await.unwrap();
    let stays = kept(&store, "stays").await;
    // The time of the last event, so that nothing else moves.
    let deletion = vec![Change::Event(event(3, "bye")), Change::Lifecycle(deleted(1003))];
    store.append(gone.clone(), deletion, Durability::Process).await.unwrap();
    let expected = Record { updated_at: at(1003), ..erased(record("gone", 5), 1003) };
    assert_eq!(kept(&store, "gone").await, expected);
    assert_eq!(all_events(&*store, &id("gone"), 9).await.unwrap(), []);
    assert_eq!(store.open_turns(id("gone")).await.unwrap(), []);
    for (number, name) in [(1, "q1"), (2, "q2")] {
        assert_eq!(store.turn(id("gone"), request(name)).await.unwrap(), None);
        assert_eq!(store.turn_numbered(id("gone"), TurnId(number)).await.unwrap(), None);
    }
    // What another record says in the same words is there as before.
    assert_eq!(kept(&store, "stays").await, stays);
    assert_eq!(all_events(&*store, &id("stays"), 9).await.unwrap(), [event(1, "short"), event(2, long)]);
    let spoken = store.turn_numbered(id("stays"), TurnId(1)).await.unwrap().unwrap();
    assert_eq!(spoken.prompt, prompt);
}
