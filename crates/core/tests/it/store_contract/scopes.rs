//! What every store promises of finding records: from a shell by their scope, in lists by agent and directory, and
//! after a crash by the agents that may still run.

use acpx_core::model::{
    AbsolutePath, AgentEnd, AgentExit, AgentKey, AgentRun, AgentSpec, Lifecycle, Lineage, LineageReason,
    PermissionCount, PermissionMode, ProcessIdentity, Record, Scope, Seq, SessionName, TurnId, TurnState,
};
use acpx_core::store::{Append, Change, Durability, Lease, RecordFilter, ScopeQuery, SessionOwner};

use super::samples::{at, events, host, id, record, session, stopped, turn};
use super::{AnyStore, create, kept, said};

pub(super) fn path(text: &str) -> AbsolutePath {
    AbsolutePath::new(text).unwrap()
}

fn scope(agent: &str, name: &str) -> Scope {
    Scope { agent: AgentKey::new(agent), name: SessionName::new(name).ok() }
}

/// A record in a directory, with the scope of `claude` and a name, or without one where the name is empty.
pub(super) fn scoped(record_id: &str, directory: &str, name: &str) -> Record {
    Record { scope: Some(scope("claude", name)), real_cwd: path(directory), ..record(record_id, 5) }
}

/// The id of the record that is found, or "".
async fn found(store: &AnyStore, directories: &[&str], name: &str, closed: bool) -> String {
    let query = ScopeQuery {
        agent: AgentKey::new("claude"),
        directories: directories.iter().map(|directory| path(directory)).collect(),
        name: SessionName::new(name).ok(),
        closed,
    };
    let found = store.find(query).await.unwrap();
    if let Some(found) = &found {
        assert_eq!(kept(store, found.id.as_str()).await, *found);
    }
    found.map(|found| found.id.to_string()).unwrap_or_default()
}

async fn write(store: &AnyStore, lease: &Lease, change: Change) -> Result<(), acpx_core::store::StoreError> {
    store.append(lease.clone(), vec![change], Durability::Process).await
}

async fn close(store: &AnyStore, lease: &Lease, time: i64) {
    write(store, lease, Change::Lifecycle(Lifecycle::Closed { at: at(time) })).await.unwrap();
}

pub(super) async fn record_is_found_by_agent_and_name_in_the_nearest_directory(store: AnyStore) {
    create(&store, scoped("far", "/a", "")).await;
    create(&store, scoped("near", "/a/b", "")).await;
    create(&store, scoped("named", "/a", "name")).await;
    create(&store, Record { scope: None, ..scoped("editor", "/a/b/c", "") }).await;
    create(&store, Record { scope: Some(scope("codex", "")), ..scoped("other", "/a/b/c", "") }).await;
    let up = ["/a/b/c", "/a/b", "/a", "/"];
    assert_eq!(found(&store, &up, "", false).await, "near");
    assert_eq!(found(&store, &up[2..], "", false).await, "far");
    assert_eq!(found(&store, &["/a", "/a/b"], "", false).await, "far");
    assert_eq!(found(&store, &up, "name", true).await, "named");
    assert_eq!(found(&store, &up, "Name", true).await, "");
    assert_eq!(found(&store, &["/a/b/c", "/"], "", true).await, "");
    assert_eq!(found(&store, &[], "", true).await, "");
}

pub(super) async fn open_record_is_found_first_then_the_last_closed_one(store: AnyStore) {
    for (name, time) in [("first", 50), ("last", 70), ("second", 60), ("earlier", 30), ("later", 30)] {
        let lease = create(&store, scoped(name, "/a", "")).await;
        close(&store, &lease, time).await;
    }
    assert_eq!(found(&store, &["/a"], "", false).await, "");
    assert_eq!(found(&store, &["/a"], "", true).await, "last");
    // News of a closed record is no closing.
    let lease = store.lease(id("first"), host("h")).await.unwrap();
    store.append(lease, events(1, 1), Durability::Process).await.unwrap();
    assert_eq!(found(&store, &["/a"], "", true).await, "last");
    let lease = create(&store, scoped("open", "/a", "")).await;
    assert_eq!(found(&store, &["/a"], "", true).await, "open");
    // A closed one that is near comes before an open one that is far.
    let near = create(&store, scoped("near", "/a/b", "")).await;
    close(&store, &near, 10).await;
    assert_eq!(found(&store, &["/a/b", "/a"], "", true).await, "near");
    assert_eq!(found(&store, &["/a/b", "/a"], "", false).await, "open");
    // Where two were closed at once, the one that was made last.
    close(&store, &lease, 70).await;
    assert_eq!(found(&store, &["/a"], "", true).await, "open");
}

