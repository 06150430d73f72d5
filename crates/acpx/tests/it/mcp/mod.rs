//! The demo agent as an MCP client: scripted servers here, a real one in `everything`.

mod abuse;
mod everything;
mod lifecycle;

use acpx_testkit::{Script, TempHome, scripted_agent_command};
use serde_json::{Value, json};

use crate::demo_process::{RawClient, ended, prompt, said};

/// What a scripted server answers to `initialize`.
fn initialized() -> Script {
    let info = json!({ "name": "scripted", "version": "1" });
    Script::new().reply(json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info,
    }))
}

/// The answer to `tools/list`.
fn tools(names: &[&str]) -> Script {
    let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
    Script::new().reply(json!({ "tools": names.iter().map(tool).collect::<Vec<_>>() }))
}

/// A server with these tools that does this on a call.
fn server(names: &[&str], call: Script) -> Script {
    Script::new().serve([("initialize", initialized()), ("tools/list", tools(names)), ("tools/call", call)])
}

/// A server whose tool `say` answers with one word.
fn saying(word: &str) -> Script {
    server(&["say"], Script::new().reply(json!({ "content": [{ "type": "text", "text": word }] })))
}

/// A server of a request: a program with its arguments.
fn program(name: &str, argv: &[String]) -> Value {
    json!({ "type": "stdio", "name": name, "command": argv[0], "args": argv[1..], "env": [] })
}

/// A scripted server of a request.
fn scripted(name: &str, script: &Script, home: &TempHome) -> Value {
    program(name, &scripted_agent_command(script, home))
}

/// A command of the shell as a server.
fn shell(name: &str, command: &str) -> Value {
    program(name, &["/bin/sh", "-c", command].map(String::from))
}

impl RawClient {
    /// Begins a session with these servers and gives its id.
    async fn session_with(&mut self, servers: &[Value]) -> String {
        let answer = self.call("session/new", json!({ "cwd": "/", "mcpServers": servers })).await;
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Prompts and answers every permission request with this option; gives what was told, requests included, and
    /// how the turn ended.
    async fn turn(&mut self, session: &str, text: &str, option: &str) -> (Vec<Value>, Value) {
        let id = self.send("session/prompt", prompt(session, text)).await;
        let mut told = Vec::new();
        loop {
            let mut message = self.next().await.expect("the agent is there");
            match message["method"].as_str() {
                Some("session/update") => {
                    let mut update = message["params"]["update"].take();
                    update.as_object_mut().unwrap().remove("messageId");
                    told.push(update);
                }
                Some("session/request_permission") => {
                    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": option } });
                    self.answer(&message["id"], chosen).await;
                    told.push(json!({ "asked": message["params"]["toolCall"] }));
                }
                _ if message["id"] == id => {
                    let mut end = message["result"].take();
                    end.as_object_mut().map(|end| end.remove("usage"));
                    return (told, end);
                }
                _ => panic!("{message}"),
            }
        }
    }

    /// What the agent says in a turn in which everything is allowed.
    async fn words(&mut self, session: &str, text: &str) -> String {
        let (told, _) = self.turn(session, text, "allow").await;
        told.iter().filter_map(|update| update["content"]["text"].as_str()).collect()
    }
}

#[tokio::test]
async fn mcp_stdio_servers_start_in_the_session_cwd_with_args_and_env() {
    let home = TempHome::new();
    let seen = home.join("seen");
    let argv = scripted_agent_command(&saying("hello"), &home);
    let command = format!("(pwd; echo \"$TOKEN $3\") > {}; exec \"$1\" \"$2\"", seen.display());
    let mut given =
        program("s", &["/bin/sh", "-c", &command, "sh", &argv[0], &argv[1], "word"].map(String::from));
    given["env"] = json!([{ "name": "TOKEN", "value": "given" }]);
    for version in [1, 2] {
        let mut client = RawClient::speaking(version, &home, &[]).await;
        let cwd = home.path().canonicalize().unwrap();
        let answer = client.call("session/new", json!({ "cwd": cwd, "mcpServers": [given] })).await;
        assert!(answer["result"]["sessionId"].is_string(), "{answer}");
        let expected = format!("{}\ngiven word\n", cwd.display());
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), expected, "version {version}");
        std::fs::remove_file(&seen).unwrap();
        assert!(client.leave().success());
    }
}

