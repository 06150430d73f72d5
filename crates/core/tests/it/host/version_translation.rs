//! What is translated between a client and an agent of different versions beside the conversation itself: what is asked
//! of the user, logging in, and in which version a session goes on.

use acpx_core::model::ProtocolVersion;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, prompt_params};
use crate::engine::{everything, faithful, received};

fn answers(argv: &[String]) -> Vec<Value> {
    let answers = received(argv).into_iter().filter(|(method, _)| method == "answer");
    answers.map(|(_, result)| result).collect()
}

#[tokio::test]
async fn v1_form_becomes_a_v2_form_and_its_answer_v1_again() {
    let bench = Bench::new();
    let form = json!({ "sessionId": "s1", "mode": "form", "message": "Who?", "requestedSchema": {} });
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().request("elicitation/create", form).end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    editor.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
    let asked = editor.until(|line| line["method"] == "elicitation/create").await;
    let schema = json!({ "type": "object", "properties": {} });
    let expected =
        json!({ "sessionId": record, "mode": "form", "message": "Who?", "requestedSchema": schema });
    assert_eq!(asked["params"], expected);
    let content = json!({ "name": "I", "unknown": { "to": "version 1" } });
    editor.respond(&asked["id"], json!({ "action": "accept", "content": content })).await;
    editor.until_idle().await;
    assert_eq!(answers(&argv), [json!({ "action": "accept", "content": { "name": "I" } })]);
}

#[tokio::test]
async fn v2_elicitation_reaches_a_v1_client_with_all_its_members() {
    let bench = Bench::new();
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    let question = json!({
        "sessionId": "s1",
        "title": "Run it?",
        "description": "It may take long.",
        "subject": { "type": "command", "command": "make", "cwd": "/w" },
        "options": [option("yes", "allow_once"), option("later", "_later"), option("no", "reject_once")],
    });
    let script = Script::new().initialize_v2(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        (
            "session/prompt",
            Script::new().insert("x").request("session/request_permission", question).idle("end_turn"),
        ),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(1, 2, &argv).await;
    let record = editor.open(&bench).await;
    let prompt = editor.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
    let asked = editor.until(|line| line["method"] == "session/request_permission").await;
    let shown = json!([{ "type": "content", "content": { "type": "text", "text": "$ make\nin /w" } }]);
    let call = json!({
        "toolCallId": "acpx.permission",
        "kind": "execute",
        "title": "Run it?\nIt may take long.",
        "content": shown,
        "rawInput": { "command": "make", "cwd": "/w" },
    });
    assert_eq!(asked["params"]["toolCall"], call);
    assert_eq!(asked["params"]["options"], json!([option("yes", "allow_once"), option("no", "reject_once")]));
    editor.choose(&asked["id"], "yes").await;
    assert_eq!(editor.answer(prompt).await.0.unwrap()["stopReason"], "end_turn");
    assert_eq!(answers(&argv), [json!({ "outcome": { "outcome": "selected", "optionId": "yes" } })]);
}

#[tokio::test]
async fn client_logs_in_and_out_with_an_agent_of_the_other_version() {
    let bench = Bench::new();
    let first = json!({
        "protocolVersion": 1,
        "agentCapabilities": { "auth": { "logout": {} } },
        "authMethods": [{ "id": "key", "name": "Key" }],
    });
    let second = json!({
        "protocolVersion": 2,
        "info": { "name": "a", "version": "1" },
        "capabilities": { "session": {} },
        "authMethods": [{ "methodId": "key", "name": "Key", "type": "agent" }],
    });
    let table = [
        (2, 1, first, ["auth/login", "auth/logout"], ["authenticate", "logout"]),
        (1, 2, second, ["authenticate", "logout"], ["auth/login", "auth/logout"]),
    ];
    for (client, of_agent, answer, asked, heard) in table {
        let done = || Script::new().reply(json!({}));
        let script =
            Script::new().expect("initialize").reply(answer).serve([(heard[0], done()), (heard[1], done())]);
        let argv = bench.agent(&script);
        let mut editor = bench.speaking(client, of_agent, &argv).await;
        let login = json!({ "methodId": "key", "_meta": { "x": 1 } });
        assert_eq!(editor.call(asked[0], login.clone()).await, Ok(json!({})));
        assert_eq!(editor.call(asked[1], json!({})).await, Ok(json!({})));
        let calls: Vec<_> =
            received(&argv).into_iter().filter(|(method, _)| heard.contains(&method.as_str())).collect();
        assert_eq!(calls, [(heard[0].to_owned(), login), (heard[1].to_owned(), json!({}))]);
    }
}

#[tokio::test]
async fn v2_client_gets_unsupported_logout_from_a_v1_agent() {
    let bench = Bench::new();
    let ways = json!([{ "id": "key", "name": "Key" }]);
    let greeting = json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": ways });
    let argv = bench.agent(&Script::new().expect("initialize").reply(greeting).serve([]));
    let mut editor = bench.speaking(2, 1, &argv).await;
    let error = editor.call("auth/logout", json!({})).await.unwrap_err();
    let words = "the agent \"scripted\" does not offer logout";
    assert_eq!(
        (&error["code"], &error["message"], &error["data"]["acpx"]["code"]),
        (&json!(-32603), &json!(words), &json!("NOT_OFFERED"))
    );
}

#[tokio::test]
async fn session_continues_in_its_protocol_version_unless_another_is_requested() {
    let bench = Bench::new();
    let script = Script::new().initialize_v2(json!({})).serve_v2("one", "two");
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 2, &argv).await;
    let record = editor.open(&bench).await;
    editor.turn(&record, "one").await;
    drop(editor);
    bench.kill_host().await;
    // A client that does not say which version it wants of the agent.
    let mut client = bench.client().await;
    let mut params = bench.resume_params(&record);
    params["_meta"]["acpx"]["agent"] = json!({ "name": "scripted", "argv": argv });
    let answer: Value = client.call("session/resume", &params).await.unwrap();
    assert_eq!(answer["_meta"]["acpx"]["awakening"]["by"], "session/resume");
    assert_eq!(bench.record(&record).await.agent.protocol, ProtocolVersion::V2);
    let asked = received(&argv).into_iter().filter(|(method, _)| method == "initialize");
    assert!(asked.into_iter().all(|(_, params)| params["protocolVersion"] == 2));
}

