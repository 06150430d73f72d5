//! Session setup on the wire: order, shape, capabilities, servers, secrets.

use std::sync::atomic::{AtomicI64, Ordering};

use acpx_core::model::{McpServerRef, McpTransport, NamedValue, Timestamp};
use acpx_testkit::starts_of;

use super::*;

fn stdio_server() -> McpServer {
    McpServer::new(
        "files",
        McpTransport::Stdio {
            command: AbsolutePath::new("/usr/bin/files").unwrap(),
            args: vec!["--all".into()],
            env: vec![NamedValue { name: "TOKEN".into(), value: "s3cret-env".into() }],
        },
    )
}

fn http_server() -> McpServer {
    McpServer::new(
        "web",
        McpTransport::Http {
            url: "http://127.0.0.1/mcp".into(),
            headers: vec![NamedValue { name: "Authorization".into(), value: "s3cret-header".into() }],
        },
    )
}

#[tokio::test]
async fn all_messages_are_stored_in_order() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    prompt(&session, "hi").await;
    let story = [
        "> initialize",
        "< result",
        "> session/new",
        "< result",
        "# turn_started",
        "> session/prompt",
        "< session/update agent_message_chunk",
        "< result",
        "# turn_ended",
    ];
    assert_eq!(bench.story(session.record_id()).await, story);
    let events = bench.events(session.record_id()).await;
    let turns: Vec<_> = events.iter().map(|event| event.turn.map(|turn| turn.0)).collect();
    assert_eq!(turns, [None, None, None, None, Some(1), Some(1), Some(1), Some(1), Some(1)]);
    let numbers: Vec<_> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
}

#[tokio::test]
async fn initialize_advertises_files_and_terminals_to_a_v1_agent() {
    let bench = Bench::new();
    let (_, command) = bench.open(&faithful(everything())).await;
    let (_, params) = &received(&command)[0];
    assert_eq!(params["protocolVersion"], 1);
    assert_eq!(params["clientInfo"]["name"], "acpx");
    let offers = json!({
        "fs": { "readTextFile": true, "writeTextFile": true },
        "terminal": true,
        "session": { "configOptions": { "boolean": {} }, "compaction": {}, "notices": {} },
        "auth": { "terminal": true },
        "elicitation": { "form": {}, "url": {} },
        "_meta": { "acpx": { "errorData": true } },
    });
    assert_eq!(params["clientCapabilities"], offers);
}

#[tokio::test]
async fn agent_runs_in_its_sessions_directory_wherever_we_started() {
    let bench = Bench::new();
    let (session, _) = bench.open(&faithful(everything())).await;
    let run = bench.engine.record(session.record_id()).await.unwrap().unwrap().agent_run.unwrap();
    let found = std::fs::read_link(format!("/proc/{}/cwd", run.process.pid)).unwrap();
    assert_eq!(found, bench.home.path().canonicalize().unwrap());
    assert_ne!(found, std::env::current_dir().unwrap());
}

#[tokio::test]
async fn session_new_load_and_resume_carry_identical_cwd_and_mcp_servers() {
    let bench = Bench::new();
    let capabilities = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let script = Script::new().initialize(capabilities).serve([
        ("session/new", Script::new().reply(json!({"sessionId": "s1"}))),
        ("session/prompt", Script::new().end("end_turn")),
        ("session/resume", Script::new().reply_error(json!({"code": -32603, "message": "broken"}))),
        ("session/load", Script::new().reply(json!({}))),
    ]);
    let (agent, command) = bench.agent(&script);
    let odd = format!("{}/./", bench.home.path().display());
    let mut new = bench.new_session(agent, vec![stdio_server()]);
    new.cwd = AbsolutePath::new(odd.as_str()).unwrap();
    let session = bench.engine.open(new).await.unwrap();
    prompt(&session, "hi").await;
    kill_agent(&session).await;
    session.wake(restore()).await.unwrap();
    let server = json!({"name": "files", "command": "/usr/bin/files", "args": ["--all"],
        "env": [{"name": "TOKEN", "value": "s3cret-env"}]});
    let setup: Vec<_> =
        received(&command).into_iter().filter(|(_, params)| params.get("cwd").is_some()).collect();
    let expected = [
        ("session/new".to_owned(), json!({"cwd": odd, "mcpServers": [server]})),
        ("session/resume".to_owned(), json!({"sessionId": "s1", "cwd": odd, "mcpServers": [server]})),
        ("session/load".to_owned(), json!({"sessionId": "s1", "cwd": odd, "mcpServers": [server]})),
    ];
    assert_eq!(setup, expected);
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!((record.cwd.as_str(), record.real_cwd), (&*odd, bench.cwd()));
}

