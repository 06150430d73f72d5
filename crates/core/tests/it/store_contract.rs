//! What every store promises, asked of each: one suite, run over memory and over SQLite.
#![cfg(test)]

mod delete;
mod equivalence;
mod notifications;
pub(crate) mod samples;
mod scopes;
mod settings;

use std::sync::Arc;

use acpx_core::model::{
    AgentAnswer, AgentBuild, AgentEnd, AgentExit, AgentKey, AgentRun, AgentSessionId, Direction,
    EndedProcess, Event, EventKind, Fact, Lifecycle, Lineage, LineageIndex, LineageReason, PermissionMode,
    ProcessIdentity, Record, Scope, Seq, SessionName, Turn, TurnId, TurnState,
};
use acpx_core::store::{
    Access, Change, Durability, MemoryStore, PAGE_BYTES, RecordFilter, SessionWriter, SqliteStore, Store,
    StoreError,
};

use self::samples::{
    all_events, at, dispatched, event, events, failed, host, id, record, request, server, session, stopped,
    turn,
};

use self::delete::{
    deleted_record_is_in_no_list_and_read_only_by_id, events_of_a_deleted_record_are_erased_and_no_others,
    process_of_a_deleted_record_is_still_listed, scope_lookup_finds_no_deleted_record_and_its_scope_is_free,
};
use self::notifications::{
    full_queue_of_a_sink_drops_its_oldest_notifications, notification_is_queued_once_for_each_sink,
    notification_of_a_refused_append_is_not_queued, notifications_of_a_deleted_record_are_erased,
    pending_request_has_one_notification_until_it_is_settled,
    settled_notification_leaves_the_queue_unless_it_is_tried_again,
};
use self::scopes::{
    a_scope_is_given_changed_and_taken_away, last_agent_run_is_stored_and_runs_without_end_are_listed,
    moved_record_is_found_only_in_its_new_directory, open_record_is_found_first_then_the_last_closed_one,
    record_hands_its_scope_over_atomically, record_is_found_by_agent_and_name_in_the_nearest_directory,
    records_are_found_by_a_prefix_of_their_ids, records_are_listed_by_agent_and_directory,
    records_are_listed_in_creation_order_despite_changes, records_created_after_another_are_listed,
    session_is_known_by_every_lineage_row_even_of_deleted_records,
    session_is_known_by_its_agents_command_under_any_name,
    turn_is_found_by_number_with_its_usage_and_permissions,
    two_open_records_of_a_directory_cannot_have_one_scope,
    unprompted_records_are_those_of_acp_clients_without_a_turn,
};
use self::settings::{
    explicit_record_time_overrides_earlier_writes_only, settings_are_stored_whole_and_change_no_time,
};

macro_rules! promises {
    ($($name:ident,)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(std::sync::Arc::new(super::MemoryStore::new())).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let home = tempfile::tempdir().unwrap();
                let path = home.path().join("store.db");
                let store = super::SqliteStore::open(&path, super::Access::ReadWrite).unwrap();
                super::$name(std::sync::Arc::new(store)).await;
            })*
        }
    };
}

