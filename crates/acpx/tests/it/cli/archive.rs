//! `sessions export` and `sessions import`: between homes, with npm acpx itself, and with files that are no archives.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use super::import_npm::{end_npm_owners, npm_acpx_at};
use crate::acpx::{Place, text};

/// An agent that keeps its sessions: any load succeeds.
fn script() -> Script {
    let turn = Script::new()
        .update(json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "a thought" } }))
        .update(json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Edit notes.txt", "kind": "edit",
            "status": "completed", "content": [{ "type": "diff", "path": "notes.txt", "oldText": "one\n", "newText": "two\n" }] }))
        .update(json!({ "sessionUpdate": "usage_update", "used": 53, "size": 200 }))
        .say("hello <b>you</b>")
        .end("end_turn");
    Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/load", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ])
}

/// A place with a session named `api` of one turn, its agent's command line, and its archive.
fn exported() -> (Place, Vec<String>, PathBuf) {
    let place = Place::new();
    let argv = place.scripted(&script());
    place.ok(&["scripted", "sessions", "new", "--name", "api"]);
    place.ok(&["scripted", "-s", "api", "first words"]);
    place.ok(&["scripted", "sessions", "rename", "api", "api"]);
    let archive = place.work().join("api.json");
    let done = place.json(&["scripted", "sessions", "export", "api", "--output", "api.json"]);
    assert_eq!(done["output"], "api.json");
    assert_eq!(archive.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    (place, argv, archive)
}

/// Another place with the same agent.
fn other(argv: &[String]) -> Place {
    let place = Place::new();
    place.configure(&json!({ "agents": { "scripted": { "argv": argv } } }).to_string());
    place
}

fn events(place: &Place, name: &str) -> Vec<Value> {
    let mut lines = place.json_lines(&["scripted", "sessions", "replay", name]);
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("acpxRecordId");
    }
    lines
}

/// The methods that the agent received since it had this many lines.
fn methods(argv: &[String], since: usize) -> Vec<String> {
    let lines = received_lines(argv).into_iter().skip(since);
    let read = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    read.filter_map(|line| line["method"].as_str().map(str::to_owned)).collect()
}

#[test]
fn imported_archive_has_every_event_and_continues_in_its_acp_session() {
    let (first, argv, archive) = exported();
    first.ok(&["host", "stop"]);
    for with_host in [false, true] {
        let second = other(&argv);
        if with_host {
            second.ok(&["demo", "sessions", "new"]);
        }
        let here = text(second.work());
        let done = second.json(&["sessions", "import", &text(&archive), "--cwd", &here]);
        assert_eq!(
            (&done["acpxSessionId"], &done["turns"], &done["notes"]),
            (&json!("s1"), &json!(1), &json!([]))
        );
        assert_eq!(events(&second, "api"), events(&first, "api"));
        let shown = second.json(&["scripted", "sessions", "show", "api"]);
        let before = first.json(&["scripted", "sessions", "show", "api"]);
        for member in ["createdAt", "lastUsedAt", "usage", "title", "turns", "answeredTurns", "lastSeq"] {
            assert_eq!(shown[member], before[member], "{member}");
        }
        assert_eq!(shown["lineage"][0]["reason"], "imported");
        assert_ne!(shown["acpxRecordId"], before["acpxRecordId"]);
        let since = received_lines(&argv).len();
        let result = second.json(&["scripted", "-s", "api", "second words"]);
        assert_eq!((&result["acpxSessionId"], &result["status"]), (&json!("s1"), &json!("completed")));
        assert_eq!(methods(&argv, since), ["initialize", "session/load", "session/prompt"]);
        let again = second.acpx(
            &[
                &["--format", "json", "sessions", "import", &text(&archive)][..],
                &["--name", "b", "--cwd", &here],
            ]
            .concat(),
        );
        assert_eq!((again.failure().0.as_str(), again.code), ("SESSION_PROVIDER_EXISTS", Some(2)));
    }
}

