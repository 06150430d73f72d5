//! Sessions of npm acpx come along by themselves, whoever comes first, and their files stay as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use acpx_core::model::ProcessIdentity;
use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Done, Place, eventually, kill_hard, text};
use crate::npm_sdk::installed;

const FULL: &str = "01a1e157-b125-71a1-8167-53a010cdabdb";
const TURNS: &str = "01a1e15a-0ea5-74d4-bd63-354b704a25e3";
const DEMO: &str = "acpx demo-agent --agent-session-id --http";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/fixtures/npm-acpx")
}

/// Puts fixtures where npm acpx would have them, as if they had been made in the place's own directory an hour ago.
fn put(place: &Place, directory: &Path, names: &[&str]) {
    fs::create_dir_all(directory).unwrap();
    let an_hour_ago = SystemTime::now() - Duration::from_hours(1);
    for name in names {
        for file in fs::read_dir(fixtures().join(name)).unwrap() {
            let path = file.unwrap().path();
            let here = directory.join(path.file_name().unwrap());
            let bytes = fs::read_to_string(&path).unwrap().replace("/home/ada/project", &text(place.work()));
            fs::write(&here, bytes).unwrap();
            fs::File::open(&here).unwrap().set_modified(an_hour_ago).unwrap();
        }
    }
}

/// Every file of a directory with its time.
fn state(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let modified = path.metadata().unwrap().modified().unwrap();
            let bytes = fs::read(&path).unwrap();
            (path, (bytes, modified))
        })
        .collect()
}

fn ids(rows: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["acpxRecordId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn first_command_imports_npm_acpx_sessions_and_starts_nothing() {
    let by = [
        &["--agent", DEMO, "status", "-s", "full"][..],
        &["sessions", "list"],
        &["--agent", DEMO, "sessions", "show", "full"],
        &["--agent", DEMO, "sessions", "history", "full"],
        &["--agent", DEMO, "cancel", "-s", "full"],
    ];
    for line in by {
        let place = Place::new();
        let sessions = place.acpx_home().join("sessions");
        put(&place, &sessions, &["full", "turns", "legacy"]);
        let before = state(&sessions);
        let done = place.acpx(&[&["--format", "json"], line].concat());
        assert_eq!(done.code, Some(0), "{line:?} {done:?}");
        assert_eq!(done.err, "[acpx] took over 3 sessions of npm acpx\n", "{line:?}");
        assert!(done.out.contains(FULL), "{line:?} {}", done.out);
        assert_eq!(place.processes(), [0; 0], "{line:?} started something");
        assert_eq!(state(&sessions), before, "{line:?} touched the originals");
        let store = fs::read(place.acpx_home().join("acpx.db")).unwrap();
        let again = place.acpx(&["--format", "json", "sessions", "list"]);
        assert_eq!(again.err, "", "{line:?}");
        assert_eq!(ids(&again.json()), [FULL, TURNS, "7f1c"], "{line:?}");
        assert!(
            fs::read(place.acpx_home().join("acpx.db")).unwrap() == store,
            "a second look wrote something"
        );
    }
}

#[test]
fn records_of_both_forms_have_the_ids_they_had() {
    let place = Place::new();
    put(&place, &place.acpx_home().join("sessions"), &["full", "legacy"]);
    let rows = place.json(&["sessions", "list"]);
    let row =
        |id: &str| rows.as_array().unwrap().iter().find(|row| row["acpxRecordId"] == id).unwrap().clone();
    let legacy = row("7f1c");
    assert_eq!(
        (&legacy["acpxSessionId"], &legacy["agentSessionId"], &legacy["name"]),
        (&json!("acp-41"), &json!("inner-41"), &json!("backend"))
    );
    let full = row(FULL);
    assert_eq!(full["agentSessionId"], json!(format!("inner-{}", full["acpxSessionId"].as_str().unwrap())));
    let shown = place.json(&["--agent", "npx -y 'my agent' --acp", "sessions", "show", "backend"]);
    assert_eq!(
        (&shown["acpxRecordId"], &shown["lineage"][0]["reason"]),
        (&json!("7f1c"), &json!("imported"))
    );
    let history = place.ok(&["--agent", "npx -y 'my agent' --acp", "sessions", "history", "backend"]);
    assert!(history.contains("\tuser\twhat is here?\n"), "{history}");
}

#[test]
fn running_host_imports_later_npm_acpx_sessions_and_a_prompt_continues_them() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let host = place.host_pid();
    let sessions = place.acpx_home().join("sessions");
    put(&place, &sessions, &["full"]);
    let before = state(&sessions);
    // The command line of the record is looked for in PATH.
    let prompt = ["--format", "json", "--agent", DEMO, "prompt", "-s", "full", "hello again"];
    let done = with_agent(&place, &prompt);
    assert!(done.err.starts_with("[acpx] took over 1 session of npm acpx\n"), "{}", done.err);
    assert_eq!(done.code, Some(0), "{done:?}");
    let result = done.lines().pop().unwrap();
    assert_eq!((&result["acpxRecordId"], &result["status"]), (&json!(FULL), &json!("completed")));
    assert_eq!((place.host_pid(), state(&sessions)), (host, before));
    let history = place.ok(&["--agent", DEMO, "sessions", "history", "full", "--limit", "100"]);
    assert!(history.contains("hello again"), "{history}");
    // npm acpx went on with it meanwhile, and so did we: ours stays.
    assert_eq!(place.acpx(&["sessions", "list"]).err, "");
}

