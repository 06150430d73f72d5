//! Agents that fail, as a person and a program see it: one clear error with a hint, and nothing lost.

use std::process::Command;

use acpx_testkit::Script;
use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};
#[cfg(target_os = "linux")]
use crate::terminal::OnTerminal;

/// The options that every command of the test takes, and the code of what it meets.
struct Case {
    agent: Vec<String>,
    code: &'static str,
    /// Words that the message has.
    says: &'static str,
}

fn cases(place: &Place) -> Vec<Case> {
    let file = place.path_of("not-a-program");
    std::fs::write(&file, "text").unwrap();
    let line = |words: &str| vec!["--agent".to_owned(), words.to_owned()];
    let played = |script: &Script| line(&place.scripted(script).join(" "));
    let ready = || Script::new().initialize(json!({}));
    let login = json!({ "code": -32000, "message": "Authentication required" });
    let broken = json!({ "code": -32603, "message": "no model today" });
    let version = Script::new().expect("initialize").reply(json!({ "protocolVersion": 99 }));
    let case = |agent, code, says| Case { agent, code, says };
    vec![
        case(line("no-such-agent --acp"), "AGENT_NOT_FOUND", "\"no-such-agent\" was not found"),
        case(line("/no/such/agent"), "AGENT_NOT_FOUND", "\"/no/such/agent\" was not found"),
        case(line(&text(&file)), "AGENT_NOT_EXECUTABLE", "is not executable"),
        case(
            line("sh -c 'echo no key >&2; exit 3'"),
            "AGENT_EXITED_AT_START",
            "(exit code 3); it said: no key",
        ),
        case(
            played(&Script::new().line("Usage: agent").exit(2)),
            "AGENT_EXITED_AT_START",
            "it said: Usage: agent",
        ),
        case(played(&version), "AGENT_PROTOCOL_VERSION", "answered protocol version 99, and was asked for 1"),
        case(played(&ready().expect("session/new").reply(json!({}))), "AGENT_BAD_ANSWER", "session/new"),
        case(played(&ready().refuse("session/new", login)), "AUTH_REQUIRED", "Authentication required"),
        case(played(&ready().refuse("session/new", broken)), "AGENT_REFUSED", "no model today (-32603)"),
        case(played(&ready().expect("session/new").exit(9)), "AGENT_DIED", "died (exit code 9)"),
    ]
}

#[test]
fn binary_prompt_file_is_an_error_with_the_flags_that_attach_it() {
    let place = Place::new();
    std::fs::write(place.work().join("x.png"), b"\x89PNG\xff").unwrap();
    let done = place.acpx(&["demo", "--file", "x.png"]);
    let file = text(place.work().join("x.png"));
    let expected = format!(
        "acpx: the prompt file {file} is not UTF-8 text\n\
         hint: attach it instead, with --image {file}, --audio {file} or --resource {file}\n"
    );
    assert_eq!((done.err, done.code), (expected, Some(2)));
}

#[test]
fn failed_agent_start_is_one_error_with_a_hint_and_no_session() {
    let place = Place::new();
    for Case { agent, code, says } in cases(&place) {
        let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
        for verb in [&["exec", "hi"][..], &["sessions", "new"], &["sessions", "ensure"]] {
            let line = [&agent[..], verb].concat();
            let told = place.acpx(&[&["--format", "json", "--json-strict"], &line[..]].concat());
            let (detail, hint, exit) = told.failure();
            assert_eq!((detail.as_str(), exit), (code, Some(1)), "{line:?} {told:?}");
            assert!(!hint.is_empty() && told.err.is_empty(), "{told:?}");
            assert!(!hint.contains("next prompt"), "nothing is kept: {hint}");
            let message = told.lines().pop().unwrap()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(says), "{message}");
            let shown = place.acpx(&line);
            assert!(shown.err.ends_with(&format!("acpx: {message}\nhint: {hint}\n")), "{shown:?}");
            assert_eq!(shown.code, Some(1));
        }
    }
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
}

#[test]
fn an_agent_that_fails_to_come_back_loses_nothing() {
    let place = Place::new();
    let configure =
        |argv: &Value| place.configure(&json!({ "agents": { "mine": { "argv": argv } } }).to_string());
    let good = json!([env!("CARGO_BIN_EXE_acpx"), "demo-agent"]);
    configure(&good);
    let new = place.json(&["mine", "sessions", "new"]);
    place.ok(&["mine", "My name is Ada."]);
    place.ok(&["host", "stop"]);
    for (argv, code) in [
        (json!(["/no/such/agent"]), "AGENT_NOT_FOUND"),
        (json!(["sh", "-c", "exit 3"]), "AGENT_EXITED_AT_START"),
        (json!([good[0], "demo-agent", "--resume-fails", "auth", "--load-fails", "auth"]), "AUTH_REQUIRED"),
        (
            json!([good[0], "demo-agent", "--no-resume", "--load-fails", "busy-open"]),
            "SESSION_BUSY_ELSEWHERE",
        ),
    ] {
        configure(&argv);
        let failed = place.acpx(&["--format", "json", "mine", "recall"]);
        let (detail, _, exit) = failed.failure();
        assert_eq!((detail.as_str(), exit), (code, Some(1)), "{failed:?}");
        let data = failed.lines().pop().unwrap()["error"]["data"].clone();
        assert_eq!(data["acpxRecordId"], new["acpxRecordId"], "{data}");
        place.ok(&["host", "stop"]);
    }
    configure(&good);
    let said = place.ok(&["mine", "recall"]);
    assert!(said.contains("1. My name is Ada."), "{said}");
    assert_eq!(place.json(&["mine", "status"])["acpxSessionId"], new["acpxSessionId"]);
}