promises! {
    a_created_record_is_read_as_it_was_written,
    counters_follow_from_changes_and_not_from_the_record,
    creating_a_record_twice_is_refused_and_leaves_the_first,
    a_record_whose_first_changes_are_refused_is_not_created,
    a_newer_lease_voids_the_older,
    an_append_is_all_or_none,
    a_gap_or_a_repetition_in_the_numbering_is_refused,
    every_field_of_an_event_comes_back,
    a_page_is_bounded_by_count_and_by_bytes,
    a_long_body_comes_back_identical,
    a_turn_is_found_by_its_request_and_open_until_it_ends,
    a_request_id_is_for_one_turn,
    only_answered_turns_are_counted,
    a_lineage_grows_and_is_never_rewritten,
    title_servers_and_lifecycle_are_replaced,
    explicit_record_time_overrides_earlier_writes_only,
    settings_are_stored_whole_and_change_no_time,
    the_time_of_a_record_is_that_of_its_last_event,
    record_time_lags_less_than_a_second_behind_streamed_updates,
    records_are_listed_last_changed_first_in_pages,
    missing_record_is_none_or_no_record,
    a_writer_writes_until_another_takes_over,
    record_is_found_by_agent_and_name_in_the_nearest_directory,
    open_record_is_found_first_then_the_last_closed_one,
    record_hands_its_scope_over_atomically,
    moved_record_is_found_only_in_its_new_directory,
    two_open_records_of_a_directory_cannot_have_one_scope,
    a_scope_is_given_changed_and_taken_away,
    session_is_known_by_every_lineage_row_even_of_deleted_records,
    session_is_known_by_its_agents_command_under_any_name,
    records_created_after_another_are_listed,
    records_are_found_by_a_prefix_of_their_ids,
    records_are_listed_by_agent_and_directory,
    records_are_listed_in_creation_order_despite_changes,
    last_agent_run_is_stored_and_runs_without_end_are_listed,
    unprompted_records_are_those_of_acp_clients_without_a_turn,
    turn_is_found_by_number_with_its_usage_and_permissions,
    deleted_record_is_in_no_list_and_read_only_by_id,
    scope_lookup_finds_no_deleted_record_and_its_scope_is_free,
    process_of_a_deleted_record_is_still_listed,
    events_of_a_deleted_record_are_erased_and_no_others,
    last_initialize_answer_of_a_command_is_stored_with_its_program,
    notification_is_queued_once_for_each_sink,
    notification_of_a_refused_append_is_not_queued,
    settled_notification_leaves_the_queue_unless_it_is_tried_again,
    full_queue_of_a_sink_drops_its_oldest_notifications,
    notifications_of_a_deleted_record_are_erased,
    pending_request_has_one_notification_until_it_is_settled,
}

type AnyStore = Arc<dyn Store>;

async fn last_initialize_answer_of_a_command_is_stored_with_its_program(store: AnyStore) {
    let command = |argument: &str| vec!["agent".to_owned(), argument.to_owned()];
    let given =
        |program: &str, answer: &str| AgentAnswer { program: program.to_owned(), answer: answer.to_owned() };
    assert_eq!(store.agent_answer(command("a")).await.unwrap(), None);
    for (argument, AgentAnswer { program, answer }) in
        [("a", given("1", "{}")), ("b", given("1", "\"b\"")), ("a", given("2", "{ }"))]
    {
        let agent = AgentBuild { command: command(argument), program };
        store.store_agent_answer(agent, answer).await.unwrap();
    }
    assert_eq!(store.agent_answer(command("a")).await.unwrap(), Some(given("2", "{ }")));
    assert_eq!(store.agent_answer(command("b")).await.unwrap(), Some(given("1", "\"b\"")));
}

async fn create(store: &AnyStore, record: Record) -> acpx_core::store::Lease {
    store.create(record, Vec::new(), host("h1")).await.unwrap()
}

async fn kept(store: &AnyStore, name: &str) -> Record {
    store.record(id(name)).await.unwrap().unwrap()
}

/// Errors compare by what they say; the file's path is never part of these.
fn said<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    result.unwrap_err().to_string()
}

async fn a_created_record_is_read_as_it_was_written(store: AnyStore) {
    let mut expected = record("r", 5);
    expected.agent = expected.agent.with_start_timeout(std::time::Duration::from_millis(1500));
    expected.info.title = Some("Ein Titel – 题".to_owned());
    expected.lifecycle = Lifecycle::Closed { at: at(6) };
    expected.scope = Some(Scope { agent: AgentKey::new("claude"), name: SessionName::new("Ärger").ok() });
    expected.mcp_servers.push(server("web", Some("/home/me/.acpx/servers.json")));
    expected.agent_run = Some(AgentRun {
        process: ProcessIdentity { pid: 4321, started: 98_765, boot: "0b7c".to_owned() },
        since: at(5),
        ended: Some(AgentExit { at: at(6), how: AgentEnd::Otherwise("signal 9".to_owned()) }),
    });
    let lease = create(&store, expected.clone()).await;
    assert_eq!((lease.record(), lease.generation()), (&id("r"), 1));
    assert_eq!(kept(&store, "r").await, expected);
    assert_eq!(all_events(&*store, &id("r"), 10).await.unwrap(), []);
}