/// Configures an agent that npm acpx knew by the command line of the fixtures' agent.
fn configure_mine(place: &Place) {
    let argv: Vec<&str> = DEMO.split(' ').collect();
    place.configure(&json!({ "agents": { "mine": { "argv": argv } } }).to_string());
}

/// Runs a command with the fixtures' agent in `PATH`.
fn with_agent(place: &Place, arguments: &[&str]) -> Done {
    let directory = Path::new(env!("CARGO_BIN_EXE_acpx")).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    Done::of(place.command(arguments).env("PATH", path))
}

#[test]
fn npm_acpx_session_of_a_configured_agent_is_found_by_agent_name() {
    for with_host in [false, true] {
        let place = Place::new();
        configure_mine(&place);
        if with_host {
            place.ok(&["demo", "sessions", "new"]);
        }
        put(&place, &place.acpx_home().join("sessions"), &["full"]);
        let shown = place.json(&["mine", "sessions", "show", "full"]);
        assert_eq!(shown["acpxRecordId"], FULL, "{with_host}");
        let ensured = place.json(&["mine", "sessions", "ensure", "--name", "full"]);
        assert_eq!((&ensured["acpxRecordId"], &ensured["created"]), (&json!(FULL), &json!(false)));
    }
}

#[test]
fn mode_set_in_npm_acpx_holds_after_the_import() {
    let place = Place::new();
    configure_mine(&place);
    let sessions = place.acpx_home().join("sessions");
    put(&place, &sessions, &["full"]);
    let file = sessions.join(format!("{FULL}.json"));
    let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    record["acpx"]["desired_mode_id"] = json!("code");
    fs::write(&file, record.to_string()).unwrap();
    let mode = || place.json(&["mine", "status", "-s", "full"])["mode"].clone();
    assert_eq!(mode(), "code", "before the first prompt");
    let done = with_agent(&place, &["--format", "json", "mine", "prompt", "-s", "full", "hello again"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(mode(), "code");
}

/// Runs npm acpx itself, in the place's home and directory.
pub(super) fn npm_acpx(place: &Place, arguments: &[&str]) -> Done {
    let home = place.path_of("user");
    fs::create_dir_all(&home).unwrap();
    if !home.join(".acpx").exists() {
        std::os::unix::fs::symlink(place.acpx_home(), home.join(".acpx")).unwrap();
    }
    npm_acpx_at(place, &home, arguments)
}

/// Runs npm acpx in the place's directory, with a home directory of its own.
pub(super) fn npm_acpx_at(place: &Place, home: &Path, arguments: &[&str]) -> Done {
    let programs = installed().join("node_modules/.bin");
    assert!(programs.join("acpx").exists(), "{} has no acpx: run .ci/npm-sdk", programs.display());
    let mut command = Command::new(programs.join("node"));
    command.arg(programs.join("acpx")).args(arguments).current_dir(place.work()).env("HOME", home);
    Done::of(&mut command)
}

/// Ends the processes by which npm acpx holds sessions of this home.
pub(crate) fn end_npm_owners(home: &Path) {
    let Ok(leases) = fs::read_dir(home.join("queues")) else { return };
    for lease in leases {
        let lease: Value = serde_json::from_slice(&fs::read(lease.unwrap().path()).unwrap()).unwrap();
        let pid = u32::try_from(lease["pid"].as_u64().unwrap()).unwrap();
        kill_hard(pid);
        eventually("the end of npm's owner", || ProcessIdentity::living(pid).is_none());
    }
}

#[test]
fn session_of_real_npm_acpx_continues_with_its_ids_mode_and_option() {
    let place = Place::new();
    let modes = json!({ "currentModeId": "ask", "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "plan", "name": "Plan" }] });
    let effort = |value| {
        let values = json!([{ "value": "low", "name": "Low" }, { "value": "high", "name": "High" }]);
        json!([{ "id": "effort", "name": "Effort", "type": "select", "currentValue": value, "options": values }])
    };
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        (
            "session/new",
            Script::new().reply(json!({ "sessionId": "s1", "modes": modes, "configOptions": effort("low") })),
        ),
        ("session/load", Script::new().reply(json!({ "modes": modes, "configOptions": effort("low") }))),
        ("session/set_mode", Script::new().reply(json!({}))),
        ("session/set_config_option", Script::new().reply(json!({ "configOptions": effort("high") }))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    let argv = place.scripted(&script);
    let commands = [
        &["scripted", "sessions", "new", "--name", "x"][..],
        &["scripted", "prompt", "-s", "x", "one"],
        &["scripted", "set-mode", "-s", "x", "plan"],
        &["scripted", "set", "-s", "x", "effort", "high"],
    ];
    for command in commands {
        let done = npm_acpx(&place, command);
        assert_eq!(done.code, Some(0), "{command:?} {done:?}");
    }
    let record = fs::read_dir(place.acpx_home().join("sessions")).unwrap().find_map(|entry| {
        entry.unwrap().file_name().into_string().unwrap().strip_suffix(".json").map(str::to_owned)
    });
    let record = record.unwrap();
    end_npm_owners(&place.acpx_home());
    let before = received_lines(&argv).len();
    let result = place.json_lines(&["scripted", "prompt", "-s", "x", "two"]).pop().unwrap();
    assert_eq!(
        (&result["acpxRecordId"], &result["acpxSessionId"], &result["status"]),
        (&json!(record), &json!("s1"), &json!("completed"))
    );
    let sent = received_lines(&argv).into_iter().skip(before).map(|line| {
        let request: Value = serde_json::from_str(&line).unwrap();
        let value = ["modeId", "value"].iter().find_map(|name| request["params"].get(name)).cloned();
        (request["method"].as_str().unwrap().to_owned(), value)
    });
    let expected = [
        ("initialize".to_owned(), None),
        ("session/load".to_owned(), None),
        ("session/set_config_option".to_owned(), Some(json!("high"))),
        ("session/set_mode".to_owned(), Some(json!("plan"))),
        ("session/prompt".to_owned(), None),
    ];
    assert_eq!(sent.collect::<Vec<_>>(), expected);
}

#[test]
fn npm_acpx_turns_after_the_import_are_imported_or_reported_as_separate() {
    let place = Place::new();
    let modes = json!({ "currentModeId": "ask", "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "plan", "name": "Plan" }] });
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1", "modes": modes }))),
        ("session/load", Script::new().reply(json!({ "modes": modes }))),
        ("session/set_mode", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    place.scripted(&script);
    let npm = |line: &[&str]| {
        let done = npm_acpx(&place, &[&["scripted"], line].concat());
        assert_eq!(done.code, Some(0), "{line:?} {done:?}");
        end_npm_owners(&place.acpx_home());
    };
    let history = || {
        let done = place.acpx(&["scripted", "sessions", "history", "x", "--limit", "100"]);
        let said = done.out.lines().filter_map(|line| line.split_once("\tuser\t"));
        let said: Vec<String> = said.map(|(_, text)| text.to_owned()).collect();
        (said, done.err)
    };
    assert_eq!(npm_acpx(&place, &["scripted", "sessions", "new", "--name", "x"]).code, Some(0));
    npm(&["prompt", "-s", "x", "one"]);
    let imported = "[acpx] took over 1 session of npm acpx\n".to_owned();
    // The agent that acpx starts for this knows nothing of the next turn of npm acpx.
    let chosen = place.acpx(&["scripted", "set-mode", "-s", "x", "plan"]);
    assert!(chosen.err.starts_with(&imported), "{chosen:?}");
    npm(&["prompt", "-s", "x", "two"]);
    assert_eq!(history(), (vec!["one".to_owned(), "two".to_owned()], imported));
    assert_eq!(place.json(&["scripted", "status", "-s", "x"])["status"], "idle");

    place.ok(&["scripted", "prompt", "-s", "x", "three"]);
    npm(&["prompt", "-s", "x", "four"]);
    let (said, err) = history();
    assert_eq!(said, ["one", "two", "three"]);
    let record = place.json(&["scripted", "status", "-s", "x"])["acpxRecordId"].as_str().unwrap().to_owned();
    let separate = format!("[acpx] npm acpx has continued the session {record} separately, ");
    assert!(err.starts_with(&separate) && err.lines().count() == 1, "{err}");
    assert_eq!(history().1, "", "what was said is not said again");
}

#[test]
fn every_command_names_the_npm_acpx_process_that_holds_a_session() {
    let place = Place::new();
    configure_mine(&place);
    let sessions = place.acpx_home().join("sessions");
    put(&place, &sessions, &["full"]);
    let mut owner = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = owner.id();
    fs::write(sessions.join(format!("{FULL}.stream.lock")), format!(r#"{{"pid":{pid}}}"#)).unwrap();
    let commands = [
        &["prompt", "-s", "full", "hello"][..],
        &["sessions", "ensure", "--name", "full"],
        &["sessions", "show", FULL],
        &["status", "-s", "full"],
        &["cancel", "-s", "full"],
    ];
    for command in commands {
        let done = place.acpx(&[&["--format", "json", "mine"], command].concat());
        let (code, hint, exit) = done.failure();
        assert_eq!((code.as_str(), exit), ("HELD_BY_NPM_ACPX", Some(1)), "{command:?}");
        let wait = "wait until npm acpx has finished, and try again";
        assert!(hint.starts_with(wait) && hint.ends_with(&format!("kill {pid}")), "{hint}");
        assert_eq!(done.lines().pop().unwrap()["error"]["data"]["retryable"], true, "{command:?}");
    }
    let listed = place.acpx(&["--format", "json", "sessions", "list"]);
    assert_eq!((listed.json(), listed.code), (json!([]), Some(0)));
    let notice = format!(
        "[acpx] npm acpx (pid {pid}) holds the session {FULL}; it comes over when that process ends\n"
    );
    assert_eq!(listed.err, notice);
    assert!(!place.acpx_home().join("acpx.db").exists(), "nothing is imported yet");
    // Another session of the directory can be used.
    assert_eq!(place.json(&["mine", "status", "-s", "other"])["status"], "no-session");

    drop(owner.stdin.take());
    owner.wait().unwrap();
    let status = place.json(&["mine", "status", "-s", "full"]);
    assert_eq!(status["acpxRecordId"], FULL);
}

#[test]
fn a_damaged_file_is_named_with_its_reason_while_the_others_come() {
    let place = Place::new();
    let sessions = place.acpx_home().join("sessions");
    put(&place, &sessions, &["full"]);
    fs::write(sessions.join("broken.json"), "{\"schema\":").unwrap();
    let done = place.acpx(&["--format", "json", "sessions", "list"]);
    let mut said = done.err.lines();
    assert_eq!(said.next(), Some("[acpx] took over 1 session of npm acpx"));
    assert!(
        said.next()
            .is_some_and(|line| line.starts_with("[acpx] broken.json of npm acpx was not taken over: ")),
        "{}",
        done.err
    );
    assert_eq!((ids(&done.json()), done.code), (vec![FULL], Some(0)));
    let quiet = place.acpx(&["sessions", "list"]);
    assert_eq!(quiet.err, "", "what was said is not said again");
    let strict = Place::new();
    put(&strict, &strict.acpx_home().join("sessions"), &["full"]);
    let done = strict.acpx(&["--format", "json", "--json-strict", "sessions", "list"]);
    assert_eq!((done.err.as_str(), ids(&done.json())), ("", vec![FULL]));
}

#[test]
fn migrate_does_it_by_hand_and_can_be_tried_first() {
    for with_host in [false, true] {
        let place = Place::new();
        if with_host {
            place.ok(&["demo", "sessions", "new"]);
        }
        let elsewhere = place.work().join("old");
        put(&place, &elsewhere, &["full", "turns"]);
        fs::write(elsewhere.join("broken.json"), "no JSON").unwrap();
        let before = state(&elsewhere);
        let migrate = ["--format", "json", "sessions", "migrate", "old"];
        let tried = place.acpx(&[&migrate[..], &["--dry-run"]].concat());
        let report = tried.json();
        assert_eq!((&report["action"], &report["dryRun"]), (&json!("sessions_migrated"), &json!(true)));
        assert_eq!(report["taken"].as_array().unwrap().len(), 2, "{report}");
        assert_eq!((&report["damaged"][0]["file"], tried.code), (&json!("broken.json"), Some(1)), "{report}");
        let kept = place.json(&["--agent", DEMO, "sessions", "list"]);
        assert_eq!(kept, json!([]), "a trial keeps nothing");
        if !with_host {
            assert!(!place.acpx_home().join("acpx.db").exists(), "a trial leaves nothing");
        }

        let done = place.acpx(&migrate);
        let report = done.json();
        let mut taken: Vec<&str> = report["taken"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["acpxRecordId"].as_str().unwrap())
            .collect();
        taken.sort_unstable();
        let mut expected = [FULL, TURNS];
        expected.sort_unstable();
        assert_eq!((taken.as_slice(), done.code), (&expected[..], Some(1)), "{report}");
        let again = place.acpx(&migrate).json();
        assert_eq!((&again["taken"], &again["unchanged"]), (&json!([]), &json!(2)), "{again}");
        assert_eq!(state(&elsewhere), before);
        let text = place.acpx(&["sessions", "migrate", "old"]);
        assert!(
            text.out.ends_with("0 taken over, 0 grown, 2 unchanged, 0 left alone, 1 damaged\n"),
            "{text:?}"
        );
        assert_eq!(place.processes().is_empty(), !with_host);
    }
    let place = Place::new();
    let missing = place.acpx(&["--format", "json", "sessions", "migrate", "nowhere"]);
    assert_eq!((missing.failure().0.as_str(), missing.code), ("IMPORT_DIRECTORY", Some(1)));
}