#[tokio::test]
async fn unknown_client_members_reach_the_agent_without_acpx_members() {
    let bench = Bench::new();
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().end("end_turn")),
    ]);
    for client in [1, 2] {
        let argv = bench.agent(&script);
        let mut editor = bench.speaking(client, 1, &argv).await;
        let meta = json!({ "acpx": { "idleMs": 0 }, "theirs": { "n": 1.5 } });
        let new = json!({ "cwd": bench.home.path(), "mcpServers": [], "_meta": meta });
        let record = editor.call("session/new", new).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
        let mut params = prompt_params(&record, "x", json!({ "policy": "deny-all" }));
        params["_meta"]["theirs"] = json!("too");
        let id = editor.ask("session/prompt", params).await;
        editor.answer(id).await.0.unwrap();
        if client == 2 {
            editor.until_idle().await;
        }
        let last = |wanted: &str| {
            received(&argv).into_iter().rfind(|(method, _)| method == wanted).unwrap().1["_meta"].clone()
        };
        assert_eq!(last("session/new"), json!({ "theirs": { "n": 1.5 } }));
        assert_eq!(last("session/prompt"), json!({ "theirs": "too" }));
    }
}

/// An update that changes a tool call.
fn call(members: &Value) -> Value {
    let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "bg" });
    update.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    update
}