pub(super) async fn two_open_records_of_a_directory_cannot_have_one_scope(store: AnyStore) {
    let taken = "the record first has this agent, directory and name already";
    let first = create(&store, scoped("first", "/a", "")).await;
    let refused = store.create(scoped("second", "/a", ""), events(1, 2), host("h")).await;
    assert_eq!(said(refused), taken);
    assert_eq!(store.record(id("second")).await.unwrap(), None);
    // Another name, directory or agent, or none of them, is another matter, and so is a closed record.
    create(&store, scoped("named", "/a", "name")).await;
    create(&store, scoped("elsewhere", "/b", "")).await;
    let other = create(&store, Record { scope: Some(scope("codex", "")), ..scoped("codex", "/a", "") }).await;
    let unscoped = create(&store, Record { scope: None, ..scoped("unscoped", "/a", "") }).await;
    create(&store, Record { scope: None, ..scoped("unscoped too", "/a", "") }).await;
    let closed = Record { lifecycle: Lifecycle::Closed { at: at(6) }, ..scoped("closed", "/a", "") };
    let closed = create(&store, closed).await;
    // Neither a new scope nor a reopening gets around it, and a refused append changes nothing.
    let before = kept(&store, "unscoped").await;
    let mut changes = events(1, 1);
    changes.push(Change::Scope(Some(scope("claude", ""))));
    assert_eq!(said(store.append(unscoped.clone(), changes, Durability::Process).await), taken);
    assert_eq!(kept(&store, "unscoped").await, before);
    assert_eq!(said(write(&store, &other, Change::Scope(Some(scope("claude", "")))).await), taken);
    assert_eq!(said(write(&store, &closed, Change::Lifecycle(Lifecycle::Open)).await), taken);
    // To say again what is so is no second record.
    write(&store, &first, Change::Lifecycle(Lifecycle::Open)).await.unwrap();
    write(&store, &first, Change::Scope(Some(scope("claude", "")))).await.unwrap();
    let mut lineage = kept(&store, "first").await.lineage;
    lineage.replace(session("s2"), None, LineageReason::Reset, at(9));
    let changes = vec![Change::Lineage(lineage), Change::Lifecycle(Lifecycle::Open)];
    store.append(first.clone(), changes, Durability::Process).await.unwrap();
    let again = vec![Change::Lifecycle(Lifecycle::Open), Change::Scope(Some(scope("claude", "again")))];
    store.create(scoped("again", "/a", "again"), again, host("h")).await.unwrap();
    // A closed record may have any scope, and one that is closed leaves its own to others.
    write(&store, &closed, Change::Scope(Some(scope("codex", "")))).await.unwrap();
    write(&store, &closed, Change::Scope(Some(scope("claude", "")))).await.unwrap();
    close(&store, &first, 80).await;
    write(&store, &closed, Change::Lifecycle(Lifecycle::Open)).await.unwrap();
    let refused = write(&store, &first, Change::Lifecycle(Lifecycle::Open)).await;
    assert_eq!(said(refused), "the record closed has this agent, directory and name already");
    assert_eq!(found(&store, &["/a"], "", false).await, "closed");
}

pub(super) async fn moved_record_is_found_only_in_its_new_directory(store: AnyStore) {
    let to = |cwd: &str, real: &str| Change::WorkingDirectory { cwd: path(cwd), real_cwd: path(real) };
    let moving = create(&store, scoped("moving", "/a", "")).await;
    create(&store, scoped("there", "/b", "")).await;
    let before = kept(&store, "moving").await;
    let taken = "the record there has this agent, directory and name already";
    assert_eq!(said(write(&store, &moving, to("/link", "/b")).await), taken);
    assert_eq!(kept(&store, "moving").await, before);
    write(&store, &moving, to("/link", "/c")).await.unwrap();
    let moved = Record { cwd: path("/link"), real_cwd: path("/c"), ..before };
    assert_eq!(kept(&store, "moving").await, moved);
    assert_eq!(found(&store, &["/a"], "", true).await, "");
    assert_eq!(found(&store, &["/c"], "", false).await, "moving");
    // One that is closed takes no scope with it.
    close(&store, &moving, 60).await;
    write(&store, &moving, to("/b", "/b")).await.unwrap();
    assert_eq!(found(&store, &["/b"], "", true).await, "there");
}

