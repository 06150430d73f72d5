//! What the demo agent's words and flags do, as whole exchanges.

use acpx_testkit::TempHome;
use serde_json::{Value, json};

use crate::demo_process::{RawClient, ended, prompt, said};

#[tokio::test]
async fn demo_agent_advertises_capabilities_and_omits_disabled_ones() {
    let home = TempHome::new();
    let all = ["--no-load", "--no-resume", "--no-close", "--no-list", "--no-delete", "--no-http"];
    let table: [(&[&str], Value, bool, bool); 2] = [
        (&[], json!({ "list": {}, "delete": {}, "resume": {}, "close": {} }), true, true),
        (&all, json!({}), false, false),
    ];
    for (flags, sessions, load, mcp) in table {
        let answer = RawClient::silent(1, &home, flags).initialize(1).await;
        let expected = json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": load,
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": false },
                "mcpCapabilities": { "http": mcp, "sse": false },
                "sessionCapabilities": sessions,
                "auth": {},
            },
            "authMethods": [],
            "agentInfo": { "name": "acpx-demo", "version": env!("CARGO_PKG_VERSION") },
        });
        assert_eq!(answer, json!({ "result": expected }));
        let mut capabilities = json!({ "prompt": {}, "mcp": { "stdio": {} } });
        if mcp {
            capabilities["mcp"]["http"] = json!({});
        }
        if load {
            capabilities["delete"] = json!({});
        }
        let expected = json!({
            "protocolVersion": 2,
            "info": { "name": "acpx-demo", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": { "session": capabilities },
            "authMethods": [],
        });
        let mut client = RawClient::silent(2, &home, flags);
        assert_eq!(client.initialize(7).await, json!({ "result": expected }));
        assert!(client.leave().success());
    }
}

#[tokio::test]
async fn prompt_words_control_the_demo_turn() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    let plan = |first: &str, second: &str| {
        let entry =
            |text: &str, status: &str| json!({ "content": text, "priority": "medium", "status": status });
        json!({ "sessionUpdate": "plan", "entries": [entry("Read the prompt", first), entry("Answer it", second)] })
    };
    let output =
        json!([{ "type": "content", "content": { "type": "text", "text": "one note: all is well" } }]);
    let thought = json!({
        "sessionUpdate": "agent_thought_chunk",
        "content": { "type": "text", "text": "Thinking about: think" },
    });
    let tool = |status: &str| json!({ "sessionUpdate": "tool_call_update", "toolCallId": "call-5-1", "status": status });
    let mut done = tool("completed");
    done["content"] = output;
    let called = json!({
        "sessionUpdate": "tool_call",
        "toolCallId": "call-5-1",
        "title": "Read notes.txt",
        "kind": "read",
    });
    let table = [
        ("hello", vec![said("You said: hello")], "end_turn"),
        ("chunks 2", vec![said("chunk 1 of 2\n"), said("chunk 2 of 2\n")], "end_turn"),
        ("think", vec![thought, said("You said: think")], "end_turn"),
        (
            "plan",
            vec![plan("in_progress", "pending"), plan("completed", "completed"), said("You said: plan")],
            "end_turn",
        ),
        ("tool", vec![called, tool("in_progress"), done, said("You said: tool")], "end_turn"),
        ("wait 1", vec![said("Waiting 1 ms.\n"), said("You said: wait 1")], "end_turn"),
        ("refuse", vec![said("I will not do that.")], "refusal"),
        (
            "mode code",
            vec![
                json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" }),
                said("You said: mode code"),
            ],
            "end_turn",
        ),
        ("mode fly", vec![said("There is no mode fly.\n"), said("You said: mode fly")], "end_turn"),
    ];
    for (text, updates, stop_reason) in table {
        assert_eq!(client.prompt(&session, text).await, (updates, ended(stop_reason)), "{text}");
    }
    let error = json!({
        "code": -32603,
        "message": "Internal error",
        "data": { "details": "the prompt asked for a failure" },
    });
    assert_eq!(client.prompt(&session, "fail").await, (vec![], json!({ "error": error })));
}

#[tokio::test]
async fn usage_of_a_demo_turn_follows_from_its_text() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    let usage = |input: u64, output: u64| {
        Some(json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output }))
    };
    client.prompt(&session, "hello").await;
    assert_eq!(client.usage, usage(2, 4));
    // The model reads the earlier prompts again, and writes its thoughts.
    client.prompt(&session, "think").await;
    assert_eq!(client.usage, usage(3, 9));
    client.prompt(&session, "fail").await;
    assert_eq!(client.usage, None);
}

#[tokio::test]
async fn recall_answers_with_every_earlier_prompt() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    let first = client.prompt(&session, "recall").await;
    assert_eq!(first, (vec![said("You said nothing before.")], ended("end_turn")));
    client.prompt(&session, "remember the milk").await;
    let second = client.prompt(&session, "Recall!").await;
    assert_eq!(second, (vec![said("You said before:\n1. recall\n2. remember the milk")], ended("end_turn")));
}

