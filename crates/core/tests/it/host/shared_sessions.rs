//! Several editors at one record: how each leaves it, and what each may change for the others.

use acpx_core::model::{AgentEnd, LineageReason};
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::Editor;
use super::{Bench, eventually, kept_by_agent, prompt_params};
use crate::engine::{everything, faithful, received};

async fn open(bench: &Bench, argv: &[String]) -> (Editor, String) {
    let mut editor = bench.editor(argv).await;
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    let record = editor.call("session/new", new).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    (editor, record)
}

async fn live_sessions(editor: &mut Editor) -> Value {
    editor.call("_acpx/host/status", json!({})).await.unwrap()["liveSessions"].clone()
}

fn with_server(params: Value, name: &str) -> Value {
    let mut params = params;
    params["mcpServers"] = json!([{ "name": name, "command": "/bin/true", "args": [], "env": [] }]);
    params
}

/// The servers of each setup request that the agent got.
fn setups(argv: &[String]) -> Vec<(String, Vec<String>)> {
    let names = |params: &Value| {
        let servers = params["mcpServers"].as_array().unwrap();
        servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
    };
    let setup = |(method, _): &(String, Value)| matches!(&**method, "session/new" | "session/resume");
    received(argv)
        .iter()
        .filter(|said| setup(said))
        .map(|(method, params)| (method.clone(), names(params)))
        .collect()
}

#[tokio::test]
async fn close_of_one_client_detaches_it_and_the_last_frees_the_agent() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let (mut one, record) = open(&bench, &argv).await;
    let mut two = bench.editor(&argv).await;
    two.call("session/load", bench.load_params(&record)).await.unwrap();

    let close = json!({ "sessionId": record });
    assert_eq!(one.call("session/close", close.clone()).await, Ok(json!({})));
    let error = one.call("session/prompt", prompt_params(&record, "x", json!({}))).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!(record)));
    let answer = two.call("session/prompt", prompt_params(&record, "x", json!({}))).await.unwrap();
    assert_eq!((&answer["stopReason"], live_sessions(&mut two).await), (&json!("end_turn"), json!(1)));
    assert_eq!(two.call("session/close", close.clone()).await, Ok(json!({})));
    assert_eq!(live_sessions(&mut two).await, 0);
    // What is closed already, or was never there, is closed.
    assert_eq!(two.call("session/close", close).await, Ok(json!({})));
    assert_eq!(two.call("session/close", json!({ "sessionId": "nobodys" })).await, Ok(json!({})));
    // Closing is no farewell: it can be brought back.
    two.call("session/resume", bench.load_params(&record)).await.unwrap();
}

#[tokio::test]
async fn close_cancels_the_own_turn_and_no_other() {
    let bench = Bench::new();
    let began = bench.home.join("began");
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .expect_as("session/prompt", "first")
        .touch(&began)
        .expect("session/cancel")
        .reply_to("first", json!({ "stopReason": "cancelled" }))
        .prompt(|turn| turn.say("second").end("end_turn"));
    let argv = bench.agent(&script);
    let (mut one, record) = open(&bench, &argv).await;
    let mut two = bench.editor(&argv).await;
    two.call("session/resume", bench.load_params(&record)).await.unwrap();
    let first = one.ask("session/prompt", prompt_params(&record, "first", json!({}))).await;
    eventually("the first runs", || began.exists()).await;
    let second = two.ask("session/prompt", prompt_params(&record, "second", json!({}))).await;
    two.until(|line| line["method"] == "_acpx/accepted").await;
    let closed = one.ask("session/close", json!({ "sessionId": record })).await;
    assert_eq!(one.answer(first).await.0.unwrap()["stopReason"], "cancelled");
    assert_eq!(one.answer(closed).await.0, Ok(json!({})));
    assert_eq!(two.answer(second).await.0.unwrap()["stopReason"], "end_turn");
}

