//! What only version 2 of the protocol has: prompts that are answered when they are in the conversation, states, replays
//! from anywhere, and options in the place of modes.

use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::{conversation, last_state};
use super::{Bench, eventually, prompt_params};
use crate::engine::{everything, received};

const MESSAGE: &str = ":turn:1";

fn states(lines: &[Value]) -> Vec<Value> {
    let updates = lines.iter().map(|line| line["params"]["update"].clone());
    updates.filter(|update| update["sessionUpdate"] == "state_update").collect()
}

fn state(name: &str) -> Value {
    json!({ "sessionUpdate": "state_update", "state": name })
}

fn idle(stop_reason: &str) -> Value {
    json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": stop_reason })
}

/// An agent of version 1 that does this in every turn.
fn agent(turn: Script) -> Script {
    Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn),
    ])
}

#[tokio::test]
async fn v2_client_gets_capabilities_in_its_own_format() {
    let bench = Bench::new();
    let capabilities = json!({
        "promptCapabilities": { "image": true },
        "mcpCapabilities": { "http": true, "sse": true },
        "auth": { "logout": {} },
    });
    let methods = json!([{ "id": "key", "name": "Key" }]);
    let answer = json!({ "protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": methods });
    let argv = bench.agent(&Script::new().expect("initialize").reply(answer));
    let params = json!({ "protocolVersion": 2, "info": { "name": "editor", "version": "7" } });
    let nobody = bench.joined(2).await.call("initialize", params.clone()).await.unwrap();
    let session = json!({
        "prompt": { "image": {}, "audio": {}, "embeddedContext": {} },
        "mcp": { "stdio": {}, "http": {} },
        "delete": {},
        "additionalDirectories": {},
    });
    assert_eq!(nobody["capabilities"], json!({ "session": session }));

    let client = json!({ "agent": { "name": "scripted", "argv": argv }, "cwd": bench.home.path(), "environment": super::environment() });
    let mut params = params;
    params["_meta"]["acpx"]["client"] = client;
    let mut editor = bench.joined(2).await;
    let answer = editor.call("initialize", params).await.unwrap();
    let session = json!({ "prompt": { "image": {} }, "mcp": { "http": {}, "stdio": {} }, "delete": {} });
    assert_eq!(answer["capabilities"], json!({ "session": session }));
    assert_eq!(answer["authMethods"], json!([{ "methodId": "key", "name": "Key", "type": "agent" }]));
    let load = editor.call("session/load", bench.load_params("x")).await.unwrap_err();
    assert_eq!(load["code"], -32601);
}

#[tokio::test]
async fn v2_prompt_is_answered_at_insertion_and_ended_by_a_state() {
    let bench = Bench::new();
    let go_on = bench.home.join("go-on");
    let usage = json!({ "totalTokens": 7, "inputTokens": 3, "outputTokens": 4 });
    let turn =
        Script::new().await_file(&go_on).say("a").reply(json!({ "stopReason": "end_turn", "usage": usage }));
    let argv = bench.agent(&agent(turn));
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    let id = editor.ask("session/prompt", prompt_params(&record, "one", json!({ "requestId": "q" }))).await;
    let (answer, mut lines) = editor.answer(id).await;
    let message = format!("{record}{MESSAGE}");
    let meta = json!({ "acpx": { "turn": 1, "requestId": "q" } });
    assert_eq!(answer, Ok(json!({ "messageId": message, "_meta": meta })));
    std::fs::write(&go_on, "").unwrap();
    lines.extend(editor.until_idle().await);
    let mut ended = idle("end_turn");
    ended["usage"] = usage;
    assert_eq!(states(&lines), [state("running"), ended]);
    let told = lines.iter().find(|line| line["params"]["update"]["sessionUpdate"] == "user_message").unwrap();
    assert_eq!(told["params"]["update"]["messageId"], json!(message));
    assert_eq!(conversation(&lines), ["user: one", "agent: a"]);
    // The end tells where to go on, though no numbers were asked for.
    let last = bench.record(&record).await.last_seq.unwrap().0;
    assert_eq!(lines.last().unwrap()["params"]["_meta"]["acpx"]["seq"], last);
}

