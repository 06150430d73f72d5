//! What goes where: JSON alone on stdout where it is promised, nothing on stderr where that is promised, and what
//! is being done for whoever asks.

use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};

#[test]
fn canonical_names_are_written_by_every_command_and_every_line_is_json() {
    let place = Place::new();
    place.demo_with(&["--agent-session-id"]);
    let strict = |line: &[&str]| {
        let done = place.acpx(&[&["--format", "json", "--json-strict"], line].concat());
        assert_eq!(done.err, "", "{line:?}");
        // Reading the lines holds them against the contract.
        assert!(!done.lines().is_empty(), "{line:?}");
        done
    };
    let table: [(&[&str], i32); 28] = [
        (&["demo", "status"], 0),
        (&["demo", "hello"], 4),
        (&["demo", "cancel"], 0),
        (&["demo", "sessions", "show"], 4),
        (&["demo", "sessions", "new"], 0),
        (&["demo", "sessions", "ensure"], 0),
        (&["demo", "think plan tool permission"], 5),
        (&["demo", "fail"], 1),
        (&["demo", "crash"], 1),
        (&["demo", "--timeout", "0.2", "wait"], 3),
        (&["demo", "prompt", "--no-wait", "later"], 0),
        (&["demo", "exec", "hello"], 0),
        (&["demo", "exec", "crash"], 1),
        (&["demo", "cancel"], 0),
        (&["demo", "status"], 0),
        (&["demo", "sessions"], 0),
        (&["demo", "sessions", "list", "--remote"], 0),
        (&["demo", "sessions", "show"], 0),
        (&["demo", "sessions", "history"], 0),
        (&["demo", "sessions", "new"], 0),
        (&["demo", "sessions", "close"], 0),
        (&["demo", "sessions", "close"], 4),
        (&["demo", "sessions", "delete"], 4),
        (&["demo", "sessions", "new", "-s", "x"], 0),
        (&["demo", "sessions", "delete", "x"], 0),
        (&["sessions", "migrate"], 1),
        (&["host", "status"], 0),
        (&["host", "stop"], 0),
    ];
    for (line, code) in table {
        assert_eq!(strict(line).code, Some(code), "{line:?}");
    }
    let lost = strict(&["demo", "sessions", "new"]);
    strict(&["demo", "one"]);
    strict(&["host", "stop"]);
    std::fs::remove_dir_all(place.acpx_home().join("demo")).unwrap();
    // A reset is told in JSON, and strictly nowhere else.
    let reset = strict(&["demo", "two"]).lines();
    assert!(reset.iter().any(|line| line["action"] == "session_reset"), "{reset:?}");
    assert_eq!(reset.last().unwrap()["acpxRecordId"], lost.json()["acpxRecordId"]);
    assert_eq!(reset.last().unwrap()["action"], "prompt_result");
}

#[test]
fn the_last_line_of_a_prompt_is_its_result_however_it_ended() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    for (words, code, status) in
        [("fine", 0, "completed"), ("refuse", 0, "completed"), ("fail", 1, "failed"), ("crash", 1, "failed")]
    {
        for verb in [&["demo", "prompt"][..], &["demo", "exec"]] {
            let done = place.acpx(&[&["--format", "json"], verb, &[words]].concat());
            let result = done.lines().pop().unwrap();
            let seen = (result["action"].as_str(), result["status"].as_str(), done.code);
            assert_eq!(seen, (Some("prompt_result"), Some(status), Some(code)), "{verb:?} {words}");
            assert_eq!(result.get("error").is_some(), code != 0, "{result}");
            assert_eq!(result.get("acpxRecordId").is_some(), verb.contains(&"prompt"), "{result}");
        }
    }
}

#[test]
fn verbose_reports_each_step_and_nothing_is_reported_without_it() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_acpx");
    let work = place.work();
    let agent = format!("[acpx] starting the agent {program} demo-agent in {}\n", work.display());
    let said = |line: &[&str]| {
        let done = place.acpx(line);
        assert_eq!(done.code, Some(0), "{line:?} {done:?}");
        done.err
    };
    let exec = said(&["--verbose", "demo", "exec", "hi"]);
    assert!(exec.starts_with(&format!("{agent}[acpx] turn 1 is sent (request ")), "{exec}");
    let new = said(&["--verbose", "demo", "sessions", "new"]);
    let host = place.host_pid();
    let started =
        format!("[acpx] starting a host\n[acpx] the host is there (pid {host})\n{agent}[acpx] created");
    assert!(new.starts_with(&started), "{new}");
    let warm = said(&["demo", "hello"]);
    assert!(!warm.contains("using"), "{warm}");
    let warm = said(&["--verbose", "demo", "hello"]);
    let using = format!(
        "[acpx] using the host (pid {host})\n[acpx] the agent has the session\n[acpx] turn 2 is sent"
    );
    assert!(warm.contains(&using), "{warm}");
    place.ok(&["host", "stop"]);
    let cold = said(&["--verbose", "demo", "hello"]);
    assert!(cold.contains("[acpx] the session is restored by session/resume\n"), "{cold}");
    place.ok(&["host", "stop"]);
    std::fs::remove_dir_all(place.acpx_home().join("demo")).unwrap();
    let fresh = said(&["--verbose", "demo", "hello"]);
    assert!(fresh.contains("[acpx] the agent has a fresh session (agent-lost)\n"), "{fresh}");
    let plain = said(&["demo", "hello"]);
    assert_eq!(plain.lines().count(), 2, "the banner and the tokens: {plain}");
}

