//! Agents that are asked for version 2 of the protocol.

use acpx_core::engine::{ClientDecision, QuestionKind};
use acpx_core::machine::Rung;
use acpx_core::model::{
    McpTransport, NamedValue, PermissionCount, PermissionMode, ProtocolVersion, ReplayVerdict,
};
use tokio::sync::mpsc;

use super::*;

impl Bench {
    /// Opens a session with an agent that plays `script` and is asked for version 2.
    async fn open_v2(&self, script: &Script) -> (Session, Vec<String>) {
        let (agent, command) = self.agent(script);
        let agent = agent.with_protocol(ProtocolVersion::V2);
        let session = self.engine.open(self.new_session(agent, Vec::new())).await.expect("the session opens");
        (session, command)
    }
}

fn opened() -> Script {
    Script::new().initialize_v2(json!({})).session_new("s1")
}

#[tokio::test]
async fn v2_turn_lasts_from_its_insertion_to_idle_and_is_stored() {
    let bench = Bench::new();
    let (session, command) =
        bench.open_v2(&Script::new().initialize_v2(json!({})).serve_v2("one", "hello")).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    assert_eq!(bench.said(&session).await, ["> one", "< hello", "> one", "< hello"]);
    let initialize = &received(&command)[0].1;
    let info = json!({"name": "acpx", "version": env!("CARGO_PKG_VERSION")});
    let elicitation = json!({"form": {}, "url": {}});
    assert_eq!((&initialize["protocolVersion"], &initialize["info"]), (&json!(2), &info));
    assert_eq!(
        initialize["capabilities"],
        json!({
            "elicitation": elicitation, "_meta": { "acpx": { "errorData": true } },
        })
    );
    assert_eq!(
        (&initialize["clientInfo"], &initialize["clientCapabilities"]["elicitation"]),
        (&info, &elicitation)
    );
    let events = bench.events(session.record_id()).await;
    assert!(
        events.iter().filter(|event| event.direction != Direction::Ours).all(|event| event.protocol == 2)
    );
    let story = bench.story(session.record_id()).await;
    let turn = [
        "# turn_started",
        "> session/prompt",
        "< result",
        "< session/update user_message",
        "< session/update state_update",
        "< session/update agent_message_chunk",
        "< session/update state_update",
        "# turn_ended",
    ];
    assert_eq!(story[4..], [turn, turn].concat());
    let in_turns: Vec<_> = events[4..].iter().map(|event| event.turn.map(|turn| turn.0)).collect();
    assert_eq!(in_turns, [[Some(1); 8], [Some(2); 8]].concat());
}

#[tokio::test]
async fn idle_before_the_prompt_response_ends_the_turn_with_it() {
    let bench = Bench::new();
    let script =
        opened().prompt(|turn| turn.state("running").idle("refusal").reply(json!({"messageId": "m"})));
    let (session, _) = bench.open_v2(&script).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "refusal");
}

#[tokio::test]
async fn idle_of_a_ready_session_ends_no_turn_that_has_not_begun() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize_v2(json!({}))
        .expect("session/new")
        .reply(json!({"sessionId": "s1"}))
        .expect_as("session/prompt", "prompt")
        .state("idle")
        .reply_to("prompt", json!({"messageId": "m"}))
        .state("idle")
        .state("running")
        .say_in("a", "hello")
        .state("idle");
    let (session, _) = bench.open_v2(&script).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    assert_eq!(bench.said(&session).await, ["> one", "< hello"]);
    assert_eq!(bench.events(session.record_id()).await.last().map(brief).as_deref(), Some("# turn_ended"));
}