async fn counters_follow_from_changes_and_not_from_the_record(store: AnyStore) {
    let mut given = record("r", 5);
    given.last_seq = Some(Seq(77));
    given.last_turn = Some(TurnId(77));
    given.answered_turns = 77;
    let mut changes = events(1, 3);
    changes.push(Change::Turn(turn(1, "q", stopped("end_turn"))));
    store.create(given, changes, host("h")).await.unwrap();
    let mut expected = record("r", 5);
    expected.last_seq = Some(Seq(3));
    expected.last_turn = Some(TurnId(1));
    expected.answered_turns = 1;
    expected.updated_at = at(1003);
    assert_eq!(kept(&store, "r").await, expected);
}

async fn creating_a_record_twice_is_refused_and_leaves_the_first(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    let mut other = record("r", 9);
    other.info.title = Some("other".to_owned());
    let second = store.create(other, events(1, 2), host("h2")).await;
    assert_eq!(said(second), "there is a record r already");
    assert_eq!(kept(&store, "r").await, record("r", 5));
    store.append(lease, events(1, 1), Durability::Process).await.unwrap();
}

async fn a_record_whose_first_changes_are_refused_is_not_created(store: AnyStore) {
    let refused = store.create(record("r", 5), events(2, 2), host("h")).await;
    assert_eq!(said(refused), "event 2 of the record r does not follow event 0");
    assert_eq!(store.record(id("r")).await.unwrap(), None);
    create(&store, record("r", 5)).await;
}

async fn a_newer_lease_voids_the_older(store: AnyStore) {
    let first = create(&store, record("r", 5)).await;
    let second = store.lease(id("r"), host("h2")).await.unwrap();
    assert_eq!((first.generation(), second.generation()), (1, 2));
    let late = store.append(first.clone(), events(1, 2), Durability::Machine).await;
    let taken = "another host has taken over the record r (generation 2, ours was 1)";
    assert_eq!(said(late), taken);
    assert_eq!(all_events(&*store, &id("r"), 10).await.unwrap(), []);
    assert_eq!(kept(&store, "r").await, record("r", 5));
    store.append(second, events(1, 1), Durability::Process).await.unwrap();
    // Even an append without changes tells the old holder.
    assert_eq!(said(store.append(first, Vec::new(), Durability::Process).await), taken);
    // The same host asking again gets a new one too.
    assert_eq!(store.lease(id("r"), host("h2")).await.unwrap().generation(), 3);
}

async fn an_append_is_all_or_none(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    let first = turn(1, "a", TurnState::Queued);
    store.append(lease.clone(), vec![Change::Turn(first)], Durability::Process).await.unwrap();
    let before = kept(&store, "r").await;
    let mut lineage = before.lineage.clone();
    lineage.replace(session("s2"), None, LineageReason::Reset, at(50));
    let mut changes = events(1, 2);
    changes.extend([
        Change::Turn(turn(1, "renamed", stopped("end_turn"))),
        Change::Turn(turn(2, "b", TurnState::Queued)),
        Change::Lineage(lineage),
        Change::Title(Some("new".to_owned())),
        Change::McpServers(Vec::new()),
        Change::Lifecycle(Lifecycle::Closed { at: at(60) }),
        Change::Event(event(4, "{}")),
    ]);
    let refused = store.append(lease.clone(), changes, Durability::Process).await;
    assert_eq!(said(refused), "event 4 of the record r does not follow event 2");
    assert_eq!(kept(&store, "r").await, before);
    assert_eq!(all_events(&*store, &id("r"), 10).await.unwrap(), []);
    assert_eq!(store.open_turns(id("r")).await.unwrap(), [turn(1, "a", TurnState::Queued)]);
    assert_eq!(store.turn(id("r"), request("renamed")).await.unwrap(), None);
    store.append(lease, events(1, 1), Durability::Process).await.unwrap();
}

