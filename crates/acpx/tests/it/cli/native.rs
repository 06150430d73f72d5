//! Sessions that an agent keeps in its own transcripts: read without the agent, adopted by a prompt, and the causes of a
//! failed restore that the transcript shows.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};
use crate::editor::Editor;

const ID: &str = "3c16f5a6-36f3-41bd-ba11-3b4193de45f1";

/// A line of a transcript of Claude Code.
fn line(place: &Place, kind: &str, uuid: &str, content: &Value) -> Value {
    let message = if kind == "system" { Value::Null } else { json!({ "role": kind, "content": content }) };
    json!({ "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-11-17T09:29:32.857Z",
        "cwd": place.work(), "sessionId": ID, "isSidechain": false, "version": "2.1.312" })
}

/// The lines of a conversation with a compaction between its two prompts.
fn conversation(place: &Place) -> Vec<Value> {
    let said = |text: &str| json!([{ "type": "text", "text": text }]);
    let mut boundary = line(place, "system", "b", &Value::Null);
    boundary["subtype"] = json!("compact_boundary");
    boundary["content"] = json!("Conversation compacted");
    vec![
        line(place, "user", "u1", &said("before the compaction")),
        line(place, "assistant", "a1", &said("an early answer")),
        boundary,
        line(place, "user", "u2", &said("after the compaction")),
        line(place, "assistant", "a2", &said("a late answer")),
    ]
}

/// The directory of Claude's transcripts in this place.
fn claude_directory(place: &Place) -> PathBuf {
    place.path_of("claude-files")
}

fn transcript(place: &Place) -> PathBuf {
    claude_directory(place).join("projects/-any-name").join(format!("{ID}.jsonl"))
}

/// Writes the transcript of a conversation.
fn write_transcript(place: &Place, lines: &[Value]) {
    let path = transcript(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Configures `claude` as an agent that plays a script and keeps its transcripts in this place; its command line.
fn claude(place: &Place, script: &Script) -> Vec<String> {
    let argv = acpx_testkit::scripted_agent_command(script, &place.home);
    let env = json!({ "CLAUDE_CONFIG_DIR": claude_directory(place) });
    place.configure(&json!({ "agents": { "claude": { "argv": argv, "env": env } } }).to_string());
    argv
}

/// An agent that loads any session and replays only what follows the compaction.
fn loading() -> Script {
    let replay = Script::new().user_said("after the compaction").say("a late answer").reply(json!({}));
    Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/load", replay),
        ("session/prompt", Script::new().say("hello again").end("end_turn")),
    ])
}

/// An agent that refuses to restore a session with this error.
fn refusing(error: &Value) -> Script {
    Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "fresh" }))),
        ("session/load", Script::new().reply_error(error.clone())),
        ("session/prompt", Script::new().say("who are you?").end("end_turn")),
    ])
}

fn lost() -> Value {
    json!({ "code": -32002, "message": "Resource not found" })
}

fn broken() -> Value {
    json!({ "code": -32603, "message": "Internal error" })
}