#[tokio::test]
async fn v2_agents_prompt_is_inserted_when_the_agent_accepts_it() {
    let bench = Bench::new();
    let [take_in, seen] = ["take-in", "seen"].map(|name| bench.home.join(name));
    let turn =
        Script::new().touch(&seen).await_file(&take_in).insert("one").say_in("m", "a").idle("end_turn");
    let script = Script::new().initialize_v2(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
    ]);
    let mut editor = bench.speaking(2, 2, &bench.agent(&script)).await;
    let record = editor.open(&bench).await;
    let id = editor.ask("session/prompt", prompt_params(&record, "one", json!({}))).await;
    eventually("the agent has the prompt", || seen.exists()).await;
    let status = editor.ask("_acpx/host/status", json!({})).await;
    let (_, before) = editor.answer(status).await;
    assert!(before.iter().all(|line| line["id"] != id), "{before:?}");
    std::fs::write(&take_in, "").unwrap();
    let (answer, mut lines) = editor.answer(id).await;
    assert_eq!(answer.unwrap()["messageId"], json!(format!("{record}{MESSAGE}")));
    lines.extend(editor.until_idle().await);
    assert_eq!(conversation(&[before, lines].concat()), ["user: one", "agent: a"]);
}

#[tokio::test]
async fn v2_prompt_that_was_not_inserted_is_cancelled_or_refused() {
    let bench = Bench::new();
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        (
            "session/prompt",
            Script::new()
                .say("working")
                .await_file(&bench.home.join("fail"))
                .reply_error(json!({ "code": -32099, "message": "no luck", "data": { "why": "x" } })),
        ),
    ]);
    let mut editor = bench.speaking(2, 1, &bench.agent(&script)).await;
    let record = editor.open(&bench).await;
    let first = editor.ask("session/prompt", prompt_params(&record, "one", json!({}))).await;
    editor.answer(first).await.0.unwrap();
    let queued = editor.ask("session/prompt", prompt_params(&record, "two", json!({}))).await;
    editor.notify("$/cancel_request", json!({ "requestId": queued })).await;
    let (dropped, _) = editor.answer(queued).await;
    assert_eq!(dropped.unwrap_err()["code"], -32800);

    std::fs::write(bench.home.join("fail"), "").unwrap();
    let lines = editor.until_idle().await;
    let failed = last_state(&lines);
    assert_eq!(failed["stopReason"], "error");
    let acp = json!({ "code": -32099, "message": "no luck", "data": { "why": "x" } });
    assert_eq!(failed["error"]["code"], -32099, "{failed}");
    assert_eq!(failed["error"]["data"]["acpx"]["acp"], acp);

    let image = json!([{ "type": "resource", "resource": { "uri": "x:y", "text": "t" } }]);
    let refused = editor.call("session/prompt", json!({ "sessionId": record, "prompt": image })).await;
    assert_eq!(refused.unwrap_err()["code"], -32602);
}

#[tokio::test]
async fn pending_request_is_an_action_for_present_and_later_clients() {
    let bench = Bench::new();
    let argv = bench.agent(&agent(Script::new().ask_permission("t1").say("done").end("end_turn")));
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    editor.ask("session/prompt", prompt_params(&record, "edit", json!({}))).await;
    let asked = editor.until(|line| line["method"] == "session/request_permission").await;
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    let call = json!({ "toolCallId": "t1", "title": "Edit a file", "kind": "edit" });
    let expected = json!({
        "sessionId": record,
        "title": "Edit a file",
        "subject": { "type": "tool_call", "toolCall": call },
        "options": [option("yes", "allow_once"), option("no", "reject_once")],
    });
    assert_eq!(asked["params"], expected);

    let mut other = bench.speaking(2, 1, &argv).await;
    let resume = other.ask("session/resume", bench.load_params(&record)).await;
    let (answer, before) = other.answer(resume).await;
    answer.unwrap();
    assert_eq!(states(&before), [state("requires_action")]);

    editor.choose(&asked["id"], "yes").await;
    assert_eq!(states(&other.until_idle().await), [state("running"), idle("end_turn")]);
    editor.until_idle().await;

    let allowed = prompt_params(&record, "edit", json!({ "policy": "approve-all" }));
    editor.ask("session/prompt", allowed).await;
    assert_eq!(states(&editor.until_idle().await), [state("running"), idle("end_turn")]);
}

