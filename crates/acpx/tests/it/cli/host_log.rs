//! The log of a host: what it has, what it never has, and how it is printed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Done, Place, eventually, text};

const PROMPT: &str = "words-of-the-prompt";
const ANSWER: &str = "words-of-the-answer";
const TITLE: &str = "words-of-the-title";
const STDERR: &str = "words-on-stderr";
const VARIABLE: &str = "value-of-the-variable";
const HEADER: &str = "value-of-the-header";
const ARGUMENT: &str = "value-of-the-argument";

/// An agent that is killed once, loses its session once, and repeats its secrets wherever it can.
fn agent() -> Script {
    let capabilities = json!({ "loadSession": true, "mcpCapabilities": { "http": true } });
    let refusal = format!("no such session\n2026-01-01T00:00:00.000Z ERROR forged {HEADER} {VARIABLE}");
    let turn = |script: Script| script.stderr(STDERR).say(ANSWER).end("end_turn");
    Script::new()
        .initialize(capabilities.clone())
        .session_new("s1")
        .prompt(|script| turn(script.ask_permission(TITLE)))
        .stderr(STDERR)
        .exit(3)
        .next_start()
        .initialize(capabilities.clone())
        .session_load(|script| script.user_said(PROMPT).say(ANSWER))
        .prompt(turn)
        .exit(4)
        .next_start()
        .initialize(capabilities)
        .refuse("session/load", json!({ "code": -32002, "message": refusal }))
        .session_new("s2")
        .prompt(turn)
}

/// The log of that agent's session without clients: created, restored, replaced by a fresh one.
const LIFE: &[&str] = &[
    "INFO host started",
    "INFO agent started",
    "INFO session created",
    "INFO turn started",
    "INFO permission request decided",
    "INFO turn ended",
    "WARN agent ended by itself",
    "INFO agent started",
    "INFO session restored",
    "INFO turn started",
    "INFO turn ended",
    "WARN agent ended by itself",
    "INFO agent started",
    "INFO fresh session begun",
    "INFO turn started",
    "INFO turn ended",
    "INFO host stopping",
    "INFO agent ended",
    "INFO host stopped",
];

/// The lines of a log as level, message and fields.
fn lines(log: &str) -> Vec<(String, String, String)> {
    let line = |line: &str| {
        let (_, rest) = line.split_once(' ').unwrap();
        let (level, rest) = rest.split_once(' ').unwrap();
        let rest = rest.trim_start();
        let is_field = |word: &str| word.split_once('=').is_some_and(|(name, _)| !name.is_empty());
        let words: Vec<&str> = rest.split(' ').collect();
        let at = words.iter().position(|word| is_field(word)).unwrap_or(words.len());
        (level.to_owned(), words[..at].join(" "), words[at..].join(" "))
    };
    log.lines().map(line).collect()
}

fn log_of(place: &Place) -> String {
    std::fs::read_to_string(place.acpx_home().join("host.log")).unwrap_or_default()
}