#[tokio::test]
async fn a_relative_mcp_command_is_refused_by_its_field() {
    let mut client = RawClient::start(&TempHome::new(), &[]).await;
    let servers = json!([shell("a", "true"), { "name": "b", "command": "server", "args": [], "env": [] }]);
    let answer = client.call("session/new", json!({ "cwd": "/", "mcpServers": servers })).await;
    let field = json!("mcpServers[1].command");
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["field"]), (&json!(-32602), &field));
}

#[tokio::test]
async fn mcp_tool_call_requests_permission_and_reports_content_and_raw_output() {
    let home = TempHome::new();
    let link = json!({ "type": "resource_link", "name": "n", "uri": "file:///n" });
    let result =
        json!({ "content": [{ "type": "text", "text": "done" }, link], "structuredContent": { "n": 1 } });
    let argv = scripted_agent_command(&server(&["Do-It"], Script::new().reply(result.clone())), &home);
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(&[program("my server", &argv)]).await;
    let words = r#"mcp "my server" Do-It {"wait": ["fail"]}"#;
    let (told, end) = client.turn(&session, words, "allow").await;
    let call = |members: Value| {
        let mut call = json!({ "toolCallId": "call-1-1" });
        call.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        call
    };
    let content = result["content"].as_array().unwrap().iter();
    let content: Vec<Value> = content.map(|block| json!({ "type": "content", "content": block })).collect();
    let (title, input) = ("mcp my server Do-It", json!({ "wait": ["fail"] }));
    assert_eq!(
        told,
        [
            call(json!({ "sessionUpdate": "tool_call", "title": title, "rawInput": input })),
            json!({ "asked": call(json!({
                "title": title, "kind": "other", "status": "pending", "rawInput": input,
            })) }),
            call(json!({ "sessionUpdate": "tool_call_update", "status": "in_progress" })),
            call(json!({
                "sessionUpdate": "tool_call_update", "status": "completed", "content": content, "rawOutput": result,
            })),
            said("The tool answered.\n"),
        ]
    );
    assert_eq!(end, ended("end_turn")["result"]);
    let (told, _) = client.turn(&session, words, "reject").await;
    assert_eq!((&told[2]["status"], &told[3]), (&json!("failed"), &said("The call was rejected.\n")));
    let called = acpx_testkit::received_lines(&argv).into_iter().filter(|line| line.contains("tools/call"));
    let arguments =
        called.map(|line| serde_json::from_str::<Value>(&line).unwrap()["params"]["arguments"].take());
    assert_eq!(arguments.collect::<Vec<_>>(), [input], "a call that is rejected does not reach the server");
}

#[tokio::test]
async fn an_mcp_tool_call_fails_on_an_error_of_the_server() {
    let home = TempHome::new();
    let wrong = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
    let error = json!({ "code": -32602, "message": "bad arguments" });
    let refused = "it answered with an error: bad arguments (-32602)";
    let mut client = RawClient::start(&home, &[]).await;
    for (call, content, raw, words) in [
        (Script::new().reply(wrong.clone()), "no such file", Some(&wrong), "The tool failed.\n".to_owned()),
        (Script::new().reply_error(error), refused, None, format!("MCP server s failed: {refused}.\n")),
    ] {
        let session = client.session_with(&[scripted("s", &server(&["t"], call), &home)]).await;
        let (told, end) = client.turn(&session, "mcp s t", "allow").await;
        let done = &told[3];
        assert_eq!(
            (&done["status"], &done["content"][0]["content"]["text"]),
            (&json!("failed"), &json!(content))
        );
        assert_eq!((done.get("rawOutput"), &told[4]), (raw, &said(&words)));
        assert_eq!(end, ended("end_turn")["result"]);
    }
}

#[tokio::test]
async fn cancelling_a_turn_withdraws_its_mcp_tool_call() {
    let home = TempHome::new();
    let called = home.join("called");
    let argv = scripted_agent_command(&server(&["t"], Script::new().touch(&called)), &home);
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(&[program("s", &argv)]).await;
    let id = client.send("session/prompt", prompt(&session, "mcp s t")).await;
    let asked = loop {
        let message = client.next().await.unwrap();
        if message["method"] == "session/request_permission" {
            break message["id"].clone();
        }
    };
    client.answer(&asked, json!({ "outcome": { "outcome": "selected", "optionId": "allow" } })).await;
    crate::acpx::eventually("the tool is called", || called.exists());
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    let (told, end) = client.until_answered(id).await;
    assert_eq!((&told[1]["status"], &end), (&json!("failed"), &ended("cancelled")), "{told:?}");
    crate::acpx::eventually("the call is withdrawn", || {
        acpx_testkit::received_lines(&argv).iter().any(|line| line.contains("notifications/cancelled"))
    });
}