#[tokio::test]
async fn file_or_terminal_request_is_an_action_only_when_asked() {
    let bench = Bench::new();
    let write = json!({ "sessionId": "{sessionId}", "path": bench.home.join("file"), "content": "x" });
    let run = json!({ "sessionId": "{sessionId}", "command": "true" });
    let turn =
        Script::new().request("fs/write_text_file", write).request("terminal/create", run).end("end_turn");
    let argv = bench.agent(&agent(turn));
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    let mut other = bench.speaking(2, 1, &argv).await;
    other.call("session/resume", bench.load_params(&record)).await.unwrap();
    editor.ask("session/prompt", prompt_params(&record, "go", json!({}))).await;
    let mut told = Vec::new();
    for _ in 0..2 {
        let asked = editor.question().await;
        let waits = |line: &Value| {
            told.push(line.clone());
            line["params"]["update"]["state"] == "requires_action"
        };
        other.until(waits).await;
        let mut late = bench.speaking(2, 1, &argv).await;
        let resume = late.ask("session/resume", bench.load_params(&record)).await;
        let (answer, before) = late.answer(resume).await;
        answer.unwrap();
        assert_eq!(states(&before), [state("requires_action")]);
        editor.choose(&asked, "allow").await;
    }
    told.extend(other.until_idle().await);
    let (running, action) = (state("running"), state("requires_action"));
    let all = [running.clone(), action.clone(), running.clone(), action, running.clone(), idle("end_turn")];
    assert_eq!(states(&told), all);
    // What a policy answers, and what the turn's client does for any agent unasked, nobody is asked.
    let allowed = prompt_params(&record, "go", json!({ "policy": "approve-all" }));
    editor.until_idle().await;
    editor.ask("session/prompt", allowed).await;
    assert_eq!(states(&other.until_idle().await), [running, idle("end_turn")]);
}

#[tokio::test]
async fn unknown_permission_outcome_approves_nothing() {
    let bench = Bench::new();
    for of_agent in [1, 2] {
        let turn = match of_agent {
            1 => Script::new().ask_permission("t1").end("end_turn"),
            _ => Script::new().insert("edit").ask_permission_v2("t1").idle("end_turn"),
        };
        let script = match of_agent {
            1 => Script::new().initialize(everything()),
            _ => Script::new().initialize_v2(json!({})),
        };
        let script = script.serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            ("session/prompt", turn),
        ]);
        let argv = bench.agent(&script);
        for client in [1, 2] {
            let mut editor = bench.speaking(u16::try_from(client).unwrap(), of_agent, &argv).await;
            let record = editor.open(&bench).await;
            editor.ask("session/prompt", prompt_params(&record, "edit", json!({}))).await;
            let question = editor.question().await;
            editor
                .respond(&question, json!({ "outcome": { "outcome": "_perhaps", "optionId": "yes" } }))
                .await;
            let answered = || received(&argv).into_iter().filter(|(method, _)| method == "answer").count();
            let answer = || received(&argv).into_iter().rfind(|(method, _)| method == "answer");
            eventually("the agent is answered", || answered() == client).await;
            let expected = if (client, of_agent) == (2, 2) { "_perhaps" } else { "cancelled" };
            assert_eq!(answer().unwrap().1["outcome"]["outcome"], expected, "{client} over {of_agent}");
            editor.call("session/close", json!({ "sessionId": record })).await.unwrap();
        }
    }
}

