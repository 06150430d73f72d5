//! Whatever an agent does wrong is one typed error with its subject, and loses nothing.

use super::*;

#[tokio::test]
async fn missing_command_fails_the_start() {
    let bench = Bench::new();
    let new = bench.new_session(AgentSpec::new("no-such-agent-here", [""; 0]), Vec::new());
    let error = bench.engine.open(new).await.err().unwrap();
    let text = r#"the agent command "no-such-agent-here" was not found"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_NOT_FOUND", text));
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn a_command_that_may_not_be_run() {
    let bench = Bench::new();
    let file = bench.home.join("agent.txt");
    std::fs::write(&file, "text").unwrap();
    let new = bench.new_session(AgentSpec::new(file.to_str().unwrap(), [""; 0]), Vec::new());
    assert_eq!(bench.engine.open(new).await.err().unwrap().code().as_str(), "AGENT_NOT_EXECUTABLE");
}

#[tokio::test]
async fn missing_directory_fails_the_start() {
    let bench = Bench::new();
    let (agent, _) = bench.agent(&Script::new());
    let mut new = bench.new_session(agent, Vec::new());
    new.cwd = AbsolutePath::from_path(&bench.home.join("gone")).unwrap();
    assert_eq!(bench.engine.open(new).await.err().unwrap().code().as_str(), "BAD_DIRECTORY");
}

#[tokio::test]
async fn agent_that_exits_at_once_is_quoted_with_its_stderr() {
    let bench = Bench::new();
    let error =
        bench.open_error(&Script::new().stderr("first").stderr("no API key, giving up").exit(7)).await;
    let text = r#"the agent "scripted" ended before it answered initialize (exit code 7); it said: first | no API key, giving up"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_EXITED_AT_START", text));
}

#[tokio::test]
async fn agent_that_prints_garbage_still_works() {
    let bench = Bench::new();
    let script =
        Script::new().line("npm WARN deprecated").bytes(b"\xff\xfe\x00\n").line("{\"id\":").line("[1,2]");
    let script = script
        .initialize(everything())
        .line("more noise")
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    assert_eq!(stop_reason(&prompt(&session, "hi").await), "end_turn");
}

#[tokio::test]
async fn an_agent_that_prints_nothing_but_garbage_and_exits_is_quoted() {
    let bench = Bench::new();
    let error = bench.open_error(&Script::new().line("Usage: agent --acp").exit(2)).await;
    let text = r#"the agent "scripted" ended before it answered initialize (exit code 2); it said: Usage: agent --acp"#;
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn an_agent_that_is_slow_to_answer_initialize() {
    let bench = Bench::new();
    let (agent, _) = bench.agent(&Script::new().stderr("downloading").hang());
    let agent = agent.with_start_timeout(Duration::from_millis(300));
    let error = bench.engine.open(bench.new_session(agent, Vec::new())).await.err().unwrap();
    let text = r#"the agent "scripted" did not answer initialize within 0.3 s; it said: downloading"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_START_TIMEOUT", text));
}

#[tokio::test]
async fn agent_with_an_unsupported_protocol_version_fails() {
    for (version, text) in [(json!(2), "2"), (json!(99), "99"), (json!("1"), "\"1\""), (json!(1.5), "1.5")] {
        let bench = Bench::new();
        let error = bench
            .open_error(&Script::new().expect("initialize").reply(json!({"protocolVersion": version})))
            .await;
        let expected =
            format!(r#"the agent "scripted" answered protocol version {text}, and was asked for 1"#);
        assert_eq!((error.code().as_str(), error.to_string()), ("AGENT_PROTOCOL_VERSION", expected));
    }
}

#[tokio::test]
async fn answers_of_the_wrong_shape() {
    let bench = Bench::new();
    let error = bench.open_error(&Script::new().expect("initialize").reply(json!({}))).await;
    assert_eq!(error.code().as_str(), "AGENT_BAD_ANSWER");
    let error = bench
        .open_error(&Script::new().initialize(json!({})).expect("session/new").reply(json!({"id": "s"})))
        .await;
    assert_eq!(error.code().as_str(), "AGENT_BAD_ANSWER");
    let script =
        Script::new().initialize(json!({})).session_new("s1").prompt(|turn| turn.reply(json!("done")));
    let (session, _) = bench.open(&script).await;
    assert_eq!(failure(&prompt(&session, "hi").await).0, "AGENT_BAD_ANSWER");
}

#[tokio::test]
async fn a_login_that_is_needed() {
    let bench = Bench::new();
    let login = json!({"code": -32000, "message": "Authentication required", "data": {"authMethods": []}});
    let error = bench.open_error(&Script::new().initialize(json!({})).refuse("session/new", login)).await;
    assert_eq!(error.code().as_str(), "AUTH_REQUIRED");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn unsolicited_and_duplicate_responses_are_stored_and_change_nothing() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| {
            turn.line(r#"{"jsonrpc":"2.0","id":9999,"result":{"stopReason":"refusal"}}"#)
                .line(r#"{"jsonrpc":"2.0","id":"1","result":{"stopReason":"refusal"}}"#)
                .line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#)
                .end("end_turn")
                .end("refusal")
        })
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    let kept = bench.events(session.record_id()).await;
    assert!(kept.iter().any(|event| event.body.contains("9999")));
}

#[tokio::test]
async fn agent_crash_in_mid_turn_keeps_its_updates_and_prompt_restores() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"))
        .prompt(|turn| turn.say("half an ans").stderr("out of memory").exit(137))
        .next_start()
        .initialize(everything())
        .session_resume()
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "one").await;
    let text = r#"the agent "scripted" died (exit code 137); it said: out of memory"#;
    assert_eq!(failure(&prompt(&session, "two").await), ("AGENT_DIED", text));
    assert!(bench.events(session.record_id()).await.iter().any(|event| event.body.contains("half an ans")));
    assert_eq!(stop_reason(&prompt(&session, "three").await), "end_turn");
}

#[tokio::test]
async fn endless_flood_of_an_agent_is_stopped_and_the_session_continues() {
    let bench = Bench::with(EngineSettings { turn_bytes: 300_000, ..quick() });
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.end("end_turn"))
        .prompt(|turn| turn.flood(None))
        .next_start()
        .initialize(everything())
        .session_resume()
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "one").await;
    let text = r#"the agent "scripted" sent more than 300000 bytes in turn 2 and was stopped"#;
    assert_eq!(failure(&prompt(&session, "two").await), ("AGENT_FLOODED", text));
    assert_eq!(stop_reason(&prompt(&session, "three").await), "end_turn");
}