#[test]
fn agent_that_prints_garbage_still_completes_its_turn() {
    let place = Place::new();
    let noise = Script::new().line("npm WARN deprecated").bytes(b"\xff\xfe\x00\n").line("{\"id\":");
    let script = noise
        .initialize(json!({}))
        .line("more noise")
        .session_new("s1")
        .prompt(|turn| turn.say("hello").line("[1,2").say(" there").end("end_turn"));
    place.scripted(&script);
    let done = place.acpx(&["--format", "quiet", "scripted", "exec", "hi"]);
    // What it prints before it is asked anything is nobody's; within a turn something may be lost by it.
    let err = "[acpx] ignored: 1 line of the agent, not of the protocol\n".to_owned();
    assert_eq!(done, Done { out: "hello there\n".to_owned(), err, code: Some(0) });
}

#[cfg(target_os = "linux")]
#[test]
fn notices_between_agent_text_begin_on_their_own_line() {
    let place = Place::new();
    let script = Script::new().initialize(json!({})).session_new("s1");
    place.scripted(&script.prompt(|turn| turn.line("noise").say("own words").end("end_turn")));
    let mut terminal = OnTerminal::start(&place.command(&["scripted", "exec", "hi"]));
    terminal.wait_for("own words\nnote: ignored: 1 line of the agent, not of the protocol\n\ndone in ");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
}

#[test]
fn slow_agent_start_is_reported_to_people_and_not_to_programs() {
    let place = Place::new();
    let slow = Script::new()
        .delay(2_600)
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say("awake").end("end_turn"));
    place.scripted(&slow);
    let shown = place.start(&["scripted", "exec", "hi"]);
    let json = place.start(&["--format", "json", "--json-strict", "scripted", "exec", "hi"]);
    let new = place.start(&["scripted", "sessions", "new"]);
    let quiet = place.start(&["--format", "quiet", "scripted", "exec", "hi"]);
    let waiting = "[acpx] waiting for the agent scripted to start\n";
    let shown = shown.done();
    assert_eq!((shown.err.as_str(), shown.code), (waiting, Some(0)));
    let new = new.done();
    assert!(new.err.starts_with(waiting), "{new:?}");
    for done in [json.done(), quiet.done()] {
        assert_eq!((done.err.as_str(), done.code), ("", Some(0)), "{done:?}");
    }
}

#[test]
fn agent_that_never_starts_times_out_and_its_stderr_is_quoted() {
    let place = Place::new();
    place.scripted(&Script::new().stderr("loading models").hang());
    for verb in [&["exec", "hi"][..], &["sessions", "new"]] {
        let line = [&["--format", "json", "--timeout", "1.5", "scripted"], verb].concat();
        let done = place.acpx(&line);
        let (code, hint, exit) = done.failure();
        let expected = (
            "AGENT_START_TIMEOUT",
            "a first start may download a package; give the agent more time, with --timeout or startTimeoutSeconds in its profile",
            Some(3),
        );
        assert_eq!((code.as_str(), hint.as_str(), exit), expected, "{verb:?}");
        let message =
            "the agent \"scripted\" did not answer initialize within 1.5 s; it said: loading models";
        assert_eq!(done.lines()[0]["error"]["message"], message, "{verb:?}");
    }
    assert_eq!(place.json(&["scripted", "status"])["status"], "no-session");
}

#[test]
fn program_that_is_no_acp_agent_is_reported_as_such() {
    let place = Place::new();
    let hint =
        "hint: check its command: many programs speak ACP only with an argument such as acp or --acp\n";
    let rows = [
        ("cat", "does not seem to speak the Agent Client Protocol: it sends back what it is sent"),
        ("true", "ended before it answered initialize (exit code 0)"),
    ];
    for (program, words) in rows {
        let done = place.acpx(&["--agent", program, "exec", "hi"]);
        assert_eq!(
            (done.err, done.code),
            (format!("acpx: the agent \"{program}\" {words}\n{hint}"), Some(1))
        );
    }
}