async fn a_gap_or_a_repetition_in_the_numbering_is_refused(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    store.append(lease.clone(), events(1, 3), Durability::Process).await.unwrap();
    for found in [0, 1, 3, 5, u64::MAX] {
        let mut stray = event(1, "{}");
        stray.seq = Seq(found);
        let refused = store.append(lease.clone(), vec![Change::Event(stray)], Durability::Process).await;
        assert_eq!(said(refused), format!("event {found} of the record r does not follow event 3"));
    }
    assert_eq!(kept(&store, "r").await.last_seq, Some(Seq(3)));
}

async fn every_field_of_an_event_comes_back(store: AnyStore) {
    let directions = [Direction::FromAgent, Direction::ToAgent, Direction::Ours];
    let kinds = [
        EventKind::Update,
        EventKind::Notification,
        EventKind::Request,
        EventKind::Response,
        EventKind::Fact,
    ];
    let bodies = ["", "{}", "{\"text\":\"zwölf\u{0}Boxkämpfer\"}", "not json at all"];
    let expected: Vec<Event> = (1..=60_u64)
        .map(|seq| {
            let place = usize::try_from(seq).unwrap();
            Event {
                at: at(-1_000_000 + i64::try_from(seq * seq).unwrap()),
                turn: (seq % 2 == 0).then_some(TurnId(seq)),
                lineage: LineageIndex(1 + seq % 3),
                protocol: u16::MAX - u16::try_from(seq).unwrap(),
                direction: directions[place % directions.len()],
                kind: kinds[place % kinds.len()],
                ..event(seq, bodies[place % bodies.len()])
            }
        })
        .collect();
    let changes = expected.iter().cloned().map(Change::Event).collect();
    store.create(record("r", 5), changes, host("h")).await.unwrap();
    assert_eq!(all_events(&*store, &id("r"), 7).await.unwrap(), expected);
}

async fn a_page_is_bounded_by_count_and_by_bytes(store: AnyStore) {
    let lease = store.create(record("r", 5), events(1, 10), host("h")).await.unwrap();
    // A neighbour whose events must never show.
    store.create(record("s", 5), events(1, 10), host("h")).await.unwrap();
    let page = |from, limit| {
        let store = Arc::clone(&store);
        async move {
            let page = store.events(id("r"), Seq(from), limit).await.unwrap();
            page.into_iter().map(|event| event.seq.0).collect::<Vec<u64>>()
        }
    };
    assert_eq!(page(1, 4).await, [1, 2, 3, 4]);
    assert_eq!(page(9, 4).await, [9, 10]);
    assert_eq!(page(0, 2).await, [1, 2]);
    assert_eq!(page(11, 4).await, [0; 0]);
    assert_eq!(page(u64::MAX, 4).await, [0; 0]);
    assert_eq!(page(1, 0).await, [0; 0]);
    assert_eq!(page(1, usize::MAX).await, (1..=10).collect::<Vec<u64>>());
    let third = "x".repeat(PAGE_BYTES / 3 + 1);
    let over = "y".repeat(PAGE_BYTES + 1);
    let bodies = [&third, &third, &third, &over, &over, &third];
    let changes = (11..).zip(bodies).map(|(seq, body)| Change::Event(event(seq, body.as_str()))).collect();
    store.append(lease, changes, Durability::Process).await.unwrap();
    assert_eq!(page(11, 100).await, [11, 12]);
    assert_eq!(page(13, 100).await, [13]);
    assert_eq!(page(14, 100).await, [14]);
    assert_eq!(page(15, 100).await, [15]);
    assert_eq!(page(16, 100).await, [16]);
}

async fn a_long_body_comes_back_identical(store: AnyStore) {
    let edge = 64 * 1024;
    let bodies: Vec<String> = [edge - 1, edge, edge + 1, edge + 1, 3 * edge]
        .into_iter()
        .map(|size| "ö1".repeat(size).chars().take(size - 1).chain("z".chars()).collect())
        .chain(["\u{0}".repeat(edge + 1)])
        .collect();
    let expected: Vec<Event> = (1..).zip(&bodies).map(|(seq, body)| event(seq, body.as_str())).collect();
    let mut long = turn(1, "long", TurnState::Queued);
    long.prompt = bodies[4].as_str().into();
    let mut changes: Vec<Change> = expected.iter().cloned().map(Change::Event).collect();
    changes.push(Change::Turn(long.clone()));
    store.create(record("r", 5), changes, host("h")).await.unwrap();
    assert!(all_events(&*store, &id("r"), 100).await.unwrap() == expected, "a long body has changed");
    assert!(store.turn(id("r"), request("long")).await.unwrap() == Some(long), "a long prompt has changed");
}

