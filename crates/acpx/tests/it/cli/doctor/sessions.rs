//! What `acpx doctor` finds of a session: whether its agent still has it, whether its directory and its servers are
//! where they were.

use super::*;
use crate::editor::Editor;

/// An agent that makes sessions, takes prompts, and lists these sessions whenever it is asked.
fn listing(sessions: &Value) -> Script {
    let reply = |result: Value| Script::new().reply(result);
    let can = json!({ "loadSession": true, "sessionCapabilities": { "list": {} } });
    Script::new().initialize(can).serve([
        ("session/new", reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().end("end_turn")),
        ("session/list", reply(json!({ "sessions": sessions }))),
    ])
}

/// The level and the words of each finding of a check.
fn of_check(done: &Done, check: &str) -> Vec<(String, String)> {
    let (found, _) = findings(done);
    let is_meant = found.into_iter().filter(|(_, name, _)| name == check);
    is_meant.map(|(level, _, words)| (level, words)).collect()
}

fn one(level: &str, words: &str) -> Vec<(String, String)> {
    vec![(level.to_owned(), words.to_owned())]
}

#[test]
fn doctor_distinguishes_a_swept_session_file_from_one_the_agent_has() {
    let swept = "the agent does not list the session s1: its file may have been swept";
    for (listed, expected) in [
        (json!([{ "sessionId": "s1", "cwd": "/" }]), one("ok", "the agent has the session s1")),
        (json!([{ "sessionId": "s2", "cwd": "/" }]), one("warn", swept)),
    ] {
        let place = Place::new();
        place.scripted(&listing(&listed));
        place.ok(&["scripted", "sessions", "new"]);
        place.ok(&["scripted", "hello"]);
        let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
        assert_eq!((of_check(&done, "restore"), done.code), (expected, Some(0)), "{done:?}");
    }
}

#[test]
fn a_session_list_without_a_last_page_proves_no_loss() {
    let place = Place::new();
    let reply = |result: Value| Script::new().reply(result);
    let can = json!({ "loadSession": true, "sessionCapabilities": { "list": {} } });
    place.scripted(&Script::new().initialize(can).serve([
        ("session/new", reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().end("end_turn")),
        ("session/list", reply(json!({ "sessions": [], "nextCursor": "more" }))),
    ]));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "hello"]);
    let done = place.acpx(&["--format", "json", "scripted", "doctor"]);
    let words = "the agent can restore sessions; its list is too long to read to the end, so whether it still has the session s1 shows when the next prompt restores it";
    assert_eq!((of_check(&done, "restore"), done.code), (one("ok", words), Some(0)), "{done:?}");
}

#[test]
fn doctor_with_an_unknown_session_id_says_where_sessions_are_listed() {
    let place = Place::new();
    place.scripted(&listing(&json!([])));
    let unknown = "01980000-0000-7000-8000-000000000000";
    let done = place.acpx(&["--format", "json", "scripted", "doctor", "-s", unknown]);
    let told = of_check(&done, "session").pop().expect("it is looked for");
    assert_eq!((told.0.as_str(), done.code), ("fail", Some(1)), "{done:?}");
    assert!(told.1.contains(unknown), "{told:?}");
    assert!(done.out.contains("acpx sessions list"), "{done:?}");
}

#[test]
fn doctor_reports_a_cwd_link_that_changed_its_target_with_a_hint() {
    let place = Place::new();
    place.scripted(&listing(&json!([])));
    let [first, second, link] = ["first", "second", "link"].map(|name| place.work().join(name));
    fs::create_dir(&first).unwrap();
    fs::create_dir(&second).unwrap();
    std::os::unix::fs::symlink(&first, &link).unwrap();
    let made = place.json(&["--cwd", link.to_str().unwrap(), "scripted", "sessions", "new"]);
    let id = made["acpxRecordId"].as_str().unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&second, &link).unwrap();
    let done = place.acpx(&["--format", "json", "scripted", "doctor", "-s", id]);
    let [link, first, second] = [link, first, second].map(|path| path.display().to_string());
    let words = format!("{link} leads to {second}, and led to {first} when the session began");
    assert_eq!(of_check(&done, "directory"), one("fail", &words), "{done:?}");
    assert!(done.out.contains(&format!("acpx sessions move {id} --cwd DIR")), "{done:?}");
}

fn server(name: &str) -> Value {
    json!({ "name": name, "command": "/bin/true", "args": [], "env": [] })
}

#[test]
fn doctor_reports_an_mcp_server_missing_from_its_file() {
    let place = Place::new();
    let argv = place.scripted(&listing(&json!([])));
    let agents = json!({ "scripted": { "argv": argv } });
    place.configure(&json!({ "agents": agents, "mcpServers": [server("files")] }).to_string());
    place.ok(&["scripted", "sessions", "new"]);
    let doctor = || place.acpx(&["--format", "json", "scripted", "doctor"]);
    let file = place.acpx_home().join("config.json").display().to_string();
    let there = ("ok".to_owned(), format!("files, from {file}"));
    let done = doctor();
    assert!(of_check(&done, "MCP server").contains(&there), "{done:?}");
    place.configure(&json!({ "agents": agents }).to_string());
    let done = doctor();
    let gone = one("fail", &format!("files is not in {file} any more"));
    assert_eq!((of_check(&done, "MCP server"), done.code), (gone, Some(1)), "{done:?}");
}

#[test]
fn doctor_reports_an_mcp_server_known_only_to_its_client() {
    let place = Place::new();
    place.scripted(&listing(&json!([])));
    let mut editor = Editor::silent(&place, &["scripted", "acp"]);
    editor.call("initialize", json!({ "protocolVersion": 1 }));
    let made = editor.call("session/new", json!({ "cwd": place.work(), "mcpServers": [server("web")] }));
    let id = made["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{made}"));
    let done = place.acpx(&["--format", "json", "scripted", "doctor", "-s", id]);
    let alone = one("warn", "web is known to the client that gave it alone");
    assert_eq!((of_check(&done, "MCP server"), done.code), (alone, Some(0)), "{done:?}");
}
