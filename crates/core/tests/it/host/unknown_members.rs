//! Between a client and an agent of one version everything goes through as it was said, also what nobody here knows.

use acpx_core::model::{RecordId, Seq};
use acpx_core::store::Store;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::Bench;
use super::editor::Editor;
use crate::engine::received;

/// What the agent was asked last with this method.
fn asked(argv: &[String], method: &str) -> Value {
    let mut asked = received(argv).into_iter().filter(|(name, _)| name == method);
    asked.next_back().expect("the agent was asked").1
}

/// What is ours is taken out, to compare the rest whole.
fn without_ours(mut answer: Value) -> Value {
    let meta = answer["_meta"].as_object_mut().expect("our answers have a _meta");
    meta.remove("acpx").expect("ours is there");
    answer
}

fn modes(current: &str) -> Value {
    json!({ "currentModeId": current, "availableModes": [
        { "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code", "future": 1 },
    ]})
}

fn setup() -> Value {
    json!({ "sessionId": "s1", "modes": modes("ask"), "models": { "x": [1] }, "_meta": { "w": 1 } })
}

fn script() -> Script {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    let permission = json!({
        "sessionId": "s1", "toolCall": { "toolCallId": "t", "title": "Edit" },
        "options": [option("yes", "allow_once"), option("no", "reject_once")],
    });
    let prompted = Script::new().request("session/request_permission", permission);
    Script::new().initialize(json!({ "sessionCapabilities": { "fork": {} } })).serve([
        ("session/new", Script::new().reply(setup())),
        ("session/fork", Script::new().reply(json!({ "sessionId": "s2", "_meta": { "f": 1 } }))),
        ("session/set_mode", Script::new().reply(json!({ "_meta": { "m": 1 } }))),
        (
            "session/prompt",
            prompted.reply(json!({ "stopReason": "weird", "_meta": { "k": 1 }, "future": [1.5] })),
        ),
    ])
}

async fn open(bench: &Bench, editor: &mut Editor) -> (String, Value) {
    let params = json!({
        "cwd": bench.home.path(), "mcpServers": [], "systemPrompt": "SP",
        "_meta": { "mine": 1, "acpx": { "idleMs": 0 } },
    });
    let answer = editor.call("session/new", params).await.unwrap();
    (answer["sessionId"].as_str().unwrap().to_owned(), answer)
}

#[tokio::test]
async fn session_setup_forwards_unknown_members_of_both_sides() {
    let bench = Bench::new();
    let argv = bench.agent(&script());
    let mut editor = bench.editor(&argv).await;
    let (record, answer) = open(&bench, &mut editor).await;
    let mut expected = setup();
    expected["sessionId"] = json!(record);
    assert_eq!(without_ours(answer), expected);
    let new = json!({
        "cwd": bench.home.path(), "mcpServers": [], "systemPrompt": "SP", "_meta": { "mine": 1 },
    });
    assert_eq!(asked(&argv, "session/new"), new);

    let mode = json!({ "sessionId": record, "modeId": "code", "_meta": { "q": 1, "acpx": {} }, "future": 2 });
    assert_eq!(editor.call("session/set_mode", mode).await, Ok(json!({ "_meta": { "m": 1 } })));
    let set = json!({ "sessionId": "s1", "modeId": "code", "_meta": { "q": 1 }, "future": 2 });
    assert_eq!(asked(&argv, "session/set_mode"), set);

    // Whoever comes later is told the same, as it stands by now.
    let mut other = bench.editor(&argv).await;
    let answer = other.call("session/resume", bench.load_params(&record)).await.unwrap();
    let later = json!({ "modes": modes("code"), "models": { "x": [1] }, "_meta": { "w": 1 } });
    assert_eq!(without_ours(answer), later);

    let mut fork = bench.load_params(&record);
    fork["_meta"] = json!({ "fk": 1 });
    let answer = editor.call("session/fork", fork).await.unwrap();
    assert_eq!(answer["_meta"]["f"], 1);
    assert_eq!(asked(&argv, "session/fork")["_meta"], json!({ "fk": 1 }));
}

