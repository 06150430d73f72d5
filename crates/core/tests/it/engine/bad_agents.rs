//! Agents that break the protocol in the middle of a turn, beside a good one in the same engine: the turn ends, the
//! record can be read, the next prompt is answered, and the good one notices nothing.

use acpx_core::model::{EventKind, PermissionMode, ReplayVerdict};
use acpx_core::wire::WireLimits;
use acpx_testkit::ScriptStep;

use super::*;

/// A session of a bad agent, and one of a good agent that has to go on meanwhile.
struct Pair {
    bench: Bench,
    bad: Session,
    command: Vec<String>,
    good: Session,
}

/// An agent whose first turn is this. The second is good, also if it was started again for it.
fn bad(turn: impl FnOnce(Script) -> Script) -> Script {
    Script::new()
        .initialize(everything())
        .session_new("bad")
        .prompt(turn)
        .prompt(|turn| turn.end("end_turn"))
        .next_start()
        .initialize(everything())
        .serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "again" }))),
            ("session/resume", Script::new().reply(json!({}))),
            ("session/prompt", Script::new().end("end_turn")),
        ])
}

impl Pair {
    async fn new(settings: EngineSettings, turn: impl FnOnce(Script) -> Script) -> Self {
        let bench = Bench::with(settings);
        let (good, _) = bench.open(&faithful(everything())).await;
        let (bad, command) = bench.open(&bad(turn)).await;
        Self { bench, bad, command, good }
    }

    /// One turn with each at the same time; how the bad one ended.
    async fn turn(&self) -> Turn {
        let allowed = Prompt::text("go").unwrap().with_policy(PermissionMode::ApproveAll);
        let bad = async { self.bad.prompt(allowed).await.unwrap().finished().await.unwrap() };
        let (turn, good) = tokio::join!(bad, prompt(&self.good, "go"));
        assert_eq!(stop_reason(&good), "end_turn");
        turn
    }

    /// A bad turn that ends as if nothing had been wrong, and a good one after it.
    async fn ends_well(&self) {
        assert_eq!(stop_reason(&self.turn().await), "end_turn");
        self.goes_on().await;
    }

    /// The next turn of both is answered, and what was said can be read.
    async fn goes_on(&self) {
        assert_eq!(stop_reason(&self.turn().await), "end_turn");
        assert_eq!(self.bench.said(&self.good).await, ["> go", "< hello", "> go", "< hello"]);
    }

    async fn kept(&self, words: &str) -> Vec<Event> {
        let events = self.bench.events(self.bad.record_id()).await;
        events.into_iter().filter(|event| event.body.contains(words)).collect()
    }

    /// The tool calls of the conversation, by their ids.
    async fn tools(&self) -> Vec<String> {
        let conversation = self.bench.engine.conversation(self.bad.record_id()).await.unwrap();
        let id = |entry: &Entry| if let Entry::Tool(call) = entry { Some(call.id.to_string()) } else { None };
        conversation.entries().iter().filter_map(id).collect()
    }
}

fn tool(kind: &str, id: &str, status: &str) -> Value {
    json!({ "sessionUpdate": kind, "toolCallId": id, "title": "t", "status": status })
}

#[tokio::test]
async fn update_for_an_unknown_session_is_stored_outside_the_conversation() {
    let stranger = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"nobody","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"stranger"}}}}"#;
    let pair = Pair::new(quick(), |turn| turn.line(stranger).say("mine").end("end_turn")).await;
    pair.ends_well().await;
    assert_eq!(pair.bench.said(&pair.bad).await, ["> go", "< mine", "> go"]);
    let kinds: Vec<_> = pair.kept("stranger").await.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Notification]);
}

