//! A hundred sessions, each with a daemon of its own: eighty are closed, and twenty lose their host to `kill -9`.
//! Afterwards no process is left, and the host that closed the eighty has not grown.

use acpx_testkit::Script;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Bench, eventually, prompt};
use crate::engine::everything;

/// How many sessions are open at the same time.
const AT_ONCE: usize = 8;
/// How many times as many are closed.
const ROUNDS: usize = 10;
/// How many hosts are killed, and with how many sessions each.
const KILLS: usize = 4;
const KILLED: usize = 5;
/// How much a host may grow that has closed eighty sessions: the store's cache fills while there are few records, and
/// after some 1,300 sessions nothing grows.
const GROWTH: u64 = 3 << 20;

impl Bench {
    /// An agent that leaves a daemon.
    fn agent_with_daemon(&self) -> Vec<String> {
        let script = Script::new().initialize(everything()).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            ("session/prompt", Script::new().say("hello").end("end_turn")),
            ("session/close", Script::new().reply(json!({}))),
        ]);
        let shell = r#"(setsid sleep 600 >/dev/null 2>&1 &); exec "$@""#;
        let around = ["sh", "-c", shell, "sh"].map(str::to_owned);
        around.into_iter().chain(self.agent(&script)).collect()
    }

    /// Opens a session with an agent of its own and prompts it once; its record.
    async fn begin(&self) -> String {
        let mut client = self.client().await;
        let record = self.open(&mut client, &self.agent_with_daemon()).await;
        assert_eq!(prompt(&mut client, &record, "go").await["stopReason"], "end_turn");
        record
    }

    async fn close(&self, record: &str) {
        let mut client = self.client().await;
        client.call::<Value>("_acpx/close", &json!({ "sessionId": record })).await.unwrap();
    }

    /// The processes that carry a tag of this home.
    fn tagged(&self) -> usize {
        let mark = format!("ACPX_TAG={}:", self.paths.name().unwrap());
        let carries = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
        };
        let entries = std::fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(carries).count()
    }

    /// Open files, threads and bytes of memory of the host.
    fn size(&self) -> (usize, u64, u64) {
        let pid = self.host_process().pid;
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        (files, number("Threads:"), number("VmRSS:") * 1024)
    }
}

/// Does something in so many tasks at once.
async fn at_once<F>(count: usize, work: impl Fn() -> F) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    (0..count).for_each(|_| drop(tasks.spawn(work())));
    tasks.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_sessions_leave_no_process_and_their_host_does_not_grow() {
    let bench = std::sync::Arc::new(Bench::new());
    let (mut first, mut last) = (None, (0, 0, 0));
    for _ in 0..ROUNDS {
        let begin_and_close = || {
            let bench = bench.clone();
            async move {
                let record = bench.begin().await;
                bench.close(&record).await;
            }
        };
        at_once(AT_ONCE, begin_and_close).await;
        assert_eq!(bench.tagged(), 0);
        last = bench.size();
        first.get_or_insert(last);
    }
    let first = first.unwrap();
    // A thread or a descriptor may be about to go.
    eventually("the host has let go of what it had", || {
        let (files, threads, _) = bench.size();
        files <= first.0 && threads <= first.1
    })
    .await;
    println!("files, threads, bytes after 8 sessions: {first:?}, after 80: {last:?}");
    assert!(last.2 <= first.2 + GROWTH, "{first:?} {last:?}");

    for _ in 0..KILLS {
        let records = at_once(KILLED, || {
            let bench = bench.clone();
            async move { bench.begin().await }
        })
        .await;
        assert!(bench.tagged() >= 2 * KILLED);
        bench.kill_host().await;
        // The next host ends what is left before it lets anybody in.
        drop(bench.client().await);
        assert_eq!(bench.tagged(), 0);
        for record in records {
            let run = bench.record(&record).await.agent_run.unwrap();
            assert_eq!(run.ended.unwrap().how.words(), "its host went away");
        }
    }
}