#[tokio::test]
async fn mcp_servers_reach_the_agent_verbatim_and_are_stored_by_name() {
    let env = json!([{ "name": "K", "value": "v", "_meta": { "e": 1 } }]);
    let said = |kind: Value| {
        json!([{
            "name": "files", "type": kind, "command": "/bin/files", "args": [], "env": env,
            "_meta": { "m": 1 }, "future": { "token": "s3cret-unknown" },
        }])
    };
    let without_type = |mut servers: Value| {
        servers[0].as_object_mut().unwrap().remove("type");
        servers
    };
    let first = without_type(said(json!(null)));
    let second = said(json!("stdio"));
    for (client, agent, sent, expected) in
        [(1, 1, &first, &first), (2, 2, &second, &second), (1, 2, &first, &second), (2, 1, &second, &first)]
    {
        let bench = Bench::new();
        let greeted = match agent {
            1 => Script::new().initialize(json!({})),
            _ => Script::new().initialize_v2(json!({ "mcp": { "stdio": {} } })),
        };
        let new = Script::new().reply(json!({ "sessionId": "s1" }));
        let argv = bench.agent(&greeted.serve([("session/new", new)]));
        let mut editor = bench.speaking(client, agent, &argv).await;
        let params = json!({ "cwd": bench.home.path(), "mcpServers": sent });
        let answer = editor.call("session/new", params).await.unwrap();
        assert_eq!(&asked(&argv, "session/new")["mcpServers"], expected, "{client} over {agent}");

        let record = RecordId::new(answer["sessionId"].as_str().unwrap()).unwrap();
        let kept = bench.store().events(record, Seq::FIRST, 1000).await.unwrap();
        let kept = kept.iter().find(|event| event.body.contains("session/new")).unwrap();
        let kept: Value = serde_json::from_str(&kept.body).unwrap();
        assert_eq!(kept["params"]["mcpServers"], json!([{ "name": "files" }]));
    }
}

#[tokio::test]
async fn mcp_server_repeated_by_an_agent_is_forwarded_without_secrets() {
    let server = json!({
        "name": "files", "type": "http", "url": "http://x", "headers": [],
        "auth": { "tokens": ["s3cret-unknown"] }, "env": [{ "name": "K", "value": "s3cret-foreign" }],
    });
    let invalid = |input: &Value| {
        let found = json!([{ "type": "extra_forbidden", "loc": ["auth"], "msg": "Extra", "input": input }]);
        json!({ "code": -32602, "message": "Invalid params", "data": found })
    };
    let repeating = Script::new().reply_error(invalid(&server));
    let script = |new: Script| {
        let greeted = Script::new().initialize(json!({ "mcpCapabilities": { "http": true } }));
        greeted.serve([("session/new", new), ("session/prompt", repeating.clone())])
    };
    let bench = Bench::new();
    let open = async |new: Script| {
        let mut editor = bench.editor(&bench.agent(&script(new))).await;
        let params = json!({ "cwd": bench.home.path(), "mcpServers": [server] });
        let answer = editor.call("session/new", params).await;
        (editor, answer)
    };
    let without = json!({
        "name": "files", "type": "http", "url": "http://x", "headers": [],
        "auth": { "tokens": ["[secret]"] }, "env": [{ "name": "K", "value": "[secret]" }],
    });
    let (_, refused) = open(repeating.clone()).await;
    assert_eq!(refused.unwrap_err()["data"]["acpx"]["acp"], invalid(&without));

    let (mut editor, answer) = open(Script::new().reply(json!({ "sessionId": "s1" }))).await;
    let record = answer.unwrap()["sessionId"].as_str().unwrap().to_owned();
    let refused = editor.call("session/prompt", super::prompt_params(&record, "go", json!({}))).await;
    assert_eq!(refused.unwrap_err()["data"]["acpx"]["acp"], invalid(&without));
    let kept = bench.store().events(RecordId::new(record).unwrap(), Seq::FIRST, 1000).await.unwrap();
    let told = kept.iter().filter(|event| event.body.contains("s3cret")).count();
    let found = kept.iter().filter(|event| event.body.contains("extra_forbidden")).count();
    assert_eq!((told, found > 0), (0, true));
}