#[tokio::test]
async fn duplicate_and_unsolicited_responses_are_ignored() {
    let pair = Pair::new(quick(), |turn| {
        turn.line(r#"{"jsonrpc":"2.0","id":4711,"result":{"stopReason":"refusal"}}"#)
            .line(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#)
            .end("end_turn")
            .end("refusal")
    })
    .await;
    pair.ends_well().await;
}

#[tokio::test]
async fn requests_that_share_an_id_are_all_answered() {
    let ask = |id: &str| {
        let params = json!({
            "sessionId": "bad",
            "toolCall": { "toolCallId": "t", "kind": "edit" },
            "options": [{ "optionId": "yes", "name": "yes", "kind": "allow_once" }],
        });
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{params}}}"#)
    };
    let pair = Pair::new(quick(), |turn| {
        turn.line(&ask("7"))
            .line(&ask("7"))
            .line(&ask("{id}"))
            .expect_as("session/cancel", "c")
            .end("end_turn")
    })
    .await;
    let go = Prompt::text("go").unwrap().with_policy(PermissionMode::ApproveAll);
    let ticket = pair.bad.prompt(go).await.unwrap();
    let mut follower = pair.bad.follow(Seq::FIRST);
    let mut answered = 0;
    while answered < 3 {
        let event = follower.next().await.unwrap().unwrap();
        answered +=
            u32::from(event.direction == Direction::ToAgent && event.body.contains(r#""optionId":"yes""#));
    }
    pair.bad.cancel(None).await.unwrap();
    assert_eq!(stop_reason(&ticket.finished().await.unwrap()), "cancelled");
    let answers: Vec<_> = received(&pair.command).into_iter().filter(|(what, _)| what == "answer").collect();
    let yes = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    assert_eq!(answers, vec![("answer".to_owned(), yes); 3]);
    assert_eq!(stop_reason(&prompt(&pair.good, "go").await), "end_turn");
    pair.goes_on().await;
}

#[tokio::test]
async fn permission_request_without_options_is_answered_cancelled() {
    let params = json!({ "sessionId": "bad", "toolCall": { "toolCallId": "t" }, "options": [] });
    let pair =
        Pair::new(quick(), |turn| turn.request("session/request_permission", params).end("end_turn")).await;
    pair.ends_well().await;
    let answer = received(&pair.command).into_iter().find(|(what, _)| what == "answer").unwrap().1;
    assert_eq!(answer, json!({ "outcome": { "outcome": "cancelled" } }));
}

#[tokio::test]
async fn an_agent_that_streams_without_end_is_stopped() {
    let pair = Pair::new(EngineSettings { turn_bytes: 300_000, ..quick() }, |turn| turn.flood(None)).await;
    let text = r#"the agent "scripted" sent more than 300000 bytes in turn 1 and was stopped"#;
    assert_eq!(failure(&pair.turn().await), ("AGENT_FLOODED", text));
    pair.goes_on().await;
}

#[tokio::test]
async fn line_of_a_hundred_megabytes_is_dropped_and_reported() {
    let open = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"bad","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""#;
    let pair = Pair::new(quick(), |turn| {
        turn.bytes(open)
            .repeat(1000, |more| more.bytes(&vec![b'x'; 100_000]))
            .bytes(b"\"}}}}\n")
            .say("after it")
            .end("end_turn")
    })
    .await;
    pair.ends_well().await;
    assert_eq!(pair.bench.said(&pair.bad).await, ["> go", "< after it", "> go"]);
    let told = pair.kept("lines_dropped").await;
    assert_eq!(
        told.iter().map(|event| &*event.body).collect::<Vec<_>>(),
        [r#"{"fact":"lines_dropped","lines":1,"limit":67108864}"#]
    );
}

#[tokio::test]
async fn non_utf8_and_endlessly_nested_lines_are_skipped() {
    let broken = b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"bad\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"\xff\xfe\"}}}}\n";
    let nest = |open: &str, close: &str| format!("{}{}", open.repeat(200_000), close.repeat(200_000));
    let update = |deep: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"bad","update":{{"sessionUpdate":"agent_message_chunk","content":{deep}}}}}}}"#
        )
    };
    let (lists, objects) =
        (update(&nest("[", "]")), update(&format!("{}1{}", r#"{"a":"#.repeat(200_000), "}".repeat(200_000))));
    let open_only = "[".repeat(1_000_000);
    let pair = Pair::new(quick(), |turn| {
        turn.bytes(broken).line(&lists).line(&objects).line(&open_only).say("well").end("end_turn")
    })
    .await;
    pair.ends_well().await;
    let said = pair.bench.said(&pair.bad).await;
    assert_eq!(
        (said.first().map(String::as_str), said.last().map(String::as_str)),
        (Some("> go"), Some("> go"))
    );
    assert!(said.contains(&"< well".to_owned()), "{said:?}");
    // The one that is no text, and the one that does not end, are lost.
    let told = pair.kept("lines_unread").await;
    let bodies: Vec<_> = told.iter().map(|event| &*event.body).collect();
    assert_eq!(bodies, [r#"{"fact":"lines_unread","lines":2}"#]);
}

#[tokio::test]
async fn garbage_and_overlong_lines_are_counted_in_the_turn_the_agent_dies() {
    let wire = WireLimits { line_bytes: 10_000, ..quick().wire };
    let pair = Pair::new(EngineSettings { wire, ..quick() }, |turn| {
        let turn = turn.line("thread 'main' panicked").line("note: run with RUST_BACKTRACE=1");
        turn.say(&"x".repeat(20_000)).exit(101)
    })
    .await;
    assert_eq!(failure(&pair.turn().await).0, "AGENT_DIED");
    for (fact, told) in [
        ("lines_unread", r#"{"fact":"lines_unread","lines":2}"#),
        ("lines_dropped", r#"{"fact":"lines_dropped","lines":1,"limit":10000}"#),
    ] {
        let kept = pair.kept(fact).await;
        assert_eq!(kept.iter().map(|event| &*event.body).collect::<Vec<_>>(), [told]);
    }
}

#[tokio::test]
async fn updates_after_the_turn_belong_to_no_turn() {
    let pair = Pair::new(quick(), |turn| turn.say("in time").end("end_turn").say("late")).await;
    assert_eq!(stop_reason(&pair.turn().await), "end_turn");
    let mut follower = pair.bad.follow(Seq::FIRST);
    while !follower.next().await.unwrap().unwrap().body.contains("late") {}
    pair.goes_on().await;
    let turns: Vec<_> = pair.kept("late").await.iter().map(|event| event.turn).collect();
    assert_eq!(turns, [None]);
    assert_eq!(pair.bench.said(&pair.bad).await, ["> go", "< in time", "< late", "> go"]);
}

#[tokio::test]
async fn tool_call_updated_without_begin_or_begun_twice_is_one_tool_call() {
    let pair = Pair::new(quick(), |turn| {
        turn.update(tool("tool_call_update", "never begun", "completed"))
            .update(tool("tool_call", "twice", "pending"))
            .update(tool("tool_call", "twice", "in_progress"))
            .update(tool("tool_call_update", "twice", "completed"))
            .end("end_turn")
    })
    .await;
    pair.ends_well().await;
    assert_eq!(pair.tools().await, ["never begun", "twice"]);
}

#[tokio::test]
async fn tool_calls_replayed_with_other_ids_are_the_same_conversation() {
    let bench = Bench::new();
    let (good, _) = bench.open(&faithful(everything())).await;
    let capabilities = json!({ "loadSession": true });
    let script = Script::new()
        .initialize(capabilities.clone())
        .session_new("bad")
        .prompt(|turn| turn.update(tool("tool_call", "1:call", "completed")).say("done").end("end_turn"))
        .next_start()
        .initialize(capabilities)
        .session_load(|replay| {
            replay.user_said("go").update(tool("tool_call", "2:call", "completed")).say("done")
        })
        .prompt(|turn| turn.end("end_turn"));
    let (session, _) = bench.open(&script).await;
    prompt(&session, "go").await;
    session.park().await.unwrap();
    let how = session.wake(restore()).await.unwrap();
    let replay = Some(ReplayVerdict::Same);
    assert_eq!(how, WakeOutcome::Restored { rung: acpx_core::machine::Rung::Load, replay });
    assert_eq!(stop_reason(&prompt(&session, "on").await), "end_turn");
    assert_eq!(bench.said(&session).await, ["> go", "< done", "> on"]);
    let conversation = bench.engine.conversation(session.record_id()).await.unwrap();
    let tools = conversation.entries().iter().filter(|entry| matches!(entry, Entry::Tool(_))).count();
    assert_eq!((tools, stop_reason(&prompt(&good, "go").await)), (1, "end_turn"));
}

#[tokio::test]
async fn prompt_to_an_agent_with_closed_stdin_fails_at_once() {
    let bench = Bench::with(quick());
    let closed = bench.home.join("closed");
    let close = |turn: Script| turn.end("end_turn").step(ScriptStep::CloseStdin).touch(&closed).hang();
    let (session, _) = bench.open(&bad(close)).await;
    assert_eq!(stop_reason(&prompt(&session, "one").await), "end_turn");
    while !closed.exists() {
        tokio::task::yield_now().await;
    }
    let died = r#"the agent "scripted" died (it closed its input)"#;
    assert_eq!(failure(&prompt(&session, "two").await), ("AGENT_DIED", died));
    assert_eq!(stop_reason(&prompt(&session, "three").await), "end_turn");
}
