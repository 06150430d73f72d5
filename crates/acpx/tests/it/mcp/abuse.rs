//! MCP servers that misbehave: they cost a session their tools and nothing else, and their secrets stay theirs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use acpx_testkit::{Script, ScriptStep, TempHome, received_lines, scripted_agent_command};
use serde_json::{Value, json};

use super::{initialized, program, scripted, server, shell, tools};
use crate::demo_process::{RawClient, ended, said};

fn done() -> Value {
    json!({ "content": [{ "type": "text", "text": "done" }] })
}

/// Writes a line without end, reading nothing.
fn without_end(line: &str) -> ScriptStep {
    ScriptStep::Repeat { times: u64::MAX, steps: vec![ScriptStep::Line { text: line.to_owned() }] }
}

#[tokio::test]
async fn an_mcp_servers_garbage_and_requests_disturb_no_tool_call() {
    let home = TempHome::new();
    let garbage = b"Welcome!\n{\"jsonrpc\":\"2.0\"}\n[]\n\xff\xfe\x00\n{\"id\":{}}\nnull\n";
    let strange = Script::new()
        .bytes(garbage)
        .line(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#)
        .line(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
        .request("roots/list", json!({}))
        .request("sampling/createMessage", json!({ "messages": [], "maxTokens": 1 }))
        .request(
            "elicitation/create",
            json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } }),
        )
        .request("no/such/method", json!({}))
        .reply(done());
    let script = Script::new().bytes(garbage).serve([
        ("initialize", initialized()),
        ("tools/list", tools(&["t"])),
        ("tools/call", strange),
    ]);
    let argv = scripted_agent_command(&script, &home);
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(&[program("s", &argv)]).await;
    let (told, end) = client.turn(&session, "mcp s t", "allow").await;
    assert_eq!((&told[3]["status"], &end), (&json!("completed"), &ended("end_turn")["result"]), "{told:?}");
    let answers: Vec<Value> =
        received_lines(&argv).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = |id: &str| answers.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!(answer("scripted-1")["result"], json!({ "roots": [] }));
    assert_eq!(answer("scripted-2")["error"]["code"], -32601);
    assert_eq!(answer("scripted-3")["result"], json!({ "action": "decline" }));
    assert_eq!(answer("scripted-4")["error"]["code"], -32601);
}

#[tokio::test]
async fn a_read_only_hint_changes_no_kind_of_an_mcp_tool_call() {
    let home = TempHome::new();
    let hinted = json!({ "name": "t", "inputSchema": {}, "annotations": { "readOnlyHint": true } });
    let script = Script::new().serve([
        ("initialize", initialized()),
        ("tools/list", Script::new().reply(json!({ "tools": [hinted] }))),
        ("tools/call", Script::new().reply(done())),
    ]);
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(&[scripted("s", &script, &home)]).await;
    let (told, _) = client.turn(&session, "mcp s t", "reject").await;
    assert_eq!(told[1]["asked"]["kind"], "other", "{told:?}");
}

#[tokio::test]
async fn an_mcp_server_that_floods_stops_no_session() {
    let home = TempHome::new();
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    let flooding = |step: ScriptStep| {
        let list = tools(&["t"]).step(step);
        Script::new().serve([("initialize", initialized()), ("tools/list", list)])
    };
    let endless =
        ScriptStep::Repeat { times: u64::MAX, steps: vec![ScriptStep::Bytes { bytes: vec![b'x'; 1 << 16] }] };
    let floods = [
        scripted("notices", &flooding(without_end(log)), &home),
        scripted("requests", &flooding(without_end(ping)), &home),
        scripted("line", &flooding(endless), &home),
        shell("stderr", "yes >&2"),
        shell("stdout", "exec yes"),
    ];
    let mut client = RawClient::start(&home, &["--mcp-timeout", "2000"]).await;
    for flood in floods {
        let name = flood["name"].as_str().unwrap().to_owned();
        let session = client.session_with(&[flood]).await;
        let is_connected = !["stderr", "stdout"].contains(&name.as_str());
        let silent = "it did not answer within 2 s";
        if !is_connected {
            assert_eq!(client.next_update().await, said(&format!("MCP server {name} failed: {silent}.\n")));
        }
        let (told, _) = client.prompt(&session, "hello").await;
        assert_eq!(told, [said("You said: hello")], "{name}");
        if is_connected {
            let (told, end) = client.turn(&session, &format!("mcp {name} t"), "allow").await;
            assert_eq!(told[3]["content"][0]["content"]["text"], silent, "{name}");
            assert_eq!(end, ended("end_turn")["result"]);
        }
        let closed = client.call("session/close", json!({ "sessionId": session })).await;
        assert_eq!(closed, json!({ "result": {} }), "{name}");
    }
    assert!(client.leave().success());
}

