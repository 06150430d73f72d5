//! What an editor says in its capabilities reaches its agent, and sub-agents that the agent then announces reach the
//! editor: their updates and their permission requests. The messages are Zed's and claude-agent-acp's.

use acpx_testkit::Script;

use super::editor::Editor;
use super::*;
use crate::engine::received;

/// The line of an update, of a session that need not be the agent's own.
fn update_of(session: &str, update: &Value) -> String {
    let params = json!({ "sessionId": session, "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string()
}

fn chunk(text: &str) -> Value {
    json!({
        "sessionUpdate": "agent_message_chunk", "messageId": "m",
        "content": { "type": "text", "text": text },
    })
}

fn announced(child: &str) -> Value {
    let state = json!({ "state": "running" });
    json!({
        "sessionUpdate": "subagent_update", "sessionId": child, "title": "Explore", "capabilities": { "cancel": {} },
        "state": state,
    })
}

/// A permission request of a session in version 2.
fn permission(session: &str) -> Value {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    json!({
        "sessionId": session,
        "title": "Run ls",
        "subject": { "type": "tool_call", "toolCall": { "toolCallId": "t1", "title": "Run ls", "kind": "execute" } },
        "options": [option("yes", "allow_once"), option("no", "reject_once")],
    })
}

/// What the agent was told of its client when it was last started.
fn told(argv: &[String]) -> Value {
    let initialized = received(argv).into_iter().rev().find(|(method, _)| method == "initialize");
    initialized.unwrap().1["clientCapabilities"].clone()
}

/// An editor of version 1 with these capabilities.
async fn editor_with(bench: &Bench, argv: &[String], capabilities: Value) -> Editor {
    let mut editor = bench.joined(1).await;
    let agent = json!({ "name": "scripted", "argv": argv });
    let client = json!({ "agent": agent, "environment": environment(), "cwd": bench.home.path() });
    let mut params = json!({ "protocolVersion": 1, "_meta": { "acpx": { "client": client } } });
    params["clientCapabilities"] = capabilities;
    editor.call("initialize", params).await.unwrap();
    editor
}

#[tokio::test]
async fn capabilities_of_a_refused_initialize_are_forgotten() {
    let bench = Bench::new();
    let new = Script::new().reply(json!({ "sessionId": "s1" }));
    let argv = bench.agent(&Script::new().initialize(json!({})).serve([("session/new", new)]));
    let mut editor = bench.joined(1).await;
    let agent = json!({ "name": "scripted", "argv": &argv });
    let client = json!({ "agent": agent, "environment": environment(), "cwd": bench.home.path() });
    let params = |later: i32, client: &Value| {
        json!({
            "protocolVersion": 1, "clientCapabilities": { "later": later },
            "_meta": { "acpx": { "client": client } },
        })
    };
    editor.call("initialize", params(1, &json!(7))).await.unwrap_err();
    editor.call("initialize", params(2, &client)).await.unwrap();
    editor.open(&bench).await;
    assert_eq!(told(&argv)["later"], json!(2));
}

#[tokio::test]
async fn client_capabilities_reach_the_agent_that_is_started_for_the_client() {
    let bench = Bench::new();
    let output = |data: &str| {
        let meta = json!({ "terminal_output": { "terminal_id": "t1", "data": data } });
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "_meta": meta })
    };
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "ls", "kind": "execute", "status": "pending",
        "content": [{ "type": "terminal", "terminalId": "t1" }],
        "_meta": { "terminal_info": { "terminal_id": "t1" } },
    });
    let exit = json!({ "terminal_id": "t1", "exit_code": 0, "signal": null });
    let end = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed",
        "_meta": { "terminal_exit": exit },
    });
    let told_lines = [call, output("a\n"), output("b\n"), end];
    let turn = told_lines.iter().fold(Script::new(), |turn, update| turn.update(update.clone()));
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/load", Script::new().reply(json!({}))),
        ("session/prompt", turn.end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let capabilities = json!({
        "fs": { "readTextFile": false, "writeTextFile": false },
        "terminal": false,
        "auth": { "terminal": false },
        "later": [1],
        "_meta": { "terminal_output": true, "acpx": { "errorData": true } },
    });
    let mut zed = editor_with(&bench, &argv, capabilities.clone()).await;
    let record = zed.open(&bench).await;
    let told_first = told(&argv);
    let ours = json!({ "errorData": true });
    assert_eq!(told_first["_meta"], json!({ "terminal_output": true, "acpx": ours }));
    assert_eq!(told_first["later"], json!([1]));
    // What acpx does for every agent stays its own.
    assert_eq!(told_first["fs"], json!({ "readTextFile": true, "writeTextFile": true }));
    assert_eq!(told_first["terminal"], json!(true));

    let of_call = |lines: &[Value]| -> Vec<Value> {
        let updates = lines.iter().map(|line| line["params"]["update"].clone());
        updates.filter(|update| update["toolCallId"] == "t1").collect()
    };
    assert_eq!(of_call(&zed.turn(&record, "one").await.lines), told_lines);

    // Another client is told the output as text, and the agent is initialized once.
    let mut other = editor_with(&bench, &argv, json!({})).await;
    let id = other.ask("session/load", bench.load_params(&record)).await;
    let (_, lines) = other.answer(id).await;
    let shown = of_call(&lines).last().unwrap()["content"][0]["content"]["text"].to_string();
    assert!(shown.contains(r"a\nb\n"), "{shown}");
    assert_eq!(told(&argv), told_first);

    // An agent that is started for a client without the capabilities is not told of them.
    bench.kill_host().await;
    let mut other = editor_with(&bench, &argv, json!({})).await;
    other.call("session/load", bench.load_params(&record)).await.unwrap();
    let told_again = told(&argv);
    assert_eq!((&told_again["_meta"], told_again.get("later")), (&json!({ "acpx": ours }), None));
    let mut zed = editor_with(&bench, &argv, capabilities).await;
    let id = zed.ask("session/load", bench.load_params(&record)).await;
    let (_, lines) = zed.answer(id).await;
    assert_eq!(of_call(&lines), told_lines, "the output is in a replay too");
}