#[tokio::test]
async fn v2_close_ends_the_turn_and_is_the_last_update() {
    let bench = Bench::new();
    // Its first start is to ask it what it offers.
    let script = Script::new()
        .initialize(everything())
        .next_start()
        .initialize(everything())
        .session_new("s1")
        .expect_as("session/prompt", "turn")
        .say("waiting")
        .expect("session/cancel")
        .say("last words")
        .reply_to("turn", json!({ "stopReason": "cancelled" }))
        .serve([("session/close", Script::new().reply(json!({})))]);
    let mut editor = bench.speaking(2, 1, &bench.agent(&script)).await;
    let record = editor.open(&bench).await;
    editor.ask("session/prompt", prompt_params(&record, "one", json!({}))).await;
    editor.until(|line| line["params"]["update"]["content"]["text"] == "waiting").await;
    let held = editor.ask("session/prompt", prompt_params(&record, "two", json!({}))).await;
    let close = editor.ask("session/close", json!({ "sessionId": record })).await;
    let (answer, mut before) = editor.answer(close).await;
    assert_eq!(answer, Ok(json!({})));
    let dropped = before.iter().position(|line| line["id"] == held).expect("it was answered before");
    assert_eq!(before.remove(dropped)["error"]["code"], -32800);
    assert_eq!(conversation(&before), ["agent: last words"]);
    assert_eq!(before.last().unwrap()["params"]["update"], idle("cancelled"));
    let status = editor.ask("_acpx/host/status", json!({})).await;
    assert_eq!(editor.answer(status).await.1, [] as [Value; 0]);
}