#[tokio::test]
async fn thousands_of_tools_and_an_endless_list_of_them_are_bounded() {
    let home = TempHome::new();
    let tool = |number: u32| json!({ "name": format!("t{number}"), "inputSchema": { "type": "object" } });
    let page = json!({ "tools": (0..6000).map(tool).collect::<Vec<_>>(), "nextCursor": "more" });
    let script = Script::new().serve([
        ("initialize", initialized()),
        ("tools/list", Script::new().reply(page)),
        ("tools/call", Script::new().reply(done())),
    ]);
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(&[scripted("many", &script, &home)]).await;
    let words = client.words(&session, "mcp").await;
    assert!(words.starts_with("- many: connected to scripted 1, 10000 tools: t0, t1, "), "{words}");
    assert!(words.ends_with(", t99 and 9900 more\n"), "{words}");
    let (told, _) = client.turn(&session, "mcp many t5999", "allow").await;
    assert_eq!(told[3]["status"], "completed");
}

#[tokio::test]
async fn an_mcp_server_that_dies_or_answers_too_much_fails_its_call() {
    let home = TempHome::new();
    let long = json!({ "content": [{ "type": "text", "text": "x".repeat(5 << 20) }] });
    let too_long =
        format!("its answer has {} bytes, and more than 4 MiB are not taken", long.to_string().len());
    let mut client = RawClient::start(&home, &["--mcp-timeout", "10000"]).await;
    for (call, words, then) in [
        (Script::new().exit(9), "it ended (exit code 9)", "- s: lost: it ended (exit code 9)\n"),
        (Script::new().reply(long), &too_long, "- s: connected to scripted 1, 1 tool: t\n"),
    ] {
        let session = client.session_with(&[scripted("s", &server(&["t"], call), &home)]).await;
        let (told, end) = client.turn(&session, "mcp s t", "allow").await;
        assert_eq!(
            (&told[3]["status"], &told[4]),
            (&json!("failed"), &said(&format!("MCP server s failed: {words}.\n")))
        );
        assert_eq!(end, ended("end_turn")["result"]);
        assert_eq!(client.words(&session, "mcp").await, then);
    }
}

#[tokio::test]
async fn no_value_of_an_mcp_servers_environment_or_headers_is_repeated() {
    const SECRET: &str = "hush-hush-hush";
    let home = TempHome::new();
    let result = json!({ "content": [{ "type": "text", "text": format!("a {SECRET} b") }],
        "structuredContent": { "key": SECRET } });
    let info = json!({ "name": SECRET, "version": "1" });
    let list = json!({ "tools": [
        { "name": "t", "inputSchema": {} }, { "name": SECRET, "inputSchema": {} },
        { "name": "e", "inputSchema": {} },
    ] });
    let good = Script::new().serve([
        (
            "initialize",
            Script::new().reply(json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info,
            })),
        ),
        ("tools/list", Script::new().reply(list)),
        ("tools/call", Script::new().reply(result)),
    ]);
    let env = json!([{ "name": "TOKEN", "value": SECRET }]);
    let (web, asked) = refusing("401 Unauthorized", SECRET);
    let (moved, _) = refusing("307 Temporary Redirect\r\nlocation: http://x/", "");
    let mut servers = [
        scripted("good", &good, &home),
        scripted("bad", &Script::new().refuse("initialize", json!({ "code": 1, "message": SECRET })), &home),
        shell("dead", &format!("echo {SECRET} >&2; exit 1")),
        json!({ "type": "http", "name": "web", "url": web, "headers":
            [{ "name": "Authorization", "value": format!("Bearer {SECRET}") }] }),
        json!({ "type": "http", "name": "moved", "url": moved,
            "headers": [] }),
    ];
    for server in &mut servers[..3] {
        server["env"] = env.clone();
    }
    let mut client = RawClient::start(&home, &["--verbose"]).await;
    let session = client.session_with(&servers).await;
    let mut told: Vec<Value> = Vec::new();
    for _ in 0..4 {
        told.push(client.next_update().await);
    }
    assert_eq!(told[2], said("MCP server web failed: it answered HTTP 401: [secret] is no key.\n"));
    assert_eq!(told[3], said("MCP server moved failed: it answered HTTP 307: is no key.\n"));
    let request = asked.recv().unwrap();
    assert!(request.contains(&format!("authorization: Bearer {SECRET}\r\n")), "{request}");
    for words in ["mcp", "mcp good", "mcp good t", "mcp good x", "mcp bad t"] {
        told.extend(client.turn(&session, words, "allow").await.0);
    }
    let told = Value::from(told).to_string();
    assert!(told.contains("a [secret] b") && !told.contains(SECRET), "{told}");
    client.call("session/close", json!({ "sessionId": session })).await;
    let (replayed, _) =
        client.exchange("session/load", json!({ "sessionId": session, "cwd": "/", "mcpServers": [] })).await;
    assert!(!Value::from(replayed).to_string().contains(SECRET));
}

/// The URL of a server that answers every request with this status, and the requests it gets.
fn refusing(status: &str, word: &str) -> (String, mpsc::Receiver<String>) {
    let (asked, requests) = mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let body = format!("{word} is no key");
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            // The head of a request is small and comes at once.
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or_default();
            drop(asked.send(String::from_utf8_lossy(&head[..length]).into_owned()));
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    (url, requests)
}