#[tokio::test]
async fn updates_and_permissions_of_a_subagent_reach_the_parents_clients() {
    let bench = Bench::new();
    let running = json!({ "sessionUpdate": "state_update", "state": "running" });
    let idle = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" });
    let turn = Script::new()
        .reply(json!({ "messageId": "u1" }))
        .update(running)
        .line(&update_of("stranger", &chunk("not of this session")))
        .update(announced("c1"))
        .line(&update_of("c1", &chunk("from the child")))
        .request("session/request_permission", permission("stranger"))
        .request("session/request_permission", permission("c1"))
        .update(chunk("from the parent"))
        .update(idle);
    let script = Script::new().initialize_v2(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 2, &argv).await;
    let record = editor.open(&bench).await;
    let turn = editor.turn(&record, "go").await;
    let updates = |session: &str, lines: &[Value]| -> Vec<Value> {
        let of = lines.iter().filter(|line| line["params"]["sessionId"] == session);
        of.filter(|line| line["method"] == "session/update")
            .map(|line| line["params"]["update"].clone())
            .collect()
    };
    assert_eq!(updates("c1", &turn.lines), [chunk("from the child")]);
    assert!(updates("stranger", &turn.lines).is_empty());
    assert!(updates(&record, &turn.lines).contains(&announced("c1")));
    let asked: Vec<&Value> =
        turn.lines.iter().filter(|line| line["method"] == "session/request_permission").collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(
        (&asked[0]["params"]["sessionId"], &asked[0]["params"]["title"]),
        (&json!(record), &json!("Run ls"))
    );
    let answers: Vec<Value> = received(&argv)
        .into_iter()
        .filter(|(method, _)| method == "answer")
        .map(|(_, answer)| answer)
        .collect();
    assert_eq!(answers[0]["code"], -32002);
    assert_eq!(answers[1]["outcome"], json!({ "outcome": "selected", "optionId": "yes" }));

    // A client that loads the session later is told the same, and there is no record of the child.
    let mut later = bench.speaking(2, 2, &argv).await;
    let mut params = bench.load_params(&record);
    params["replayFrom"] = json!({ "type": "start" });
    let id = later.ask("session/resume", params).await;
    let (_, lines) = later.answer(id).await;
    assert_eq!(updates("c1", &lines), [chunk("from the child")]);
    let listed = later.call("session/list", json!({})).await.unwrap();
    let ids: Vec<&Value> =
        listed["sessions"].as_array().unwrap().iter().map(|session| &session["sessionId"]).collect();
    assert_eq!(ids, [&json!(record)]);
    // One of version 1 that does not show sub-agents is told nothing of the child.
    let mut first = bench.speaking(1, 2, &argv).await;
    let id = first.ask("session/load", bench.load_params(&record)).await;
    let (_, lines) = first.answer(id).await;
    assert!(updates("c1", &lines).is_empty());
}
