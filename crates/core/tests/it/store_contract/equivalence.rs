//! Whatever is asked of them, in whatever order, the two stores give the same answers.

mod calls;

use acpx_core::model::{
    AbsolutePath, AgentEnd, AgentExit, AgentRun, AgentSessionId, Cost, Direction, Event, EventKind, Lineage,
    LineageIndex, LineageReason, PermissionCount, ProcessIdentity, Record, RecordSettings, Seq, SessionUsage,
    Turn, TurnId, TurnState,
};
use acpx_core::store::{Access, Change, Lease, MemoryStore, RecordFilter, SqliteStore, Store, StoreError};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, proptest};

use self::calls::{Call, NAMES, REQUESTS, Step, call, path};
use super::samples::{
    at, event, failed, host, id, record, request, server, session, settings_of, stopped, turn,
};

/// A store, and what a caller of it would remember.
struct Side {
    store: Box<dyn Store>,
    leases: [Vec<Lease>; NAMES.len()],
}

impl Side {
    fn new(store: Box<dyn Store>) -> Self {
        Self { store, leases: Default::default() }
    }

    /// Makes a call; everything the answer says, as text.
    async fn answer(&mut self, call: &Call) -> String {
        match call.clone() {
            Call::Create { name, time, scope, directory, changes } => {
                let changes = Self::changes(None, changes);
                let new = record(NAMES[name], time);
                let new = Record { lineage: lineage(1, false), scope, real_cwd: path(directory), ..new };
                let lease = self.store.create(new, changes, host("h")).await;
                self.remember(name, lease)
            }
            Call::Lease { name } => {
                let lease = self.store.lease(id(NAMES[name]), host("h2")).await;
                self.remember(name, lease)
            }
            Call::Append { name, back, changes, durability } => {
                let Some(lease) = self.leases[name].iter().rev().nth(back).cloned() else {
                    return "no lease".to_owned();
                };
                let last = self.store.record(id(NAMES[name])).await.unwrap().and_then(|found| found.last_seq);
                let changes = Self::changes(last, changes);
                text(self.store.append(lease, changes, durability).await)
            }
            Call::Record { name } => text(self.store.record(id(NAMES[name])).await),
            Call::Records { filter, after, limit } => {
                let after = after.map(|(time, name)| (at(time), id(NAMES[name])));
                text(self.store.records(filter, after, limit).await)
            }
            Call::Find { query } => text(self.store.find(query).await),
            Call::Running => text(self.store.running().await),
            Call::WithOpenTurns => text(self.store.records_with_open_turns().await),
            Call::Events { name, from, limit } => {
                text(self.store.events(id(NAMES[name]), Seq(from), limit).await)
            }
            Call::OpenTurns { name } => text(self.store.open_turns(id(NAMES[name])).await),
            Call::Turn { name, request: named } => {
                text(self.store.turn(id(NAMES[name]), request(REQUESTS[named])).await)
            }
            Call::TurnNumbered { name, number } => {
                let first = text(self.store.first_turn_from(id(NAMES[name]), TurnId(number)).await);
                text(self.store.turn_numbered(id(NAMES[name]), TurnId(number)).await) + &first
            }
        }
    }

    fn remember(&mut self, name: usize, lease: Result<Lease, StoreError>) -> String {
        if let Ok(lease) = &lease {
            self.leases[name].push(lease.clone());
        }
        text(lease)
    }