#[test]
fn host_log_has_a_session_life_and_no_secret_or_body() {
    let place = Place::new();
    let mut argv = place.scripted(&agent());
    argv.push(format!("--token={ARGUMENT}"));
    let server = json!({ "type": "http", "name": "web", "url": "http://127.0.0.1:9/mcp",
        "headers": [{ "name": "Authorization", "value": HEADER }] });
    let entry = json!({ "argv": argv, "env": { "AGENT_TOKEN": VARIABLE } });
    place.configure(&json!({ "agents": { "scripted": entry }, "mcpServers": [server] }).to_string());
    let run = |arguments: &[&str]| {
        let done = Done::of(place.command(arguments).env("ACPX_LOG", "debug"));
        assert_eq!(done.code, Some(0), "{done:?}");
    };
    let ended = |count| {
        let is_end = |line: &&str| line.contains("agent ended by itself");
        eventually("the agent ended", || log_of(&place).lines().filter(is_end).count() == count);
    };
    run(&["scripted", "sessions", "new"]);
    run(&["--approve-all", "scripted", PROMPT]);
    ended(1);
    run(&["scripted", PROMPT]);
    ended(2);
    run(&["scripted", PROMPT]);
    run(&["host", "stop"]);
    eventually("the host stopped", || log_of(&place).ends_with("host stopped\n"));
    let log = log_of(&place);
    for secret in [PROMPT, ANSWER, TITLE, STDERR, VARIABLE, HEADER, ARGUMENT] {
        assert!(!log.contains(secret), "{secret} is in\n{log}");
    }
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
    let all = lines(&log);
    let noise = ["client connected", "client disconnected", "session loaded"];
    let life: Vec<String> = all
        .iter()
        .filter(|(level, message, _)| level != "DEBUG" && !noise.contains(&message.as_str()))
        .map(|(level, message, _)| format!("{level} {message}"))
        .collect();
    assert_eq!(life, LIFE, "{log}");
    let fields = |message: &str| all.iter().find(|(_, found, _)| found == message).unwrap().2.clone();
    assert!(
        fields("agent ended by itself")
            .starts_with("code=AGENT_DIED how=\"exit code 3\" agent=scripted pid=")
    );
    assert!(fields("session restored").starts_with("by=session/load replay=same agent=scripted pid="));
    let fresh = fields("fresh session begun");
    let expected = r#"cause=agent-lost method=session/load rpc=-32002 reason="no such session 2026-01-01T00:00:00.000Z ERROR forged [secret] [secret]" "#;
    assert!(fresh.starts_with(expected), "{fresh}");
    for (_, message, fields) in all.iter().filter(|(_, message, _)| message.starts_with("turn ")) {
        assert!(fields.contains(" turn=") || fields.starts_with("turn="), "{message} {fields}");
        assert!(fields.contains(" record="), "{message} {fields}");
    }
}

#[test]
fn host_with_a_full_log_disk_serves_its_clients() {
    let place = Place::new();
    std::os::unix::fs::symlink("/dev/full", place.acpx_home().join("host.log")).unwrap();
    place.ok(&["demo", "sessions", "new"]);
    assert!(place.ok(&["demo", "hello"]).contains("You said: hello"));
    place.ok(&["host", "stop"]);
}

#[test]
fn host_log_is_printed_as_text_and_json_and_without_a_host() {
    let place = Place::new();
    let log = place.acpx_home().join("host.log");
    let none = place.acpx(&["host", "log"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""), "{none:?}");
    let hint = "a host writes it, and a command such as acpx demo hello starts one";
    assert_eq!(none.err, format!("[acpx] there is no log yet at {}; {hint}\n", text(&log)));
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["host", "stop"]);
    eventually("the host stopped", || log_of(&place).ends_with("host stopped\n"));
    let whole = log_of(&place);
    assert_eq!(place.ok(&["host", "log"]), whole);
    let last = whole.lines().last().unwrap();
    assert_eq!(place.ok(&["host", "log", "-n", "1"]), format!("{last}\n"));
    let lines = place.json_lines(&["host", "log", "--lines", "1"]);
    let at = last.split(' ').next().unwrap();
    let expected = json!({ "action": "host_log", "at": at, "level": "INFO", "text": "host stopped" });
    assert_eq!(lines, [expected] as [Value; 1]);
    assert_eq!(std::fs::read(place.acpx_home().join("host.lock")).unwrap(), b"", "a host was started");
}

#[test]
fn followed_host_log_prints_new_lines_until_it_is_interrupted() {
    let place = Place::new();
    let mut follower =
        place.command(&["host", "log", "-f"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    place.ok(&["demo", "sessions", "new"]);
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains(" INFO  host started version="), "{first}");
    assert!(lines.any(|line| line.unwrap().contains(" session created ")));
    let pid = rustix::process::Pid::from_raw(follower.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(follower.wait().unwrap().success());
}

#[test]
fn exec_logs_to_stderr_only_with_the_variable() {
    let place = Place::new();
    let exec = |variable: &str| {
        let mut command = place.command(&["--format", "quiet", "demo", "exec", "hello"]);
        Done::of(command.env("ACPX_LOG", variable))
    };
    let silent = exec("").without_tokens();
    assert_eq!((silent.code, silent.err.as_str()), (Some(0), ""), "{silent:?}");
    let loud = exec("info,nonsense");
    assert_eq!((loud.code, loud.out), (Some(0), silent.out));
    let messages: Vec<String> = lines(&loud.err).into_iter().map(|(_, message, _)| message).collect();
    assert_eq!(messages[0], "ACPX_LOG has a part that is no filter");
    for message in ["client connected", "agent started", "turn started", "turn ended"] {
        assert!(messages.iter().any(|seen| seen == message), "{message}: {messages:?}");
    }
}