#[tokio::test]
async fn prompt_permission_and_response_keep_unknown_members() {
    let bench = Bench::new();
    let argv = bench.agent(&script());
    let mut editor = bench.editor(&argv).await;
    let (record, _) = open(&bench, &mut editor).await;
    let blocks = json!([{ "type": "text", "text": "x", "future": 1 }]);
    let params =
        json!({ "sessionId": record, "prompt": blocks, "extra": { "q": 1 }, "_meta": { "hello": 1 } });
    let id = editor.ask("session/prompt", params).await;
    let question = editor.question().await;
    let said = json!({
        "outcome": { "outcome": "selected", "optionId": "yes", "_meta": { "note": "because" }, "future": 1 },
        "_meta": { "top": 1 }, "other": 2,
    });
    editor.respond(&question, said.clone()).await;
    let (answer, _) = editor.answer(id).await;
    let expected = json!({ "stopReason": "weird", "_meta": { "k": 1 }, "future": [1.5] });
    assert_eq!(without_ours(answer.unwrap()), expected);
    assert_eq!(asked(&argv, "answer"), said);
    let prompt = json!({
        "sessionId": "s1", "prompt": blocks, "extra": { "q": 1 }, "_meta": { "hello": 1 },
    });
    assert_eq!(asked(&argv, "session/prompt"), prompt);
}

#[tokio::test]
async fn cancel_delete_and_login_forward_unknown_members_to_the_agent() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let greeting = json!({
        "protocolVersion": 1, "authMethods": [{ "id": "key", "name": "Key" }],
        "agentCapabilities": { "sessionCapabilities": { "delete": {} }, "auth": { "logout": {} } },
    });
    let turn = Script::new().touch(&began).expect("session/cancel").await_file(&go).end("cancelled");
    let script = Script::new().expect("initialize").reply(greeting).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
        ("session/delete", Script::new().reply(json!({}))),
        ("authenticate", Script::new().reply(json!({}))),
        ("logout", Script::new().reply(json!({}))),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    let said = json!({ "sessionId": record, "_meta": { "why": 2, "acpx": {} }, "future": 1 });
    let passed = json!({ "sessionId": "s1", "_meta": { "why": 2 }, "future": 1 });
    let prompt = editor.ask("session/prompt", super::prompt_params(&record, "x", json!({}))).await;
    super::eventually("the turn runs", || began.exists()).await;
    editor.notify("session/cancel", said.clone()).await;
    std::fs::write(&go, "").unwrap();
    assert_eq!(editor.answer(prompt).await.0.unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.call("session/delete", said).await, Ok(json!({})));
    let login = json!({ "methodId": "key", "_meta": { "why": 2, "acpx": {} }, "future": 1.5 });
    assert_eq!(editor.call("authenticate", login).await, Ok(json!({})));
    let logged_in = json!({ "methodId": "key", "_meta": { "why": 2 }, "future": 1.5 });
    let logout = json!({ "_meta": { "why": 2 }, "future": 1 });
    assert_eq!(editor.call("logout", logout.clone()).await, Ok(json!({})));
    for (method, expected) in [
        ("session/cancel", passed.clone()),
        ("session/delete", passed),
        ("authenticate", logged_in),
        ("logout", logout),
    ] {
        assert_eq!(asked(&argv, method), expected, "{method}");
    }
}

#[tokio::test]
async fn agent_error_reaches_the_client_with_our_data_added() {
    let bench = Bench::new();
    let error = json!({
        "code": -32055, "message": "Authentication\nrequired",
        "data": { "methods": ["x"], "sessionId": "s1" },
    });
    let script = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().reply_error(error.clone())),
    ]);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let record = editor.open(&bench).await;
    let params = super::prompt_params(&record, "x", json!({}));
    let mut told = editor.call("session/prompt", params).await.unwrap_err();
    let ours = told["data"].as_object_mut().unwrap().remove("acpx").unwrap();
    let data = json!({ "methods": ["x"], "details": "Authentication required" });
    assert_eq!(told, json!({ "code": -32055, "message": "Authentication\nrequired", "data": data }));
    assert_eq!((&ours["code"], &ours["acp"]), (&json!("AGENT_REFUSED"), &error));
    let message = ours["message"].as_str().unwrap();
    assert!(message.contains("refused session/prompt: Authentication required"), "{message}");
}

