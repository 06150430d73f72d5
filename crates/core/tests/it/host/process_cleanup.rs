//! Every kind of agent that does not want to go, against every way in which it has to: afterwards nothing of it is in
//! the process table, and the record names what was ended beyond the agent's own group and is known to be that agent's.

use std::path::Path;
use std::sync::Arc;

use acpx_core::model::{Fact, ProcessIdentity, RecordId, Seq};
use acpx_core::store::Store;
use acpx_testkit::Script;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Bench, eventually, kill};
use crate::engine::{everything, faithful};

/// An agent, by what its shell does before or around it. `$PIDS` is where it writes what it has started.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    shell: &'static str,
    /// How many processes it starts beside itself.
    started: usize,
    /// Whether these leave its group.
    strays: bool,
    ignores_eof: bool,
    /// Whether they shed every mark and their parent, so that a host ends them and cannot tell whose they are.
    is_unmarked: bool,
}

const PLAIN: Kind = Kind {
    name: "one that goes when it is told to",
    shell: r#"exec "$@""#,
    started: 0,
    strays: false,
    ignores_eof: false,
    is_unmarked: false,
};

const KINDS: [Kind; 8] = [
    PLAIN,
    Kind { name: "one that ignores the end of its input", ignores_eof: true, ..PLAIN },
    Kind {
        name: "one that ignores TERM too",
        shell: r#"trap "" TERM; exec "$@""#,
        ignores_eof: true,
        ..PLAIN
    },
    Kind {
        name: "a wrapper that leaves the real program behind",
        shell: r#"exec 3<&0; (trap "" TERM; exec "$@" <&3) & echo $! >>"$PIDS"; wait"#,
        started: 1,
        ignores_eof: true,
        ..PLAIN
    },
    Kind {
        name: "one that starts a program in a session of its own",
        shell: r#"setsid sleep 600 >/dev/null 2>&1 & echo $! >>"$PIDS"; exec "$@""#,
        started: 1,
        strays: true,
        ..PLAIN
    },
    Kind {
        name: "one with a daemon, which has lost its parent",
        shell: r#"(setsid sleep 600 >/dev/null 2>&1 & echo $! >>"$PIDS"); exec "$@""#,
        started: 1,
        strays: true,
        ..PLAIN
    },
    Kind {
        name: "one with a daemon that ignores TERM",
        shell: r#"(trap "" TERM; setsid sleep 600 >/dev/null 2>&1 & echo $! >>"$PIDS"); exec "$@""#,
        started: 1,
        strays: true,
        ..PLAIN
    },
    Kind {
        name: "one with a daemon that has cleared its environment",
        shell: r#"(setsid env -i sleep 600 >/dev/null 2>&1 & echo $! >>"$PIDS"); exec "$@""#,
        started: 1,
        strays: true,
        is_unmarked: true,
        ..PLAIN
    },
];

/// A way in which an agent has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Close,
    Park,
    Die,
    HostStop,
    HostKilled,
}

const WAYS: [Way; 5] = [Way::Close, Way::Park, Way::Die, Way::HostStop, Way::HostKilled];