#[tokio::test]
async fn request_for_a_session_that_is_not_loaded_names_session_load() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let (_one, record) = open(&bench, &argv).await;
    for version in [1, 2] {
        let mut two = bench.speaking(version, 1, &argv).await;
        let refused = two.call("session/prompt", prompt_params(&record, "x", json!({}))).await.unwrap_err();
        let hint = "resume it first, with session/resume, or with session/load in version 1";
        let acpx = json!({ "code": "SESSION_NOT_LOADED", "hint": hint });
        let message = format!("the session {record} is not loaded on this connection");
        let details = format!("{message}; {hint}");
        let data = json!({ "sessionId": record, "details": details, "acpx": acpx });
        assert_eq!(refused, json!({ "code": -32002, "message": message, "data": data }));
        // Of one that is not there nothing more is said.
        let unknown = two.call("session/prompt", prompt_params("no", "x", json!({}))).await.unwrap_err();
        let details = "there is no session no; open one of the listed sessions, or begin a new one";
        let data = json!({ "sessionId": "no", "details": details });
        assert_eq!(unknown, json!({ "code": -32002, "message": "Resource not found", "data": data }));
    }
}

#[tokio::test]
async fn deleted_session_is_unknown_to_all_clients() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let (mut one, record) = open(&bench, &argv).await;
    let mut two = bench.editor(&argv).await;
    two.call("session/resume", bench.load_params(&record)).await.unwrap();
    let delete = json!({ "sessionId": record });
    assert_eq!(one.call("session/delete", delete.clone()).await, Ok(kept_by_agent()));
    assert_eq!(one.call("session/delete", delete).await, Ok(json!({})));
    for (method, params) in [
        ("session/prompt", prompt_params(&record, "x", json!({}))),
        ("session/load", bench.load_params(&record)),
        ("session/resume", bench.load_params(&record)),
    ] {
        let error = two.call(method, params).await.unwrap_err();
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32002), &json!(record)),
            "{method}"
        );
    }
    assert_eq!(two.call("session/list", json!({})).await.unwrap()["sessions"], json!([]));
}

#[tokio::test]
async fn reconnected_editor_can_cancel_the_turn_it_left() {
    let bench = Bench::new();
    let began = bench.home.join("began");
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .expect_as("session/prompt", "first")
        .touch(&began)
        .expect("session/cancel")
        .say("stopped")
        .reply_to("first", json!({ "stopReason": "cancelled" }));
    let argv = bench.agent(&script);
    let (mut one, record) = open(&bench, &argv).await;
    one.ask("session/prompt", prompt_params(&record, "runs away", json!({}))).await;
    eventually("the turn runs", || began.exists()).await;
    drop(one);
    let mut two = bench.editor(&argv).await;
    two.call("session/load", bench.load_params(&record)).await.unwrap();
    two.notify("session/cancel", json!({ "sessionId": record })).await;
    two.until(|line| line["params"]["update"]["content"]["text"] == "stopped").await;
}