async fn a_turn_is_found_by_its_request_and_open_until_it_ends(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    create(&store, record("other", 5)).await;
    let write =
        |turn: &Turn| store.append(lease.clone(), vec![Change::Turn(turn.clone())], Durability::Machine);
    let mut waiting = turn(2, "two", TurnState::Queued);
    waiting.policy = PermissionMode::DenyAll.into();
    write(&waiting).await.unwrap();
    let ends = [stopped("end_turn"), failed(), TurnState::Interrupted { at: at(40) }];
    for (end, name) in ends.into_iter().zip(["x", "y", "z"]) {
        for state in [TurnState::Queued, dispatched()] {
            let open = turn(1, name, state);
            write(&open).await.unwrap();
            assert_eq!(store.open_turns(id("r")).await.unwrap(), [open.clone(), waiting.clone()]);
            assert_eq!(store.turn(id("r"), request(name)).await.unwrap(), Some(open));
        }
        let ended = turn(1, name, end);
        write(&ended).await.unwrap();
        assert_eq!(store.open_turns(id("r")).await.unwrap(), [waiting.clone()]);
        assert_eq!(store.turn(id("r"), request(name)).await.unwrap(), Some(ended));
    }
    assert_eq!(kept(&store, "r").await.last_turn, Some(TurnId(2)));
    assert_eq!(store.open_turns(id("other")).await.unwrap(), []);
    assert_eq!(store.turn(id("other"), request("two")).await.unwrap(), None);
}

async fn a_request_id_is_for_one_turn(store: AnyStore) {
    let first = create(&store, record("r", 5)).await;
    let other = create(&store, record("other", 5)).await;
    let write = |lease, turns: Vec<Turn>| {
        store.append(lease, turns.into_iter().map(Change::Turn).collect(), Durability::Process)
    };
    let queued = |number, name| turn(number, name, TurnState::Queued);
    let exists = "the record r has a turn with the request id a already";
    write(first.clone(), vec![queued(1, "a")]).await.unwrap();
    assert_eq!(said(write(first.clone(), vec![queued(2, "a")]).await), exists);
    assert_eq!(kept(&store, "r").await.last_turn, Some(TurnId(1)));
    // The same turn again is no second turn, and another record is another matter.
    write(first.clone(), vec![queued(1, "a")]).await.unwrap();
    write(other, vec![queued(1, "a")]).await.unwrap();
    // Two in one append, too.
    let twice = write(first.clone(), vec![queued(3, "b"), queued(4, "b")]).await;
    assert_eq!(said(twice), "the record r has a turn with the request id b already");
    // An id that a turn gave up is free again, in the same append and later.
    write(first.clone(), vec![queued(1, "c"), queued(2, "a")]).await.unwrap();
    assert_eq!(said(write(first, vec![queued(1, "a")]).await), exists);
    assert_eq!(store.open_turns(id("r")).await.unwrap(), [queued(1, "c"), queued(2, "a")]);
}

async fn only_answered_turns_are_counted(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    let steps = [
        (1, TurnState::Queued, 0),
        (1, dispatched(), 0),
        (1, stopped("end_turn"), 1),
        (1, stopped("max_tokens"), 1),
        (2, stopped("cancelled"), 1),
        (3, failed(), 1),
        (4, TurnState::Interrupted { at: at(40) }, 1),
        (5, stopped("_from_the_future"), 2),
        (5, stopped("cancelled"), 1),
    ];
    for (number, state, answered) in steps {
        let turn = turn(number, &format!("q{number}"), state.clone());
        store.append(lease.clone(), vec![Change::Turn(turn)], Durability::Process).await.unwrap();
        let found = kept(&store, "r").await;
        assert_eq!((found.answered_turns, found.last_turn.is_some()), (answered, true), "{state:?}");
    }
}