    fn changes(last: Option<Seq>, steps: Vec<Step>) -> Vec<Change> {
        let mut next = last.map_or(Seq::FIRST, Seq::next);
        let mut change = |step| match step {
            Step::Event { skew, time, turn, direction, kind, body } => {
                let seq = Seq(next.0 + skew);
                next = next.next();
                Change::Event(Event {
                    seq,
                    at: at(time),
                    turn: turn.map(TurnId),
                    lineage: LineageIndex::FIRST,
                    protocol: 2,
                    direction: [Direction::FromAgent, Direction::ToAgent, Direction::Ours][direction],
                    kind: [
                        EventKind::Update,
                        EventKind::Notification,
                        EventKind::Request,
                        EventKind::Response,
                        EventKind::Fact,
                    ][kind],
                    ..event(1, body)
                })
            }
            Step::Turn { number, request, state, used, wake_options } => {
                let states = [
                    TurnState::Queued,
                    TurnState::Dispatched { at: at(20) },
                    TurnState::Interrupted { at: at(21) },
                    stopped("end_turn"),
                    stopped("cancelled"),
                    failed(),
                ];
                let turn = turn(number, REQUESTS[request], states[state].clone());
                let permissions = PermissionCount { approved: used.unwrap_or(0), rejected: 0 };
                let usage = used.map(|used| used.to_string().into());
                Change::Turn(Turn { usage, permissions, wake_options, ..turn })
            }
            Step::Lineage { rows, inner } => Change::Lineage(lineage(rows, inner)),
            Step::Title(title) => Change::Title(title),
            Step::UserTitle(title) => Change::UserTitle(title),
            Step::Usage(usage) => Change::Usage(usage.map(|(used, costs)| {
                let cost = costs.then(|| Cost { amount: used.into(), currency: "USD".to_owned() });
                SessionUsage { used: used.into(), size: 9, cost }
            })),
            Step::McpServers(names) => {
                let source = |kept: bool| kept.then_some("/etc/servers.json");
                Change::McpServers(names.iter().map(|(name, kept)| server(name, source(*kept))).collect())
            }
            Step::Settings(value) => {
                Change::Settings(value.map_or_else(RecordSettings::default, |value| settings_of(&value)))
            }
            Step::Memory(memory) => Change::Memory(memory),
            Step::AdditionalDirectories(names) => Change::AdditionalDirectories(
                names.iter().map(|name| AbsolutePath::new(format!("/{name}")).unwrap()).collect(),
            ),
            Step::Scope(scope) => Change::Scope(scope),
            Step::Place { directory } => {
                Change::WorkingDirectory { cwd: path(directory), real_cwd: path(directory) }
            }
            Step::AgentCommand { program, args, protocol } => {
                Change::AgentCommand { program: program.clone(), args: args.clone(), protocol }
            }
            Step::AgentRun { pid, ended } => Change::AgentRun(AgentRun {
                process: ProcessIdentity { pid, started: 77, boot: "boot".to_owned() },
                since: at(3),
                ended: ended.map(|how| AgentExit { at: at(4), how: AgentEnd::from_words(&how) }),
            }),
            Step::LastActivity(time) => Change::LastActivity(at(time)),
            Step::Lifecycle(lifecycle) => Change::Lifecycle(lifecycle),
        };
        steps.into_iter().map(&mut change).collect()
    }
}

/// Lineages that often continue one another, and sometimes do not.
fn lineage(rows: usize, inner: bool) -> Lineage {
    let mut lineage = record("any", 7).lineage;
    for row in 1..rows {
        let told = AgentSessionId::from_agent("later").filter(|_| inner && row + 1 == rows);
        let time = 10 * i64::try_from(row).unwrap();
        lineage.replace(session(&format!("s{row}")), told, LineageReason::LoadFailed, at(time));
    }
    lineage
}

fn text<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_give_equal_answers(calls in vec(call(), 1..60)) {
        let home = tempfile::tempdir().unwrap();
        let sqlite = SqliteStore::open(&home.path().join("store.db"), Access::ReadWrite).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut memory = Side::new(Box::new(MemoryStore::new()));
            let mut sqlite = Side::new(Box::new(sqlite));
            let filter = RecordFilter::default();
            let mut whole = vec![Call::Records { filter, after: None, limit: 10 }, Call::Running, Call::WithOpenTurns];
            for name in 0..NAMES.len() {
                whole.push(Call::Record { name });
                whole.push(Call::Events { name, from: 1, limit: 1000 });
                whole.push(Call::OpenTurns { name });
                whole.extend((0..REQUESTS.len()).map(|request| Call::Turn { name, request }));
            }
            for call in calls.iter().chain(&whole) {
                let (expected, found) = (memory.answer(call).await, sqlite.answer(call).await);
                assert_eq!(found, expected, "after {call:?}");
            }
        });
    }
}
