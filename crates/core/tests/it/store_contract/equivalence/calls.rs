//! What is asked of the stores: calls over few names and numbers, so that they meet.

use acpx_core::model::{
    AbsolutePath, AgentKey, AgentMemory, Fallback, Lifecycle, LineageReason, ProtocolVersion, Scope, Seq,
    SessionName, WakeOptions,
};
use acpx_core::store::{Durability, RecordFilter, ScopeQuery};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::store_contract::samples::at;

/// One call, over few names and numbers, so that calls meet.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Create {
        name: usize,
        time: i64,
        scope: Option<Scope>,
        directory: usize,
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
        filter: RecordFilter,
        after: Option<(i64, usize)>,
        limit: usize,
    },
    Find {
        query: ScopeQuery,
    },
    Running,
    WithOpenTurns,
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
    TurnNumbered {
        name: usize,
        number: u64,
    },
}

/// One change. An event's number is that of the next one, or wrong by `skew`.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Event { skew: u64, time: i64, turn: Option<u64>, direction: usize, kind: usize, body: String },
    Turn { number: u64, request: usize, state: usize, used: Option<u32>, wake_options: WakeOptions },
    Lineage { rows: usize, inner: bool },
    Title(Option<String>),
    UserTitle(Option<String>),
    Usage(Option<(u32, bool)>),
    McpServers(Vec<(String, bool)>),
    Settings(Option<String>),
    Memory(AgentMemory),
    AdditionalDirectories(Vec<String>),
    Lifecycle(Lifecycle),
    Scope(Option<Scope>),
    Place { directory: usize },
    AgentRun { pid: u32, ended: Option<String> },
    LastActivity(i64),
    AgentCommand { program: String, args: Vec<String>, protocol: ProtocolVersion },
}

pub(super) const NAMES: [&str; 3] = ["r1", "r2", "ä"];
pub(super) const REQUESTS: [&str; 4] = ["q1", "q2", "q3", "q4"];
const DIRECTORIES: [&str; 2] = ["/srv/project", "/srv"];

fn scope() -> impl Strategy<Value = Option<Scope>> {
    let name = prop_oneof![Just(None), Just(SessionName::new("name").ok())];
    prop_oneof![1 => Just(None), 4 => name.prop_map(|name| Some(Scope { agent: AgentKey::new("claude"), name }))]
}

fn query() -> impl Strategy<Value = ScopeQuery> {
    let directories = vec(0..DIRECTORIES.len(), 0..3);
    (scope(), directories, any::<bool>()).prop_map(|(scope, directories, closed)| ScopeQuery {
        agent: AgentKey::new("claude"),
        directories: directories.into_iter().map(path).collect(),
        name: scope.and_then(|scope| scope.name),
        closed,
    })
}

fn filter() -> impl Strategy<Value = RecordFilter> {
    let agent = prop_oneof![Just(None), Just(Some("claude")), Just(Some("codex"))];
    let directory = prop_oneof![2 => Just(None), 1 => (0..DIRECTORIES.len()).prop_map(Some)];
    (agent, directory).prop_map(|(agent, directory)| RecordFilter {
        agent: agent.map(AgentKey::new),
        real_cwd: directory.map(path),
    })
}

pub(super) fn path(directory: usize) -> AbsolutePath {
    AbsolutePath::new(DIRECTORIES[directory]).unwrap()
}