#[test]
fn native_session_is_read_without_its_agent_and_nothing_changes() {
    let place = Place::new();
    claude(&place, &Script::new());
    write_transcript(&place, &conversation(&place));
    let before = fs::read(transcript(&place)).unwrap();
    for reference in [ID, &ID[..8]] {
        let shown = place.json(&["claude", "sessions", "show", reference]);
        assert_eq!(
            (&shown["acpxRecordId"], &shown["cwd"], &shown["title"], &shown["resumeCommand"]),
            (
                &json!(ID),
                &json!(place.work()),
                &json!("before the compaction"),
                &json!(["claude", "--resume", ID])
            )
        );
    }
    let shown = place.json(&["claude", "sessions", "show", ID]);
    assert_eq!((&shown["turns"], &shown["lineage"][0]["reason"]), (&json!(2), &json!("native")));
    let exported = place.ok(&["claude", "sessions", "export", ID, "--as", "markdown"]);
    let headings: Vec<&str> = exported.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings, ["## Prompt · 2026-11-17 09:29:32 UTC"; 2], "{exported}");
    let history = place.ok(&["sessions", "history", ID]);
    let entries: Vec<&str> = history.lines().skip(1).map(|line| line.split_once('\t').unwrap().1).collect();
    let expected = [
        "user\tbefore the compaction",
        "assistant\tan early answer",
        "user\tafter the compaction",
        "assistant\ta late answer",
    ];
    assert_eq!(entries, expected);
    let replay = place.ok(&["claude", "sessions", "replay", ID, "--from", "seq:4"]);
    assert!(replay.contains("after the compaction") && !replay.contains("an early answer"), "{replay}");
    let exported: Value =
        serde_json::from_str(&place.ok(&["claude", "sessions", "export", ID, "--as", "json"])).unwrap();
    assert_eq!(exported["acpxRecordId"], ID);
    assert_eq!(fs::read(transcript(&place)).unwrap(), before);
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
    let left: Vec<_> =
        fs::read_dir(place.acpx_home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["config.json"]);
    let missing = place.acpx(&["--format", "json", "claude", "sessions", "show", "no-such-session"]);
    assert_eq!(missing.failure().0, "NO_SESSION");
}

#[test]
fn native_session_is_read_where_nothing_can_be_written() {
    let place = Place::new();
    let directory = place.user_home().join(".claude/projects/-any-name");
    fs::create_dir_all(&directory).unwrap();
    let lines: Vec<String> = conversation(&place).iter().map(ToString::to_string).collect();
    fs::write(directory.join(format!("{ID}.jsonl")), lines.join("\n")).unwrap();
    let shown = |arguments: &[&str]| {
        let mut command = place.command(&[&["claude", "sessions"], arguments].concat());
        command.env("ACPX_HOME", place.path_of("no-home")).env("TMPDIR", place.path_of("no-directory"));
        Done::of(&mut command)
    };
    let words = |arguments: &[&str]| {
        let done = shown(arguments);
        let words = ["before the compaction", "early answer", "after the compaction", "late answer"];
        let found: Vec<bool> = words.iter().map(|words| done.out.contains(words)).collect();
        assert_eq!(done.code, Some(0), "{done:?}");
        found
    };
    assert!(shown(&["show", ID]).out.contains(&format!("cwd: {}", place.work().display())));
    assert_eq!(words(&["replay", ID]), [true; 4]);
    assert_eq!(words(&["replay", ID, "--last", "1"]), [false, false, true, true]);
    assert_eq!(words(&["replay", ID, "--from", "message:a1"]), [false, true, true, true]);
    assert_eq!(words(&["history", ID, "--limit", "1"])[2..], [false, true]);
    assert_eq!(words(&["read", ID]), [true; 4]);
    for form in ["archive", "json", "markdown", "html"] {
        assert_eq!(words(&["export", ID, "--as", form]), [true; 4], "{form}");
    }
    let refused = shown(&["replay", ID, "--from", "seq:99"]).err;
    assert!(refused.contains("the conversation has no event 99; its last one is 5"), "{refused}");
    assert!(!place.path_of("no-home").exists());
}

#[test]
fn native_session_that_cannot_be_read_is_no_missing_one() {
    let place = Place::new();
    claude(&place, &Script::new());
    write_transcript(&place, &conversation(&place));
    place.ok(&["index", "update"]);
    // The index knows it from a process with another environment.
    place.configure("{}");
    let path = transcript(&place).canonicalize().unwrap();
    let refused = place.acpx(&["claude", "sessions", "show", &ID[..8]]).err;
    let expected = format!(
        "cannot read the transcript {} of the session {ID}: transcripts of claude are",
        path.display()
    );
    assert!(refused.contains(&expected), "{refused}");
    let missing = place.acpx(&["--format", "json", "claude", "sessions", "show", "11111111"]);
    assert_eq!(missing.failure().0, "NO_SESSION");
    claude(&place, &Script::new());
    // A pipe cannot be read by anybody.
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    for command in [&["sessions", "show", ID][..], &["-s", ID, "go on"]] {
        let refused = place.acpx(&[&["--format", "json", "claude"], command].concat());
        assert_eq!(refused.failure().0, "TRANSCRIPT_NOT_READ", "{refused:?}");
        let message = &refused.lines().pop().unwrap()["error"]["message"];
        assert!(message.as_str().unwrap().contains("it is not a regular file"), "{message}");
    }
}