#[tokio::test]
async fn mcp_servers_member_is_always_sent_even_when_empty() {
    let bench = Bench::new();
    let (_, command) = bench.open(&faithful(everything())).await;
    assert_eq!(received(&command)[1].1["mcpServers"], json!([]));
}

#[tokio::test]
async fn an_http_server_is_refused_by_name_before_anything_is_sent() {
    let bench = Bench::new();
    let (agent, command) = bench.agent(&faithful(json!({"mcpCapabilities": {"http": false}})));
    let error =
        bench.engine.open(bench.new_session(agent, vec![stdio_server(), http_server()])).await.err().unwrap();
    let text = r#"the agent "scripted" cannot take the MCP server "web": it does not advertise mcpCapabilities.http"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("MCP_UNSUPPORTED", text));
    assert_eq!(methods(&command), ["initialize"]);
}

#[tokio::test]
async fn http_mcp_server_is_sent_where_advertised_and_its_secrets_never_stored() {
    let bench = Bench::new();
    let (agent, command) = bench.agent(&faithful(json!({"mcpCapabilities": {"http": true}})));
    let session =
        bench.engine.open(bench.new_session(agent, vec![stdio_server(), http_server()])).await.unwrap();
    let sent = &received(&command)[1].1["mcpServers"][1];
    let expected = json!({"type": "http", "name": "web", "url": "http://127.0.0.1/mcp",
        "headers": [{"name": "Authorization", "value": "s3cret-header"}]});
    assert_eq!(*sent, expected);
    for event in bench.events(session.record_id()).await {
        assert!(!event.body.contains("s3cret"), "{}", event.body);
    }
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    let kept = ["files", "web"].map(|name| McpServerRef { name: name.to_owned(), source: None });
    assert_eq!(record.mcp_servers, kept);
}

#[tokio::test]
async fn mcp_servers_with_unavailable_values_are_left_out_and_named() {
    let bench = Bench::new();
    let (agent, command) = bench.agent(&faithful(everything()));
    let session = bench.engine.open(bench.new_session(agent, vec![stdio_server()])).await.unwrap();
    prompt(&session, "hi").await;
    let record = session.record_id().clone();
    bench.engine.shutdown().await;

    let next = bench.next_host();
    next.restore(&record, restore()).await.unwrap();
    let (_, resumed) = received(&command).into_iter().find(|(method, _)| method == "session/resume").unwrap();
    assert_eq!(resumed["mcpServers"], json!([]));
    let facts: Vec<_> =
        bench.events(&record).await.into_iter().filter(|event| event.direction == Direction::Ours).collect();
    let left_out = r#"{"fact":"mcp_servers_left_out","names":["files"]}"#;
    assert!(facts.iter().any(|fact| &*fact.body == left_out), "{facts:?}");
    next.shutdown().await;

    let given = RestoreSession { mcp_servers: Some(vec![stdio_server()].into()), ..restore() };
    let last = bench.next_host();
    last.restore(&record, given).await.unwrap();
    let (_, resumed) =
        received(&command).into_iter().rfind(|(method, _)| method == "session/resume").unwrap();
    assert_eq!(resumed["mcpServers"][0]["env"][0]["value"], "s3cret-env");
}

#[tokio::test]
async fn an_id_that_is_live_already_is_refused() {
    let bench = Bench::new();
    let (agent, _) = bench.agent(&faithful(everything()));
    let _first = bench.engine.open(bench.new_session(agent.clone(), Vec::new())).await.unwrap();
    let error = bench.engine.open(bench.new_session(agent, Vec::new())).await.err().unwrap();
    let text = r#"the agent "scripted" answered session/new with the id s1 of a session that is live"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_SESSION_ID_TAKEN", text));
}

