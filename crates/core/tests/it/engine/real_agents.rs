//! What real agents were seen to do, played by the scripted agent under their names: the profiles that are built in
//! decide what is done about it. `docs/guide/agents.md` says which test is about which finding.

use std::sync::atomic::{AtomicI64, Ordering};

use acpx_core::machine::Rung;
use acpx_core::model::{
    AgentProfile, LineageReason, PermissionMode, ReplayVerdict, SessionUsage, Timestamp, TurnLimits,
};

use super::*;

/// An agent of this name that plays a script.
async fn open_as(bench: &Bench, name: &str, script: &Script) -> (Session, Vec<String>) {
    let (agent, command) = bench.agent(script);
    let new = bench.new_session(agent.named(name), Vec::new());
    (bench.engine.open(new).await.expect("the session opens"), command)
}

/// One that answers one prompt, is killed, and on its second start does the rest.
async fn after_a_kill(
    bench: &Bench,
    name: &str,
    capabilities: Value,
    rest: impl FnOnce(Script) -> Script,
) -> (Session, Vec<String>) {
    let first = Script::new()
        .initialize(capabilities.clone())
        .session_new("s1")
        .prompt(|turn| turn.say("first").end("end_turn"));
    let script = rest(first.next_start().initialize(capabilities));
    let (session, command) = open_as(bench, name, &script).await;
    prompt(&session, "one").await;
    kill_agent(&session).await;
    (session, command)
}

fn load_only() -> Value {
    json!({"loadSession": true})
}

#[tokio::test]
async fn session_without_a_prompt_is_not_loaded_from_an_agent_without_it() {
    let unwritten = [
        "claude",
        "claude-code",
        "codex",
        "zed-codex",
        "copilot",
        "gemini",
        "qwen",
        "vibe",
        "fast-agent",
        "cline",
    ];
    for name in unwritten {
        let bench = Bench::new();
        let start = |script: Script, id: &str| script.initialize(load_only()).session_new(id);
        let (session, command) =
            open_as(&bench, name, &start(start(Script::new(), "s1").next_start(), "s2")).await;
        kill_agent(&session).await;
        let how = session.wake(restore()).await.unwrap();
        assert_eq!(
            how,
            WakeOutcome::Fresh { reason: LineageReason::NotMaterialised, announced: false },
            "{name}"
        );
        assert_eq!(methods(&command), ["initialize", "session/new", "initialize", "session/new"], "{name}");
    }
    for name in ["opencode", "kilocode", "goose", "pi", "kimi"] {
        let bench = Bench::new();
        let first = Script::new().initialize(load_only()).session_new("s1").next_start();
        let script = first.initialize(load_only()).session_load(|replay| replay);
        let (session, _) = open_as(&bench, name, &script).await;
        kill_agent(&session).await;
        let how = session.wake(restore()).await.unwrap();
        assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: None }, "{name}");
    }
}

#[tokio::test]
async fn interrupted_prompt_is_replayed_without_its_answer_or_not_at_all() {
    for replays_it in [true, false] {
        let bench = Bench::new();
        let first = Script::new()
            .initialize(load_only())
            .session_new("s1")
            .prompt(|turn| turn.say("first").end("end_turn"))
            .prompt(|turn| turn.say("par").exit(9));
        let script = first.next_start().initialize(load_only()).session_load(|replay| {
            let replay = replay.user_said("one").say("first");
            if replays_it { replay.user_said("two") } else { replay }
        });
        let (session, _) = open_as(&bench, "cline", &script).await;
        prompt(&session, "one").await;
        assert_eq!(failure(&prompt(&session, "two").await).0, "AGENT_DIED");
        let how = session.wake(restore()).await.unwrap();
        let WakeOutcome::Restored { rung: Rung::Load, replay: Some(verdict) } = how else {
            panic!("{how:?}")
        };
        assert!(matches!(verdict, ReplayVerdict::Same | ReplayVerdict::Shorter), "{verdict:?}");
        assert_eq!(bench.said(&session).await, ["> one", "< first", "> two", "< par"]);
    }
}

