//! Whatever is asked of them, in whatever order, the two stores give the same answers.

use acpx_core::model::{
    AgentSessionId, Direction, Event, EventKind, Lifecycle, Lineage, LineageIndex, LineageReason, Record,
    Seq, TurnId, TurnState,
};
use acpx_core::store::{
    Access, Change, Durability, Lease, MemoryStore, RecordFilter, SqliteStore, Store, StoreError,
};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::samples::{at, event, failed, host, id, record, request, server, session, stopped, turn};

/// One call, over few names and numbers, so that calls meet.
#[derive(Debug, Clone)]
enum Call {
    Create {
        name: usize,
        time: i64,
        changes: Vec<Step>,
    },
    Lease {
        name: usize,
    },
    /// Under the lease that was taken `back` leases ago.
    Append {
        name: usize,
        back: usize,
        changes: Vec<Step>,
        durability: Durability,
    },
    Record {
        name: usize,
    },
    Records {
        after: Option<(i64, usize)>,
        limit: usize,
    },
    Events {
        name: usize,
        from: u64,
        limit: usize,
    },
    OpenTurns {
        name: usize,
    },
    Turn {
        name: usize,
        request: usize,
    },
}

/// One change. An event's number is that of the next one, or wrong by `skew`.
#[derive(Debug, Clone)]
enum Step {
    Event { skew: u64, time: i64, turn: Option<u64>, direction: usize, kind: usize, body: String },
    Turn { number: u64, request: usize, state: usize },
    Lineage { rows: usize, inner: bool },
    Title(Option<String>),
    McpServers(Vec<String>),
    Lifecycle(Option<i64>),
}

const NAMES: [&str; 3] = ["r1", "r2", "ä"];
const REQUESTS: [&str; 4] = ["q1", "q2", "q3", "q4"];

fn step() -> impl Strategy<Value = Step> {
    let skew = prop_oneof![20 => Just(0_u64), 1 => 1..3_u64];
    let body = prop_oneof![9 => ".{0,40}", 1 => Just("long ".repeat(20_000))];
    prop_oneof![
        6 => (skew, 0..50_i64, any::<Option<bool>>(), 0..3_usize, 0..5_usize, body).prop_map(
            |(skew, time, turn, direction, kind, body)| {
                Step::Event { skew, time, turn: turn.map(u64::from), direction, kind, body }
            }
        ),
        4 => (1..6_u64, 0..REQUESTS.len(), 0..6_usize)
            .prop_map(|(number, request, state)| Step::Turn { number, request, state }),
        1 => (1..4_usize, any::<bool>()).prop_map(|(rows, inner)| Step::Lineage { rows, inner }),
        1 => any::<Option<String>>().prop_map(Step::Title),
        1 => vec(any::<String>(), 0..3).prop_map(Step::McpServers),
        1 => any::<Option<bool>>().prop_map(|at| Step::Lifecycle(at.map(|late| if late { 40 } else { 4 }))),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let name = || 0..NAMES.len();
    let durability = prop_oneof![9 => Just(Durability::Process), 1 => Just(Durability::Machine)];
    prop_oneof![
        2 => (name(), 0..50_i64, vec(step(), 0..3))
            .prop_map(|(name, time, changes)| Call::Create { name, time, changes }),
        2 => name().prop_map(|name| Call::Lease { name }),
        8 => (name(), prop_oneof![9 => Just(0_usize), 1 => Just(1)], vec(step(), 0..8), durability)
            .prop_map(|(name, back, changes, durability)| Call::Append { name, back, changes, durability }),
        1 => name().prop_map(|name| Call::Record { name }),
        1 => (any::<bool>(), 0..50_i64, name(), 0..4_usize).prop_map(|(begin, at, name, limit)| {
            Call::Records { after: (!begin).then_some((at, name)), limit }
        }),
        2 => (name(), 0..30_u64, 0..9_usize).prop_map(|(name, from, limit)| Call::Events { name, from, limit }),
        1 => name().prop_map(|name| Call::OpenTurns { name }),
        1 => (name(), 0..REQUESTS.len()).prop_map(|(name, request)| Call::Turn { name, request }),
    ]
}

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
            Call::Create { name, time, changes } => {
                let changes = Self::changes(None, changes);
                let new = Record { lineage: lineage(1, false), ..record(NAMES[name], time) };
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
            Call::Records { after, limit } => {
                let after = after.map(|(time, name)| (at(time), id(NAMES[name])));
                text(self.store.records(RecordFilter::default(), after, limit).await)
            }
            Call::Events { name, from, limit } => {
                text(self.store.events(id(NAMES[name]), Seq(from), limit).await)
            }
            Call::OpenTurns { name } => text(self.store.open_turns(id(NAMES[name])).await),
            Call::Turn { name, request: named } => {
                text(self.store.turn(id(NAMES[name]), request(REQUESTS[named])).await)
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
            Step::Turn { number, request, state } => {
                let states = [
                    TurnState::Queued,
                    TurnState::Dispatched { at: at(20) },
                    TurnState::Interrupted { at: at(21) },
                    stopped("end_turn"),
                    stopped("cancelled"),
                    failed(),
                ];
                Change::Turn(turn(number, REQUESTS[request], states[state].clone()))
            }
            Step::Lineage { rows, inner } => Change::Lineage(lineage(rows, inner)),
            Step::Title(title) => Change::Title(title),
            Step::McpServers(names) => {
                Change::McpServers(names.iter().map(|name| server(name, None)).collect())
            }
            Step::Lifecycle(closed) => {
                Change::Lifecycle(closed.map_or(Lifecycle::Open, |time| Lifecycle::Closed { at: at(time) }))
            }
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
            let mut whole = vec![Call::Records { after: None, limit: 10 }];
            for name in 0..NAMES.len() {
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
