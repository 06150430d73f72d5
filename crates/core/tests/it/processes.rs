//! Processes that are really gone, whoever is killed.
//!
//! What is killed is the example `holder`. Orphans are adopted in it too, since that takes hold of a whole process.
#![cfg(all(test, target_os = "linux"))]

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use acpx_core::model::{AbsolutePath, AgentSpec, ProcessIdentity};
use acpx_core::tools::{
    AgentProcess, GracePeriods, Spawner, SweepReport, SweptProcess, Tag, TerminationOutcome, sweep,
};
use tokio::io::AsyncReadExt;

use crate::examples;

/// A holder at work, with all that it leaves gone at the end of the test.
struct Holder {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    home: String,
    agent: ProcessIdentity,
}

impl Holder {
    /// A holder of a shell as its agent.
    fn start(work: &str, home: &str, script: &str) -> Self {
        let mut command = Command::new(examples::program("holder"));
        command.args([work, home, "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let agent = pid_after("agent ", &lines.next().unwrap().unwrap());
        Self { child, stdin, lines, home: home.to_owned(), agent }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.kill();
        sweep(&self.home, &[], &[], quick());
    }
}

/// A home that no other test has.
fn home() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

fn quick() -> GracePeriods {
    GracePeriods { eof: Duration::from_millis(200), term: Duration::from_millis(200) }
}

fn pid_after(word: &str, line: &str) -> ProcessIdentity {
    let pid = line.strip_prefix(word).unwrap_or_else(|| panic!("{line:?} does not begin with {word:?}"));
    ProcessIdentity::of(pid.parse().unwrap()).unwrap_or_else(|| panic!("{line:?} is gone already"))
}

/// How often a condition is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Waits for a condition, and fails if it never comes.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn is_called(process: &ProcessIdentity, name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/comm", process.pid)).is_ok_and(|found| found.trim() == name)
}

fn is_there(process: &ProcessIdentity) -> bool {
    ProcessIdentity::of(process.pid).as_ref() == Some(process)
}

fn parent_of(process: &ProcessIdentity) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// What a sweep is to say of these `sleep`s, in the order of their pids.
fn ended(processes: &[&ProcessIdentity]) -> SweepReport {
    let ended = processes.iter().map(|identity| (*identity).clone()).map(|identity| SweptProcess {
        identity,
        name: "sleep".to_owned(),
        group: 0,
        record: None,
    });
    sorted(SweepReport { ended: ended.collect(), left: Vec::new() })
}

/// In the order of their pids, and without their groups, which these tests do not know.
fn sorted(mut swept: SweepReport) -> SweepReport {
    swept.ended.sort_by_key(|process| process.identity.pid);
    swept.ended.iter_mut().for_each(|process| process.group = 0);
    swept
}

#[test]
fn an_agent_dies_with_its_holder_even_if_the_holder_is_killed() {
    let mut holder = Holder::start("hold", &home(), "exec sleep 600");
    assert!(holder.agent.is_alive());
    holder.kill();
    eventually("the agent is gone", || !holder.agent.is_alive());
}

#[test]
fn sweep_ends_leftovers_of_a_killed_holder_and_nothing_else() {
    let (home, foreign) = (home(), home());
    // One stays in the agent's group, one leaves it, and one stays without the tag.
    let script = "sleep 600 & echo left $!; setsid sleep 600 & echo left $!; env -i sleep 600 & echo left $!; exec cat";
    let mut killed = Holder::start("hold", &home, script);
    let mut living = Holder::start("hold", &home, script);
    let mut stranger = Holder::start("hold", &foreign, script);
    let left_by = |holder: &mut Holder| {
        let left = [(); 3].map(|()| pid_after("left ", &holder.line()));
        eventually("all three are sleeping", || left.iter().all(|process| is_called(process, "sleep")));
        left
    };
    let (of_killed, of_living, of_stranger) =
        (left_by(&mut killed), left_by(&mut living), left_by(&mut stranger));
    killed.kill();
    stranger.kill();
    eventually("the agents are gone", || !killed.agent.is_alive() && !stranger.agent.is_alive());

    let runs = [killed.agent.clone()];
    let swept = sweep(&home, &runs, &[], GracePeriods::default());
    assert_eq!(sorted(swept), ended(&of_killed.each_ref()));
    let untouched = of_living.iter().chain(&of_stranger).chain([&living.agent]);
    assert!(untouched.clone().all(ProcessIdentity::is_alive), "{untouched:?}");
    assert_eq!(sweep(&home, &runs, &[], GracePeriods::default()), SweepReport::default());

    // Without a record of the agent, what has no tag cannot be known.
    assert_eq!(
        sorted(sweep(&foreign, &[], &[], GracePeriods::default())),
        ended(&[&of_stranger[0], &of_stranger[1]])
    );
    let other_life = ProcessIdentity { boot: "another".to_owned(), ..stranger.agent.clone() };
    assert_eq!(
        sweep(&foreign, &[other_life, of_stranger[2].clone()], &[], GracePeriods::default()),
        SweepReport::default()
    );
    assert!(of_stranger[2].is_alive());
    for process in [&of_stranger[2], &of_living[2]] {
        Command::new("kill").args(["-9", &process.pid.to_string()]).status().unwrap();
    }
}

#[test]
fn sweep_ends_the_process_group_of_a_running_recorded_agent() {
    // An agent that was started by something else than our spawner outlives the killed.
    let mut agent = Command::new("sh");
    agent.args(["-c", "sleep 600 & echo left $!; wait"]).stdout(Stdio::piped());
    // Somebody may run this test in an agent of theirs, whose tag would then be a stranger's.
    agent.env_remove(Tag::VARIABLE);
    let mut agent = agent.process_group(0).spawn().unwrap();
    let leader = ProcessIdentity::of(agent.id()).unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let left = pid_after("left ", &lines.next().unwrap().unwrap());
    eventually("it is sleeping", || is_called(&left, "sleep"));

    let reused = ProcessIdentity { started: leader.started + 1, ..leader.clone() };
    assert_eq!(sweep(&home(), &[reused], &[], quick()), SweepReport::default());
    assert!(leader.is_alive() && left.is_alive());

    let swept = sorted(sweep(&home(), std::slice::from_ref(&leader), &[], quick()));
    let name =
        |name: &str, identity| SweptProcess { identity, name: name.to_owned(), group: 0, record: None };
    let expected = SweepReport { ended: vec![name("sh", leader), name("sleep", left)], left: Vec::new() };
    assert_eq!(swept, sorted(expected));
    agent.wait().unwrap();
}

#[test]
fn a_sweep_kills_what_does_not_terminate() {
    let home = home();
    let mut holder = Holder::start("hold", &home, "trap '' TERM; setsid sleep 600 & echo left $!; exec cat");
    let left = pid_after("left ", &holder.line());
    eventually("it is sleeping", || is_called(&left, "sleep"));
    holder.kill();
    eventually("the agent is gone", || !holder.agent.is_alive());
    assert_eq!(sorted(sweep(&home, &[], &[], quick())), ended(&[&left]));
}

#[test]
fn sweep_spares_itself_and_its_tagged_ancestors() {
    let home = home();
    let this = Tag::of_this_process(&*home).unwrap();
    let holder = ProcessIdentity { started: this.holder.started + 1, ..this.holder.clone() };
    let dead = Tag { holder, ..this };
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "sleep 600 & echo $!; \"$0\" sweep \"$1\"; echo spared"])
        .arg(examples::program("holder"))
        .arg(&home)
        .env(Tag::VARIABLE, dead.to_string());
    let output = shell.output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines, [lines[0], &format!("ended {}", lines[0]), "spared"]);
}

