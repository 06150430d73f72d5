//! Lifetimes of agents and of the threads that started them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use super::super::stat::Stat;
use super::*;
use crate::tools::termination::Phase;

/// A program that echoes, as the leader of its group.
fn echo() -> Command {
    let mut command = Command::new("/bin/cat");
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn an_agent_dies_with_the_thread_that_started_it() {
    let spawner = Spawner::new(None);
    let (mut leader, _streams) = spawner.start(echo(), GracePeriods::default()).await.unwrap();
    let another = spawner.clone();
    drop(spawner);
    assert_eq!(*leader.phase.borrow(), Phase::Running);
    drop(another);
    let phase = leader.phase.wait_for(|phase| *phase != Phase::Running).await.unwrap().clone();
    let (Phase::Exited(exit) | Phase::Over(exit, _)) = phase else { panic!("it runs") };
    assert_eq!(exit.to_string(), "signal 9");
}

#[test]
fn an_agent_does_not_die_with_the_thread_that_asked_for_it() {
    let spawner = Spawner::new(None);
    let asking = spawner.clone();
    let asked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(asking.start(echo(), GracePeriods::default())).unwrap()
    });
    let (_leader, mut streams) = asked.join().unwrap();
    streams.stdin.as_mut().unwrap().write_all(b"alive\n").unwrap();
    let mut said = String::new();
    BufReader::new(streams.stdout.unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "alive\n");
    drop(spawner);
}

/// Whether a process with this argument runs.
fn runs_with(argument: &str) -> bool {
    let has_it = |pid: u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|found| found == argument.as_bytes())
    };
    Stat::all().expect("the system tells its processes").iter().any(|stat| !stat.is_dead && has_it(stat.pid))
}

#[tokio::test]
async fn abandoned_spawn_leaves_no_process() {
    let spawner = Spawner::new(None);
    for step in 0..20 {
        let mut unwanted = echo();
        // Options end here; then comes a unique name, and stdin keeps the program waiting.
        let name =
            format!("/unwanted-{}", uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)));
        unwanted.args(["-", "--", &name]);
        // Each start is dropped a bit later: before its fork, after it, or during it.
        let patience = Duration::from_micros(100) * step;
        drop(tokio::time::timeout(patience, spawner.start(unwanted, GracePeriods::default())).await);
        // There is one thread, so the dropped start is finished after this.
        assert!(spawner.start(echo(), GracePeriods::default()).await.is_ok());
        assert_eq!(spawner.0.threads.lock().count, 1);
        while runs_with(&name) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn failed_spawn_is_an_error_and_the_next_one_works() {
    let spawner = Spawner::new(None);
    let missing = spawner.start(Command::new("/there/is/no/such/program"), GracePeriods::default()).await;
    let is_not_found =
        |error| matches!(error, StartError::System(error) if error.kind() == io::ErrorKind::NotFound);
    assert!(missing.is_err_and(is_not_found));
    let mut nowhere = echo();
    nowhere.current_dir("/there/is/no/such/directory");
    let lost = spawner.start(nowhere, GracePeriods::default()).await;
    assert!(lost.is_err_and(|error| matches!(error, StartError::NoDirectory)));
    assert!(spawner.start(echo(), GracePeriods::default()).await.is_ok());
}

/// A job that hangs until its other end is dropped; returns once the job has started.
async fn hang(spawner: &Spawner) -> SyncSender<()> {
    let (release, hanging) = sync_channel::<()>(1);
    let (begun, has_begun) = oneshot::channel();
    let spawner = spawner.clone();
    tokio::spawn(async move {
        let work = move || {
            begun.send(()).unwrap_or_default();
            hanging.recv().unwrap_or_default();
        };
        drop(spawner.on_a_thread(work).await);
    });
    has_begun.await.expect("it begins");
    release
}

// Paused time advances only while all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_stops_no_other_and_costs_a_thread() {
    let spawner = Spawner::new(None);
    let hanging = hang(&spawner).await;
    for _ in 0..3 {
        assert!(spawner.start(echo(), GracePeriods::default()).await.is_ok());
    }
    assert_eq!(spawner.0.threads.lock().count, 2);
    drop(hanging);
    // The first thread is idle again.
    let both = spawner.0.idle.acquire_many(2).await.unwrap();
    assert_eq!((both.num_permits(), spawner.0.threads.lock().idle.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn when_too_many_starts_hang_the_next_one_says_so() {
    let spawner = Spawner::new(None);
    let mut hanging = Vec::new();
    for _ in 0..THREADS {
        hanging.push(hang(&spawner).await);
    }
    let error = spawner.start(echo(), GracePeriods::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "8 agents before it hang while they are being started, as on a disk that does not answer"
    );
    hanging.pop();
    drop(spawner.0.idle.acquire().await.unwrap());
    assert!(spawner.start(echo(), GracePeriods::default()).await.is_ok());
}