#[tokio::test]
async fn permission_is_requested_before_the_edit_and_each_outcome_is_honoured() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    let selected = |id: &str| json!({ "outcome": { "outcome": "selected", "optionId": id } });
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    let table = [
        (selected("allow"), vec!["in_progress", "completed"], Some("The edit was made.\n"), "end_turn"),
        (selected("reject"), vec!["failed"], Some("The edit was rejected.\n"), "end_turn"),
        (cancelled, vec!["failed"], None, "cancelled"),
    ];
    for (number, (outcome, statuses, text, stop_reason)) in table.into_iter().enumerate() {
        let id = client.send("session/prompt", prompt(&session, "permission")).await;
        let tool = format!("call-{}-1", number + 1);
        let diff = json!({
            "type": "diff", "path": "/project/notes.txt", "oldText": "one note: all is well\n",
            "newText": "one note: all is well\nanother note: it was edited\n",
        });
        let call =
            json!({ "toolCallId": tool, "title": "Edit notes.txt", "kind": "edit", "content": [diff] });
        let mut told = call.clone();
        told["sessionUpdate"] = json!("tool_call");
        assert_eq!(client.next_update().await, told);
        let request = client.next().await.unwrap();
        let mut pending = call;
        pending["status"] = json!("pending");
        let options = json!([
            { "optionId": "allow", "name": "Allow", "kind": "allow_once" },
            { "optionId": "reject", "name": "Reject", "kind": "reject_once" },
        ]);
        let params = json!({ "sessionId": session, "toolCall": pending, "options": options });
        assert_eq!(request["params"], params);
        client.answer(&request["id"], outcome).await;
        let (updates, answer) = client.until_answered(id).await;
        let status = |update: &Value| update["status"].as_str().map(str::to_owned);
        assert_eq!(updates.iter().filter_map(status).collect::<Vec<_>>(), statuses);
        let first = updates.iter().find(|update| update["sessionUpdate"] == "agent_message_chunk").cloned();
        assert_eq!(first, text.map(said));
        assert_eq!(answer, ended(stop_reason));
    }
}

#[tokio::test]
async fn waiting_turn_ends_when_cancelled_and_other_sessions_continue() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let (waiting, other) = (client.new_session().await, client.new_session().await);
    assert_ne!(waiting, other);
    let id = client.send("session/prompt", prompt(&waiting, "wait")).await;
    assert_eq!(client.next_update().await, said("Waiting until cancelled.\n"));
    assert_eq!(client.prompt(&other, "hello").await, (vec![said("You said: hello")], ended("end_turn")));
    client.notify("session/cancel", json!({ "sessionId": waiting })).await;
    assert_eq!(client.until_answered(id).await, (vec![], ended("cancelled")));
}

#[tokio::test]
async fn crash_sends_one_chunk_and_exits_with_its_own_code() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    client.send("session/prompt", prompt(&session, "crash")).await;
    assert_eq!(client.next_update().await, said("You said: crash"));
    assert_eq!(client.next().await, None);
    assert_eq!(client.wait().code(), Some(70));
}

#[tokio::test]
async fn closed_stdin_is_a_clean_exit_after_the_waiting_turn_is_answered() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    let id = client.send("session/prompt", prompt(&session, "wait")).await;
    assert_eq!(client.next_update().await, said("Waiting until cancelled.\n"));
    client.end_input();
    assert_eq!(client.until_answered(id).await, (vec![], ended("cancelled")));
    assert_eq!(client.next().await, None);
    assert!(client.wait().success());
}

#[tokio::test]
async fn modes_are_advertised_at_setup_and_stored() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &["--agent-session-id", "--late-commands"]).await;
    let answer = client.call("session/new", json!({ "cwd": "/project", "mcpServers": [] })).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let setup = |mode: &str| {
        json!({
            "modes": {
                "currentModeId": mode,
                "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }],
            },
            "_meta": { "agentSessionId": format!("inner-{session}") },
        })
    };
    let mut expected = setup("ask");
    expected["sessionId"] = json!(session);
    assert_eq!(answer, json!({ "result": expected }));
    let command = json!({ "name": "recall", "description": "List every earlier prompt" });
    let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": [command] });
    assert_eq!(client.next_update().await, commands);
    let set = client.call("session/set_mode", json!({ "sessionId": session, "modeId": "code" })).await;
    assert_eq!(set, json!({ "result": {} }));
    let unknown = client.call("session/set_mode", json!({ "sessionId": session, "modeId": "fly" })).await;
    let problem = "is \"fly\", and this session has the modes ask, code";
    assert_eq!(
        unknown["error"]["data"],
        json!({
            "field": "modeId", "problem": problem, "details": format!("Invalid params: modeId {problem}"),
        })
    );
    client.prompt(&session, "hello").await;
    assert!(client.leave().success());

    let mut client = RawClient::start(&home, &["--agent-session-id", "--late-commands"]).await;
    let params = json!({ "sessionId": session, "cwd": "/project" });
    assert_eq!(client.call("session/resume", params).await, json!({ "result": setup("code") }));
    assert_eq!(client.next_update().await, commands);
}