#[test]
fn an_orphan_is_reaped_while_the_agents_own_exit_reaches_its_holder() {
    // The subshell dies before the child it has started.
    let script = "(sleep 600 & echo orphan $!); cat; exit 3";
    let mut holder = Holder::start("adopt", &home(), script);
    let orphan = pid_after("orphan ", &holder.line());
    eventually("the orphan is adopted", || parent_of(&orphan) == Some(holder.child.id()));
    Command::new("kill").args(["-9", &orphan.pid.to_string()]).status().unwrap();
    eventually("the orphan is reaped", || !is_there(&orphan));
    drop(holder.stdin.take());
    assert_eq!([holder.line(), holder.line()], ["exit code 3", "no child is left"]);
}

#[test]
fn crowd_of_orphans_is_reaped_and_no_exit_is_lost() {
    let script = "cat; for i in 1 2 3 4 5 6 7 8 9; do (true & true & true &); done; exit 4";
    for _ in 0..10 {
        let mut holder = Holder::start("adopt", &home(), script);
        drop(holder.stdin.take());
        assert_eq!([holder.line(), holder.line()], ["exit code 4", "no child is left"]);
    }
}

#[tokio::test]
async fn agent_carries_its_holders_tag_instead_of_an_inherited_one() {
    let tag = Tag::of_this_process("c0ffee").unwrap();
    for (ours, expected) in [(Some(tag.clone()), tag.to_string()), (None, "inherited".to_owned())] {
        let environment = [("ACPX_TAG".into(), "inherited".into())].into_iter().collect();
        let agent = AgentSpec::new("/bin/sh", ["-c", "echo $ACPX_TAG"]);
        let cwd = AbsolutePath::new("/").unwrap();
        let spawner = Spawner::new(ours);
        let started =
            AgentProcess::spawn(&spawner, &agent, &cwd, &environment, GracePeriods::default()).await;
        let (process, mut pipes) = started.unwrap();
        let mut said = String::new();
        pipes.stdout.read_to_string(&mut said).await.unwrap();
        assert_eq!(said.trim_end(), expected);
        assert_eq!(process.end(GracePeriods::default()).await, TerminationOutcome::Gone);
    }
}

#[tokio::test]
async fn agent_is_recognised_by_its_system_process_identity() {
    let agent = AgentSpec::new("/bin/cat", [""; 0]);
    let (cwd, environment) = (AbsolutePath::new("/").unwrap(), [].into_iter().collect());
    let spawner = Spawner::new(None);
    let started = AgentProcess::spawn(&spawner, &agent, &cwd, &environment, GracePeriods::default()).await;
    let (process, pipes) = started.unwrap();
    let identity = process.identity().clone();
    assert_eq!(ProcessIdentity::of(process.pid()), Some(identity.clone()));
    assert!(identity.is_alive());
    drop(pipes);
    assert_eq!(process.end(GracePeriods::default()).await, TerminationOutcome::Gone);
    assert!(!identity.is_alive());
}
