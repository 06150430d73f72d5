//! A running agent that no longer has the session, a restore that fails for the moment, and a return to an earlier ACP
//! session, each against a real process.

use acpx_core::machine::Rung;
use acpx_core::model::{AcpSessionId, Fact, LineageReason, McpTransport, ReplayVerdict};

use super::*;

fn load_only() -> Value {
    json!({"loadSession": true, "sessionCapabilities": {"resume": null}})
}

fn unknown() -> Value {
    json!({"code": -32002, "message": "Resource not found", "data": {"sessionId": "s1"}})
}

fn passing() -> Value {
    json!({"code": -32603, "message": "Internal error", "data": {"details": "connect ECONNRESET"}})
}

/// An agent with one answered prompt.
fn prompted() -> Script {
    Script::new().initialize(load_only()).session_new("s1").prompt(|turn| turn.say("first").end("end_turn"))
}

#[tokio::test]
async fn prompt_to_an_agent_that_lost_the_session_restores_and_answers() {
    let bench = Bench::new();
    let script = prompted()
        .refuse("session/prompt", unknown())
        .next_start()
        .initialize(load_only())
        .session_load(|replay| replay.user_said("one").say("first"))
        .prompt(|turn| turn.say("second").end("end_turn"));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    assert_eq!(stop_reason(&prompt(&session, "two").await), "end_turn");
    let sent = ["session/prompt", "initialize", "session/load", "session/prompt"];
    assert_eq!(methods(&command)[3..], sent);
    assert_eq!(bench.said(&session).await, ["> one", "< first", "> two", "< second"]);
    let story = bench.story(session.record_id()).await;
    let from = story.iter().rposition(|line| line == "# turn_started").unwrap();
    let expected = [
        "# turn_started",
        "> session/prompt",
        "< error",
        "# agent_ended",
        "> initialize",
        "< result",
        "> session/load",
        "< result",
        "# restored",
        "# prompt_resent",
        "> session/prompt",
        "< session/update agent_message_chunk",
        "< result",
        "# turn_ended",
    ];
    assert_eq!(story[from..], expected);
    // The prompt that is sent once more is no part of what the agent replays.
    assert_eq!(verdict(&bench, &session).await, Some(ReplayVerdict::Same));
}

/// How the agent's last replay compared.
async fn verdict(bench: &Bench, session: &Session) -> Option<ReplayVerdict> {
    let events = bench.events(session.record_id()).await;
    let restored = events.iter().rev().find_map(|event| match Fact::from_body(&event.body)? {
        Fact::Restored { replay, .. } => Some(replay),
        _ => None,
    });
    restored.flatten()
}

#[tokio::test]
async fn setting_for_an_agent_that_lost_the_session_restores_first() {
    let bench = Bench::new();
    let modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]});
    let script = Script::new()
        .initialize(load_only())
        .expect("session/new")
        .reply(json!({"sessionId": "s1", "modes": modes}))
        .prompt(|turn| turn.say("first").end("end_turn"))
        .refuse("session/set_mode", unknown())
        .next_start()
        .initialize(load_only())
        .expect("session/load")
        .reply(json!({"modes": modes}))
        .expect("session/set_mode")
        .reply(json!({}));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    let params = json!({"sessionId": "s1", "modeId": "plan"}).to_string();
    session.request("session/set_mode", &params, restore()).await.unwrap();
    assert_eq!(
        methods(&command)[3..],
        ["session/set_mode", "initialize", "session/load", "session/set_mode"]
    );
}

#[tokio::test]
async fn temporary_failure_keeps_the_session_and_a_later_prompt_restores_it() {
    let bench = Bench::new();
    let script = prompted()
        .next_start()
        .initialize(load_only())
        .refuse("session/load", passing())
        .next_start()
        .initialize(load_only())
        .session_load(|replay| replay.user_said("one").say("first"))
        .prompt(|turn| turn.say("third").end("end_turn"));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    kill_agent(&session).await;
    let failed = prompt(&session, "two").await;
    let text = r#"the agent "scripted" did not restore the session s1: session/load failed: Internal error: connect ECONNRESET (-32603)"#;
    assert_eq!(failure(&failed), ("SESSION_NOT_RESTORED", text));
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.lineage.rows().len(), 1);
    let stored = record.restore_error.expect("the failure is stored");
    assert_eq!((stored.code, stored.message.as_str()), (Some(-32603), "Internal error: connect ECONNRESET"));
    assert_eq!(stop_reason(&prompt(&session, "three").await), "end_turn");
    assert_eq!(
        methods(&command)[3..],
        ["initialize", "session/load", "initialize", "session/load", "session/prompt"]
    );
    assert_eq!(bench.said(&session).await, ["> one", "< first", "> three", "< third"]);
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!((record.restore_error, record.lineage.rows().len()), (None, 1));
}