#[tokio::test]
async fn turn_that_continued_without_us_is_stored_after_the_load() {
    let bench = Bench::new();
    let goes_on = |script: Script| {
        script
            .session_load(|replay| replay.user_said("one").say("first"))
            .say("tick47")
            .prompt(|turn| turn.say("second").end("end_turn"))
    };
    let (session, _) = after_a_kill(&bench, "cline", load_only(), goes_on).await;
    session.wake(restore()).await.unwrap();
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    let said = bench.said(&session).await;
    assert_eq!(said.iter().filter(|said| said.contains("tick47")).count(), 1, "{said:?}");
    // It may have come before the prompt was sent or after.
    assert!(said.last().is_some_and(|said| said.ends_with("second")), "{said:?}");
}

/// The time by the clock of the test below.
static NOW: AtomicI64 = AtomicI64::new(0);

fn clock() -> Timestamp {
    Timestamp::from_millis(NOW.load(Ordering::SeqCst)).unwrap()
}

#[tokio::test]
async fn gemini_is_not_loaded_in_the_minute_it_began() {
    NOW.store(119_900, Ordering::SeqCst);
    let bench = Bench::with(EngineSettings { clock, ..quick() });
    let context = "<session_context>\nToday is Monday.";
    let load = |script: Script| {
        script.session_load(|replay| replay.user_said(context).user_said("one").say("first"))
    };
    let (session, command) = after_a_kill(&bench, "gemini", load_only(), load).await;
    let mut events = session.follow(Seq::FIRST);
    let waking = tokio::spawn({
        let session = session.clone();
        async move { session.wake(restore()).await }
    });
    let delayed = loop {
        let event = events.next().await.unwrap().expect("the session goes on");
        if brief(&event) == "# load_delayed" {
            break event;
        }
    };
    let told: Value = serde_json::from_str(&delayed.body).unwrap();
    assert_eq!(told, json!({"fact": "load_delayed", "until": "1970-01-01T00:02:00.000Z"}));
    assert_eq!(methods(&command)[3..], ["initialize"]);
    NOW.store(120_000, Ordering::SeqCst);
    let how = waking.await.unwrap().unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Same) });
    assert_eq!(methods(&command)[3..], ["initialize", "session/load"]);
    assert_eq!(bench.said(&session).await, ["> one", "< first"]);
}

#[tokio::test]
async fn agent_profile_of_the_user_precedes_the_built_in_one() {
    let bench = Bench::new();
    let first = Script::new().initialize(load_only()).session_new("s1");
    let script = first.next_start().initialize(load_only()).session_load(|replay| replay);
    let (agent, command) = bench.agent(&script);
    let profile = AgentProfile { needs_prompt_before_load: Some(false), ..AgentProfile::default() };
    let agent = agent.named("claude").with_profile(Some(Arc::new(profile)));
    let session = bench.engine.open(bench.new_session(agent.clone(), Vec::new())).await.unwrap();
    kill_agent(&session).await;
    let how = session.wake(RestoreSession { agent: Some(agent), ..restore() }).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: None });
    assert_eq!(methods(&command)[2..], ["initialize", "session/load"]);
}

#[tokio::test]
async fn agent_profile_is_chosen_by_agent_info_without_other_evidence() {
    let bench = Bench::new();
    let answer = json!({
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": true},
        "agentInfo": {"name": "claude-agent-acp", "version": "1"},
    });
    let start = |script: Script, id: &str| script.expect("initialize").reply(answer.clone()).session_new(id);
    let script = start(start(Script::new(), "s1").next_start(), "s2");
    let (session, command) = open_as(&bench, "mine", &script).await;
    kill_agent(&session).await;
    session.wake(restore()).await.unwrap();
    assert_eq!(methods(&command)[2..], ["initialize", "session/new"]);
}

#[tokio::test]
async fn model_error_is_reported_in_the_agents_words_for_any_code() {
    let bench = Bench::new();
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.reply_error(json!({"code": 400, "message": "the model refused"})))
        .prompt(|turn| turn.say("API error: 400").end("end_turn"))
        .prompt(|turn| turn.say("better").end("end_turn"));
    let (session, _) = open_as(&bench, "gemini", &script).await;
    let failed = prompt(&session, "one").await;
    let message = r#"the agent "gemini" refused session/prompt: the model refused (400)"#;
    assert_eq!(failure(&failed), ("AGENT_REFUSED", message));
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    assert_eq!(stop_reason(&prompt(&session, "three").await), "end_turn");
    let said = bench.said(&session).await;
    assert_eq!(said, ["> one", "> two", "< API error: 400", "> three", "< better"]);
}