#[tokio::test]
async fn v2_agent_without_idle_keeps_its_turn_until_cancelled_or_dead() {
    let bench = Bench::new();
    let script = opened()
        .prompt(|turn| turn.insert("one").state("_resting").expect("session/cancel").idle("cancelled"))
        .prompt(|turn| turn.insert("two").expect("session/cancel"))
        .next_start()
        .initialize_v2(json!({}))
        .expect("session/list")
        .reply(json!({"sessions": []}))
        .expect("session/resume")
        .state("idle")
        .reply(json!({}))
        .prompt(|turn| turn.insert("three").say_in("m", "half").exit(1));
    let (session, _) = bench.open_v2(&script).await;
    let ticket = session.prompt(Prompt::text("one").unwrap()).await.unwrap();
    let mut events = session.follow(Seq::FIRST);
    while !events.next().await.unwrap().unwrap().body.contains("_resting") {}
    assert!(session.status().has_work);
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");

    let ticket = session.prompt(Prompt::text("two").unwrap()).await.unwrap();
    while !events.next().await.unwrap().unwrap().body.contains("user_message") {}
    session.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");

    let turn = prompt(&session, "three").await;
    assert_eq!(failure(&turn), ("AGENT_DIED", r#"the agent "scripted" died (exit code 1)"#));
    assert_eq!(bench.said(&session).await, ["> one", "> two", "> three", "< half"]);
}

#[tokio::test]
async fn dropped_prompt_is_cancelled_and_a_failed_one_reports_its_error() {
    let bench = Bench::new();
    let error = json!({"code": -32603, "message": "the model is down"});
    let idle =
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": error});
    let script = opened()
        .prompt(|turn| turn.reply_error(json!({"code": -32800, "message": "dropped"})))
        .prompt(|turn| turn.reply_error(json!({"code": -32602, "message": "no"})))
        .prompt(|turn| turn.insert("three").update(idle));
    let (session, _) = bench.open_v2(&script).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "cancelled");
    let refused = r#"the agent "scripted" refused session/prompt: no (-32602)"#;
    assert_eq!(failure(&prompt(&session, "two").await), ("AGENT_REFUSED", refused));
    let down = r#"the agent "scripted" refused session/prompt: the model is down (-32603)"#;
    let turn = prompt(&session, "three").await;
    assert_eq!(failure(&turn), ("AGENT_REFUSED", down));
    match outcome(&turn) {
        TurnOutcome::Failed(failed) => assert_eq!(failed.acp.as_deref(), Some(&*error.to_string())),
        TurnOutcome::Stopped(_) => panic!("it stopped"),
    }
}

#[tokio::test]
async fn permission_requests_use_the_version_2_format() {
    let bench = Bench::new();
    let turn = |script: Script| script.insert("edit").ask_permission_v2("t1").idle("end_turn");
    let (session, command) = bench.open_v2(&opened().prompt(turn).prompt(turn)).await;
    let (advisor, mut questions) = mpsc::channel(4);
    let asking = Prompt::text("edit").unwrap().with_policy(PermissionMode::Ask);
    let ticket = session.prompt_with_responder(asking, advisor).await.unwrap();
    let question = questions.recv().await.unwrap();
    assert_eq!((question.kind(), question.version()), (QuestionKind::Permission, ProtocolVersion::V2));
    question.answer(ClientDecision::Choose("yes".into()));
    assert_eq!(ticket.finished().await.unwrap().permissions, PermissionCount { approved: 1, rejected: 0 });
    let rejected = prompt(&session, "edit").await.permissions;
    assert_eq!(rejected, PermissionCount { approved: 0, rejected: 1 });
    let answers = received(&command).into_iter().filter(|(method, _)| method == "answer");
    let selected = |option: &str| json!({"outcome": {"outcome": "selected", "optionId": option}});
    assert_eq!(answers.map(|(_, result)| result).collect::<Vec<_>>(), [selected("yes"), selected("no")]);
}

#[tokio::test]
async fn unprompted_v2_work_is_its_own_turn_and_prompts_queue_behind_it() {
    let bench = Bench::new();
    let [go, done] = ["go", "done"].map(|name| bench.home.join(name));
    let script = opened()
        .await_file(&go)
        .state("running")
        .say_in("m1", "on my own")
        .await_file(&done)
        .state("idle")
        .prompt(|turn| turn.insert("one").say_in("m2", "hello").idle("end_turn"));
    let (session, _) = bench.open_v2(&script).await;
    std::fs::write(&go, "").unwrap();
    session.wait_for(|status| status.has_work).await;
    let ticket = session.prompt(Prompt::text("one").unwrap()).await.unwrap();
    assert_eq!(ticket.turn.0, 2);
    std::fs::write(&done, "").unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "end_turn");
    assert_eq!(bench.said(&session).await, ["< on my own", "> one", "< hello"]);
    let own =
        bench.store.turn_numbered(session.record_id().clone(), acpx_core::model::TurnId(1)).await.unwrap();
    let own = own.unwrap();
    assert_eq!((stop_reason(&own), &*own.prompt), ("end_turn", "[]"));
    let story = bench.story(session.record_id()).await;
    let begun = ["# turn_started", "< session/update state_update", "< session/update agent_message_chunk"];
    assert_eq!(story[4..7], begun);
}

