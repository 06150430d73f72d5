//! Conversations on this machine: the search over records and native transcripts, the list of both, and the index.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::acpx::{Done, Place, eventually};

const FIRST: &str = "3f2a9c1e-1111-4222-8333-444455556666";
const SECOND: &str = "7b1d0c55-1111-4222-8333-444455556666";

/// Writes a transcript as Claude Code does: a prompt, an answer and a tool call for each pair of texts.
fn transcript(place: &Place, session: &str, cwd: &Path, exchanges: &[(&str, &str)]) -> PathBuf {
    let directory = place.user_home().join(".claude/projects/-work");
    fs::create_dir_all(&directory).unwrap();
    let mut lines = String::new();
    for (number, (prompt, answer)) in exchanges.iter().enumerate() {
        let at = |second: usize| format!("2026-11-17T09:{number:02}:{second:02}.000Z");
        let common = json!({ "cwd": cwd, "sessionId": session, "isSidechain": false });
        let mut add = |second: usize, kind: &str, message: Value| {
            let mut line = common.clone();
            line["type"] = kind.into();
            line["uuid"] = format!("u{number}-{second}").into();
            line["timestamp"] = at(second).into();
            line["message"] = message;
            lines.push_str(&line.to_string());
            lines.push('\n');
        };
        add(1, "user", json!({ "role": "user", "content": [{ "type": "text", "text": prompt }] }));
        let usage = json!({ "input_tokens": 10, "output_tokens": 5 });
        let text = json!([{ "type": "text", "text": answer }]);
        let id = format!("msg_{number}");
        add(2, "assistant", json!({ "id": id, "role": "assistant", "content": text, "usage": usage }));
    }
    let file = directory.join(format!("{session}.jsonl"));
    fs::write(&file, lines).unwrap();
    file
}

/// A place with one record and two transcripts, one of them of another directory.
fn place() -> Place {
    let place = Place::new();
    let other = place.work().join("other");
    fs::create_dir(&other).unwrap();
    transcript(
        &place,
        FIRST,
        &place.work(),
        &[("mend the roof before winter", "The roof leaks at the chimney."), ("and the gutter?", "Fixed.")],
    );
    transcript(&place, SECOND, &other, &[("explain the parser", "It reads tokens.")]);
    place.ok(&["demo", "sessions", "new", "--name", "api"]);
    place.ok(&["demo", "-s", "api", "paint the roof blue"]);
    place
}

fn hits(place: &Place, words: &[&str]) -> Vec<Value> {
    let found = place.json(&[&["search"], words].concat());
    found["hits"].as_array().unwrap().clone()
}

/// What identifies a hit: the session, the place and the excerpt.
fn short(hits: &[Value]) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let session = |hit: &Value| hit.get("nativeSessionId").map_or("record".to_owned(), text);
    hits.iter().map(|hit| (session(hit), text(&hit["event"]), text(&hit["excerpt"]))).collect()
}

#[test]
fn search_finds_messages_of_records_and_transcripts() {
    let place = place();
    let found = hits(&place, &["roof", "--role", "user"]);
    let record = place.json(&["demo", "sessions", "show", "api"]);
    let id = record["acpxRecordId"].as_str().unwrap();
    let ours = found.iter().find(|hit| hit["origin"] == "record").unwrap();
    let event = ours["event"].as_str().unwrap();
    let expected = json!({
        "origin": "record", "acpxRecordId": id, "agentName": "demo", "cwd": place.work(),
        "title": "paint the roof blue", "at": ours["at"], "role": "user", "event": event,
        "messageId": ours["messageId"], "excerpt": "paint the roof blue",
        "matches": [{ "start": 10, "end": 14 }],
        "command": format!("acpx demo sessions replay {id} --from {event}"),
    });
    assert_eq!(*ours, expected);
    let native = found.iter().find(|hit| hit["origin"] == "transcript").unwrap();
    let expected = json!({
        "origin": "transcript", "nativeSessionId": FIRST, "agentName": "claude", "cwd": place.work(),
        "title": "mend the roof before winter", "at": "2026-11-17T09:00:01.000Z", "role": "user",
        "event": "seq:1", "messageId": "u0-1", "excerpt": "mend the roof before winter",
        "matches": [{ "start": 9, "end": 13 }],
        "command": format!("acpx claude sessions replay {FIRST} --from seq:1"),
    });
    assert_eq!(*native, expected);
    assert_eq!(found.len(), 2);
}