#[tokio::test]
async fn client_of_a_deleted_session_gets_its_turn_end_and_nothing_more() {
    for version in [1, 2] {
        let bench = Bench::new();
        let began = bench.home.join("began");
        let script = Script::new()
            .initialize(json!({}))
            .next_start()
            .initialize(json!({}))
            .session_new("s1")
            .expect_as("session/prompt", "first")
            .touch(&began)
            .expect("session/cancel")
            .say("last words")
            .reply_to("first", json!({ "stopReason": "cancelled" }));
        let argv = bench.agent(&script);
        let mut one = bench.speaking(version, 1, &argv).await;
        let record = one.open(&bench).await;
        let mut two = bench.editor(&argv).await;
        two.call("session/resume", bench.load_params(&record)).await.unwrap();
        let turn = async {
            let lived = one.turn(&record, "x").await;
            let said = |line: &Value| line["params"]["update"]["content"]["text"] == "last words";
            (lived.stop_reason, lived.lines.iter().any(said))
        };
        let delete = async {
            eventually("the turn runs", || began.exists()).await;
            two.call("session/delete", json!({ "sessionId": record })).await
        };
        let (lived, deleted) = tokio::join!(turn, delete);
        assert_eq!((lived, deleted), ((json!("cancelled"), true), Ok(kept_by_agent())), "version {version}");
        let asked = one.ask("_acpx/host/status", json!({})).await;
        assert_eq!(one.answer(asked).await.1, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn a_session_is_brought_back_where_it_works_and_nowhere_else() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let (mut editor, record) = open(&bench, &argv).await;
    let (link, other) = (bench.home.join("link"), bench.home.join("other"));
    std::os::unix::fs::symlink(bench.home.path(), &link).unwrap();
    std::fs::create_dir(&other).unwrap();
    let at = |cwd: &std::path::Path| json!({ "sessionId": record, "cwd": cwd, "mcpServers": [] });
    for method in ["session/load", "session/resume"] {
        editor.call(method, at(&link)).await.unwrap();
        for cwd in [&*other, "/nowhere".as_ref()] {
            let error = editor.call(method, at(cwd)).await.unwrap_err();
            assert_eq!(
                (&error["code"], &error["data"]["field"]),
                (&json!(-32602), &json!("cwd")),
                "{method}"
            );
        }
    }
}

#[tokio::test]
async fn new_mcp_servers_apply_only_to_an_idle_unshared_session() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let (mut one, record) = open(&bench, &argv).await;
    let load = || bench.load_params(&record);
    let told = |answer: &Value| answer["_meta"]["acpx"].get("mcpServers").cloned();
    let servers = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();

    // The same list changes nothing.
    let same = one.call("session/resume", load()).await.unwrap();
    assert_eq!((told(&same), setups(&argv).len()), (None, 1));
    let other = one.call("session/resume", with_server(load(), "notes")).await.unwrap();
    assert_eq!(told(&other), None);
    let expected =
        [("session/new".to_owned(), servers(&[])), ("session/resume".to_owned(), servers(&["notes"]))];
    assert_eq!(setups(&argv), expected);
    // One that names none changes none.
    let mut unnamed = load();
    unnamed.as_object_mut().unwrap().remove("mcpServers");
    assert_eq!(told(&one.call("session/resume", unnamed).await.unwrap()), None);

    // With somebody else there the list in force stays, and the answer says so.
    let mut two = bench.editor(&argv).await;
    let kept = two.call("session/resume", with_server(load(), "mail")).await.unwrap();
    assert_eq!((told(&kept), setups(&argv)), (Some(json!("kept")), expected.to_vec()));
    let rows = bench.record(&record).await.lineage.rows().to_vec();
    assert_eq!(rows.iter().map(|row| row.reason).collect::<Vec<_>>(), [LineageReason::Created]);
}

#[tokio::test]
async fn running_turn_keeps_its_mcp_servers() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.touch(&began).await_file(&go).end("end_turn"));
    let argv = bench.agent(&script);
    let (mut one, record) = open(&bench, &argv).await;
    let turn = one.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
    eventually("the turn runs", || began.exists()).await;
    let resumed = one.ask("session/resume", with_server(bench.load_params(&record), "notes")).await;
    let answer = one.answer(resumed).await.0.unwrap();
    assert_eq!(answer["_meta"]["acpx"]["mcpServers"], "kept");
    std::fs::write(&go, "").unwrap();
    assert_eq!(one.answer(turn).await.0.unwrap()["stopReason"], "end_turn");
}

#[tokio::test]
async fn agent_that_would_forget_keeps_its_mcp_servers_until_close() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(json!({})));
    let (mut editor, record) = open(&bench, &argv).await;
    let with_notes = || with_server(bench.load_params(&record), "notes");
    // Before anything was said there is nothing to forget.
    let before = editor.call("session/resume", with_notes()).await.unwrap();
    assert_eq!(before["_meta"]["acpx"].get("mcpServers"), None);
    editor.call("session/prompt", prompt_params(&record, "x", json!({}))).await.unwrap();
    let began = setups(&argv);

    let kept = editor.call("session/resume", bench.load_params(&record)).await.unwrap();
    assert_eq!((&kept["_meta"]["acpx"]["mcpServers"], setups(&argv)), (&json!("kept"), began));
    assert_eq!(bench.record(&record).await.agent_run.unwrap().ended, None);

    editor.call("session/close", json!({ "sessionId": record })).await.unwrap();
    let ended = bench.record(&record).await.agent_run.unwrap().ended.unwrap();
    assert_eq!(ended.how, AgentEnd::Asked);
}