#[tokio::test]
async fn a_restore_result_of_another_shape_is_a_restored_session() {
    let bench = Bench::new();
    let script = prompted().next_start().initialize(load_only()).expect("session/load").reply(json!([]));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "one").await;
    kill_agent(&session).await;
    let how = session.wake(restore()).await.unwrap();
    assert_eq!(how, WakeOutcome::Restored { rung: Rung::Load, replay: None });
}

#[tokio::test]
async fn record_returns_to_the_session_that_a_reset_left() {
    let bench = Bench::new();
    let script = prompted()
        .next_start()
        .initialize(load_only())
        .session_new("s2")
        .prompt(|turn| turn.say("fresh").end("end_turn"))
        .next_start()
        .initialize(load_only())
        .session_load(|replay| replay.user_said("one").say("first"))
        .prompt(|turn| turn.say("back").end("end_turn"));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    let options = WakeOptions { fallback: Fallback::Reset, carry_history: false };
    session.wake(RestoreSession { options, ..restore() }).await.unwrap();
    prompt(&session, "two").await;
    let earlier = AcpSessionId::new("s1").unwrap();
    assert_eq!(session.return_to(earlier.clone(), restore()).await.unwrap(), WakeOutcome::Returned);
    assert_eq!(stop_reason(&prompt(&session, "three").await), "end_turn");
    let loads: Vec<Value> = received(&command)
        .into_iter()
        .filter(|(method, _)| method == "session/load")
        .map(|(_, params)| params["sessionId"].clone())
        .collect();
    assert_eq!(loads, ["s1"]);
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    let rows: Vec<_> = record.lineage.rows().iter().map(|row| (row.session.as_str(), row.reason)).collect();
    let expected =
        [("s1", LineageReason::Created), ("s2", LineageReason::Reset), ("s1", LineageReason::Returned)];
    assert_eq!(rows, expected);
    // What the agent replayed is compared with what was said in that session alone.
    assert_eq!(verdict(&bench, &session).await, Some(ReplayVerdict::Same));
    let other = AcpSessionId::new("never").unwrap();
    assert_eq!(session.return_to(other, restore()).await.unwrap_err().code().as_str(), "NOT_IN_LINEAGE");
}

#[tokio::test]
async fn failed_restore_leaves_the_mcp_servers_of_the_record() {
    let bench = Bench::new();
    let script = prompted()
        .next_start()
        .initialize(load_only())
        .refuse("session/load", json!({"code": -32603, "message": "Failed to connect to MCP server"}))
        .next_start()
        .initialize(load_only())
        .session_load(|replay| replay.user_said("one").say("first"));
    let (session, command) = bench.open(&script).await;
    prompt(&session, "one").await;
    kill_agent(&session).await;
    let command_line = AbsolutePath::new("/bin/false").unwrap();
    let (args, env) = (Vec::new(), Vec::new());
    let broken = McpServer::new("broken", McpTransport::Stdio { command: command_line, args, env });
    let with_server = RestoreSession { mcp_servers: Some(vec![broken].into()), ..restore() };
    assert_eq!(session.wake(with_server).await.unwrap_err().code().as_str(), "SESSION_NOT_RESTORED");
    session.wake(restore()).await.unwrap();
    let sent: Vec<usize> = received(&command)
        .into_iter()
        .filter(|(method, _)| method == "session/load")
        .map(|(_, params)| params["mcpServers"].as_array().unwrap().len())
        .collect();
    assert_eq!(sent, [1, 0]);
    let record = bench.engine.record(session.record_id()).await.unwrap().unwrap();
    assert_eq!(record.mcp_servers, []);
}