#[test]
fn search_flags_narrow_the_hits_and_words_can_be_phrases_or_prefixes() {
    let place = place();
    let in_first = |event: &str, text: &str| vec![(FIRST.to_owned(), event.to_owned(), text.to_owned())];
    let answer = in_first("seq:2", "The roof leaks at the chimney.");
    assert_eq!(short(&hits(&place, &["roof", "--agent", "claude", "--role", "agent"])), answer);
    assert_eq!(short(&hits(&place, &["\"leaks at the\""])), answer);
    assert_eq!(short(&hits(&place, &["chimn*", "roof"])), answer);
    assert_eq!(short(&hits(&place, &["\"the leaks\""])), []);
    let other = vec![(SECOND.to_owned(), "seq:1".to_owned(), "explain the parser".to_owned())];
    assert_eq!(short(&hits(&place, &["the", "--project", "other", "--role", "user"])), other);
    assert_eq!(short(&hits(&place, &["parser", "--since", "2026-11-18"])), []);
    assert_eq!(hits(&place, &["the", "--limit", "1"]).len(), 1);
}

#[test]
fn search_in_a_pipe_prints_tabs_and_reports_no_matches_on_stderr() {
    let place = place();
    let line = place.ok(&["search", "chimney"]);
    let work = place.work();
    let expected = [
        "transcript",
        FIRST,
        "claude",
        work.to_str().unwrap(),
        "2026-11-17T09:00:02.000Z",
        "agent",
        "seq:2",
        "mend the roof before winter",
        "The roof leaks at the chimney.\n",
    ];
    assert_eq!(line, expected.join("\t"));
    let none = Done { out: String::new(), err: "[acpx] no matches\n".to_owned(), code: Some(0) };
    assert_eq!(place.acpx(&["search", "nowhere"]), none);
}

#[test]
fn command_of_a_search_hit_replays_from_the_message() {
    let place = place();
    let found = hits(&place, &["gutter"]);
    let command = found[0]["command"].as_str().unwrap().strip_prefix("acpx ").unwrap();
    let arguments: Vec<&str> = command.split(' ').collect();
    assert_eq!(place.ok(&arguments), "[user] and the gutter?\n\nFixed.\n");
}

#[test]
fn deleted_sessions_and_removed_transcripts_are_not_found() {
    let place = place();
    let file = transcript(&place, SECOND, &place.work(), &[("explain the parser", "It reads tokens.")]);
    assert_eq!((hits(&place, &["paint"]).len(), hits(&place, &["parser"]).len()), (2, 1));
    place.ok(&["demo", "sessions", "delete", "api", "--yes"]);
    fs::remove_file(file).unwrap();
    // The text of the deleted session is in no file of the index.
    for file in ["index.db", "index.db-wal"] {
        let bytes = fs::read(place.acpx_home().join(file)).unwrap_or_default();
        assert!(!bytes.windows(5).any(|text| text == b"paint"), "{file}");
    }
    assert_eq!((hits(&place, &["paint"]).len(), hits(&place, &["parser"]).len()), (0, 0));
}