fn step() -> impl Strategy<Value = Step> {
    let skew = prop_oneof![20 => Just(0_u64), 1 => 1..3_u64];
    let body = prop_oneof![9 => ".{0,40}", 1 => Just("long ".repeat(20_000))];
    prop_oneof![
        6 => (skew, 0..50_i64, any::<Option<bool>>(), 0..3_usize, 0..5_usize, body).prop_map(
            |(skew, time, turn, direction, kind, body)| {
                Step::Event { skew, time, turn: turn.map(u64::from), direction, kind, body }
            }
        ),
        4 => (1..6_u64, 0..REQUESTS.len(), 0..6_usize, any::<Option<u32>>(), wake_options()).prop_map(
            |(number, request, state, used, wake_options)| Step::Turn { number, request, state, used, wake_options }
        ),
        1 => (1..4_usize, any::<bool>()).prop_map(|(rows, inner)| Step::Lineage { rows, inner }),
        1 => any::<Option<String>>().prop_map(Step::Title),
        1 => any::<Option<String>>().prop_map(Step::UserTitle),
        1 => any::<Option<(u32, bool)>>().prop_map(Step::Usage),
        1 => vec(any::<(String, bool)>(), 0..3).prop_map(Step::McpServers),
        1 => any::<Option<String>>().prop_map(Step::Settings),
        1 => memory().prop_map(Step::Memory),
        1 => vec(any::<String>(), 0..3).prop_map(Step::AdditionalDirectories),
        2 => scope().prop_map(Step::Scope),
        1 => (0..DIRECTORIES.len()).prop_map(|directory| Step::Place { directory }),
        1 => (1..4_u32, any::<Option<String>>()).prop_map(|(pid, ended)| Step::AgentRun { pid, ended }),
        1 => ("[a-z]{1,3}", vec(".{0,4}", 0..3), any::<bool>()).prop_map(|(program, args, second)| {
            let protocol = if second { ProtocolVersion::V2 } else { ProtocolVersion::V1 };
            Step::AgentCommand { program, args, protocol }
        }),
        1 => (1..100_i64).prop_map(Step::LastActivity),
        2 => lifecycle().prop_map(Step::Lifecycle),
    ]
}

fn memory() -> impl Strategy<Value = AgentMemory> {
    let reason = prop_oneof![Just(None), Just(Some(LineageReason::AgentLost))];
    prop_oneof![
        Just(AgentMemory::Whole),
        Just(AgentMemory::Compacted),
        Just(AgentMemory::Part),
        Just(AgentMemory::Another),
        (1..9_u64, reason).prop_map(|(from, reason)| AgentMemory::Since { from: Seq(from), reason }),
    ]
}

fn wake_options() -> impl Strategy<Value = WakeOptions> {
    let fallback = prop_oneof![Just(Fallback::Auto), Just(Fallback::Never), Just(Fallback::Reset)];
    (fallback, any::<bool>()).prop_map(|(fallback, carry_history)| WakeOptions { fallback, carry_history })
}

fn lifecycle() -> impl Strategy<Value = Lifecycle> {
    let time = || prop_oneof![Just(at(4)), Just(at(40))];
    prop_oneof![
        2 => Just(Lifecycle::Open),
        2 => time().prop_map(|at| Lifecycle::Closed { at }),
        1 => time().prop_map(|at| Lifecycle::Deleted { at }),
    ]
}

pub(super) fn call() -> impl Strategy<Value = Call> {
    let name = || 0..NAMES.len();
    let durability = prop_oneof![9 => Just(Durability::Process), 1 => Just(Durability::Machine)];
    prop_oneof![
        3 => (name(), 0..50_i64, scope(), 0..DIRECTORIES.len(), vec(step(), 0..3)).prop_map(
            |(name, time, scope, directory, changes)| Call::Create { name, time, scope, directory, changes }
        ),
        2 => name().prop_map(|name| Call::Lease { name }),
        8 => (name(), prop_oneof![9 => Just(0_usize), 1 => Just(1)], vec(step(), 0..8), durability)
            .prop_map(|(name, back, changes, durability)| Call::Append { name, back, changes, durability }),
        1 => name().prop_map(|name| Call::Record { name }),
        1 => (filter(), any::<bool>(), 0..50_i64, name(), 0..4_usize).prop_map(
            |(filter, begin, at, name, limit)| {
                Call::Records { filter, after: (!begin).then_some((at, name)), limit }
            }
        ),
        2 => query().prop_map(|query| Call::Find { query }),
        1 => Just(Call::Running),
        1 => Just(Call::WithOpenTurns),
        2 => (name(), 0..30_u64, 0..9_usize).prop_map(|(name, from, limit)| Call::Events { name, from, limit }),
        1 => name().prop_map(|name| Call::OpenTurns { name }),
        1 => (name(), 0..REQUESTS.len()).prop_map(|(name, request)| Call::Turn { name, request }),
        1 => (name(), 0..7_u64).prop_map(|(name, number)| Call::TurnNumbered { name, number }),
    ]
}