#[test]
fn commands_that_need_a_record_name_the_agent_of_a_native_session() {
    let place = Place::new();
    claude(&place, &Script::new());
    write_transcript(&place, &conversation(&place));
    let short = &ID[..8];
    let hint = format!("only claude has that session so far; continue it in acpx: acpx claude -s {short} …");
    for command in
        [&["sessions", "delete", short][..], &["sessions", "close", short], &["demo", "-s", short, "hi"]]
    {
        let refused = place.acpx(&[&["--format", "json"], command].concat()).failure();
        assert_eq!((refused.0.as_str(), refused.1.as_str()), ("NO_SESSION", &*hint), "{command:?}");
    }
    let status = place.acpx(&["claude", "status", "-s", short]);
    assert!(status.err.contains(&hint), "{status:?}");
}

#[test]
fn prompt_adopts_a_native_session_and_keeps_its_whole_history() {
    let place = Place::new();
    let argv = claude(&place, &loading());
    write_transcript(&place, &conversation(&place));
    let done = place.json(&["claude", "-s", ID, "go on"]);
    assert_eq!(
        (&done["acpxRecordId"], &done["acpxSessionId"], &done["status"]),
        (&json!(ID), &json!(ID), &json!("completed"))
    );
    let sent: Vec<Value> =
        received_lines(&argv).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let methods: Vec<&str> = sent.iter().filter_map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, ["initialize", "session/load", "session/prompt"]);
    assert_eq!(
        (&sent[1]["params"]["sessionId"], &sent[1]["params"]["cwd"]),
        (&json!(ID), &json!(place.work()))
    );
    assert_eq!(sent[2]["params"]["prompt"], json!([{ "type": "text", "text": "go on" }]));
    let history = place.ok(&["claude", "sessions", "history", ID]);
    for words in ["before the compaction", "an early answer", "after the compaction", "go on", "hello again"]
    {
        assert_eq!(history.matches(words).count(), 1, "{words}: {history}");
    }
    // It is a session like any other from now on.
    assert_eq!(place.json(&["claude", "-s", &ID[..8], "and on"])["acpxRecordId"], ID);
    let shown = place.json(&["claude", "sessions", "show", ID]);
    assert_eq!((&shown["lineage"][0]["reason"], &shown["turns"]), (&json!("adopted"), &json!(2)));
    let row = place.json(&["claude", "sessions", "list", "--all"])[0].take();
    assert_eq!((&row["acpxRecordId"], &row["turns"]), (&json!(ID), &json!(4)), "{row}");
}