#[tokio::test]
async fn mcp_command_word_lists_servers_and_names_them_for_an_unknown_one() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let none = client.session_with(&[]).await;
    assert_eq!(client.words(&none, "mcp").await, "This session has no MCP servers.\n");
    assert_eq!(client.words(&none, "mcp a b").await, "There is no MCP server a: this session has none.\n");
    let servers = [
        scripted("one", &server(&["a", "B"], Script::new()), &home),
        scripted("two", &server(&[], Script::new()), &home),
        shell("bad", "exit 3"),
        scripted("one", &saying("again"), &home),
    ];
    let session = client.session_with(&servers).await;
    let failures = [client.next_update().await, client.next_update().await];
    let again = "MCP server one failed: another server has its name.\n";
    assert_eq!(failures, [said("MCP server bad failed: it ended (exit code 3).\n"), said(again)]);
    let one = "- one: connected to scripted 1, 2 tools: a, B\n";
    let expected = format!(
        "{one}- two: connected to scripted 1, no tools\n- bad: failed: it ended (exit code 3)\n\
         - one: failed: another server has its name\n"
    );
    assert_eq!(client.words(&session, "mcp").await, expected);
    let table = [
        ("mcp one", one),
        ("mcp nope a", "There is no MCP server nope; this session has one, two, bad, one.\n"),
        ("mcp one b", "MCP server one has no tool b; it has 2 tools: a, B.\n"),
        ("mcp two a", "MCP server two has no tool a; it has no tools.\n"),
        ("mcp bad a", "MCP server bad is not connected: it ended (exit code 3).\n"),
    ];
    for (prompt, expected) in table {
        assert_eq!(client.words(&session, prompt).await, expected, "{prompt}");
    }
    let wrong = client.words(&session, "mcp one a {a").await;
    assert!(wrong.starts_with("The arguments of a are no JSON object: "), "{wrong}");
}

#[tokio::test]
async fn an_mcp_server_without_initialize_is_connected_by_discovery() {
    let home = TempHome::new();
    let discovered = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
        "ttlMs": 0, "cacheScope": "private",
    });
    let list = json!({ "resultType": "complete", "tools": [{ "name": "t", "inputSchema": { "type": "object" } }],
        "ttlMs": 0, "cacheScope": "private" });
    let call = json!({ "resultType": "complete", "content": [{ "type": "text", "text": "modern" }] });
    let script = Script::new().serve([
        ("server/discover", Script::new().reply(discovered)),
        ("tools/list", Script::new().reply(list)),
        ("tools/call", Script::new().reply(call)),
    ]);
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(&[scripted("s", &script, &home)]).await;
    let (told, _) = client.turn(&session, "mcp s t", "allow").await;
    assert_eq!(told[3]["content"][0]["content"]["text"], "modern", "{told:?}");
}

#[tokio::test]
async fn mcp_tool_call_is_requested_and_reported_in_version_2() {
    let home = TempHome::new();
    let mut client = RawClient::speaking(2, &home, &[]).await;
    let session = client.session_with(&[scripted("s", &saying("hello"), &home)]).await;
    client.send("session/prompt", prompt(&session, "mcp s say {\"a\": 1}")).await;
    let (mut asked, mut calls) = (Vec::new(), Vec::new());
    loop {
        let mut message = client.next().await.expect("the agent is there");
        if message["method"] == "session/request_permission" {
            client
                .answer(&message["id"], json!({ "outcome": { "outcome": "selected", "optionId": "allow" } }))
                .await;
            asked.push(message["params"]["subject"]["toolCall"]["rawInput"].take());
        }
        let update = message["params"]["update"].take();
        match update["sessionUpdate"].as_str() {
            Some("tool_call_update") => calls.push(update),
            Some("state_update") if update["state"] == "idle" => break,
            _ => {}
        }
    }
    assert_eq!(asked, [json!({ "a": 1 })]);
    let content = json!([{ "type": "text", "text": "hello" }]);
    let done = json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call-1-1",
        "status": "completed",
        "content": [{ "type": "content", "content": content[0] }],
        "rawOutput": { "content": content },
    });
    assert_eq!((calls.len(), calls.last()), (3, Some(&done)));
}