async fn a_lineage_grows_and_is_never_rewritten(store: AnyStore) {
    let mut first = record("r", 5);
    first.lineage = Lineage::begin(session("s1"), None, at(5));
    let mut lineage = first.lineage.clone();
    let lease = create(&store, first).await;
    let write = |lineage: &Lineage| {
        store.append(lease.clone(), vec![Change::Lineage(lineage.clone())], Durability::Process)
    };
    lineage.set_agent_session(AgentSessionId::from_agent("inner"), at(6));
    write(&lineage).await.unwrap();
    assert_eq!(kept(&store, "r").await.lineage, lineage);
    let short = lineage.clone();
    lineage.replace(session("s2"), None, LineageReason::AgentLost, at(7));
    lineage.replace(session("s3"), None, LineageReason::Reset, at(8));
    write(&lineage).await.unwrap();
    let other = |session_id, agent, time| {
        Lineage::begin(session(session_id), AgentSessionId::from_agent(agent), at(time))
    };
    let refused = [
        short,
        other("s1", "", 5),
        other("s1", "changed", 5),
        other("s2", "inner", 5),
        other("s1", "inner", 6),
    ];
    for mut rewritten in refused {
        assert_eq!(said(write(&rewritten).await), "the lineage of the record r may only grow");
        rewritten.replace(session("s2"), None, LineageReason::AgentLost, at(9));
        rewritten.replace(session("s3"), None, LineageReason::Reset, at(10));
        assert_eq!(said(write(&rewritten).await), "the lineage of the record r may only grow");
    }
    assert_eq!(kept(&store, "r").await.lineage, lineage);
}

async fn title_servers_and_lifecycle_are_replaced(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    let write = |changes| store.append(lease.clone(), changes, Durability::Process);
    let closed = Lifecycle::Closed { at: at(9) };
    let changes = vec![
        Change::Title(Some("first".to_owned())),
        Change::Title(Some("second".to_owned())),
        Change::McpServers(vec![
            server("a \"quoted\" name", None),
            server("", Some("/etc/servers \"of mine\".json")),
        ]),
        Change::Lifecycle(closed),
    ];
    write(changes).await.unwrap();
    let mut expected = record("r", 5);
    expected.info.title = Some("second".to_owned());
    expected.mcp_servers =
        vec![server("a \"quoted\" name", None), server("", Some("/etc/servers \"of mine\".json"))];
    expected.lifecycle = closed;
    expected.updated_at = at(9);
    assert_eq!(kept(&store, "r").await, expected);
    write(vec![Change::Title(None), Change::McpServers(Vec::new()), Change::Lifecycle(Lifecycle::Open)])
        .await
        .unwrap();
    let mut expected = record("r", 5);
    expected.mcp_servers = Vec::new();
    expected.updated_at = at(9);
    assert_eq!(kept(&store, "r").await, expected);
}

async fn the_time_of_a_record_is_that_of_its_last_event(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    let step = async |changes, expected| {
        store.append(lease.clone(), changes, Durability::Process).await.unwrap();
        assert_eq!(kept(&store, "r").await.updated_at, at(expected));
    };
    let timed = |seq, millis| Change::Event(Event { at: at(millis), ..event(seq, "{}") });
    let close = |millis| Change::Lifecycle(Lifecycle::Closed { at: at(millis) });
    step(vec![timed(1, 100), timed(2, 90)], 90).await;
    step(vec![close(95)], 95).await;
    step(vec![close(60)], 95).await;
    // A prompt that waits, or a title, is not news.
    step(vec![Change::Turn(turn(1, "q", TurnState::Dispatched { at: at(500) }))], 95).await;
    step(vec![Change::Title(Some("t".to_owned()))], 95).await;
    step(vec![close(300), timed(3, 120), close(400)], 120).await;
    // That processes were ended with their host is no use of the record.
    let ended = Fact::ProcessesEnded { processes: vec![EndedProcess { name: "sleep".to_owned(), pid: 7 }] };
    let ended = Event { at: at(150), kind: EventKind::Fact, body: ended.to_body(), ..event(4, "{}") };
    step(vec![Change::Event(ended)], 120).await;
    let mut lineage = kept(&store, "r").await.lineage;
    lineage.replace(session("s2"), None, LineageReason::Reset, at(200));
    step(vec![Change::Lineage(lineage)], 200).await;
}