#[test]
fn lost_native_session_continues_in_a_fresh_one_with_its_history() {
    let place = Place::new();
    let argv = claude(&place, &refusing(&lost()));
    write_transcript(&place, &conversation(&place));
    let done = place.acpx(&["claude", "-s", ID, "go on"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("this is a fresh one, which"), "{}", done.err);
    let prompt = received_lines(&argv).into_iter().find(|line| line.contains("session/prompt")).unwrap();
    for words in ["before the compaction", "an early answer", "a late answer", "go on"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
}

#[test]
fn deleted_session_does_not_come_back_through_its_transcript() {
    let place = Place::new();
    claude(&place, &loading());
    write_transcript(&place, &conversation(&place));
    place.ok(&["claude", "-s", ID, "go on"]);
    place.ok(&["claude", "sessions", "delete", ID]);
    assert!(transcript(&place).exists(), "the agent keeps its file");
    for command in [&["sessions", "history", ID][..], &["-s", ID, "once more"]] {
        let gone = place.acpx(&[&["--format", "json", "claude"], command].concat());
        assert_eq!(gone.failure().0, "NO_SESSION", "{gone:?}");
    }
}

#[test]
fn resume_session_keeps_the_history_from_before_a_compaction() {
    let place = Place::new();
    claude(&place, &loading());
    write_transcript(&place, &conversation(&place));
    let made = place.json(&["claude", "sessions", "new", "--name", "api", "--resume-session", ID]);
    assert_eq!((&made["acpxRecordId"], &made["name"]), (&json!(ID), &json!("api")));
    place.ok(&["claude", "-s", "api", "go on"]);
    let history = place.ok(&["claude", "sessions", "history", "api"]);
    assert!(history.contains("\tuser\tbefore the compaction\n"), "{history}");
}

/// The hint of a prompt to a session of the agent that refuses to load it, after the transcript was changed.
fn cause(change: impl FnOnce(&Place)) -> (String, Place) {
    let place = Place::new();
    claude(&place, &refusing(&broken()));
    write_transcript(&place, &conversation(&place));
    // The session is adopted, and its agent refuses it.
    place.acpx(&["claude", "-s", ID, "one"]);
    change(&place);
    let refused = place.acpx(&["--format", "json", "claude", "-s", ID, "two"]);
    let error = refused.lines().pop().unwrap()["error"].clone();
    assert_eq!(error["data"]["detailCode"], "SESSION_NOT_RESTORED", "{refused:?}");
    (text(error["data"]["hint"].as_str().unwrap()), place)
}

#[test]
fn deleted_transcript_is_the_cause_of_a_failed_restore() {
    let (hint, place) = cause(|place| fs::remove_file(transcript(place)).unwrap());
    let projects = claude_directory(&place).join("projects");
    let expected = format!("its transcript was deleted: none is in {}", projects.display());
    assert!(hint.starts_with(&expected) || hint.contains(&expected), "{hint}");
    let status = place.json(&["claude", "status", "-s", ID]);
    assert_eq!(status["transcriptProblem"], expected);
    let shown = place.ok(&["claude", "sessions", "show", ID]);
    assert!(shown.contains(&format!("\ntranscriptProblem: {expected}\n")), "{shown}");
    let doctor = place.acpx(&["claude", "doctor", "-s", ID]);
    assert!(doctor.out.contains(&expected), "{doctor:?}");
}

#[test]
fn deleted_transcript_is_the_cause_of_a_refused_prompt() {
    let place = Place::new();
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/load", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().reply_error(broken())),
    ]);
    claude(&place, &script);
    write_transcript(&place, &conversation(&place));
    let hint = |place: &Place| {
        let refused = place.acpx(&["--format", "json", "claude", "-s", ID, "one"]);
        let error = refused.lines().pop().unwrap()["error"].clone();
        assert_eq!(error["data"]["detailCode"], "AGENT_REFUSED", "{refused:?}");
        error["data"]["hint"].clone()
    };
    assert!(!hint(&place).to_string().contains("transcript"));
    fs::remove_file(transcript(&place)).unwrap();
    let projects = claude_directory(&place).join("projects");
    let expected = format!(
        "its transcript was deleted: none is in {}; to continue in a fresh session, run: acpx sessions reset {ID}",
        projects.display()
    );
    assert_eq!(hint(&place), expected);
}

#[test]
fn transcript_of_another_directory_is_the_cause_of_a_failed_restore() {
    let (hint, place) = cause(|place| {
        let mut lines = conversation(place);
        lines[4]["cwd"] = json!("/somewhere");
        write_transcript(place, &lines);
    });
    let expected =
        format!("its transcript {} belongs to the directory /somewhere", transcript(&place).display());
    assert!(hint.contains(&expected), "{hint}");
}