#[tokio::test]
async fn a_restore_of_an_acp_session_that_another_record_has_is_refused() {
    let bench = Bench::new();
    // It gives every session the same id.
    let (agent, command) = bench.agent(&faithful(everything()));
    let open = || bench.engine.open(bench.new_session(agent.clone(), Vec::new()));
    let first = open().await.unwrap();
    prompt(&first, "one").await;
    first.close().await.unwrap();
    let second = open().await.unwrap();
    let before = methods(&command);

    let error = bench.engine.restore(first.record_id(), restore()).await.err().unwrap();
    let holder = second.record_id();
    let text = format!("the session s1 of the agent \"scripted\" is in use by the record {holder}");
    assert_eq!((error.code().as_str(), error.to_string()), ("SESSION_IN_USE", text));
    let hint = "close the other record first, by its id: acpx sessions close ID";
    assert_eq!(error.hint().as_deref(), Some(hint));
    // The agent has been asked for nothing.
    assert_eq!(methods(&command)[before.len()..], ["initialize"]);
    assert_eq!(stop_reason(&prompt(&second, "two").await), "end_turn");

    second.close().await.unwrap();
    let (first, _) = bench.engine.restore(first.record_id(), restore()).await.unwrap();
    assert_eq!(stop_reason(&prompt(&first, "three").await), "end_turn");
}

#[tokio::test]
async fn unknown_updates_requests_and_notifications_are_stored_verbatim() {
    let bench = Bench::new();
    let script = Script::new().initialize(everything()).session_new("s1").prompt(|turn| {
        turn.line(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"from_the_future","n":1e3}}}"#)
            .line(r#"{"jsonrpc":"2.0","method":"_vendor/note","params":{"x":[1,2]}}"#)
            .line("not json")
            .request("craft/drainMidTurnQueue", json!({"a": 1}))
            .reply(json!({"stopReason": "end_turn", "later": true}))
    });
    let (session, command) = bench.open(&script).await;
    prompt(&session, "hi").await;
    let lines: Vec<_> =
        bench.events(session.record_id()).await.into_iter().map(|event| event.body.to_string()).collect();
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(
        has(r#""sessionUpdate":"from_the_future","n":1e3"#) && has("_vendor/note") && has("later"),
        "{lines:#?}"
    );
    let (_, refusal) = received(&command).into_iter().rfind(|(method, _)| method == "answer").unwrap();
    assert_eq!(
        (&refusal["code"], &refusal["data"]["method"]),
        (&json!(-32601), &json!("craft/drainMidTurnQueue"))
    );
    assert!(has("craft/drainMidTurnQueue") && has("-32601"), "{lines:#?}");
}

#[tokio::test]
async fn update_for_another_session_is_stored_outside_the_conversation() {
    let bench = Bench::new();
    let foreign = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"child","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"not yours"}}}}"#;
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.line(foreign).say("yours").end("end_turn"));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "hi").await;
    assert!(bench.events(session.record_id()).await.iter().any(|event| &*event.body == foreign));
    assert_eq!(bench.said(&session).await, ["> hi", "< yours"]);
}

#[tokio::test]
async fn capabilities_are_cached_for_a_day_and_refreshed_by_a_start() {
    static NOW: AtomicI64 = AtomicI64::new(0);
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let clock = || Timestamp::from_millis(NOW.load(Ordering::Relaxed)).unwrap();
    let bench = Bench::with(EngineSettings { clock, ..quick() });
    let script = Script::new()
        .initialize(json!({}))
        .serve([("session/new", Script::new().reply(json!({ "sessionId": "s1" })))]);
    let (agent, command) = bench.agent(&script);
    let new = || bench.new_session(agent.clone(), Vec::new());
    // The time, whether a session is opened before, and how often the agent has been started after that.
    for (now, opens, starts) in [(0, false, 1), (DAY - 1, false, 1), (DAY, false, 2), (2 * DAY, true, 3)] {
        NOW.store(now, Ordering::Relaxed);
        if opens {
            bench.engine.open(new()).await.unwrap();
        }
        bench.engine.agent_answer(new()).await.unwrap();
        assert_eq!(starts_of(&command), starts, "{now}");
    }
}
