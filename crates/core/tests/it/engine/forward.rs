//! Requests of clients that go to the agent beside any turn, and what the session offers meanwhile.

use acpx_core::acp::ExtraParams;
use acpx_core::engine::SessionOffer;

use super::*;

fn offering() -> Value {
    json!({
        "sessionId": "s1",
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]},
        "configOptions": [{"id": "model", "currentValue": "small"}],
    })
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("what an agent offers is JSON")
}

/// Modes, options and commands as values.
fn offered(session: &Session) -> [Value; 3] {
    let SessionOffer { modes, config_options, commands, .. } = &*session.offered();
    [modes, config_options, commands].map(|part| part.as_deref().map_or(Value::Null, read))
}

fn error_of(result: Result<Arc<str>, SessionError>) -> (&'static str, String) {
    let error = result.unwrap_err();
    let code = acpx_core::model::ErrorCode::ALL.iter().find(|code| **code == error.code()).unwrap();
    (code.as_str(), error.to_string())
}

#[tokio::test]
async fn request_is_forwarded_during_a_turn_and_stored_with_its_response() {
    let bench = Bench::new();
    let go = bench.home.join("go");
    let script = Script::new()
        .initialize(json!({"sessionCapabilities": {"fork": {}}}))
        .expect("session/new")
        .reply(offering())
        .expect_as("session/prompt", "prompt")
        .expect("session/set_mode")
        .reply(json!({"_meta": {"kept": 1}}))
        .await_file(&go)
        .reply_to("prompt", json!({"stopReason": "end_turn"}));
    let (session, command) = bench.open(&script).await;
    let ticket = session.prompt(Prompt::text("one").unwrap()).await.unwrap();
    let answer =
        session.request("session/set_mode", r#"{"modeId":"code","x":1.0}"#, restore()).await.unwrap();
    assert_eq!(&*answer, r#"{"_meta":{"kept":1}}"#);
    std::fs::write(&go, "").unwrap();
    ticket.finished().await.unwrap();
    let sent = received(&command).into_iter().find(|(method, _)| method == "session/set_mode").unwrap().1;
    assert_eq!(sent, json!({"sessionId": "s1", "modeId": "code", "x": 1.0}));
    let story = bench.story(session.record_id()).await;
    let turn = [
        "# turn_started",
        "> session/prompt",
        "> session/set_mode",
        "< result",
        "session/update current_mode_update",
        "< result",
        "# turn_ended",
    ];
    assert_eq!(story[story.len() - 7..], turn);
}

#[tokio::test]
async fn session_offer_is_the_last_one_its_agent_advertised() {
    let bench = Bench::new();
    let commands = json!([{"name": "plan", "description": "Plan"}]);
    let options = |model: &str| json!([{"id": "model", "currentValue": model}]);
    let script = Script::new()
        .initialize(json!({}))
        .expect("session/new")
        .reply(offering())
        .prompt(|turn| {
            turn.update(json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}))
                .update(json!({"sessionUpdate": "config_option_update", "configOptions": options("large")}))
                .end("end_turn")
        })
        .serve([
            ("session/set_mode", Script::new().reply(json!({}))),
            ("session/set_config_option", Script::new().reply(json!({"configOptions": options("medium")}))),
        ]);
    let (session, _) = bench.open(&script).await;
    let modes = |current: &str| {
        let mut modes = offering()["modes"].clone();
        modes["currentModeId"] = json!(current);
        modes
    };
    assert_eq!(offered(&session), [modes("ask"), options("small"), Value::Null]);
    prompt(&session, "one").await;
    assert_eq!(offered(&session), [modes("ask"), options("large"), commands.clone()]);
    session.request("session/set_mode", r#"{"modeId":"code"}"#, restore()).await.unwrap();
    let option = r#"{"configId":"model","value":"medium"}"#;
    session.request("session/set_config_option", option, restore()).await.unwrap();
    let set = [modes("code"), options("medium"), commands];
    assert_eq!(offered(&session), set);
    assert_eq!(
        read(&session.agent_answer().unwrap()),
        json!({"protocolVersion": 1, "agentCapabilities": {}})
    );
    session.park().await.unwrap();
    assert_eq!(offered(&session), set);
}

#[tokio::test]
async fn unadvertised_method_is_not_sent_and_an_extension_method_is() {
    let bench = Bench::new();
    let refusal = json!({"code": -32050, "message": "not today", "data": {"why": "rain"}});
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .serve([("_other/ask", Script::new().reply_error(refusal.clone()))]);
    let (session, command) = bench.open(&script).await;
    for method in ["session/set_mode", "session/set_config_option", "session/fork", "session/prompt"] {
        let expected = ("NOT_OFFERED", format!(r#"the agent "scripted" does not offer {method}"#));
        assert_eq!(error_of(session.request(method, "{}", restore()).await), expected);
    }
    let two = r#"{"sessionId":"a","sessionId":"b"}"#;
    assert_eq!(error_of(session.request("_other/ask", two, restore()).await).0, "BAD_REQUEST");
    match session.request("_other/ask", r#"{"a":[ ]}"#, restore()).await {
        Err(SessionError::Agent(AgentError::Refused { acp, .. })) => assert_eq!(read(&acp), refusal),
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(methods(&command), ["initialize", "session/new", "_other/ask"]);
}

#[tokio::test]
async fn forwarded_request_wakes_a_parked_agent_and_fails_if_it_dies() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .next_start()
        .initialize(everything())
        .session_resume()
        .expect("_other/ask")
        .reply(json!({"n": 1}))
        .expect("_other/die")
        .exit(3);
    let (session, command) = bench.open(&script).await;
    session.park().await.unwrap();
    assert_eq!(&*session.request("_other/ask", "{}", restore()).await.unwrap(), r#"{"n":1}"#);
    let died = ("AGENT_DIED", r#"the agent "scripted" died (exit code 3)"#.to_owned());
    assert_eq!(error_of(session.request("_other/die", "{}", restore()).await), died);
    let sent = ["initialize", "session/new", "initialize", "session/resume", "_other/ask", "_other/die"];
    assert_eq!(methods(&command), sent);
    session.close().await.unwrap();
    assert_eq!(error_of(session.request("_other/ask", "{}", restore()).await).0, "SHUT_DOWN");
}

#[tokio::test]
async fn forwarded_request_without_a_waiting_client_is_cancelled() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .expect("_other/ask")
        .touch(&bench.home.join("asked"))
        .expect("$/cancel_request")
        .reply_error(json!({"code": -32800, "message": "cancelled"}))
        .serve([("_other/more", Script::new().reply(json!({})))]);
    let (session, command) = bench.open(&script).await;
    let mut events = session.follow(Seq::FIRST);
    let asked = async { while !events.next().await.unwrap().unwrap().body.contains("_other/ask") {} };
    tokio::select! {
        _ = session.request("_other/ask", "{}", restore()) => panic!("it is not answered"),
        () = asked => {}
    }
    session.request("_other/more", "{}", restore()).await.unwrap();
    let withdrawn =
        received(&command).into_iter().find(|(method, _)| method == "$/cancel_request").unwrap().1;
    assert_eq!(withdrawn, json!({"requestId": 2}));
}

#[tokio::test]
async fn meta_of_a_client_request_is_forwarded_to_the_agent() {
    let bench = Bench::new();
    let script = faithful(everything());
    let (agent, command) = bench.agent(&script);
    let meta = |text: &str| Some(ExtraParams::meta(text));
    let new = NewSession { extra_params: meta(r#"{"a":1.0}"#), ..bench.new_session(agent, Vec::new()) };
    let session = bench.engine.open(new).await.unwrap();
    let first = Prompt::text("one").unwrap().with_extra_params(meta(r#"{"b":[ ]}"#));
    session.prompt(first).await.unwrap().finished().await.unwrap();
    prompt(&session, "two").await;
    session.park().await.unwrap();
    session.wake(RestoreSession { extra_params: meta(r#"{"c":null}"#), ..restore() }).await.unwrap();
    let metas: Vec<Value> = received(&command)
        .into_iter()
        .filter(|(method, _)| method.starts_with("session/"))
        .map(|(_, params)| params["_meta"].clone())
        .collect();
    assert_eq!(metas, [json!({"a": 1.0}), json!({"b": []}), json!(null), json!({"c": null})]);
}

#[tokio::test]
async fn setting_the_agent_never_answers_times_out_and_is_not_stored() {
    let bench = Bench::new();
    let script = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(offering())),
        ("session/set_mode", Script::new()),
        ("session/set_config_option", Script::new()),
    ]);
    let (agent, _) = bench.agent(&script);
    let agent = agent.with_start_timeout(Duration::from_secs(3));
    let session = bench.engine.open(bench.new_session(agent, Vec::new())).await.unwrap();
    let (mode, option) = (r#"{"modeId":"code"}"#, r#"{"configId":"model","value":"x"}"#);
    let hurried = RestoreSession { start_wait: Some(Duration::from_millis(200)), ..restore() };
    let late = error_of(session.request("session/set_config_option", option, hurried).await);
    let words = r#"the agent "scripted" did not answer session/set_config_option within 0.2 s"#;
    assert_eq!(late, ("AGENT_START_TIMEOUT", words.to_owned()));
    let unanswered = error_of(session.request("session/set_mode", mode, restore()).await);
    assert_eq!(unanswered.0, "AGENT_UNRESPONSIVE");
    session.park().await.unwrap();
    let kept = bench.store.record(session.record_id().clone()).await.unwrap().unwrap();
    assert_eq!(kept.settings.chosen, []);
}
