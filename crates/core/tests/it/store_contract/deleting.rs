//! What every store promises of deleted records: nobody finds them, and what must still be known of them is.

use acpx_core::model::{AgentKey, AgentRun, Lifecycle, ProcessIdentity, Record, SessionName};
use acpx_core::store::{Change, Durability, Lease, RecordFilter, ScopeQuery};

use super::samples::{all_events, at, event, events, host, id, record};
use super::scopes::{path, scoped};
use super::{AnyStore, create, kept, said};

async fn set(store: &AnyStore, lease: &Lease, lifecycle: Lifecycle) {
    store.append(lease.clone(), vec![Change::Lifecycle(lifecycle)], Durability::Process).await.unwrap();
}

fn deleted(time: i64) -> Lifecycle {
    Lifecycle::Deleted { at: at(time) }
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

pub(super) async fn a_deleted_record_is_in_no_list_and_is_read_by_its_id_alone(store: AnyStore) {
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
    let expected = Record { lifecycle: deleted(50), updated_at: at(50), ..record("r4", 4) };
    assert_eq!(kept(&store, "r4").await, expected);
    assert_eq!(kept(&store, "born so").await, Record { lifecycle: deleted(9), ..record("born so", 9) });
    // Its id is taken, and its writer may end what it has begun.
    let again = store.create(record("r4", 4), Vec::new(), host("h")).await;
    assert_eq!(said(again), "there is a record r4 already");
    store.append(leases[3].clone(), events(1, 1), Durability::Process).await.unwrap();
    assert_eq!(all_events(&*store, &id("r4"), 9).await.unwrap(), [event(1, "{\"n\":1}")]);
    assert_eq!(listed(&store, RecordFilter::default()).await, ["r3", "r1"]);
}

pub(super) async fn no_shell_finds_a_deleted_record_and_its_scope_is_free_at_once(store: AnyStore) {
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
    let expected = Record { lifecycle: deleted(40), updated_at: at(40), ..scoped("first", "/a", "") };
    assert_eq!(kept(&store, "first").await, expected);
    set(&store, &second, Lifecycle::Open).await;
    assert_eq!(found(&store).await.as_deref(), Some("second"));
}

pub(super) async fn the_process_of_a_deleted_record_is_still_told_of(store: AnyStore) {
    let run = AgentRun {
        process: ProcessIdentity { pid: 9, started: 1, boot: "boot".to_owned() },
        since: at(3),
        ended: None,
    };
    let lease = create(&store, Record { agent_run: Some(run.clone()), ..record("r", 5) }).await;
    set(&store, &lease, deleted(50)).await;
    assert_eq!(store.running().await.unwrap(), [(id("r"), run.clone())]);
    let expected =
        Record { agent_run: Some(run), lifecycle: deleted(50), updated_at: at(50), ..record("r", 5) };
    assert_eq!(kept(&store, "r").await, expected);
}