#[tokio::test]
async fn an_agent_that_sends_a_line_without_end_is_stopped() {
    let wire = acpx_core::wire::WireLimits {
        line_bytes: 100_000,
        flood_bytes: 400_000,
        ..acpx_core::wire::WireLimits::default()
    };
    let bench = Bench::with(EngineSettings { wire, ..quick() });
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.repeat(100, |noise| noise.bytes(&[b'x'; 10_000])).hang());
    let (session, _) = bench.open(&script).await;
    assert_eq!(failure(&prompt(&session, "one").await).0, "AGENT_FLOODED");
}

#[tokio::test]
async fn an_agent_that_sends_garbage_without_end_before_it_initializes() {
    let wire = acpx_core::wire::WireLimits {
        line_bytes: 100_000,
        flood_bytes: 400_000,
        ..acpx_core::wire::WireLimits::default()
    };
    let bench = Bench::with(EngineSettings { wire, ..quick() });
    let script = Script::new().repeat(100, |noise| noise.bytes(&[b'x'; 10_000])).hang();
    let error = bench.open_error(&script).await;
    let text = r#"the agent "scripted" sent more than 400000 bytes of garbage and was stopped"#;
    assert_eq!((error.code().as_str(), error.to_string().as_str()), ("AGENT_FLOODED", text));
}

#[tokio::test]
async fn prompt_too_long_for_a_line_is_refused_and_the_session_continues() {
    let wire = acpx_core::wire::WireLimits { line_bytes: 100_000, ..acpx_core::wire::WireLimits::default() };
    let bench = Bench::with(EngineSettings { wire, ..quick() });
    let (session, _) = bench.open(&faithful(everything())).await;
    let long = Prompt::text(&"x".repeat(100_000)).unwrap();
    assert_eq!(session.prompt(long).await.err().unwrap().code().as_str(), "BAD_PROMPT");
    assert_eq!(stop_reason(&prompt(&session, "short").await), "end_turn");
}