#[test]
fn reformatted_archive_has_the_same_events() {
    let (first, argv, archive) = exported();
    first.ok(&["host", "stop"]);
    let whole: Value = serde_json::from_str(&fs::read_to_string(&archive).unwrap()).unwrap();
    let second = other(&argv);
    fs::write(second.work().join("x.json"), serde_json::to_string_pretty(&whole).unwrap()).unwrap();
    second.json(&["sessions", "import", "x.json", "--cwd", &text(second.work())]);
    assert_eq!(events(&second, "api"), events(&first, "api"));
    // Every line of the output is one event, so no stored body has a line break.
    let exported = second.ok(&["scripted", "sessions", "export", "api"]);
    let rows = |exported: &str| serde_json::from_str::<Value>(exported).unwrap()["acpx"]["events"].clone();
    assert_eq!(rows(&exported), whole["acpx"]["events"]);
    assert!(!exported.contains("\n    \""), "{exported}");
}

#[test]
fn archive_of_a_session_with_a_mode_and_a_title_is_imported() {
    let first = Place::new();
    first.ok(&["demo", "sessions", "new"]);
    first.ok(&["demo", "hello"]);
    first.ok(&["demo", "set-mode", "code"]);
    first.ok(&["demo", "sessions", "rename", "a title"]);
    first.ok(&["demo", "sessions", "export", "--output", "a.json"]);
    let second = Place::new();
    let (archive, here) = (text(first.work().join("a.json")), text(second.work()));
    let done = second.json(&["sessions", "import", &archive, "--cwd", &here]);
    assert_eq!(done["notes"], json!(["settings that are not restored; set them again: mode code"]));
    assert_eq!(second.json(&["demo", "sessions", "show"])["title"], json!("a title"));
}

#[test]
fn archive_of_ours_is_imported_by_npm_acpx_and_continued_there() {
    let (place, argv, archive) = exported();
    place.ok(&["host", "stop"]);
    let home = place.path_of("npm");
    fs::create_dir_all(home.join(".acpx")).unwrap();
    let config = json!({ "agents": { "scripted": { "argv": argv } } });
    fs::write(home.join(".acpx/config.json"), config.to_string()).unwrap();
    let npm = |arguments: &[&str]| {
        let done = npm_acpx_at(&place, &home, arguments);
        assert_eq!(done.code, Some(0), "{arguments:?} {done:?}");
        done.out
    };
    npm(&["scripted", "sessions", "import", &text(&archive)]);
    let read = npm(&["--format", "quiet", "scripted", "sessions", "read", "api"]);
    assert_eq!(read, "first words\na thought [tool:Edit notes.txt] hello <b>you</b>\n");
    let since = received_lines(&argv).len();
    npm(&["scripted", "-s", "api", "from npm"]);
    assert_eq!(methods(&argv, since), ["initialize", "session/load", "session/prompt"]);
    end_npm_owners(&home.join(".acpx"));
}

#[test]
fn archive_of_npm_acpx_is_imported_and_continued() {
    let place = Place::new();
    let argv = place.scripted(&script());
    let home = place.path_of("npm");
    fs::create_dir_all(home.join(".acpx")).unwrap();
    fs::copy(place.acpx_home().join("config.json"), home.join(".acpx/config.json")).unwrap();
    let archive = text(place.work().join("npm.json"));
    let lines = [
        &["scripted", "sessions", "new", "--name", "api"][..],
        &["scripted", "-s", "api", "to npm"],
        &["scripted", "sessions", "close", "api"],
        &["scripted", "sessions", "export", "api", "--output", &archive],
    ];
    for line in lines {
        let done = npm_acpx_at(&place, &home, line);
        assert_eq!(done.code, Some(0), "{line:?} {done:?}");
    }
    let done = place.json(&["sessions", "import", &archive]);
    assert_eq!(
        (&done["acpxSessionId"], &done["turns"], &done["cwd"]),
        (&json!("s1"), &json!(1), &json!(text(place.work())))
    );
    let history = place.ok(&["--format", "quiet", "scripted", "sessions", "read", "api"]);
    assert_eq!(history, "to npm\na thought\n[tool:Edit notes.txt]\nhello <b>you</b>\n");
    let since = received_lines(&argv).len();
    let result = place.json(&["scripted", "-s", "api", "and ours"]);
    assert_eq!((&result["acpxSessionId"], &result["status"]), (&json!("s1"), &json!("completed")));
    assert_eq!(methods(&argv, since), ["initialize", "session/load", "session/prompt"]);
}

fn refused(place: &Place, arguments: &[&str]) -> (String, String) {
    let done = place.acpx(&[&["--format", "json"], arguments].concat());
    assert_eq!(done.code, Some(2), "{arguments:?} {done:?}");
    let message = done.lines().pop().unwrap()["error"]["message"].as_str().unwrap().to_owned();
    (done.failure().0, message)
}