#[test]
fn transcript_of_a_deleted_record_is_in_no_search_and_no_list() {
    let place = place();
    let argv = [env!("CARGO_BIN_EXE_acpx"), "demo-agent"];
    place.configure(&json!({ "agents": { "claude": { "argv": argv } } }).to_string());
    let own = transcript(&place, "agent-1", &place.work(), &[("look for moss", "There is moss.")]);
    let directory = own.with_file_name(FIRST).join("subagents");
    fs::create_dir_all(&directory).unwrap();
    fs::rename(own, directory.join("agent-1.jsonl")).unwrap();
    place.ok(&["claude", "-s", FIRST, "hello"]);
    assert_eq!(hits(&place, &["chimney"])[0]["origin"], "record");
    // What a sub-agent said is in no record.
    assert_eq!(hits(&place, &["moss", "--role", "agent"])[0]["nativeSessionId"], "agent-1");
    place.ok(&["claude", "sessions", "delete", FIRST, "--yes"]);
    assert_eq!(short(&hits(&place, &["chimney"])), []);
    assert_eq!(short(&hits(&place, &["moss"])), []);
    let listed = place.json(&["claude", "sessions", "list", "--all"]);
    let ids: Vec<&Value> = listed.as_array().unwrap().iter().map(|row| &row["nativeSessionId"]).collect();
    assert_eq!(ids, [SECOND]);
}