#[tokio::test]
async fn v2_session_is_resumed_without_replay_and_with_one_after_changes() {
    let bench = Bench::new();
    let row = |updated: &str| json!({"sessions": [{"sessionId": "s1", "cwd": "/", "updatedAt": updated}]});
    let served = |script: Script, updated: &str| {
        let resume = Script::new().when("replayFrom", |replay| {
            replay.replay_exchange(10, "one", "hello").replay_exchange(11, "elsewhere", "there")
        });
        script.initialize_v2(json!({})).serve([
            ("session/new", Script::new().reply(json!({"sessionId": "s1"}))),
            ("session/list", Script::new().reply(row(updated))),
            ("session/resume", resume.state("idle").reply(json!({}))),
            ("session/prompt", Script::new().insert("one").say_in("agent-{id}", "hello").idle("end_turn")),
        ])
    };
    let script = served(Script::new(), "2001-01-01T00:00:00Z").next_start();
    let script = served(script, "2001-01-01T00:00:00Z").next_start();
    let (session, command) = bench.open_v2(&served(script, "2999-01-01T00:00:00Z")).await;
    prompt(&session, "one").await;
    session.park().await.unwrap();
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Resume, replay: None });
    session.park().await.unwrap();
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Replay, replay: Some(ReplayVerdict::Longer) });
    assert_eq!(bench.said(&session).await, ["> one", "< hello", "> elsewhere", "< there"]);
    let resumes: Vec<Value> = received(&command)
        .into_iter()
        .filter(|(method, _)| method == "session/resume")
        .map(|(_, params)| params["replayFrom"].clone())
        .collect();
    assert_eq!(resumes, [json!(null), json!({"type": "start"})]);
    assert!(!methods(&command).contains(&"session/load".to_owned()));
}

#[tokio::test]
async fn v2_agent_that_works_when_resumed_continues_in_its_own_turn() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize_v2(json!({}))
        .serve_v2("one", "hello")
        .next_start()
        .initialize_v2(json!({}))
        .expect("session/list")
        .reply(json!({"sessions": []}))
        .expect("session/resume")
        .state("running")
        .reply(json!({}))
        .await_file(&bench.home.join("done"))
        .idle("end_turn")
        .prompt(|turn| turn.insert("two").idle("end_turn"));
    let (session, _) = bench.open_v2(&script).await;
    prompt(&session, "one").await;
    session.park().await.unwrap();
    session.wake(restore()).await.unwrap();
    assert!(session.status().has_work);
    let ticket = session.prompt(Prompt::text("two").unwrap()).await.unwrap();
    std::fs::write(bench.home.join("done"), "").unwrap();
    let turn = ticket.finished().await.unwrap();
    assert_eq!((turn.id.0, stop_reason(&turn)), (3, "end_turn"));
}

#[tokio::test]
async fn v2_close_during_a_turn_sends_idle_before_its_response() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize_v2(json!({"delete": {}}))
        .session_new("s1")
        .prompt(|turn| turn.insert("one").expect("session/close").idle("cancelled").reply(json!({})))
        .expect("session/delete")
        .reply(json!({}));
    let (session, command) = bench.open_v2(&script).await;
    let ticket = session.prompt(Prompt::text("one").unwrap()).await.unwrap();
    let mut events = session.follow(Seq::FIRST);
    while !events.next().await.unwrap().unwrap().body.contains("running") {}
    bench.engine.delete(session.record_id()).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    let sent = ["initialize", "session/new", "session/prompt", "session/close", "session/delete"];
    assert_eq!(methods(&command), sent);
}

