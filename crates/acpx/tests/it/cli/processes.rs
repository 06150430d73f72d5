//! What agents start, as users meet it: it goes with the agent, unless they want to keep it; and a host never does.
#![cfg(target_os = "linux")]

use std::path::Path;

use acpx_testkit::{Script, TempHome, scripted_agent_command};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::acpx::{Done, Place, eventually};

/// An agent that does something in a shell before it is one.
fn shell_agent(shell: &str, home: &TempHome) -> Vec<String> {
    let script = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    let shell = format!("{shell}; exec \"$@\"");
    let around = ["sh", "-c", &shell, "sh"].map(str::to_owned);
    around.into_iter().chain(scripted_agent_command(&script, home)).collect()
}

pub(super) fn pid_in(file: &Path) -> u32 {
    let mut pid = None;
    eventually("the pid is written", || {
        pid = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

fn end(pid: u32) {
    let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(process, Signal::KILL).unwrap();
    eventually("it is gone", || !Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn daemon_ends_with_its_agent_and_is_named_unless_kept() {
    for keep in [false, true] {
        let (place, home) = (Place::new(), TempHome::new());
        let file = place.path_of("daemon");
        let shell = format!("(setsid sleep 600 >/dev/null 2>&1 & echo $! >'{}')", file.display());
        let argv = shell_agent(&shell, &home);
        let programs = if keep { json!(["sleep"]) } else { json!([]) };
        place.configure(
            &json!({ "agents": { "shelly": { "argv": argv } }, "keepPrograms": programs }).to_string(),
        );
        let new = place.json(&["shelly", "sessions", "new"]);
        let daemon = pid_in(&file);
        place.ok(&["shelly", "sessions", "close"]);
        assert_eq!(is_alive(daemon), keep);
        let record = new["acpxRecordId"].as_str().unwrap();
        let events = place.json_lines(&["shelly", "sessions", "replay", "-s", record]);
        let facts: Vec<&Value> = events.iter().map(|event| &event["message"]).collect();
        let named =
            facts.iter().find(|fact| fact["fact"] == "processes_ended").map(|fact| &fact["processes"]);
        let expected = json!([{ "name": "sleep", "pid": daemon }]);
        assert_eq!(named, (!keep).then_some(&expected));
        let text = place.ok(&["shelly", "sessions", "replay", "-s", record]);
        let line = format!("[agent] ended with the agent that had started them: sleep ({daemon})");
        assert_eq!(text.contains(&line), !keep, "{text}");
        if keep {
            end(daemon);
        }
    }
}

#[test]
fn client_or_daemon_that_claims_to_be_a_host_is_not_trusted() {
    let (place, home) = (Place::new(), TempHome::new());
    let file = place.path_of("daemon");
    // Neither a word nor the lock of somebody else makes it one.
    for said in ["1".into(), place.acpx_home().join("host.lock")] {
        let daemon = format!("ACPX_HOST='{}' setsid sleep 600 >/dev/null 2>&1", said.display());
        let shell = format!("({daemon} & echo $! >'{0}.part'; mv '{0}.part' '{0}')", file.display());
        let argv = shell_agent(&shell, &home);
        place.configure(&json!({ "agents": { "shelly": { "argv": argv } } }).to_string());
        let made = Done::of(place.command(&["shelly", "sessions", "new"]).env("ACPX_HOST", &said));
        assert_eq!(made.code, Some(0), "{made:?}");
        let daemon = pid_in(&file);
        place.ok(&["shelly", "sessions", "close"]);
        assert!(!is_alive(daemon));
        std::fs::remove_file(&file).unwrap();
    }
}

/// Has an agent start a daemon that is the program `sleep` under this name, and runs a command with it; whether the
/// daemon outlives that.
fn outlives(name: &str, command: &[&str], keep: &[&str]) -> bool {
    let (place, home) = (Place::new(), TempHome::new());
    let (file, program) = (place.path_of("daemon"), place.path_of(name));
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    // It is kept by its name, so it has to have that before its agent answers.
    let named = format!("until [ \"$(cat /proc/$!/comm)\" = {name} ]; do :; done");
    let daemon = format!("setsid '{}' 600 >/dev/null 2>&1", program.display());
    let shell = format!("({daemon} & {named}; echo $! >'{}')", file.display());
    let argv = shell_agent(&shell, &home);
    let config = json!({ "agents": { "shelly": { "argv": argv } }, "keepPrograms": keep });
    place.configure(&config.to_string());
    place.ok(&[&["shelly"], command].concat());
    let daemon = pid_in(&file);
    // Who comes after the command looks after what it has left, and knows nothing of its settings.
    place.configure("{}");
    place.ok(&["demo", "sessions", "new"]);
    let lives = is_alive(daemon);
    if lives {
        end(daemon);
    }
    lives
}

#[test]
fn kept_programs_survive_in_commands_that_run_the_agent_directly() {
    for command in [&["auth"][..], &["doctor"], &["exec", "hello"]] {
        assert!(outlives("dozer", command, &["dozer"]), "{command:?}");
    }
}

#[test]
fn browser_of_a_login_survives_and_one_of_an_agent_ends() {
    assert_eq!(
        (outlives("firefox", &["auth"], &[]), outlives("firefox", &["exec", "hello"], &[])),
        (true, false)
    );
}

#[test]
fn host_started_from_an_agents_shell_outlives_that_agent_and_its_host() {
    let (outer, inner, home) = (Place::new(), Place::new(), TempHome::new());
    inner.ok(&["demo", "sessions", "new"]);
    inner.ok(&["host", "stop"]);
    // The agent's shell prompts in a home of its own, which starts that home's host.
    let done = outer.path_of("done");
    let shell = format!(
        "cd '{}' && ACPX_HOME='{}' XDG_RUNTIME_DIR='{}' '{}' demo prompt inside </dev/null >/dev/null 2>&1; echo $$ >'{}'",
        inner.work().display(),
        inner.acpx_home().display(),
        inner.path_of("run").display(),
        env!("CARGO_BIN_EXE_acpx"),
        done.display(),
    );
    let argv = shell_agent(&shell, &home);
    outer.configure(&json!({ "agents": { "shelly": { "argv": argv } } }).to_string());
    outer.ok(&["shelly", "sessions", "new"]);
    pid_in(&done);
    let (host, agent) = (inner.host_pid(), inner.json(&["demo", "status"])["pid"].clone());
    outer.ok(&["shelly", "sessions", "close"]);
    assert!(is_alive(host));
    outer.ok(&["host", "stop"]);
    assert!(is_alive(host));
    // It is the same host, with the same agent, and it works.
    let status = inner.json(&["demo", "status"]);
    assert_eq!((&status["status"], &status["pid"], inner.host_pid()), (&json!("alive"), &agent, host));
    assert!(inner.ok(&["demo", "recall"]).contains("1. inside"));
}

/// An agent that has started a daemon, whose pid is in this file.
fn with_daemon(file: &Path, agent: Vec<String>) -> Vec<String> {
    let shell = format!("(setsid sleep 600 >/dev/null 2>&1 & echo $! >'{}'); exec \"$@\"", file.display());
    ["sh", "-c", &shell, "sh"].map(str::to_owned).into_iter().chain(agent).collect()
}

/// An `exec` that is killed in the middle of its turn, and what it has left: a daemon of its agent, and the command of
/// one of its terminals.
fn left_by_a_killed_exec(place: &Place) -> [u32; 2] {
    let [daemon, command] = ["daemon", "command"].map(|name| place.path_of(name));
    // The kernel kills the command itself with its holder, and not what that has started.
    let program = format!("sleep 600 & echo $! >'{}'; wait", command.display());
    let terminal = json!({ "sessionId": "s1", "command": "sh", "args": ["-c", program] });
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.request("terminal/create", terminal).hang());
    let agent = place.scripted(&script);
    let argv = with_daemon(&daemon, agent);
    place.configure(&json!({ "agents": { "shelly": { "argv": argv } } }).to_string());
    let killed = place.start(&["--approve-all", "shelly", "exec", "go"]);
    let left = [pid_in(&daemon), pid_in(&command)];
    killed.signal(Signal::KILL);
    killed.done();
    assert!(left.iter().all(|pid| is_alive(*pid)), "{left:?}");
    left
}

#[test]
fn next_exec_ends_leftovers_of_a_killed_exec_and_spares_running_ones() {
    let (place, home) = (Place::new(), TempHome::new());
    let hang = Script::new().initialize(json!({})).session_new("s1").prompt(Script::hang);
    let agent = scripted_agent_command(&hang, &home);
    let argv = with_daemon(&place.path_of("living"), agent);
    place.configure(&json!({ "agents": { "shelly": { "argv": argv } } }).to_string());
    let running = place.start(&["shelly", "exec", "go"]);
    let living = pid_in(&place.path_of("living"));
    let left = left_by_a_killed_exec(&place);
    place.ok(&["demo", "exec", "hello"]);
    assert_eq!(left.map(is_alive), [false; 2]);
    assert!(is_alive(living), "it belongs to a command that runs");
    let listed = || std::fs::read_dir(place.acpx_home().join("holders")).unwrap().count();
    assert_eq!(listed(), 1, "the living one");
    running.signal(Signal::INT);
    running.done();
    assert_eq!((is_alive(living), listed()), (false, 0));
}

#[test]
fn next_host_ends_leftovers_of_a_killed_exec() {
    let place = Place::new();
    let left = left_by_a_killed_exec(&place);
    place.ok(&["demo", "sessions", "new"]);
    assert_eq!(left.map(is_alive), [false; 2]);
    assert_eq!(std::fs::read_dir(place.acpx_home().join("holders")).unwrap().count(), 0);
}

#[test]
fn interrupt_while_leftovers_are_ended_stops_the_command_and_remembers_them() {
    let place = Place::new();
    let [script, pid, told] = ["daemon.sh", "pid", "told"].map(|name| place.path_of(name));
    // It is told to go, says so, and does not.
    let program = format!(
        "trap 'echo >\"{}\"' TERM; echo $$ >'{}'; while :; do sleep 1; done",
        told.display(),
        pid.display()
    );
    std::fs::write(&script, program).unwrap();
    let hang = Script::new().initialize(json!({})).session_new("s1").prompt(Script::hang);
    let shell = format!("setsid sh '{}' >/dev/null 2>&1 & exec \"$@\"", script.display());
    let around = ["sh", "-c", &shell, "sh"].map(str::to_owned);
    let argv: Vec<String> = around.into_iter().chain(place.scripted(&hang)).collect();
    place.configure(&json!({ "agents": { "shelly": { "argv": argv } } }).to_string());
    let killed = place.start(&["shelly", "exec", "go"]);
    let daemon = pid_in(&pid);
    killed.signal(Signal::KILL);
    killed.done();
    let waiting = place.start(&["demo", "auth"]);
    eventually("it is told to go", || told.exists());
    waiting.signal(Signal::INT);
    assert_eq!(waiting.done().code, Some(130));
    let listed = || std::fs::read_dir(place.acpx_home().join("holders")).unwrap().count();
    assert_eq!((is_alive(daemon), listed()), (true, 1));
    let done = place.acpx(&["--verbose", "demo", "exec", "hello"]);
    assert!(
        done.err.contains(&format!("ended {daemon} (sh), left by a command that was killed\n")),
        "{done:?}"
    );
    assert_eq!((is_alive(daemon), listed()), (false, 0));
}