#[tokio::test]
async fn unknown_mode_or_option_is_refused_by_field_and_changes_nothing() {
    let bench = Bench::new();
    let argv = bench.agent(&script());
    let mut editor = bench.editor(&argv).await;
    let (record, _) = open(&bench, &mut editor).await;
    let error =
        editor.call("session/set_mode", json!({ "sessionId": record, "modeId": "zzz" })).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("modeId")));
    let mut new = bench.speaking(2, 1, &argv).await;
    new.call("session/resume", bench.load_params(&record)).await.unwrap();
    for (option, value, field) in [("acpx.mode", "zzz", "value"), ("nope", "x", "configId")] {
        let params = json!({ "sessionId": record, "configId": option, "type": "id", "value": value });
        let error = new.call("session/set_config_option", params).await.unwrap_err();
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)), "{error}");
    }
    assert!(received(&argv).iter().all(|(method, _)| !method.starts_with("session/set_")));
}

#[tokio::test]
async fn setting_of_one_client_is_announced_to_the_others() {
    let bench = Bench::new();
    let argv = bench.agent(&script());
    let mut editor = bench.editor(&argv).await;
    let (record, _) = open(&bench, &mut editor).await;
    let mut old = bench.editor(&argv).await;
    old.call("session/resume", bench.load_params(&record)).await.unwrap();
    let mut new = bench.speaking(2, 1, &argv).await;
    new.call("session/resume", bench.load_params(&record)).await.unwrap();
    let mode = json!({ "sessionId": record, "modeId": "code" });
    editor.call("session/set_mode", mode).await.unwrap();
    let told = old.until(|line| line["method"] == "session/update").await;
    let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" });
    assert_eq!(told["params"], json!({ "sessionId": record, "update": update }));
    let told = new.until(|line| line["params"]["update"]["sessionUpdate"] == "config_option_update").await;
    assert_eq!(told["params"]["update"]["configOptions"][0]["currentValue"], "code");
}

#[tokio::test]
async fn elicitation_of_a_login_goes_to_the_client_that_logs_in() {
    let bench = Bench::new();
    let schema = json!({ "type": "object", "properties": {} });
    let form = json!({ "requestId": 1, "mode": "form", "message": "Who?", "requestedSchema": schema });
    let answer = json!({
        "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [{ "id": "key", "name": "Key" }],
    });
    let script = Script::new()
        .expect("initialize")
        .reply(answer)
        .expect_as("authenticate", "login")
        .request("elicitation/create", form.clone())
        .reply_to("login", json!({}));
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let error = editor.call("authenticate", json!({ "methodId": "nope" })).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("methodId")));
    let id = editor.ask("authenticate", json!({ "methodId": "key" })).await;
    let question = editor.until(|line| line["method"] == "elicitation/create").await;
    let mut expected = form;
    expected["requestId"] = json!(id);
    assert_eq!(question["params"], expected);
    let said = json!({ "action": "accept", "content": { "name": "I" }, "_meta": { "x": 1 } });
    editor.respond(&question["id"], said.clone()).await;
    assert_eq!(editor.answer(id).await.0, Ok(json!({})));
    assert_eq!(asked(&argv, "answer"), said);
}

#[tokio::test]
async fn v2_client_cancels_a_tool_call_of_a_v2_agent() {
    let bench = Bench::new();
    let call = |id: &str, can: Value| json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "title": "T", "status": "in_progress", "capabilities": can });
    let turn = Script::new().insert("x").update(call("t", json!({ "cancel": {} })));
    let new = Script::new().initialize_v2(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn.update(call("fixed", json!({}))).idle("end_turn")),
        ("tool_call/cancel", Script::new().reply(json!({ "_meta": { "c": 1 } }))),
    ]);
    let argv = bench.agent(&new);
    let mut editor = bench.speaking(2, 2, &argv).await;
    let record = editor.open(&bench).await;
    let cancel = |record: &str| json!({ "sessionId": record, "toolCallId": "t", "future": 1 });
    editor.turn(&record, "x").await;
    for id in ["fixed", "never told"] {
        let params = json!({ "sessionId": record, "toolCallId": id });
        let error = editor.call("tool_call/cancel", params).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains(&format!("toolCallId is {id:?}")), "{error}");
    }
    let answer = editor.call("tool_call/cancel", cancel(&record)).await;
    assert_eq!(answer, Ok(json!({ "_meta": { "c": 1 } })));
    assert_eq!(asked(&argv, "tool_call/cancel"), cancel("s1"));

    let mut editor = bench.speaking(2, 1, &bench.agent(&script())).await;
    let record = editor.open(&bench).await;
    let error = editor.call("tool_call/cancel", cancel(&record)).await.unwrap_err();
    assert_eq!(error["code"], -32601);
}