#[test]
fn archive_of_an_unknown_agent_is_refused_until_you_name_one() {
    let (_first, argv, archive) = exported();
    let path = text(&archive);
    let second = Place::new();
    let (code, message) = refused(&second, &["sessions", "import", &path]);
    assert_eq!(code, "AGENT_MISMATCH");
    assert!(message.ends_with(", which is neither configured nor built in"), "{message}");
    // The archive's command is known under another name.
    let third = other(&argv);
    assert_eq!(refused(&third, &["demo", "sessions", "import", &path]).0, "AGENT_MISMATCH");
    assert_eq!(second.json(&["sessions", "list"]), json!([]));
    let done = second.json(&["demo", "sessions", "import", &path, "--cwd", &text(second.work())]);
    let shown = second.json(&["demo", "sessions", "show", "api"]);
    assert_eq!((&shown["acpxRecordId"], &shown["agentName"]), (&done["acpxRecordId"], &json!("demo")));
}

/// A change to an archive.
type Edit = fn(&mut Value);

/// Damages of an archive, each with its error code and the words of its message.
const DAMAGES: [(Edit, &str, &str); 14] = [
    (|archive| archive["format_version"] = json!(2), "UNSUPPORTED_FORMAT_VERSION", "format_version 2"),
    (
        |archive| drop(archive.as_object_mut().unwrap().remove("history")),
        "INVALID_ARCHIVE",
        "history is missing",
    ),
    (
        |archive| archive["history"][3] = json!(7),
        "INVALID_ARCHIVE",
        "a message is an object (history[3], line 1",
    ),
    (
        |archive| drop(archive["history"].as_array_mut().unwrap().pop()),
        "INVALID_ARCHIVE",
        "the history has no line for this event",
    ),
    (
        |archive| archive["acpx"]["events"][2][4] = json!("x"),
        "INVALID_ARCHIVE",
        "the direction of an event is unknown (acpx.events[2], line 1",
    ),
    (|archive| archive["acpx"]["events"][2][2] = json!(9), "INVALID_ARCHIVE", "the lineage has no row 9"),
    (
        |archive| archive["acpx"]["turns"][0]["requestId"] = json!(""),
        "INVALID_ARCHIVE",
        "(acpx.turns[0], line 1",
    ),
    (
        |archive| archive["acpx"]["record"]["lineage"] = json!([]),
        "INVALID_ARCHIVE",
        "the lineage is empty (acpx.record, line 1",
    ),
    (
        |archive| {
            let mut again = archive["acpx"]["turns"][0].clone();
            again["turn"] = json!(2);
            archive["acpx"]["turns"].as_array_mut().unwrap().push(again);
        },
        "INVALID_ARCHIVE",
        "another turn has the same request id (acpx.turns[1], line 1",
    ),
    (
        |archive| archive["acpx"]["turns"][0]["turn"] = json!(u64::MAX),
        "INVALID_ARCHIVE",
        "the number of a turn is too large (acpx.turns[0], line 1",
    ),
    (
        |archive| archive["acpx"]["turns"] = json!([]),
        "INVALID_ARCHIVE",
        "the turn of an event is missing (acpx.events[",
    ),
    (
        |archive| archive["session"]["cwd_original"] = json!(7),
        "INVALID_ARCHIVE",
        "invalid type: integer `7`, expected a string (session.cwd_original, line 1",
    ),
    (
        |archive| archive["acpx"]["turns"][0]["turn"] = json!(-1),
        "INVALID_ARCHIVE",
        "invalid value: integer `-1`, expected u64 (acpx.turns[0], line 1",
    ),
    (
        |archive| archive["session"]["name"] = json!("a\nb"),
        "INVALID_ARCHIVE",
        "cannot keep its name: the session name \"a\\nb\" has a control character",
    ),
];