pub(super) async fn record_hands_its_scope_over_atomically(store: AnyStore) {
    let old = create(&store, scoped("old", "/a", "")).await;
    let new = create(&store, Record { scope: None, ..scoped("new", "/a", "") }).await;
    let closing = || {
        let mut changes = events(1, 1);
        changes.push(Change::Lifecycle(Lifecycle::Closed { at: at(60) }));
        changes
    };
    let taking = || vec![Change::Scope(Some(scope("claude", "")))];
    let both = async |one: &Lease, other: &Lease| {
        let one = Append { lease: one.clone(), changes: closing() };
        let other = Append { lease: other.clone(), changes: taking() };
        store.append_both(one, other, Durability::Machine).await
    };
    // Whichever of the two cannot be written, the other is not either.
    let before = [kept(&store, "old").await, kept(&store, "new").await];
    let newer = store.lease(id("new"), host("h")).await.unwrap();
    assert_eq!(
        said(both(&old, &new).await),
        "another host has taken over the record new (generation 2, ours was 1)"
    );
    assert_eq!([kept(&store, "old").await, kept(&store, "new").await], before);
    assert_eq!(store.events(id("old"), Seq::FIRST, 10).await.unwrap(), []);
    let void = old;
    let old = store.lease(id("old"), host("h")).await.unwrap();
    assert_eq!(
        said(both(&void, &newer).await),
        "another host has taken over the record old (generation 2, ours was 1)"
    );
    assert_eq!([kept(&store, "old").await, kept(&store, "new").await], before);
    assert_eq!(found(&store, &["/a"], "", false).await, "old");

    both(&old, &newer).await.unwrap();
    assert_eq!(found(&store, &["/a"], "", false).await, "new");
    let [old, new] = [kept(&store, "old").await, kept(&store, "new").await];
    assert_eq!((old.lifecycle, old.last_seq), (Lifecycle::Closed { at: at(60) }, Some(Seq(1))));
    assert_eq!(new, Record { scope: Some(scope("claude", "")), ..before[1].clone() });
}

pub(super) async fn a_scope_is_given_changed_and_taken_away(store: AnyStore) {
    let new = Record { scope: None, ..scoped("r", "/a", "") };
    let lease = create(&store, new.clone()).await;
    assert_eq!(found(&store, &["/a"], "", true).await, "");
    let steps = [
        (Some(scope("claude", "")), ["r", ""]),
        (Some(scope("claude", "name")), ["", "r"]),
        (None, ["", ""]),
    ];
    for (scope, expected) in steps {
        write(&store, &lease, Change::Scope(scope.clone())).await.unwrap();
        assert_eq!(kept(&store, "r").await, Record { scope, ..new.clone() });
        let names = [found(&store, &["/a"], "", true).await, found(&store, &["/a"], "name", true).await];
        assert_eq!(names, expected);
    }
    // A scope that was given up is free at once, also within one append.
    create(&store, scoped("other", "/a", "")).await;
    let changes =
        [Some(scope("claude", "name")), None, Some(scope("claude", "name"))].map(Change::Scope).to_vec();
    store.append(lease, changes, Durability::Process).await.unwrap();
    assert_eq!(found(&store, &["/a"], "name", false).await, "r");
}

pub(super) async fn session_is_known_by_every_lineage_row_even_of_deleted_records(store: AnyStore) {
    let named = |name: &str, agent: AgentSpec, first: &str| {
        let lineage = Lineage::begin(session(first), None, at(5));
        Record { agent, lineage, ..record(name, 5) }
    };
    let agent = AgentSpec::new("agent", ["acp"]);
    let one = named("r1", agent.clone(), "s1");
    let lease = store.create(one.clone(), Vec::new(), host("h")).await.unwrap();
    let mut lineage = one.lineage;
    lineage.replace(session("s2"), None, LineageReason::Reset, at(8));
    let changes = vec![Change::Lineage(lineage), Change::Lifecycle(Lifecycle::Deleted { at: at(9) })];
    store.append(lease, changes, Durability::Process).await.unwrap();
    // Another agent may have a session of the same name.
    let other = AgentSpec::new("other", ["acp"]);
    store.create(named("r2", other.clone(), "s2"), Vec::new(), host("h")).await.unwrap();

    let wanted = || vec![session("s2"), session("nobodys"), session("s1"), session("s2")];
    let owned = ["s1", "s2"].map(|of| SessionOwner { is_deleted: true, ..owner(of, "r1", &agent) });
    assert_eq!(store.owners(agent.clone(), wanted()).await.unwrap(), owned);
    assert_eq!(store.owners(other.clone(), wanted()).await.unwrap(), [owner("s2", "r2", &other)]);
    assert_eq!(store.owners(AgentSpec::new("nobody", [""; 0]), wanted()).await.unwrap(), []);
    assert_eq!(store.owners(agent, Vec::new()).await.unwrap(), []);
}