#[tokio::test]
async fn agent_with_only_version_1_is_used_on_the_same_connection() {
    let bench = Bench::new();
    let (session, command) = bench.open_v2(&faithful(everything())).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    assert_eq!(methods(&command), ["initialize", "session/new", "session/prompt"]);
    let events = bench.events(session.record_id()).await;
    assert!(events.iter().all(|event| event.protocol == 1));
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.agent.protocol, ProtocolVersion::V2);
}

#[tokio::test]
async fn agent_with_no_common_version_or_sessions_is_a_typed_error() {
    let bench = Bench::new();
    let data = json!({"requested": 1, "supported": [2, 3]});
    let error = json!({"code": -32022, "message": "Unsupported protocol version", "data": data});
    let error = bench.open_error(&Script::new().refuse("initialize", error)).await;
    let text = r#"the agent "scripted" does not speak protocol version 1, but 2, 3"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_PROTOCOL_VERSION", text));

    let (agent, command) = bench.agent(&Script::new().initialize_v2(json!(null)));
    let new = bench.new_session(agent.with_protocol(ProtocolVersion::V2), Vec::new());
    let error = bench.engine.open(new).await.err().unwrap();
    assert_eq!(error.to_string(), r#"the agent "scripted" does not offer session/new"#);
    assert_eq!(methods(&command), ["initialize"]);
}

#[tokio::test]
async fn servers_are_tagged_and_sent_only_over_transports_that_are_advertised() {
    let bench = Bench::new();
    let server = |transport| vec![McpServer::new("notes", transport)];
    let env = vec![NamedValue { name: "TOKEN".into(), value: "s3cret".into() }];
    let stdio =
        McpTransport::Stdio { command: AbsolutePath::new("/bin/notes").unwrap(), args: Vec::new(), env };
    let sse = McpTransport::Sse { url: "http://x".into(), headers: Vec::new() };
    let open = async |capabilities: Value, transport| {
        let (agent, command) = bench.agent(&Script::new().initialize_v2(capabilities).session_new("s1"));
        let new = bench.new_session(agent.with_protocol(ProtocolVersion::V2), server(transport));
        (bench.engine.open(new).await, command)
    };
    let (opened, command) = open(json!({"mcp": {"stdio": {}}}), stdio.clone()).await;
    opened.unwrap();
    let sent = received(&command)[1].1["mcpServers"][0].clone();
    let env = json!([{"name": "TOKEN", "value": "s3cret"}]);
    assert_eq!(sent, json!({"type": "stdio", "name": "notes", "command": "/bin/notes", "env": env}));
    for (capabilities, transport) in [(json!({}), stdio), (json!({"mcp": {"stdio": {}, "http": {}}}), sse)] {
        let (refused, command) = open(capabilities, transport).await;
        assert_eq!(refused.err().map(|error| error.code()), Some("MCP_UNSUPPORTED".into()));
        assert_eq!(methods(&command), ["initialize"]);
    }
}

#[tokio::test]
async fn agent_with_background_work_is_parked_only_after_it() {
    let bench = Bench::new();
    let idle = |background: Value| json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "background": background});
    let build = json!([{"type": "tool_call", "toolCallId": "t1"}]);
    let turn =
        |idle: Value| move |turn: Script| turn.reply(json!({"messageId": "m"})).state("running").update(idle);
    let script =
        opened().prompt(turn(idle(build.clone()))).prompt(turn(idle(build))).prompt(turn(idle(json!([]))));
    let (session, command) = bench.open_v2(&script).await;
    let hold = session.hold();
    session.set_idle_time(Some(Duration::ZERO)).await.unwrap();
    prompt(&session, "one").await;
    drop(hold);
    // Whatever waits for its time has had it by the end of a turn.
    prompt(&session, "two").await;
    prompt(&session, "three").await;
    assert_eq!(methods(&command).iter().filter(|method| *method == "initialize").count(), 1);
    session.wait_for(|status| status.agent_pid.is_none()).await;
}