#[test]
fn damaged_archive_is_refused_with_its_place_and_nothing_is_imported() {
    let (first, argv, archive) = exported();
    first.ok(&["host", "stop"]);
    let second = other(&argv);
    let whole: Value = serde_json::from_str(&fs::read_to_string(&archive).unwrap()).unwrap();
    let damaged = |edit: Edit| {
        let mut archive = whole.clone();
        edit(&mut archive);
        fs::write(second.work().join("x.json"), archive.to_string()).unwrap();
        refused(&second, &["sessions", "import", "x.json", "--cwd", "."])
    };
    for (edit, code, words) in DAMAGES {
        let (found, message) = damaged(edit);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{words}: {message}");
    }
    let text = fs::read_to_string(&archive).unwrap();
    let cut = &text[..text.len() - 40];
    fs::write(second.work().join("x.json"), cut).unwrap();
    let (code, message) = refused(&second, &["sessions", "import", "x.json"]);
    let line = cut.lines().count();
    assert_eq!(code, "INVALID_ARCHIVE");
    assert!(
        message.contains(&format!("the file ends too early (history, line {line}, column ")),
        "{message}"
    );
    assert_eq!(refused(&second, &["sessions", "import", "missing.json"]).0, "ARCHIVE_NOT_READ");
    assert_eq!(refused(&second, &["sessions", "import", "."]).0, "ARCHIVE_NOT_READ");
    assert_eq!(second.json(&["sessions", "list"]), json!([]));
    let path = crate::acpx::text(&archive);
    second.ok(&["scripted", "sessions", "import", &path, "--name", "b", "--cwd", "/"]);
    let shown = second.json(&["scripted", "sessions", "show", "b", "--cwd", "/"]);
    assert_eq!(shown["cwd"], "/");
}

#[test]
fn import_into_a_scope_that_an_open_session_has_is_refused() {
    let (_first, argv, archive) = exported();
    let second = other(&argv);
    second.ok(&["scripted", "sessions", "new", "--name", "api"]);
    let path = text(&archive);
    let cwd = text(second.work());
    let (code, message) = refused(&second, &["sessions", "import", &path, "--cwd", &cwd]);
    // The new session of the scripted agent has the same ACP session too, and that is noticed first.
    assert_eq!((code.as_str(), message.contains("s1")), ("SESSION_PROVIDER_EXISTS", true));
    second.ok(&["demo", "sessions", "new", "--name", "api"]);
    let third = Place::new();
    third.ok(&["demo", "sessions", "new", "--name", "api"]);
    let cwd = text(third.work());
    assert_eq!(
        refused(&third, &["demo", "sessions", "import", &path, "--cwd", &cwd]).0,
        "SESSION_SCOPE_EXISTS"
    );
    third.ok(&["demo", "sessions", "import", &path, "--cwd", &cwd, "--name", "api2"]);
}

#[test]
fn hostile_archive_sets_no_directories_servers_or_prompts() {
    let (first, argv, archive) = exported();
    first.ok(&["host", "stop"]);
    let mut hostile: Value = serde_json::from_str(&fs::read_to_string(&archive).unwrap()).unwrap();
    hostile["acpx"]["record"]["additionalDirectories"] = json!(["/"]);
    hostile["acpx"]["record"]["mcpServers"] = json!(["files"]);
    hostile["acpx"]["record"]["settings"] = json!({ "wished": [{ "value": "yolo" }] });
    let turn = hostile["acpx"]["turns"][0].as_object_mut().unwrap();
    turn.remove("endedAt");
    turn.remove("stopReason");
    hostile["session"]["cwd_relative"] = json!("../..");
    let second = other(&argv);
    fs::write(second.work().join("x.json"), hostile.to_string()).unwrap();
    let (code, message) = refused(&second, &["sessions", "import", "x.json"]);
    assert_eq!(code, "INVALID_ARCHIVE");
    assert!(message.ends_with("names the directory \"../..\", which is not below your home"), "{message}");
    let done = second.json(&["sessions", "import", "x.json", "--cwd", &text(second.work())]);
    let notes = json!([
        "its additional directories are not restored; give them again with --add-dir",
        "its MCP servers are not restored; give them again with --mcp-config",
        "settings that are not restored; set them again: mode yolo",
    ]);
    assert_eq!(done["notes"], notes);
    let shown = second.json(&["scripted", "sessions", "show", "api"]);
    assert_eq!((shown.get("additionalDirectories"), shown["mcpServers"].clone()), (None, json!(["files"])));
    let since = received_lines(&argv).len();
    second.ok(&["scripted", "-s", "api", "words"]);
    let sent: Vec<String> = received_lines(&argv)
        .into_iter()
        .skip(since)
        .filter(|line| line.contains("session/prompt"))
        .collect();
    assert!(sent.len() == 1 && sent[0].contains("words"), "{sent:?}");
}