#[test]
fn closed_stdout_reader_ends_a_command_quietly() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_acpx");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("{program} demo exec 'chunks 20000' | head -1")]);
    shell.env("ACPX_HOME", place.acpx_home()).current_dir(place.work());
    let done = Done::of(&mut shell);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("chunk 1 of 20000\n", ""));
}

/// Runs a prompt into a pipe that is read by `head`; what both wrote, with the exit code of the prompt at the end.
fn into_head(place: &Place, arguments: &str, head: &str) -> String {
    let program = env!("CARGO_BIN_EXE_acpx");
    let mut shell = std::process::Command::new("sh");
    let code = text(place.path_of("code"));
    let line = format!("{{ {program} {arguments} 2>&1; echo $? > {code}; }} | {head}; cat {code}");
    shell.args(["-c", &line]);
    let command = place.command(&[]);
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(place.work());
    Done::of(&mut shell).out
}

/// Whether no turn runs and none waits.
fn is_over(status: &Value) -> bool {
    status.get("turn").is_none() && status["queued"] == 0
}

#[test]
fn prompt_with_a_closed_stdout_reader_is_sent_and_its_turn_continues() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let cases = [
        ("--verbose demo 'one'", "head -1"),
        ("--format json --json-strict demo 'two'", "head -1"),
        ("--format json --json-strict demo 'three'", "true"),
        ("demo 'chunks 20000'", "head -3"),
    ];
    for (arguments, head) in cases {
        // The agent's start is written before the prompt is sent.
        place.ok(&["host", "stop"]);
        let out = into_head(&place, arguments, head);
        assert_eq!(out.lines().last(), Some("0"), "{arguments}: {out}");
        place.until("the turn is over", is_over);
    }
    let recalled = place.ok(&["--format", "quiet", "demo", "recall"]);
    assert!(recalled.ends_with("1. one\n2. two\n3. three\n4. chunks 20000\n"), "{recalled}");
    let turns = place.json_lines(&["demo", "sessions", "replay"]);
    let ended = turns.iter().filter(|line| line["message"]["fact"] == "turn_ended");
    let reasons: Vec<&Value> = ended.map(|line| &line["message"]["stopReason"]).collect();
    assert_eq!(reasons, [&json!("end_turn"); 5]);
}

#[cfg(target_os = "linux")]
#[test]
fn prompt_with_unwritable_stdout_is_sent_and_its_outcome_is_reported() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let goes_on = "the turn goes on all the same; sessions watch shows it";
    let cases: [(&[&str], &str); 4] = [
        // How the agent is started is written before there is an answer.
        (&["--verbose", "demo", "one"], goes_on),
        (&["--format", "json", "demo", "two"], goes_on),
        (&["demo", "prompt", "--no-wait", "three"], "the prompt is queued all the same"),
        (&["demo", "exec", "four"], "the turn is over all the same, and nothing of it is kept"),
    ];
    for (line, fate) in cases {
        place.ok(&["host", "stop"]);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = Done::of(place.command(line).stdout(full));
        let said = format!("acpx: cannot write to stdout: No space left on device\nhint: {fate}\n");
        assert!(done.err.ends_with(&said), "{line:?}: {}", done.err);
        assert_eq!(done.code, Some(1), "{line:?}");
        place.until("the turn is over", is_over);
    }
    let recalled = place.ok(&["--format", "quiet", "demo", "recall"]);
    assert!(recalled.ends_with("1. one\n2. two\n3. three\n"), "{recalled}");
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_stdout_is_reported_on_stderr_in_every_format() {
    let place = Place::new();
    let said = "acpx: cannot write to stdout: No space left on device\n\
                hint: free space where stdout goes, or redirect it\n";
    for (format, err) in [
        ("text", said),
        ("json", said),
        ("quiet", "[acpx] error: RUNTIME [OUTPUT_FAILED] cannot write to stdout: No space left on device\n"),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = Done::of(place.command(&["--format", format, "demo", "status"]).stdout(full));
        assert_eq!(done, Done { out: String::new(), err: err.to_owned(), code: Some(1) }, "{format}");
    }
}

#[test]
fn flags_are_accepted_before_and_after_the_verb() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "--name", "x"]);
    let lines: [&[&str]; 4] = [
        &["--format", "json", "demo", "-s", "x", "status"],
        &["demo", "--format", "json", "status", "-s", "x"],
        &["demo", "status", "--session", "x", "--format=json"],
        &["demo", "-s", "x", "--cwd", ".", "status", "--format", "json", "--ttl", "5", "--approve-all"],
    ];
    for line in lines {
        let status: Value = place.acpx(line).json();
        assert_eq!(status["acpxRecordId"], made["acpxRecordId"], "{line:?}");
    }
}