fn pids(path: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

impl Bench {
    /// The command line of an agent of this kind, and where it writes what it has started.
    fn agent_of_kind(&self, kind: Kind, name: &str) -> (Vec<String>, std::path::PathBuf) {
        let script = faithful(everything());
        let script: Script = if kind.ignores_eof { script.ignoring_eof() } else { script };
        let pids = self.home.join(&format!("pids-of-{name}"));
        let shell = format!("PIDS='{}'; {}", pids.display(), kind.shell);
        let around = ["sh", "-c", &shell, "sh"].map(str::to_owned);
        (around.into_iter().chain(self.agent(&script)).collect(), pids)
    }

    /// The pids that the record says were ended beyond its agents' own groups.
    async fn named(&self, record: &str) -> Vec<u32> {
        let events = self.store().events(RecordId::new(record).unwrap(), Seq(1), 1000).await.unwrap();
        let facts = events.iter().filter_map(|event| Fact::from_body(&event.body));
        let named = facts.filter_map(|fact| match fact {
            Fact::ProcessesEnded { processes } => Some(processes),
            _ => None,
        });
        named.flatten().map(|process| process.pid).collect()
    }

    async fn is_over(&self, record: &str) -> bool {
        self.record(record).await.agent_run.is_some_and(|run| run.ended.is_some())
    }

    /// Waits until the record says that its agent has ended.
    async fn until_over(&self, record: &str) {
        while !self.is_over(record).await {
            tokio::task::yield_now().await;
        }
    }

    async fn end_by(&self, way: Way, record: &str, agent: &ProcessIdentity) {
        match way {
            Way::Close => {
                let mut client = self.client().await;
                client.call::<Value>("_acpx/close", &json!({ "sessionId": record })).await.unwrap();
            }
            // Nobody has it in use, and it may be idle for a moment only.
            Way::Park => self.until_over(record).await,
            Way::Die => {
                kill(agent.pid);
                self.until_over(record).await;
                // What it has left is being ended, and a close waits for that.
                let mut client = self.client().await;
                client.call::<Value>("_acpx/close", &json!({ "sessionId": record })).await.unwrap();
            }
            Way::HostStop => {
                let host = self.host_process();
                self.client().await.call::<Value>("_acpx/host/stop", &json!({})).await.unwrap();
                eventually("the host is gone", || !host.is_alive()).await;
            }
            Way::HostKilled => {
                self.kill_host().await;
                drop(self.client().await);
            }
        }
    }
}

async fn is_gone(kind: Kind, way: Way) {
    let case = format!("{}, {way:?}", kind.name);
    let bench = Bench::new();
    let (argv, path) = bench.agent_of_kind(kind, "it");
    let mut client = bench.client().await;
    let mut params = bench.new_params(&argv);
    if way == Way::Park {
        params["_meta"]["acpx"]["idleMs"] = json!(1);
    }
    let answer: Value = client.call("session/new", &params).await.unwrap();
    let record = answer["sessionId"].as_str().unwrap().to_owned();
    let agent = bench.record(&record).await.agent_run.unwrap().process;
    eventually("it has started what it starts", || pids(&path).len() == kind.started).await;
    let started: Vec<_> = pids(&path).into_iter().map(|pid| ProcessIdentity::of(pid).unwrap()).collect();
    assert!(agent.is_alive() && started.iter().all(ProcessIdentity::is_alive), "{case}");
    client.close().await;
    bench.end_by(way, &record, &agent).await;
    if kind.is_unmarked && way == Way::HostKilled {
        // Whoever would know it is dead. Nothing that is left of it tells whose it is.
        assert!(!agent.is_alive() && started[0].is_alive(), "{case}");
        kill(started[0].pid);
        return;
    }
    let left: Vec<_> = started.iter().chain([&agent]).filter(|process| process.is_alive()).collect();
    assert_eq!(left, Vec::<&ProcessIdentity>::new(), "{case}");
    let is_named = kind.strays && !kind.is_unmarked;
    let strays: Vec<u32> = started.iter().filter(|_| is_named).map(|process| process.pid).collect();
    assert_eq!(bench.named(&record).await, strays, "{case}");
}

/// A program that sheds its marks while its agent is still its parent, as one does that sets its own title.
const UNMARKED_CHILD: Kind = Kind {
    name: "one with a child that has cleared its environment",
    shell: r#"setsid env -i sleep 600 >/dev/null 2>&1 & echo $! >>"$PIDS"; exec "$@""#,
    started: 1,
    strays: true,
    ..PLAIN
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_stop_names_ended_processes_by_session_and_keeps_last_used() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let mut made = Vec::new();
    for (name, kind) in [("one", UNMARKED_CHILD), ("two", PLAIN), ("three", UNMARKED_CHILD), ("four", PLAIN)]
    {
        let (argv, path) = bench.agent_of_kind(kind, name);
        let answer: Value = client.call("session/new", &bench.new_params(&argv)).await.unwrap();
        let record = answer["sessionId"].as_str().unwrap().to_owned();
        eventually("it has started what it starts", || pids(&path).len() == kind.started).await;
        let used = bench.record(&record).await.updated_at;
        made.push((record, pids(&path), used));
    }
    client.close().await;
    let host = bench.host_process();
    bench.client().await.call::<Value>("_acpx/host/stop", &json!({})).await.unwrap();
    eventually("the host is gone", || !host.is_alive()).await;
    for (record, started, used) in made {
        assert_eq!(bench.named(&record).await, started);
        assert_eq!(bench.record(&record).await.updated_at, used);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_agent_ends_with_all_its_processes_in_every_way() {
    // As many at once as do not get in each other's way.
    let room = Arc::new(Semaphore::new(4));
    let mut cases = JoinSet::new();
    for kind in KINDS {
        for way in WAYS {
            let room = Arc::clone(&room);
            cases.spawn(async move {
                let _permit = room.acquire_owned().await.unwrap();
                is_gone(kind, way).await;
            });
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}