#[test]
fn empty_or_torn_transcript_is_the_cause_of_a_failed_restore() {
    let (hint, place) = cause(|place| fs::write(transcript(place), "").unwrap());
    assert!(hint.contains(&format!("its transcript {} is empty", transcript(&place).display())), "{hint}");
    let (hint, place) = cause(|place| {
        let mut text = fs::read_to_string(transcript(place)).unwrap();
        text.truncate(text.len() - 20);
        fs::write(transcript(place), text).unwrap();
    });
    let expected = format!("its transcript {} ends in the middle of a line", transcript(&place).display());
    assert!(hint.contains(&expected), "{hint}");
}

#[test]
fn unreadable_transcript_is_the_cause_of_a_failed_restore() {
    let (hint, place) = cause(|place| {
        fs::set_permissions(transcript(place), fs::Permissions::from_mode(0o000)).unwrap();
    });
    let path = transcript(&place).canonicalize().unwrap();
    let expected = format!("its transcript {} cannot be read: you may not read it", path.display());
    assert!(hint.contains(&expected), "{hint}");
}

#[cfg(target_os = "linux")]
#[test]
fn transcript_that_another_process_holds_is_the_cause_of_a_failed_restore() {
    // Not this process: a child that another test forks has its files open too, until it executes its program.
    let mut holder = None;
    let (hint, place) = cause(|place| {
        let script = ["-c", r#"exec 3<"$0"; echo; read -r _"#];
        let mut command = Command::new("/bin/sh");
        command.args(script).arg(transcript(place)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        holder = Some(child);
    });
    let mut holder = holder.unwrap();
    let (pid, path) = (holder.id(), transcript(&place));
    assert!(hint.contains(&format!("process {pid} has its transcript {} open", path.display())), "{hint}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

#[test]
fn session_without_a_prompt_has_no_transcript_yet() {
    let place = Place::new();
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "new" }))),
        ("session/load", Script::new().reply_error(broken())),
    ]);
    claude(&place, &script);
    place.ok(&["claude", "sessions", "new", "--name", "x"]);
    place.ok(&["host", "stop"]);
    let refused = place.acpx(&["--format", "json", "claude", "--no-fallback", "-s", "x", "two"]);
    let hint = refused.lines().pop().unwrap()["error"]["data"]["hint"].clone();
    let expected = "the agent has no transcript yet: it writes one with the first prompt";
    assert!(hint.as_str().unwrap_or_default().contains(expected), "{refused:?}");
}

#[test]
fn doctor_reports_transcripts_and_those_that_cannot_be_read() {
    let place = Place::new();
    claude(&place, &Script::new());
    write_transcript(&place, &conversation(&place));
    let directory = claude_directory(&place).join("projects");
    fs::write(place.path_of("outside.jsonl"), "{}").unwrap();
    std::os::unix::fs::symlink(place.path_of("outside.jsonl"), directory.join("-any-name/out.jsonl"))
        .unwrap();
    let done = place.acpx(&["--format", "json", "doctor"]);
    let findings = done.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_about = |finding: &Value| {
        finding["check"] == "transcripts" && finding["detail"].as_str().unwrap().contains("claude")
    };
    let about: Vec<(Value, Value)> = findings
        .filter(is_about)
        .map(|finding| (finding["level"].clone(), finding["detail"].clone()))
        .collect();
    let out = directory.canonicalize().unwrap().join("-any-name/out.jsonl");
    let expected = [
        (json!("ok"), json!(format!("claude: 1 in {}", directory.display()))),
        (
            json!("warn"),
            json!(format!("claude: {}: it is a link that leads out of the agent's directory", out.display())),
        ),
    ];
    assert_eq!(about, expected);
    // What the index could not read is counted.
    let mut file = fs::File::options().append(true).open(transcript(&place)).unwrap();
    std::io::Write::write_all(&mut file, b"no JSON\n{\"type\"").unwrap();
    place.ok(&["index", "update"]);
    let done = place.ok(&["doctor"]);
    let line = "claude: 2 lines are damaged, too long, incomplete or of an unknown kind";
    assert!(done.contains(line), "{done}");
}