#[tokio::test]
async fn v2_replay_is_complete_and_ordered_after_killing_everything() {
    let bench = Bench::new();
    let script = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s-{id}" }))),
        ("session/prompt", Script::new().say("a").say("b").end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    let mut lived = Vec::new();
    for text in ["one", "two"] {
        lived.extend(editor.turn(&record, text).await.lines);
    }
    drop(editor);
    bench.kill_host().await;

    let mut editor = bench.speaking(2, 1, &argv).await;
    let mut params = bench.load_params(&record);
    params["replayFrom"] = json!({ "type": "start" });
    let id = editor.ask("session/resume", params.clone()).await;
    let (answer, replay) = editor.answer(id).await;
    let answer = answer.unwrap();
    assert_eq!(answer["_meta"]["acpx"]["awakening"]["by"], "fresh", "{answer}");
    assert!(answer["_meta"]["acpx"]["seq"].is_u64(), "{answer}");
    let expected = ["user: one", "agent: ab", "user: two", "agent: ab"];
    assert_eq!(
        (conversation(&lived), conversation(&replay)),
        (expected.map(str::to_owned).to_vec(), expected.map(str::to_owned).to_vec())
    );
    let ids = |lines: &[Value]| {
        let mut ids: Vec<_> =
            lines.iter().map(|line| line["params"]["update"]["messageId"].clone()).collect();
        ids.retain(|id| !id.is_null());
        ids.dedup();
        ids
    };
    assert_eq!(ids(&lived), ids(&replay));
    assert_eq!(replay.last().unwrap()["params"]["update"], state("idle"));
    // That the agent remembers nothing is told behind what was said before.
    editor.until(|line| line["params"]["update"]["sessionUpdate"] == "notice").await;

    for (cursor, field) in [
        (json!({ "type": "end" }), "replayFrom"),
        (json!({}), "replayFrom.type"),
        (json!(7), "replayFrom"),
        (json!({ "type": "_acpx/seq" }), "replayFrom.seq"),
        (json!({ "type": "_acpx/seq", "seq": 0 }), "replayFrom.seq"),
        (json!({ "type": "_acpx/seq", "seq": 9999 }), "replayFrom"),
    ] {
        params["replayFrom"] = cursor;
        let refused = editor.call("session/resume", params.clone()).await.unwrap_err();
        assert_eq!((&refused["code"], &refused["data"]["field"]), (&json!(-32602), &json!(field)));
    }
    params["replayFrom"] = json!(null);
    let id = editor.ask("session/resume", params).await;
    let (answer, silent) = editor.answer(id).await;
    answer.unwrap();
    assert_eq!(silent.iter().map(|line| &line["params"]["update"]).collect::<Vec<_>>(), [&state("idle")]);
}

#[tokio::test]
async fn session_state_comes_with_its_event_and_failure_with_hint() {
    let bench = Bench::new();
    let argv = bench.agent(&agent(Script::new().say("a").hang()));
    let mut editor = bench.speaking(2, 1, &argv).await;
    let made =
        editor.call("session/new", json!({ "cwd": bench.home.path(), "mcpServers": [] })).await.unwrap();
    // Nothing was told yet, so whoever comes back goes on with the first event.
    assert_eq!(made["_meta"]["acpx"]["seq"], 0, "{made}");
    let record = made["sessionId"].as_str().unwrap().to_owned();
    editor.ask("session/prompt", prompt_params(&record, "one", json!({}))).await;
    editor.until(|line| line["params"]["update"]["sessionUpdate"] == "agent_message_chunk").await;
    drop(editor);
    bench.kill_host().await;

    let mut editor = bench.speaking(2, 1, &argv).await;
    let cursors = [json!({ "type": "_acpx/seq", "seq": 1 }), json!({ "type": "start" }), json!(null)];
    for (index, cursor) in cursors.into_iter().enumerate() {
        let mut params = bench.load_params(&record);
        params["replayFrom"] = cursor;
        params["_meta"] = json!({ "acpx": { "later": true } });
        let id = editor.ask("session/resume", params).await;
        let (answer, lines) = editor.answer(id).await;
        let stands = &lines.last().unwrap()["params"];
        assert_eq!(stands["update"]["state"], "idle", "{stands}");
        assert_eq!(stands["_meta"]["acpx"]["seq"], answer.unwrap()["_meta"]["acpx"]["seq"], "{stands}");
        if index == 0 {
            let fault = &stands["update"]["error"]["data"]["acpx"];
            let hint = "the output until then is kept; prompt again to continue";
            let turn = json!({ "turn": 1, "requestId": fault["turn"]["requestId"] });
            assert_eq!(fault, &json!({ "code": "INTERRUPTED", "hint": hint, "turn": turn }));
        }
    }
}

#[tokio::test]
async fn agent_modes_become_a_v2_option_and_v2_options_v1_modes() {
    let bench = Bench::new();
    let modes = json!({
        "currentModeId": "ask",
        "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }],
    });
    let told = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "ask" });
    let script = Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1", "modes": modes }))),
        ("session/set_mode", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().update(told).end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 1, &argv).await;
    let new = editor.call("session/new", json!({ "cwd": bench.home.path() })).await.unwrap();
    let record = new["sessionId"].as_str().unwrap().to_owned();
    let option = |current: &str| {
        let choices = json!([{ "value": "ask", "name": "Ask" }, { "value": "code", "name": "Code" }]);
        json!([{
            "configId": "acpx.mode", "name": "Mode", "category": "mode", "type": "select",
            "currentValue": current, "options": choices,
        }])
    };
    assert_eq!(new["configOptions"], option("ask"));
    let set = json!({ "sessionId": record, "configId": "acpx.mode", "type": "id", "value": "code" });
    let answer = editor.call("session/set_config_option", set).await;
    assert_eq!(answer, Ok(json!({ "configOptions": option("code") })));
    let asked = received(&argv).into_iter().find(|(method, _)| method == "session/set_mode").unwrap();
    assert_eq!(asked.1, json!({ "sessionId": "s1", "modeId": "code" }));
    let turn = editor.turn(&record, "back").await;
    let update = json!({ "sessionUpdate": "config_option_update", "configOptions": option("ask") });
    assert!(turn.lines.iter().any(|line| line["params"]["update"] == update), "{:?}", turn.lines);

    let options = option("ask").to_string().replace("acpx.mode", "mode");
    let options: Value = serde_json::from_str(&options).unwrap();
    let changed: Value = serde_json::from_str(
        &options.to_string().replace(r#""currentValue":"ask""#, r#""currentValue":"code""#),
    )
    .unwrap();
    let script = Script::new().initialize_v2(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s2", "configOptions": options }))),
        ("session/set_config_option", Script::new().reply(json!({ "configOptions": changed }))),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(1, 2, &argv).await;
    let new =
        editor.call("session/new", json!({ "cwd": bench.home.path(), "mcpServers": [] })).await.unwrap();
    assert_eq!(new["modes"], modes);
    let set = json!({ "sessionId": new["sessionId"], "modeId": "code" });
    assert_eq!(editor.call("session/set_mode", set).await, Ok(json!({})));
    let asked =
        received(&argv).into_iter().find(|(method, _)| method == "session/set_config_option").unwrap();
    assert_eq!(asked.1, json!({ "sessionId": "s2", "configId": "mode", "type": "id", "value": "code" }));
}

#[tokio::test]
async fn a_client_of_version_2_stops_what_it_did_not_begin() {
    let bench = Bench::new();
    // Its first start is to ask it what it offers.
    let script = Script::new()
        .initialize(everything())
        .next_start()
        .initialize(everything())
        .session_new("s1")
        .expect_as("session/prompt", "turn")
        .say("waiting")
        .expect("session/cancel")
        .reply_to("turn", json!({ "stopReason": "cancelled" }));
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(1, 1, &argv).await;
    let record = editor.open(&bench).await;
    editor.ask("session/prompt", prompt_params(&record, "one", json!({}))).await;
    editor.until(|line| line["params"]["update"]["content"]["text"] == "waiting").await;
    drop(editor);
    let mut second = bench.speaking(2, 1, &argv).await;
    let resume = second.ask("session/resume", bench.load_params(&record)).await;
    let (answer, before) = second.answer(resume).await;
    answer.unwrap();
    assert_eq!(states(&before), [state("running")]);
    second.notify("session/cancel", json!({ "sessionId": record })).await;
    assert_eq!(last_state(&second.until_idle().await), &idle("cancelled"));
}

#[tokio::test]
async fn prompt_its_agent_refuses_is_answered_only_with_the_refusal() {
    let bench = Bench::new();
    let message = json!({ "type": "text", "text": "W" });
    let whole = json!({ "sessionUpdate": "agent_message", "messageId": "whole", "content": [message] });
    let refusal = json!({ "code": -32602, "message": "no such thing" });
    let script = Script::new()
        .initialize_v2(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.reply_error(refusal))
        .prompt(|turn| turn.insert("b").update(whole.clone()).say_in("m", "x").idle("end_turn"))
        .hang();
    let argv = bench.agent(&script);
    let mut editor = bench.speaking(2, 2, &argv).await;
    let record = editor.open(&bench).await;
    let refused = editor.ask("session/prompt", prompt_params(&record, "a", json!({}))).await;
    let (answer, before) = editor.answer(refused).await;
    assert_eq!(answer.unwrap_err()["code"], -32602);
    let updates = |lines: &[Value]| -> Vec<Value> {
        let updates = lines.iter().map(|line| line["params"]["update"].clone());
        updates.filter(|update| !update.is_null() && update["sessionUpdate"] != "state_update").collect()
    };
    assert_eq!(updates(&before), [] as [Value; 0]);
    editor.turn(&record, "b").await;
    let prompt = json!({
        "sessionUpdate": "user_message", "messageId": format!("{record}:turn:2"),
        "content": [{ "type": "text", "text": "b" }],
    });
    let said = json!({
        "sessionUpdate": "agent_message", "messageId": "m", "content": [{ "type": "text", "text": "x" }],
    });
    let cases = [
        (json!({ "type": "start" }), json!({}), vec![prompt, whole.clone(), said.clone()]),
        (json!({ "type": "_acpx/message", "messageId": "whole" }), json!({}), vec![whole, said]),
        (json!({ "type": "start" }), json!({ "replay": { "turns": 0 } }), vec![]),
    ];
    for (from, acpx, expected) in cases {
        let mut params = bench.load_params(&record);
        params["replayFrom"] = from;
        params["_meta"] = json!({ "acpx": acpx });
        let resume = editor.ask("session/resume", params).await;
        let (answer, told) = editor.answer(resume).await;
        answer.unwrap();
        assert_eq!(updates(&told), expected);
    }
}