#[test]
fn export_replaces_only_a_regular_file() {
    let (place, _, archive) = exported();
    fs::create_dir(place.work().join("dir")).unwrap();
    std::os::unix::fs::symlink("api.json", place.work().join("link")).unwrap();
    let export = |output: &str| {
        place.acpx(&["--format", "json", "scripted", "sessions", "export", "api", "--output", output])
    };
    for (output, reason) in
        [("dir", "it is a directory"), ("link", "not a regular file"), ("none/x", "No such file")]
    {
        let done = export(output);
        let message = done.lines().pop().unwrap()["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!((done.failure().0.as_str(), done.code), ("EXPORT_NOT_WRITTEN", Some(1)), "{done:?}");
        assert!(message.contains(reason), "{message}");
    }
    fs::write(&archive, "old").unwrap();
    assert_eq!(export("api.json").code, Some(0));
    assert!(fs::read_to_string(&archive).unwrap().starts_with("{\"format_version\":1,"));
    let left = fs::read_dir(place.work()).unwrap().map(|entry| text(entry.unwrap().file_name()));
    assert!(!left.into_iter().any(|name| name.starts_with(".acpx-export-")));
}

#[test]
fn documents_for_people_need_a_file_if_stdout_is_json() {
    let (place, ..) = exported();
    let export = |rest: &[&str]| {
        place.acpx(&[&["--format", "json", "scripted", "sessions", "export", "api"][..], rest].concat())
    };
    for form in ["markdown", "html"] {
        let done = export(&["--as", form]);
        let hint = "add --as json, or write it to a file with --output FILE";
        assert_eq!(done.failure(), ("USAGE".to_owned(), hint.to_owned(), Some(2)), "{done:?}");
        let message = format!("with --format json stdout has only JSON, and --as {form} is not JSON");
        assert_eq!(done.json()["error"]["message"], json!(message));
        assert_eq!(export(&["--as", form, "--output", "page"]).json()["action"], "session_exported");
    }
    assert_eq!(export(&["--as", "json"]).json()["action"], "session_export");
}

#[test]
fn documents_of_a_session_fold_tool_calls_and_escape_the_agent() {
    let (place, ..) = exported();
    place.ok(&["host", "stop"]);
    let export = |format: &str| place.ok(&["scripted", "sessions", "export", "api", "--as", format]);
    let markdown = export("markdown");
    for part in [
        "\n## Turn 1 · ",
        "\n> first words\n",
        "<summary>Edit notes.txt (edit, completed)</summary>",
        "```diff\n--- notes.txt",
        "hello &lt;b>you&lt;/b>",
        "> a thought",
    ] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    let html = export("html");
    for part in [
        "default-src 'none'",
        "<span class=\"add\">+two</span>",
        "hello &lt;b&gt;you&lt;/b&gt;",
        "53 of 200 tokens",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("<script") && !html.contains("<b>you"), "{html}");
    let json: Value = serde_json::from_str(&export("json")).unwrap();
    crate::contract::check(&json);
    let types: Vec<&str> = json["turns"][0]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["prompt", "thought", "tool", "message"]);
    // Its agent gave it no title, so it has that of the list.
    let listed = place.json(&["sessions", "list"]);
    assert_eq!((&json["title"], &listed[0]["title"]), (&json!("first words"), &json!("first words")));
    assert!(markdown.starts_with("# first words\n"), "{markdown}");
    assert_eq!(place.processes(), [0; 0]);
    assert_eq!(Path::new(&place.work()).read_dir().unwrap().count(), 1, "nothing but the archive is written");
}

#[test]
fn archive_with_a_gap_in_its_turn_numbers_is_exported() {
    let (first, argv, archive) = exported();
    first.ok(&["host", "stop"]);
    let mut whole: Value = serde_json::from_str(&fs::read_to_string(&archive).unwrap()).unwrap();
    let turns = whole["acpx"]["turns"].as_array_mut().unwrap();
    let mut last = turns[0].clone();
    (last["turn"], last["requestId"]) = (json!(1_u64 << 53), json!("last"));
    turns.push(last);
    let turns = whole["acpx"]["turns"].clone();
    let second = other(&argv);
    fs::write(second.work().join("x.json"), whole.to_string()).unwrap();
    second.ok(&["sessions", "import", "x.json", "--cwd", ".", "--name", "gap"]);
    let again: Value = serde_json::from_str(&second.ok(&["scripted", "sessions", "export", "gap"])).unwrap();
    assert_eq!(again["acpx"]["turns"], turns);
}