#[test]
fn editor_lists_and_loads_a_native_session_with_its_whole_history() {
    let place = Place::new();
    claude(&place, &loading());
    write_transcript(&place, &conversation(&place));
    place.ok(&["index", "rebuild"]);
    let mut editor = Editor::silent(&place, &["claude", "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }));
    let listed = |editor: &mut Editor| {
        let answer = editor.call("session/list", json!({ "cwd": place.work() }));
        let rows = answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        rows.into_iter().map(|row| (row["sessionId"].clone(), row["title"].clone())).collect::<Vec<_>>()
    };
    let expected = [(json!(ID), json!("before the compaction"))];
    assert_eq!(listed(&mut editor), expected);
    let (words, loaded) = editor.load(&place, ID);
    let whole = [
        "user: before the compaction",
        "agent: an early answer",
        "user: after the compaction",
        "agent: a late answer",
    ];
    assert_eq!(words, whole, "{loaded}");
    // It is a record now, and listed once.
    assert_eq!(listed(&mut editor), expected);
    let (words, _) = editor.prompt(ID, "go on");
    assert_eq!(words, ["agent: hello again"]);
    let shown = place.json(&["claude", "sessions", "show", ID]);
    assert_eq!((&shown["acpxRecordId"], &shown["acpxSessionId"]), (&json!(ID), &json!(ID)));
    editor.leave();
}

/// A listed session of the agent.
fn listed(place: &Place, session: &str, title: &str) -> Value {
    json!({ "sessionId": session, "cwd": place.work(), "title": title })
}

/// The ids and titles that `session/list` gives an editor in this place.
fn sessions_of_editor(place: &Place) -> Vec<(Value, Value)> {
    let mut editor = Editor::silent(place, &["claude", "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }));
    let answer = editor.call("session/list", json!({ "cwd": place.work() }));
    editor.leave();
    let rows = answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    let mut rows: Vec<_> = rows.iter().map(|row| (row["sessionId"].clone(), row["title"].clone())).collect();
    rows.sort_by_key(|row| row.0.to_string());
    rows
}

#[test]
fn session_list_of_an_editor_has_each_conversation_once() {
    let capabilities = json!({ "loadSession": true, "sessionCapabilities": { "list": {} } });
    let agent_with =
        |list: Script| Script::new().initialize(capabilities.clone()).serve([("session/list", list)]);
    let place = Place::new();
    write_transcript(&place, &conversation(&place));
    let page =
        json!({ "sessions": [listed(&place, ID, "its own title"), listed(&place, "other", "another")] });
    claude(&place, &agent_with(Script::new().reply(page)));
    place.ok(&["index", "rebuild"]);
    assert_eq!(
        sessions_of_editor(&place),
        [(json!(ID), json!("its own title")), (json!("other"), json!("another"))]
    );
    place.ok(&["host", "stop"]);
    // What the agent does not list is in its transcripts.
    for list in [Script::new().reply(json!({ "sessions": [] })), Script::new().reply_error(broken())] {
        claude(&place, &agent_with(list));
        assert_eq!(sessions_of_editor(&place), [(json!(ID), json!("before the compaction"))]);
        place.ok(&["host", "stop"]);
    }
}

#[test]
fn id_that_the_agent_gave_a_session_selects_its_record() {
    let place = Place::new();
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": ID }))),
        ("session/prompt", Script::new().say("hello").end("end_turn")),
    ]);
    claude(&place, &script);
    let made = place.json(&["claude", "sessions", "new"])["acpxRecordId"].clone();
    place.ok(&["claude", "hi"]);
    write_transcript(&place, &conversation(&place));
    for typed in [&["claude"][..], &[]] {
        let shown = place.json(&[typed, &["sessions", "show", ID]].concat());
        assert_eq!((&shown["acpxRecordId"], &shown["acpxSessionId"]), (&made, &json!(ID)), "{typed:?}");
    }
    assert_eq!(place.json(&["claude", "-s", ID, "again"])["acpxRecordId"], made);
    let rows = place.json(&["sessions", "list", "--all"]);
    let ids: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["acpxRecordId"]).collect();
    assert_eq!(ids, [&made]);
}

#[test]
fn editor_loads_a_native_session_from_the_message_of_a_search_hit() {
    let place = Place::new();
    claude(&place, &loading());
    write_transcript(&place, &conversation(&place));
    let hits = place.json(&["search", "late"]);
    assert_eq!(hits["hits"][0]["event"], "seq:5");
    let mut editor = Editor::silent(&place, &["claude", "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }));
    let from = json!({ "acpx": { "replayFrom": { "type": "_acpx/seq", "seq": 5 } } });
    let params = json!({ "sessionId": ID, "cwd": place.work(), "mcpServers": [], "_meta": from });
    let request = editor.ask("session/load", params);
    let (heard, answer) = editor.hear_answer(&request);
    assert_eq!(crate::editor::words(&heard), ["agent: a late answer"], "{answer}");
    editor.leave();
}

#[test]
fn deleted_session_leaves_the_index_with_its_transcript_at_once() {
    let is_in_index = |place: &Place| {
        ["index.db", "index.db-wal"].iter().any(|file| {
            let bytes = fs::read(place.acpx_home().join(file)).unwrap_or_default();
            bytes.windows(10).any(|text| text == b"compaction")
        })
    };
    for by_editor in [true, false] {
        let place = Place::new();
        claude(&place, &loading());
        write_transcript(&place, &conversation(&place));
        place.ok(&["claude", "-s", ID, "go on"]);
        place.ok(&["index", "update"]);
        assert!(is_in_index(&place));
        if by_editor {
            let mut editor = Editor::silent(&place, &["claude", "acp"]);
            editor.call("initialize", json!({ "protocolVersion": 1 }));
            editor.call("session/delete", json!({ "sessionId": ID }));
            editor.leave();
        } else {
            place.ok(&["claude", "sessions", "delete", ID]);
        }
        assert!(!is_in_index(&place), "by an editor: {by_editor}");
        // The agent keeps its file, which is not read again.
        place.ok(&["index", "update"]);
        place.ok(&["index", "rebuild"]);
        assert!(transcript(&place).exists() && !is_in_index(&place), "by an editor: {by_editor}");
    }
}

#[test]
fn secrets_that_the_configuration_gives_an_agent_are_masked_in_its_transcripts() {
    let place = Place::new();
    write_transcript(
        &place,
        &[line(&place, "user", "u1", &json!([{ "type": "text", "text": "use hunter2-hunter2 here" }]))],
    );
    let env = json!({ "CLAUDE_CONFIG_DIR": claude_directory(&place), "SHOP_API_KEY": "hunter2-hunter2" });
    place.configure(&json!({ "agents": { "claude": { "argv": ["unused"], "env": env } } }).to_string());
    for command in [
        &["search", "here"][..],
        &["sessions", "history", ID],
        &["sessions", "list", "--all"],
        &["claude", "sessions", "replay", ID],
    ] {
        let out = place.ok(command);
        assert!(out.contains("use [secret] here"), "{command:?}: {out}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn interactive_client_opens_a_native_session_at_a_message() {
    let place = Place::new();
    claude(&place, &loading());
    write_transcript(&place, &conversation(&place));
    let attach = place.command(&["claude", "attach", ID, "--from", "seq:4"]);
    let mut terminal = crate::terminal::OnTerminal::sized(&attach, 80, 24);
    let has = |rows: &[String], text: &str| rows.iter().any(|row| row.contains(text));
    let rows = terminal.wait_until("the answer", |rows| has(rows, "a late answer") && has(rows, "? keys"));
    assert!(has(&rows, "begins at seq:4") && !has(&rows, "an early answer"), "{rows:#?}");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(0));
}