#[tokio::test]
async fn unknown_members_of_a_v2_prompt_response_reach_both_client_versions() {
    let idle = json!({
        "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "_meta": { "z": 1, "acpx": {} },
    });
    let answer = json!({ "messageId": "u1", "vend": 1.5, "_meta": { "q": 1 } });
    for client in [1, 2] {
        let bench = Bench::new();
        let turn = Script::new().reply(answer.clone()).update(idle.clone());
        let new = Script::new().reply(json!({ "sessionId": "s1" }));
        let script =
            Script::new().initialize_v2(json!({})).serve([("session/new", new), ("session/prompt", turn)]);
        let mut editor = bench.speaking(client, 2, &bench.agent(&script)).await;
        let record = editor.open(&bench).await;
        let answered = editor.call("session/prompt", super::prompt_params(&record, "x", json!({}))).await;
        let expected = match client {
            1 => json!({ "stopReason": "end_turn", "_meta": { "z": 1 } }),
            _ => json!({ "messageId": format!("{record}:turn:1"), "vend": 1.5, "_meta": { "q": 1 } }),
        };
        assert_eq!(without_ours(answered.unwrap()), expected, "{client}");
    }
}

#[tokio::test]
async fn unknown_content_and_server_kinds_reach_a_supporting_v2_agent() {
    let bench = Bench::new();
    let turn = Script::new().insert("x").idle("end_turn");
    let new = Script::new().reply(json!({ "sessionId": "s1" }));
    let takes = json!({ "prompt": { "_x": {} }, "mcp": { "_y": {} } });
    let script = Script::new().initialize_v2(takes).serve([("session/new", new), ("session/prompt", turn)]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 2, &argv).await;
    let server = |kind: &str| json!({ "type": kind, "name": "h", "q": 1.50, "token": "s3cret" });
    let new = |kind: &str| json!({ "cwd": bench.home.path(), "mcpServers": [server(kind)] });
    let refused = editor.call("session/new", new("_z")).await.unwrap_err();
    assert_eq!((&refused["code"], &refused["data"]["field"]), (&json!(-32602), &json!("mcpServers[0].type")));
    let answer = editor.call("session/new", new("_y")).await.unwrap();
    assert_eq!(asked(&argv, "session/new")["mcpServers"], json!([server("_y")]));
    let record = answer["sessionId"].as_str().unwrap();
    let prompt = |kind: &str| json!({ "sessionId": record, "prompt": [{ "type": kind, "data": 1.50 }] });
    let refused = editor.call("session/prompt", prompt("_z")).await.unwrap_err();
    assert_eq!((&refused["code"], &refused["data"]["field"]), (&json!(-32602), &json!("prompt[0].type")));
    editor.call("session/prompt", prompt("_x")).await.unwrap();
    assert_eq!(asked(&argv, "session/prompt")["prompt"], prompt("_x")["prompt"]);
    editor.until_idle().await;

    let kept = bench.store().events(RecordId::new(record).unwrap(), Seq::FIRST, 1000).await.unwrap();
    assert!(kept.iter().all(|event| !event.body.contains("s3cret")));
    // A client of version 1 is told the kind.
    let mut first = bench.speaking(1, 2, &argv).await;
    let load = first.ask("session/load", bench.load_params(record)).await;
    let (answer, told) = first.answer(load).await;
    answer.unwrap();
    assert_eq!(told[0]["params"]["update"]["content"]["text"], "[content of the kind _x]");
}