fn owner(of: &str, by: &str, agent: &AgentSpec) -> SessionOwner {
    SessionOwner { session: session(of), record: id(by), agent: agent.key(), is_deleted: false }
}

pub(super) async fn session_is_known_by_its_agents_command_under_any_name(store: AnyStore) {
    let by_command = AgentSpec::new("agent", ["acp", "--deep"]);
    let by_name = by_command.clone().named("claude");
    let moved = AgentSpec::new("elsewhere/agent", ["acp"]).named("claude");
    for (name, agent) in [("r1", &by_command), ("r2", &by_name), ("r3", &moved)] {
        let lineage = Lineage::begin(session(&format!("s-{name}")), None, at(5));
        let kept = Record { agent: agent.clone(), lineage, ..record(name, 5) };
        store.create(kept, Vec::new(), host("h")).await.unwrap();
    }
    let (first, second, third) =
        (owner("s-r1", "r1", &by_command), owner("s-r2", "r2", &by_name), owner("s-r3", "r3", &moved));
    let cases = [
        (by_command.clone(), vec![first.clone(), second.clone()]),
        (by_name, vec![first.clone(), second.clone(), third.clone()]),
        (moved, vec![second.clone(), third]),
        // Two that have names are two.
        (by_command.named("other"), vec![first]),
        (AgentSpec::new("agent", ["acp"]), Vec::new()),
    ];
    for (agent, expected) in cases {
        let wanted = ["s-r1", "s-r2", "s-r3"].map(session).to_vec();
        assert_eq!(store.owners(agent.clone(), wanted).await.unwrap(), expected, "{agent:?}");
    }
}