#[test]
fn excluded_paths_and_agents_are_in_no_search_and_no_list() {
    let place = place();
    let listed = || place.json(&["sessions", "list", "--all"]).as_array().unwrap().len();
    assert_eq!((hits(&place, &["parser"]).len(), listed()), (1, 3));
    let other = place.work().join("other");
    place.configure(&json!({ "index": { "exclude": [other] } }).to_string());
    assert_eq!((hits(&place, &["parser"]).len(), hits(&place, &["roof"]).len(), listed()), (0, 4, 2));
    place.configure(&json!({ "index": { "exclude": ["~"], "excludeAgents": ["demo"] } }).to_string());
    assert_eq!((hits(&place, &["parser"]).len(), hits(&place, &["roof"]).len(), listed()), (0, 0, 1));
    place.configure("{}");
    assert_eq!((hits(&place, &["parser"]).len(), hits(&place, &["roof"]).len(), listed()), (1, 4, 3));
    let wrong = place.acpx(&["search", "roof", "--role", "robot"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[test]
fn index_status_counts_and_rebuild_reads_everything_again() {
    let place = place();
    let path = place.acpx_home().join("index.db");
    let status = place.json(&["index"]);
    let pending = &status["pending"];
    assert_eq!((&status["messages"], &pending["sessions"]), (&json!(0), &json!(3)), "{status}");
    let updated = place.json(&["index", "update"]);
    let expected = json!({
        "action": "index_updated", "path": path, "bytes": updated["bytes"], "records": 1, "transcripts": 2,
        "messages": updated["messages"], "agents": [{ "agentName": "claude", "transcripts": 2, "unreadLines": 0 }],
        "read": 3, "durationMs": updated["durationMs"], "pending": { "sessions": 0, "bytes": 0 },
        "updating": false, "problems": [],
    });
    assert_eq!(updated, expected);
    assert_eq!(place.json(&["index", "update"])["read"], 0);
    let rebuilt = place.json(&["index", "rebuild"]);
    assert_eq!((&rebuilt["read"], &rebuilt["messages"]), (&json!(3), &updated["messages"]));
    let text = place.ok(&["index", "status"]);
    let first = format!("path\t{}\nbytes\t", path.display());
    assert!(text.starts_with(&first) && text.ends_with("agent\tclaude\t2\t0\n"), "{text}");
}

#[test]
fn damaged_index_is_read_anew_by_the_command_that_finds_the_damage() {
    let place = place();
    place.configure(r#"{ "index": { "enabled": false } }"#);
    let path = place.acpx_home().join("index.db");
    let damage = |pages: fn(&[u8]) -> std::ops::Range<usize>| {
        place.ok(&["index", "update"]);
        let mut bytes = fs::read(&path).unwrap();
        let pages = pages(&bytes);
        bytes[pages].fill(0x5a);
        fs::write(&path, bytes).unwrap();
    };
    let all = |bytes: &[u8]| 4096..bytes.len();
    // An update with nothing to read does not read the page of a message.
    let message = |bytes: &[u8]| {
        let word = bytes.windows(7).position(|text| text == b"chimney").unwrap() / 4096 * 4096;
        word..word + 4096
    };
    damage(all);
    assert_eq!(hits(&place, &["roof"]).len(), 4);
    damage(message);
    assert_eq!(hits(&place, &["roof"]).len(), 4);
    damage(all);
    assert_eq!(place.json(&["sessions", "list", "--all"]).as_array().unwrap().len(), 3);
    damage(all);
    assert_eq!(place.json(&["index", "update"])["records"], 1);
}

#[test]
fn host_indexes_records_and_transcripts_in_the_background() {
    let place = place();
    let found = || {
        let status = place.json(&["index", "status"]);
        (status["pending"]["sessions"].clone(), status["records"].clone(), status["transcripts"].clone())
    };
    eventually("the host has updated the index", || found() == (json!(0), json!(1), json!(2)));
}

#[test]
fn index_in_the_background_ends_with_its_stdin() {
    let place = place();
    let done = place.acpx(&["index", "background"]);
    assert_eq!(done, Done { out: String::new(), err: String::new(), code: Some(0) });
}

#[test]
fn secrets_of_the_shell_are_masked_in_hits_that_another_process_indexed() {
    let place = place();
    transcript(&place, SECOND, &place.work(), &[("the key is hunter2-hunter2", "Noted.")]);
    place.ok(&["index", "update"]);
    let mut command = place.command(&["--format", "quiet", "search", "key"]);
    assert_eq!(Done::of(&mut command).out, format!("{SECOND}\n"));
    let mut command = place.command(&["search", "key"]);
    let line = Done::of(command.env("SHOP_API_KEY", "hunter2-hunter2")).out;
    assert!(line.contains("\tthe key is ") && !line.contains("hunter2"), "{line}");
    let mut command = place.command(&["sessions", "list", "--all"]);
    let list = Done::of(command.env("SHOP_API_KEY", "hunter2-hunter2")).out;
    assert!(list.contains("the key is ") && !list.contains("hunter2"), "{list}");
}

#[test]
fn list_of_all_sessions_has_each_conversation_once() {
    let place = place();
    let rows = place.json(&["sessions", "list", "--all"]);
    let rows = rows.as_array().unwrap();
    let origin = |row: &Value| (row["origin"].clone(), row["title"].clone(), row["turns"].clone());
    let expected = [
        (json!("record"), json!("paint the roof blue"), json!(1)),
        (json!("transcript"), json!("mend the roof before winter"), json!(2)),
        (json!("transcript"), json!("explain the parser"), json!(1)),
    ];
    assert_eq!(rows.iter().map(origin).collect::<Vec<_>>(), expected);
    let native = json!({
        "origin": "transcript", "nativeSessionId": FIRST, "agentName": "claude",
        "path": place.user_home().join(format!(".claude/projects/-work/{FIRST}.jsonl")), "cwd": place.work(),
        "title": "mend the roof before winter", "createdAt": "2026-11-17T09:00:01.000Z",
        "lastUsedAt": "2026-11-17T09:01:02.000Z", "turns": 2, "tokens": 30,
    });
    assert_eq!(rows[1], native);
    let ids = |words: &[&str]| place.ok(&[&["--format", "quiet"], words].concat());
    assert_eq!(ids(&["claude", "sessions", "--all", "--limit", "1"]), format!("{FIRST} [native]\n"));
    assert_eq!(ids(&["sessions", "list", "--all", "--filter-cwd", "other"]), format!("{SECOND} [native]\n"));
    assert_eq!(ids(&["--agent", "./none", "sessions", "--all"]), "");
    // A list without the flag does not touch the index.
    fs::remove_file(place.acpx_home().join("index.db")).unwrap();
    assert_eq!(place.json(&["sessions", "list"]).as_array().unwrap().len(), 1);
    assert!(!place.acpx_home().join("index.db").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn search_over_100_000_transcripts_takes_bounded_time_and_memory() {
    let place = Place::new();
    for number in 0..100 {
        let directory = place.user_home().join(format!(".claude/projects/-{number}"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..1000 {
            let line = r#"{"type":"user","uuid":"u","message":{"role":"user","content":"needle"}}"#;
            fs::write(directory.join(format!("{number}-{file}.jsonl")), line).unwrap();
        }
    }
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -d 262144 && exec \"$@\"", "sh"]);
    let begun = std::time::Instant::now();
    let done = Done::of(&mut place.by(shell, &["--format", "json", "search", "needle", "--limit", "1"]));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    let found: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    let missing = found["missing"]["sessions"].as_u64().unwrap();
    assert!((1..100_000).contains(&missing), "{missing}");
}

#[cfg(target_os = "linux")]
mod on_a_terminal {
    use super::*;
    use crate::terminal::OnTerminal;

    fn has(rows: &[String], text: &str) -> bool {
        rows.iter().any(|row| row.contains(text))
    }

    #[test]
    fn search_on_a_terminal_shows_blocks_with_the_command() {
        let place = place();
        let mut command = place.command(&["search", "chimney"]);
        command.env_remove("NO_COLOR").env("TERM", "xterm");
        let mut terminal = OnTerminal::sized(&command, 120, 24);
        assert_eq!(terminal.done(), Some(0));
        let rows = terminal.rows();
        assert!(rows[0].starts_with("3f2a9c1e  claude  /"), "{rows:#?}");
        assert_eq!(
            rows[1..],
            [
                "  agent: The roof leaks at the chimney.",
                "  acpx claude sessions replay 3f2a9c1e --from seq:2"
            ]
        );
        assert!(terminal.seen.contains("\u{1b}[33mchimney"), "{:?}", terminal.seen);
    }

    #[test]
    fn list_of_all_sessions_marks_native_ones_on_a_terminal() {
        let place = place();
        let mut terminal = OnTerminal::sized(&place.command(&["sessions", "list", "--all"]), 120, 24);
        assert_eq!(terminal.done(), Some(0));
        let rows = terminal.rows();
        let words: Vec<Vec<&str>> = rows.iter().map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["STATE", "AGENT", "SESSION", "DIRECTORY", "USED", "TURNS", "TOKENS", "ID"]);
        assert_eq!((words[1][1], words[2][..2].to_vec()), ("demo", vec!["native", "claude"]));
        assert_eq!(words[2].last(), Some(&"3f2a9c1e"));
    }

    #[test]
    fn picker_opens_a_native_session_and_adopts_it() {
        let place = place();
        // The agent of the transcript is one that can be started here.
        let argv = [env!("CARGO_BIN_EXE_acpx"), "demo-agent"];
        place.configure(&json!({ "agents": { "claude": { "argv": argv } } }).to_string());
        let mut terminal = OnTerminal::sized(&place.command(&[]), 100, 24);
        terminal.wait_until("it is shown", |rows| has(rows, "3 of 3 sessions"));
        terminal.type_in("native 'mend 'winter");
        terminal.wait_until("it is filtered", |rows| {
            has(rows, "1 of 3 sessions") && has(rows, "› native  claude")
        });
        terminal.type_in("\r");
        terminal
            .wait_until("the client shows it", |rows| has(rows, "> and the gutter?") && has(rows, "? keys"));
        terminal.type_in("\u{4}");
        assert_eq!(terminal.done(), Some(0));
        let listed = place.json(&["sessions", "list", "--all"]);
        let origins: Vec<&Value> = listed.as_array().unwrap().iter().map(|row| &row["origin"]).collect();
        assert_eq!(origins, ["record", "record", "transcript"], "{listed}");
    }

    #[test]
    fn attach_begins_at_the_position_of_a_search_hit() {
        let place = place();
        for words in ["first words", "second words", "third words", "fourth words", "fifth words"] {
            place.ok(&["demo", "-s", "api", words]);
        }
        let found = hits(&place, &["first", "--role", "user"]);
        let event = found[0]["event"].as_str().unwrap();
        let mut terminal =
            OnTerminal::sized(&place.command(&["demo", "attach", "api", "--from", event]), 100, 60);
        let rows = terminal
            .wait_until("the client is ready", |rows| has(rows, "> fifth words") && has(rows, "? keys"));
        assert!(has(&rows, "> first words") && !has(&rows, "paint the roof"), "{rows:#?}");
        terminal.type_in("\u{4}");
        assert_eq!(terminal.done(), Some(0));
    }
}