#[tokio::test]
async fn content_the_agent_does_not_accept_ends_the_turn_unsent() {
    let bench = Bench::new();
    let (session, command) = bench.open(&faithful(everything())).await;
    let image = Prompt::blocks(r#"[{"type":"image","data":"","mimeType":"image/png"}]"#).unwrap();
    let turn = session.prompt(image).await.unwrap().finished().await.unwrap();
    let text = r#"the agent "scripted" cannot take prompt[0] (image): it does not advertise promptCapabilities.image"#;
    assert_eq!(failure(&turn), ("CONTENT_UNSUPPORTED", text));
    assert_eq!(methods(&command), ["initialize", "session/new"]);
    assert_eq!(stop_reason(&prompt(&session, "text").await), "end_turn");
}

#[tokio::test]
async fn missing_directory_is_named_when_the_session_is_restored() {
    let bench = Bench::new();
    let place = bench.home.join("project");
    std::fs::create_dir(&place).unwrap();
    let (agent, _) = bench.agent(&faithful(everything()));
    let mut new = bench.new_session(agent, Vec::new());
    new.cwd = AbsolutePath::from_path(&place).unwrap();
    let session = bench.engine.open(new).await.unwrap();
    prompt(&session, "one").await;
    session.park().await.unwrap();
    std::fs::remove_dir(&place).unwrap();
    let error = session.wake(restore()).await.unwrap_err();
    let (record, real) =
        (session.record_id(), place.parent().unwrap().canonicalize().unwrap().join("project"));
    let path = if real == place { "which".to_owned() } else { format!("and its path {}", place.display()) };
    let text = format!("the session {record} was created in {}, {path} is gone", real.display());
    assert_eq!((error.code().as_str(), error.to_string()), ("SESSION_DIRECTORY_MOVED", text));
    std::fs::create_dir(&place).unwrap();
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
}

#[test]
fn an_environment_is_printed_without_its_values() {
    let environment: Environment = [("API_KEY".into(), "s3cret".into())].into_iter().collect();
    assert_eq!(format!("{environment:?}"), r#"["API_KEY"]"#);
}

#[tokio::test]
async fn overlong_agent_lines_are_counted_in_the_end_of_their_turn() {
    let wire = acpx_core::wire::WireLimits { line_bytes: 10_000, ..acpx_core::wire::WireLimits::default() };
    let bench = Bench::with(EngineSettings { wire, ..quick() });
    let long = "x".repeat(20_000);
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say(&long).line(&long).say("short").end("end_turn"))
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    let mut dropped = Vec::new();
    for _ in 0..2 {
        let ticket = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
        dropped.push(ticket.end().await.unwrap().dropped_lines);
    }
    // The other long line was no message.
    assert_eq!(dropped, [1, 0]);
    let story = bench.story(session.record_id()).await;
    assert_eq!(story.iter().filter(|line| *line == "# lines_dropped").count(), 1, "{story:?}");
}

#[tokio::test]
async fn cancelled_queued_prompt_takes_no_dropped_lines_of_the_running_turn() {
    let wire = acpx_core::wire::WireLimits { line_bytes: 10_000, ..acpx_core::wire::WireLimits::default() };
    let bench = Bench::with(EngineSettings { wire, ..quick() });
    let go = bench.home.join("go");
    let long = "x".repeat(20_000);
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.say(&long).say("short").await_file(&go).end("end_turn"));
    let (session, _) = bench.open(&script).await;
    let mut events = session.follow(Seq::FIRST);
    let running = session.prompt(Prompt::text("go").unwrap()).await.unwrap();
    while !events.next().await.unwrap().unwrap().body.contains("short") {}
    let waiting = session.prompt(Prompt::text("wait").unwrap()).await.unwrap();
    session.cancel(Some(waiting.turn)).await.unwrap();
    assert_eq!(waiting.end().await.unwrap().dropped_lines, 0);
    std::fs::write(&go, "").unwrap();
    assert_eq!(running.end().await.unwrap().dropped_lines, 1);
    let story = bench.story(session.record_id()).await;
    assert_eq!(story.iter().filter(|line| *line == "# lines_dropped").count(), 1, "{story:?}");
}