async fn record_time_lags_less_than_a_second_behind_streamed_updates(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    let update = EventKind::Update;
    // A clock may be set back, and whatever is no update is told at once.
    let told = [
        (update, 900, 5),
        (update, 1004, 5),
        (update, 1005, 1005),
        (update, 1500, 1005),
        (EventKind::Response, 1501, 1501),
        (update, 2400, 1501),
        (update, 700, 700),
        (EventKind::Fact, 701, 701),
    ];
    for (seq, (kind, millis, expected)) in (1..).zip(told) {
        let change = Change::Event(Event { at: at(millis), kind, ..event(seq, "{}") });
        store.append(lease.clone(), vec![change], Durability::Process).await.unwrap();
        let found = kept(&store, "r").await;
        assert_eq!((found.last_seq, found.updated_at), (Some(Seq(seq)), at(expected)));
    }
}

async fn records_are_listed_last_changed_first_in_pages(store: AnyStore) {
    for (name, time) in [("b", 7), ("a", 7), ("old", 1), ("new", 50), ("c", 7), ("é", 7)] {
        create(&store, record(name, time)).await;
    }
    let expected = [("new", 50), ("é", 7), ("c", 7), ("b", 7), ("a", 7), ("old", 1)]
        .map(|(name, time)| record(name, time))
        .to_vec();
    for limit in 1..=7 {
        let mut listed: Vec<Record> = Vec::new();
        loop {
            let after = listed.last().map(|record| (record.updated_at, record.id.clone()));
            let page = store.records(RecordFilter::default(), after, limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            listed.extend(page);
        }
        assert_eq!(listed, expected, "in pages of {limit}");
    }
    assert_eq!(store.records(RecordFilter::default(), None, 0).await.unwrap(), []);
    // A page may begin where no record is.
    let rest = store.records(RecordFilter::default(), Some((at(7), id("bb"))), 2).await.unwrap();
    assert_eq!(rest, expected[3..5]);
    let lease = store.lease(id("old"), host("h")).await.unwrap();
    store.append(lease, events(1, 1), Durability::Process).await.unwrap();
    assert_eq!(store.records(RecordFilter::default(), None, 1).await.unwrap()[0].id, id("old"));
}

async fn missing_record_is_none_or_no_record(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    let gone = || id("gone");
    let missing = "there is no record gone";
    assert_eq!(store.record(gone()).await.unwrap(), None);
    assert_eq!(said(store.lease(gone(), host("h")).await), missing);
    assert_eq!(said(store.events(gone(), Seq::FIRST, 10).await), missing);
    assert_eq!(said(store.open_turns(gone()).await), missing);
    assert_eq!(said(store.turn(gone(), request("q")).await), missing);
    assert_eq!(said(store.turn_numbered(gone(), TurnId(1)).await), missing);
    assert_eq!(said(store.remove_damaged(gone()).await), missing);
    // Nothing is wrong with this one, so it stays.
    assert_eq!(said(store.remove_damaged(id("r")).await), "there is no record r");
    assert_eq!(store.turn(id("r"), request("q")).await.unwrap(), None);
    store.append(lease, Vec::new(), Durability::Machine).await.unwrap();
    assert_eq!(kept(&store, "r").await, record("r", 5));
}

async fn a_writer_writes_until_another_takes_over(store: AnyStore) {
    let first =
        SessionWriter::create(Arc::clone(&store), record("r", 5), events(1, 1), host("h1")).await.unwrap();
    first.append(events(2, 2), Durability::Process).await.unwrap();
    let second = SessionWriter::lease(Arc::clone(&store), id("r"), host("h2")).await.unwrap();
    let late = first.append(events(3, 3), Durability::Process).await;
    assert_eq!(said(late), "another host has taken over the record r (generation 2, ours was 1)");
    second.append(events(3, 3), Durability::Process).await.unwrap();
    let expected: Vec<Event> = (1..=3).map(|seq| event(seq, format!("{{\"n\":{seq}}}"))).collect();
    assert_eq!(all_events(&*store, &id("r"), 10).await.unwrap(), expected);
}