pub(super) async fn records_are_found_by_a_prefix_of_their_ids(store: AnyStore) {
    let ids = ["0199-aaaa-1", "0199-aaaa-2", "0199-b", "ses_%", "ses_ü1", "ses_ü2"];
    for (time, name) in (1..).zip(ids) {
        let agent = AgentSpec::new("a", [""; 0]).named(if time % 2 == 0 { "even" } else { "odd" });
        let lease = create(&store, Record { agent, ..record(name, time) }).await;
        if name == "ses_ü2" {
            let deleted = Change::Lifecycle(Lifecycle::Deleted { at: at(9) });
            store.append(lease, vec![deleted], Durability::Process).await.unwrap();
        }
    }
    let found = async |agent: Option<&str>, prefix: &str, limit: usize| {
        let filter = RecordFilter { agent: agent.map(AgentKey::new), real_cwd: None };
        let records = store.records_by_id_prefix(filter, prefix.to_owned(), limit).await.unwrap();
        records.into_iter().map(|record| record.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(None, "0199-a", 9).await, ["0199-aaaa-1", "0199-aaaa-2"]);
    assert_eq!(found(None, "0199-a", 1).await, ["0199-aaaa-1"]);
    assert_eq!(found(Some("even"), "0199-a", 9).await, ["0199-aaaa-2"]);
    assert_eq!(found(None, "ses_ü", 9).await, ["ses_ü1"]);
    assert_eq!(found(None, "ses_", 9).await, ["ses_%", "ses_ü1"]);
    assert_eq!(found(None, "0199-aaaa-12", 9).await, [""; 0]);
    let short = store.short_ids(ids.iter().chain(&["unknown-id"]).map(|name| id(name)).collect()).await;
    let expected = ["0199-aaaa-1", "0199-aaaa-2", "0199-b", "ses_%", "ses_ü1", "ses_ü2", "unknown-"];
    assert_eq!(short.unwrap(), expected);
}

pub(super) async fn records_are_listed_by_agent_and_directory(store: AnyStore) {
    let raw = AgentSpec::new("npx", ["-y", "an \"agent\""]);
    let agents = [
        raw.clone().named("claude"),
        raw.clone(),
        AgentSpec::new("npx", ["-y"]),
        AgentSpec::new("npx", [""; 0]),
        raw.clone().named(raw.key().as_str()),
    ];
    let mut all = Vec::new();
    for (time, (agent, directory)) in
        (1..).zip(agents.iter().flat_map(|agent| [(agent, "/a"), (agent, "/b")]))
    {
        // With a scope or without one, and whatever that scope says.
        let scope = if directory == "/a" { Some(scope("codex", &format!("s{time}"))) } else { None };
        let new = Record {
            agent: agent.clone(),
            real_cwd: path(directory),
            scope,
            ..record(&format!("r{time}"), time)
        };
        create(&store, new.clone()).await;
        all.insert(0, new);
    }
    let directories = [None, Some(path("/a")), Some(path("/b")), Some(path("/c"))];
    let keys = agents.iter().map(|agent| Some(agent.key()));
    for agent in keys.chain([None, Some(AgentKey::new("[ \"npx\" ]")), Some(AgentKey::new("[]"))]) {
        for real_cwd in directories.clone() {
            let filter = RecordFilter { agent: agent.clone(), real_cwd: real_cwd.clone() };
            let right = |record: &&Record| {
                agent.as_ref().is_none_or(|agent| record.agent.key() == *agent)
                    && real_cwd.as_ref().is_none_or(|real_cwd| record.real_cwd == *real_cwd)
            };
            let expected: Vec<Record> = all.iter().filter(right).cloned().collect();
            let mut listed: Vec<Record> = Vec::new();
            loop {
                let after = listed.last().map(|record| (record.updated_at, record.id.clone()));
                let page = store.records(filter.clone(), after, 2).await.unwrap();
                if page.is_empty() {
                    break;
                }
                listed.extend(page);
            }
            assert_eq!(listed, expected, "{filter:?}");
        }
    }
}

pub(super) async fn unprompted_records_are_those_of_acp_clients_without_a_turn(store: AnyStore) {
    let scope = Some(Scope { agent: AgentKey::new("claude"), name: None });
    let adopted = Lineage::adopted(session("s1"), at(1));
    let records = [
        record("b", 2),
        record("a", 2),
        record("c", 1),
        record("late", 9),
        Record { scope, ..record("shell", 1) },
        Record { lineage: adopted, ..record("adopted", 1) },
        Record { lifecycle: Lifecycle::Deleted { at: at(1) }, ..record("deleted", 1) },
    ];
    for record in records {
        create(&store, record).await;
    }
    let prompted = create(&store, record("prompted", 1)).await;
    write(&store, &prompted, Change::Turn(turn(1, "q1", TurnState::Queued))).await.unwrap();
    assert_eq!(store.unprompted(at(9), 9).await.unwrap(), [id("c"), id("a"), id("b")]);
    assert_eq!(store.unprompted(at(9), 1).await.unwrap(), [id("c")]);
    assert_eq!(store.unprompted(at(1), 9).await.unwrap(), []);
}

pub(super) async fn last_agent_run_is_stored_and_runs_without_end_are_listed(store: AnyStore) {
    let run = |pid, ended: Option<&str>| AgentRun {
        process: ProcessIdentity { pid, started: 1 << 40, boot: "0b7c-boot".to_owned() },
        since: at(3),
        ended: ended.map(|how| AgentExit { at: at(4), how: AgentEnd::from_words(how) }),
    };
    let leases = [
        create(&store, record("b", 5)).await,
        create(&store, record("a", 5)).await,
        create(&store, Record { agent_run: Some(run(9, None)), ..record("c", 5) }).await,
    ];
    create(&store, Record { agent_run: Some(run(8, Some("killed"))), ..record("d", 5) }).await;
    assert_eq!(store.running().await.unwrap(), [(id("c"), run(9, None))]);
    write(&store, &leases[0], Change::AgentRun(run(u32::MAX, None))).await.unwrap();
    write(&store, &leases[1], Change::AgentRun(run(7, None))).await.unwrap();
    // A new process takes the place of the one before, whether its end was seen or not.
    write(&store, &leases[2], Change::AgentRun(run(10, None))).await.unwrap();
    let expected = [(id("a"), run(7, None)), (id("b"), run(u32::MAX, None)), (id("c"), run(10, None))];
    assert_eq!(store.running().await.unwrap(), expected);
    write(&store, &leases[1], Change::AgentRun(run(7, Some("exit status: 1")))).await.unwrap();
    write(&store, &leases[2], Change::AgentRun(run(10, Some("")))).await.unwrap();
    assert_eq!(store.running().await.unwrap(), [(id("b"), run(u32::MAX, None))]);
    let expected = Record { agent_run: Some(run(7, Some("exit status: 1"))), ..record("a", 5) };
    assert_eq!(kept(&store, "a").await, expected);
}

pub(super) async fn turn_is_found_by_number_with_its_usage_and_permissions(store: AnyStore) {
    let lease = create(&store, record("r", 5)).await;
    create(&store, record("other", 5)).await;
    let mut asking = turn(3, "three", TurnState::Queued);
    asking.policy = PermissionMode::Ask.into();
    write(&store, &lease, Change::Turn(asking.clone())).await.unwrap();
    assert_eq!(store.turn_numbered(id("r"), TurnId(3)).await.unwrap(), Some(asking.clone()));
    let usage = "{\"totalTokens\": 12,  \"unknown\":\"Wörter\"}";
    let counts = [(0, 0), (2, 0), (0, 1), (u32::MAX, u32::MAX)];
    for (usage, (approved, rejected)) in
        [None, Some(usage)].into_iter().flat_map(|usage| counts.map(|c| (usage, c)))
    {
        asking.state = stopped("end_turn");
        asking.usage = usage.map(Into::into);
        asking.permissions = PermissionCount { approved, rejected };
        write(&store, &lease, Change::Turn(asking.clone())).await.unwrap();
        assert_eq!(store.turn_numbered(id("r"), TurnId(3)).await.unwrap(), Some(asking.clone()));
    }
    for (name, number) in [("r", 2), ("r", 0), ("r", u64::MAX), ("other", 3)] {
        assert_eq!(store.turn_numbered(id(name), TurnId(number)).await.unwrap(), None);
    }
    for (name, number, found) in [("r", 0, true), ("r", 3, true), ("r", 4, false), ("other", 0, false)] {
        let expected = found.then(|| asking.clone());
        assert_eq!(store.first_turn_from(id(name), TurnId(number)).await.unwrap(), expected);
    }
}

pub(super) async fn records_are_listed_in_creation_order_despite_changes(store: AnyStore) {
    let mut leases = Vec::new();
    for name in ["c", "a", "e", "b", "d"] {
        leases.push(create(&store, scoped(name, if name == "e" { "/b" } else { "/a" }, name)).await);
    }
    let page = async |filter: RecordFilter, after: Option<&str>| {
        let records = store.records_by_creation(filter, after.map(id), 2).await.unwrap();
        records.iter().map(|record| record.id.to_string()).collect::<Vec<_>>()
    };
    let all = RecordFilter::default;
    assert_eq!(page(all(), None).await, ["d", "b"]);
    // What changes, comes or goes between two pages neither moves nor hides any other.
    store.append(leases[0].clone(), events(1, 1), Durability::Process).await.unwrap();
    create(&store, scoped("f", "/a", "f")).await;
    let deleted = Change::Lifecycle(Lifecycle::Deleted { at: at(90) });
    write(&store, &leases[3], deleted).await.unwrap();
    assert_eq!(page(all(), Some("b")).await, ["e", "a"]);
    assert_eq!(page(all(), Some("a")).await, ["c"]);
    assert_eq!(page(all(), Some("c")).await, [""; 0]);
    assert_eq!(page(all(), Some("nobody")).await, [""; 0]);
    assert_eq!(page(all(), None).await, ["f", "d"]);
    let here = RecordFilter { agent: None, real_cwd: Some(path("/a")) };
    assert_eq!(page(here.clone(), Some("d")).await, ["a", "c"]);
}

pub(super) async fn records_created_after_another_are_listed(store: AnyStore) {
    for name in ["c", "a", "b"] {
        create(&store, record(name, 5)).await;
    }
    let all = || ["a", "b", "nobody", "c"].map(id).to_vec();
    for (than, expected) in
        [("c", vec![id("a"), id("b")]), ("a", vec![id("b")]), ("b", Vec::new()), ("nobody", Vec::new())]
    {
        assert_eq!(store.created_after(id(than), all()).await.unwrap(), expected, "{than}");
    }
    assert_eq!(store.created_after(id("c"), vec![id("b")]).await.unwrap(), [id("b")]);
}