#[tokio::test]
async fn tool_call_is_one_for_every_introduction_and_replay_id() {
    let bench = Bench::new();
    let tool = |kind: &str, id: &str, status: &str| json!({"sessionUpdate": kind, "toolCallId": id, "title": "Read", "kind": "read", "status": status});
    let first = Script::new().initialize(load_only()).session_new("s1").prompt(|turn| {
        turn.update(tool("tool_call_update", "1:unintroduced", "completed"))
            .update(tool("tool_call", "1:twice", "pending"))
            .update(tool("tool_call", "1:twice", "in_progress"))
            .update(tool("tool_call_update", "1:twice", "completed"))
            .update(json!({"sessionUpdate": "tool_call", "toolCallId": "1:bare", "title": "Read"}))
            .say("done")
            .end("end_turn")
    });
    let script = first.next_start().initialize(load_only()).session_load(|replay| {
        replay
            .user_said("one")
            .update(tool("tool_call_update", "2:bare", "completed"))
            .update(tool("tool_call", "2:unintroduced", "completed"))
            .update(tool("tool_call", "2:twice", "completed"))
            .say("done")
    });
    let (session, _) = open_as(&bench, "kimi", &script).await;
    prompt(&session, "one").await;
    kill_agent(&session).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Same) });
    let conversation = bench.engine.conversation(session.record_id()).await.unwrap();
    let call = |entry: &Entry| match entry {
        Entry::Tool(call) => Some(call.id.to_string()),
        _ => None,
    };
    let calls: Vec<String> = conversation.entries().iter().filter_map(call).collect();
    assert_eq!(calls, ["1:unintroduced", "1:twice", "1:bare"]);
}

#[tokio::test]
async fn rejection_that_ends_the_turn_as_cancelled_keeps_the_session() {
    // The only way to reject that both agents for Codex offer is to abort the turn.
    for name in ["codex", "zed-codex"] {
        let bench = Bench::new();
        let script = Script::new()
            .initialize(json!({}))
            .session_new("s1")
            .prompt(|turn| turn.ask_permission("t1").end("cancelled"))
            .prompt(|turn| turn.say("still here").end("end_turn"));
        let (session, command) = open_as(&bench, name, &script).await;
        let denied = Prompt::text("edit").unwrap().with_policy(PermissionMode::DenyAll);
        let turn = session.prompt(denied).await.unwrap().finished().await.unwrap();
        assert_eq!((stop_reason(&turn), turn.permissions.rejected), ("cancelled", 1), "{name}");
        assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn", "{name}");
        assert!(!methods(&command).iter().any(|method| method == "session/cancel"), "{name}");
    }
}

#[tokio::test]
async fn permission_request_withdrawn_after_our_cancel_is_answered_once() {
    for name in ["claude", "codex"] {
        let bench = Bench::new();
        let options = json!([{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }]);
        let params = json!({ "sessionId": "s1", "toolCall": { "toolCallId": "t1" }, "options": options });
        let ask =
            json!({ "jsonrpc": "2.0", "id": "a", "method": "session/request_permission", "params": params });
        let take_back =
            json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": "a" } });
        let script = Script::new()
            .initialize(json!({}))
            .session_new("s1")
            .expect_as("session/prompt", "first")
            .line(&ask.to_string())
            .expect("session/cancel")
            .line(&take_back.to_string())
            .reply_to("first", json!({ "stopReason": "cancelled" }))
            .prompt(|turn| turn.say("still here").end("end_turn"));
        let (session, command) = open_as(&bench, name, &script).await;
        let (advisor, mut questions) = tokio::sync::mpsc::channel(1);
        let asked = Prompt::text("one").unwrap().with_policy(PermissionMode::Ask);
        let ticket = session.prompt_with_responder(asked, advisor).await.unwrap();
        let _question = questions.recv().await.unwrap();
        session.cancel(None).await.unwrap();
        assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled", "{name}");
        assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn", "{name}");
        let answers = received(&command).into_iter().filter(|(method, _)| method == "answer");
        let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
        assert_eq!(answers.map(|(_, answer)| answer).collect::<Vec<_>>(), [cancelled], "{name}");
    }
}