#[test]
fn prompt_to_an_agent_that_fails_to_restart_is_not_stored() {
    let place = Place::new();
    let loads = json!({ "loadSession": true });
    let first = Script::new()
        .initialize(loads.clone())
        .session_new("s1")
        .prompt(|turn| turn.say("hello").end("end_turn"));
    place.scripted(&first.next_start().initialize(loads).expect("session/load").hang());
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "hi"]);
    place.ok(&["host", "stop"]);
    let late = place.acpx(&["--timeout", "2", "scripted", "again"]);
    let words = "acpx: the agent \"scripted\" did not answer session/load within 2 s\n\
        hint: the prompt was not sent; give the agent more time, with --timeout or startTimeoutSeconds in its profile\n";
    assert!(late.err.ends_with(words), "{late:?}");
    assert_eq!(late.code, Some(3));
}

#[test]
fn missing_directory_is_named_and_its_sessions_stay() {
    let place = Place::new();
    let gone = place.work().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let path = text(&gone);
    place.ok(&["--cwd", "gone", "demo", "sessions", "new"]);
    place.ok(&["host", "stop"]);
    std::fs::remove_dir(&gone).unwrap();
    for verb in [&["status"][..], &["hello"], &["exec", "hi"], &["sessions", "new"], &["sessions", "close"]] {
        let done = place.acpx(&[&["--format", "json", "--cwd", "gone", "demo"], verb].concat());
        let hint = "name a directory that exists with --cwd".to_owned();
        assert_eq!(done.failure(), ("BAD_DIRECTORY".to_owned(), hint, Some(2)), "{verb:?}");
        assert!(done.json()["error"]["message"].as_str().unwrap().contains(&path));
    }
    assert_eq!(place.json(&["sessions", "list", "--filter-cwd", "gone"])[0]["cwd"], path.as_str());
}

#[test]
fn escape_sequences_of_a_hostile_agent_stay_plain_text() {
    let place = Place::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say("\u{1b}]0;title\u{7}\u{1b}[2Jboo").end("end_turn"));
    place.scripted(&script);
    // Programs get every byte; what a terminal gets is cleaned.
    let raw = place.ok(&["--format", "quiet", "scripted", "exec", "hi"]);
    assert_eq!(raw, "\u{1b}]0;title\u{7}\u{1b}[2Jboo\n");
    #[cfg(target_os = "linux")]
    assert_eq!(on_a_terminal(&place, "--format quiet scripted exec hi"), "]0;title[2Jboo");
}

/// What a command shows on a terminal, which the program `script` makes.
#[cfg(target_os = "linux")]
fn on_a_terminal(place: &Place, arguments: &str) -> String {
    let plain = place.command(&[]);
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_acpx"));
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).current_dir(place.work()).stdin(std::process::Stdio::null());
    terminal.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Done::of(&mut terminal).out.trim_end().to_owned()
}

#[test]
fn update_for_another_session_is_stored_and_not_shown_in_this_one() {
    let place = Place::new();
    let content = json!({ "type": "text", "text": "foreign" });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
    let params = json!({ "sessionId": "nosuch", "update": update });
    let foreign = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.line(&foreign).say("own").end("end_turn"));
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(place.ok(&["scripted", "go"]), "own\n\n[done] end_turn\n");
    for command in ["history", "replay"] {
        let shown = place.ok(&["scripted", "sessions", command]);
        assert!(shown.contains("own") && !shown.contains("foreign"), "{command}: {shown}");
    }
    let events = place.json_lines(&["scripted", "sessions", "replay"]);
    let aside: Vec<_> = events.iter().filter(|event| event["aside"] == true).collect();
    assert_eq!(aside.iter().map(|event| &event["message"]["params"]).collect::<Vec<_>>(), [&params]);
}

#[test]
fn garbage_lines_are_reported_once_per_turn_and_not_for_the_start() {
    let place = Place::new();
    let script = Script::new()
        .line("welcome to the agent")
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.line("not json").bytes(b"\xff\xfe\n").say("own").end("end_turn"))
        .prompt(|turn| turn.say("quiet").end("end_turn"));
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    let told = "[acpx] ignored: 2 lines of the agent, not of the protocol\n";
    let [first, second] = ["one", "two"].map(|words| place.acpx(&["scripted", words]));
    assert_eq!((first.err.matches("ignored: ").count(), first.err.contains(told)), (1, true), "{first:?}");
    assert_eq!((second.err.contains("ignored: "), second.code), (false, Some(0)), "{second:?}");
}

#[test]
fn named_pipe_in_place_of_our_files_blocks_no_command() {
    for name in ["config.json", "host.lock"] {
        let place = Place::new();
        let pipe = place.acpx_home().join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let done = place.acpx(&["--format", "json", "demo", "sessions", "new"]);
        let (code, _, exit) = done.failure();
        let expected = if name == "config.json" { "CONFIG_UNREADABLE" } else { "HOST_LOCK" };
        assert_eq!((code.as_str(), exit), (expected, Some(1)), "{name}");
    }
}