#[tokio::test]
async fn v1_client_that_attaches_in_between_gets_changes_of_its_replay() {
    let bench = Bench::new();
    let whole = json!({ "type": "text", "text": "Hello world" });
    let whole = json!({ "sessionUpdate": "agent_message", "messageId": "m", "content": [whole] });
    let begun = call(&json!({ "title": "Build", "status": "in_progress" }));
    let ended = call(&json!({ "status": "completed" }));
    let script = Script::new()
        .initialize_v2(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.insert("a").update(begun).say_in("m", "Hello").idle("end_turn"))
        .prompt(|turn| turn.insert("b").idle("end_turn"))
        .prompt(|turn| turn.insert("c").update(ended.clone()).update(whole).idle("_odd"))
        .hang();
    let argv = bench.agent(&script);
    let mut first = bench.speaking(1, 2, &argv).await;
    let record = first.open(&bench).await;
    first.turn(&record, "a").await;
    first.turn(&record, "b").await;
    let mut second = bench.speaking(1, 2, &argv).await;
    let load = second.ask("session/load", bench.load_params(&record)).await;
    second.answer(load).await.0.unwrap();
    let prompt = first.ask("session/prompt", prompt_params(&record, "c", json!({}))).await;
    let (answer, there) = first.answer(prompt).await;
    // What the agent stopped for, version 1 has no word for.
    let answer = answer.unwrap();
    assert_eq!(
        (&answer["stopReason"], &answer["_meta"]["acpx"]["stopReason"]),
        (&json!("end_turn"), &json!("_odd"))
    );
    let rest = json!({ "type": "text", "text": " world" });
    let rest = json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m", "content": rest });
    let expected = [ended, rest];
    let updates = |lines: Vec<Value>| -> Vec<Value> {
        let updates = lines.into_iter().filter(|line| line["method"] == "session/update");
        updates.map(|line| line["params"]["update"].clone()).collect()
    };
    assert_eq!(updates(there), expected);
    let mut told = Vec::new();
    while told.len() < 3 {
        told.extend(updates(vec![second.next().await]));
    }
    assert_eq!(told[1..], expected);
}

#[tokio::test]
async fn unsupported_content_is_invalid_params_with_path_and_capability() {
    let bench = Bench::new();
    let problem = |error: &Value| {
        let data = &error["data"];
        assert!(data["details"].as_str().unwrap().starts_with(data["problem"].as_str().unwrap()));
        (error["code"].clone(), data["field"].clone(), data["problem"].clone())
    };
    // In version 1 every agent takes servers that are programs, so only this agent can say that it does not.
    let second = bench.agent(&Script::new().initialize_v2(json!({})).serve_v2("one", "two"));
    let mut editor = bench.speaking(1, 2, &second).await;
    let server = json!({ "name": "tools", "command": "/bin/true", "args": [], "env": [] });
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [server] });
    let refused = editor.call("session/new", new).await.unwrap_err();
    let words = "the agent \"scripted\" cannot take the MCP server \"tools\": it does not advertise session.mcp.stdio";
    let expected = (json!(-32602), json!("mcpServers[0]"), json!(words));
    assert_eq!(problem(&refused), expected);

    // A client that names its agent with a session is offered what any agent may take.
    for version in [1, 2] {
        let bench = Bench::new();
        let first = bench.agent(&faithful(everything()));
        let mut editor = bench.joined(version).await;
        let info = json!({ "name": "editor", "version": "7" });
        editor.call("initialize", json!({ "protocolVersion": version, "info": info })).await.unwrap();
        let made = editor.call("session/new", bench.new_params(&first)).await.unwrap();
        let image = json!({ "type": "image", "data": "", "mimeType": "image/png" });
        let mut prompt = prompt_params(made["sessionId"].as_str().unwrap(), "x", json!({}));
        prompt["prompt"].as_array_mut().unwrap().push(image);
        let refused = editor.call("session/prompt", prompt).await.unwrap_err();
        let words = "the agent \"scripted\" cannot take prompt[1] (image): it does not advertise promptCapabilities.image";
        let expected = (json!(-32602), json!("prompt[1]"), json!(words));
        assert_eq!(problem(&refused), expected, "{version}: {refused}");
    }
}