#[tokio::test]
async fn agent_silent_for_a_missing_login_is_ended_by_the_turn_limit() {
    for name in ["opencode", "kilocode"] {
        let bench = Bench::new();
        let silent = Script::new().initialize(json!({})).session_new("s1").prompt(Script::hang);
        let script = silent.next_start().initialize(json!({})).session_new("s2");
        let script = script.prompt(|turn| turn.say("logged in").end("end_turn"));
        let (session, _) = open_as(&bench, name, &script).await;
        let limits = TurnLimits { silence: Some(Duration::from_millis(50)), ..TurnLimits::default() };
        let asked = Prompt::text("one").unwrap().with_limits(limits);
        let turn = session.prompt(asked).await.unwrap().finished().await.unwrap();
        assert_eq!(failure(&turn).0, "IDLE_TIMEOUT", "{name}");
        assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn", "{name}");
    }
}

#[tokio::test]
async fn replay_during_resume_is_a_replay_before_and_after_its_response() {
    let resumes = json!({"sessionCapabilities": {"resume": {}}});
    for is_late in [false, true] {
        let bench = Bench::new();
        let resume = |script: Script| {
            let script = script.expect("session/resume");
            let replay = |script: Script| script.user_said("one").say("first");
            let script =
                if is_late { replay(script.reply(json!({}))) } else { replay(script).reply(json!({})) };
            script.prompt(|turn| turn.say("second").end("end_turn"))
        };
        let (session, _) = after_a_kill(&bench, "fast-agent", resumes.clone(), resume).await;
        session.wake(restore()).await.unwrap();
        prompt(&session, "two").await;
        assert_eq!(bench.said(&session).await, ["> one", "< first", "> two", "< second"], "late: {is_late}");
    }
}

#[tokio::test]
async fn error_notice_and_unknown_requests_and_notifications_end_no_turn() {
    let bench = Bench::new();
    let complaint = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    let status = r#"{"jsonrpc":"2.0","method":"_auth/status_update","params":{"loggedIn":true}}"#;
    let script = Script::new().initialize(json!({})).line(status).session_new("s1").prompt(|turn| {
        turn.line(complaint)
            .request("craft/drainMidTurnQueue", json!({"sessionId": "s1"}))
            .line(status)
            .say("done")
            .end("end_turn")
    });
    let (session, command) = open_as(&bench, "qwen", &script).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    assert_eq!(bench.said(&session).await, ["> one", "< done"]);
    let answered = received(&command).into_iter().filter(|(method, _)| method == "answer");
    assert_eq!(answered.map(|(_, answer)| answer["code"].clone()).collect::<Vec<_>>(), [-32601]);
}

#[tokio::test]
async fn updates_after_the_load_response_are_stored_and_are_no_replay() {
    let bench = Bench::new();
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
    let usage = json!({"sessionUpdate": "usage_update", "used": 7, "size": 9});
    let load = |script: Script| {
        script
            .session_load(|replay| replay.user_said("one").say("first"))
            .update(commands)
            .update(usage)
            .prompt(|turn| turn.say("second").end("end_turn"))
    };
    let (session, _) = after_a_kill(&bench, "codex", load_only(), load).await;
    session.wake(restore()).await.unwrap();
    prompt(&session, "two").await;
    let story = bench.story(session.record_id()).await;
    let told = |kind: &str| story.iter().filter(|line| **line == format!("< session/update {kind}")).count();
    assert_eq!((told("available_commands_update"), told("usage_update")), (1, 1), "{story:?}");
    assert_eq!(bench.said(&session).await, ["> one", "< first", "> two", "< second"]);
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.info.usage, Some(SessionUsage { used: 7, size: 9, cost: None }));
}

#[tokio::test]
async fn agent_known_to_ignore_eof_is_not_waited_for_at_shutdown() {
    let patient = EngineSettings {
        process: GracePeriods { eof: Duration::from_mins(5), term: Duration::from_mins(5) },
        ..quick()
    };
    let script = Script::new().ignoring_eof().initialize(json!({})).session_new("s1");
    for (name, script) in [("goose", script.clone()), ("gemini", script.ignoring_terminate())] {
        let bench = Bench::with(patient.clone());
        let (agent, _) = bench.agent(&script);
        let both = AgentProfile { ignores_stdin_end: Some(true), ..AgentProfile::default() };
        let agent = agent.named(name).with_profile(Some(Arc::new(both)));
        let session = bench.engine.open(bench.new_session(agent, Vec::new())).await.unwrap();
        // If it were waited for, this would take minutes.
        tokio::time::timeout(Duration::from_mins(2), session.close()).await.expect(name).unwrap();
    }
}
