//! What an agent asks in a turn whose policy is to ask goes to the turn's client.

use acpx_core::engine::{ClientDecision, QuestionKind, ResponderRequest};
use acpx_core::model::{PermissionCount, PermissionMode};
use tokio::sync::mpsc;

use super::*;

/// A turn that is to ask, and where its questions come out.
async fn asking(session: &Session) -> (acpx_core::engine::TurnHandle, mpsc::Receiver<ResponderRequest>) {
    let (advisor, questions) = mpsc::channel(4);
    let prompt = Prompt::text("edit").unwrap().with_policy(PermissionMode::Ask);
    (session.prompt_with_responder(prompt, advisor).await.unwrap(), questions)
}

/// The answers an agent got.
fn answers(command: &[String]) -> Vec<Value> {
    let answers = received(command).into_iter().filter(|(method, _)| method == "answer");
    answers.map(|(_, result)| result["outcome"].clone()).collect()
}

fn selected(option: &str) -> Value {
    json!({"outcome": "selected", "optionId": option})
}

fn script() -> Script {
    let turn = Script::new().ask_permission("t1").end("end_turn");
    Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)])
}

#[tokio::test]
async fn decision_of_the_client_reaches_the_agent_and_silence_rejects_an_edit() {
    let bench = Bench::new();
    let (session, command) = bench.open(&script()).await;
    let (ticket, mut questions) = asking(&session).await;
    let question = questions.recv().await.unwrap();
    let params: Value = serde_json::from_str(question.params()).unwrap();
    assert_eq!((&params["sessionId"], &params["toolCall"]["toolCallId"]), (&json!("s1"), &json!("t1")));
    question.answer(ClientDecision::Choose("yes".into()));
    let turn = ticket.finished().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 1, rejected: 0 });

    let (ticket, mut questions) = asking(&session).await;
    drop(questions.recv().await.unwrap());
    let turn = ticket.finished().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 0, rejected: 1 });

    // The client has gone before the agent asks.
    let (ticket, questions) = asking(&session).await;
    drop(questions);
    ticket.finished().await.unwrap();

    // An option that the agent did not offer.
    let (ticket, mut questions) = asking(&session).await;
    questions.recv().await.unwrap().answer(ClientDecision::Choose("everything".into()));
    ticket.finished().await.unwrap();
    assert_eq!(answers(&command), [selected("yes"), selected("no"), selected("no"), selected("no")]);
}

#[tokio::test]
async fn answer_to_an_earlier_turns_request_does_not_answer_its_namesake() {
    let bench = Bench::new();
    let ask = r#"{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t1","kind":"edit"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}"#;
    let go = bench.home.join("go");
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        // The first turn ends over its open question, and the second asks under the same number.
        .prompt(|turn| turn.line(ask).await_file(&go).end("end_turn"))
        .prompt(|turn| turn.line(ask).await_file(&bench.home.join("answered")).end("end_turn"));
    let (session, command) = bench.open(&script).await;
    let (ticket, mut questions) = asking(&session).await;
    let early = questions.recv().await.unwrap();
    std::fs::write(&go, "").unwrap();
    ticket.finished().await.unwrap();

    let (ticket, mut questions) = asking(&session).await;
    let question = questions.recv().await.unwrap();
    early.answer(ClientDecision::Choose("yes".into()));
    question.answer(ClientDecision::Choose("no".into()));
    let mut events = session.follow(Seq::FIRST);
    while !events.next().await.unwrap().unwrap().body.contains(r#""optionId":"no"}"#) {}
    std::fs::write(bench.home.join("answered"), "").unwrap();
    let turn = ticket.finished().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 0, rejected: 1 });
    // An agent that was ended has read everything it was sent.
    bench.engine.shutdown().await;
    assert_eq!(answers(&command), [json!({"outcome": "cancelled"}), selected("no")]);
}

#[tokio::test]
async fn approval_without_an_approving_option_is_a_rejection_and_counted_so() {
    let bench = Bench::new();
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    let ask = json!({
        "sessionId": "s1",
        "toolCall": { "toolCallId": "t", "title": "read", "kind": "read" },
        "options": [option("perhaps", "of_its_own"), option("no", "reject_once")],
    });
    let turn = Script::new().request("session/request_permission", ask).end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    let rejected = PermissionCount { approved: 0, rejected: 1 };
    let (ticket, mut questions) = asking(&session).await;
    let question = questions.recv().await.unwrap();
    assert!(!question.wanted().unwrap().can_be_approved);
    question.answer(ClientDecision::Approve);
    assert_eq!(ticket.finished().await.unwrap().permissions, rejected);
    // Reading is allowed where nobody can be asked, and this cannot be.
    let (ticket, questions) = asking(&session).await;
    drop(questions);
    assert_eq!(ticket.finished().await.unwrap().permissions, rejected);
    assert_eq!(answers(&command), [selected("no"), selected("no")]);
}

#[tokio::test]
async fn permission_without_a_responder_follows_approve_reads() {
    let bench = Bench::new();
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    let ask = |kind: &str| {
        json!({
            "sessionId": "s1",
            "toolCall": { "toolCallId": kind, "title": kind, "kind": kind },
            "options": [option("yes", "allow_once"), option("no", "reject_once")],
        })
    };
    let turn = Script::new()
        .request("session/request_permission", ask("read"))
        .request("session/request_permission", ask("execute"))
        .end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    let prompt = Prompt::text("go").unwrap().with_policy(PermissionMode::Ask);
    let turn = session.prompt(prompt).await.unwrap().finished().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 1, rejected: 1 });
    assert_eq!(answers(&command), [selected("yes"), selected("no")]);
}

#[tokio::test]
async fn responder_that_joins_a_turn_gets_its_later_permission_requests() {
    let bench = Bench::new();
    let [one, two] = ["one", "two"].map(|name| bench.home.join(name));
    let turn = Script::new().await_file(&one).ask_permission("t1");
    let turn = turn.await_file(&two).ask_permission("t2").end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    let (ticket, mut first) = asking(&session).await;
    let joined = session.join(&ticket.request, None).await.unwrap().unwrap();
    assert_eq!((joined.id, joined.is_open()), (ticket.turn, true));
    std::fs::write(&one, "").unwrap();
    first.recv().await.unwrap().answer(ClientDecision::Choose("no".into()));

    let (advisor, mut second) = mpsc::channel(4);
    session.join(&ticket.request, Some(advisor.clone())).await.unwrap().unwrap();
    std::fs::write(&two, "").unwrap();
    second.recv().await.unwrap().answer(ClientDecision::Choose("yes".into()));
    let (request, over) = (ticket.request.clone(), ticket.finished().await.unwrap());
    assert_eq!(session.join(&request, None).await.unwrap(), Some(over));
    let unknown = acpx_core::model::RequestId::new("unknown").unwrap();
    assert_eq!(session.join(&unknown, Some(advisor)).await.unwrap(), None);
    assert_eq!(answers(&command), [selected("no"), selected("yes")]);
}

fn form() -> Value {
    json!({"sessionId": "s1", "mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "properties": {}}})
}

#[tokio::test]
async fn elicitation_goes_to_the_turns_client_and_is_declined_without_answer() {
    let bench = Bench::new();
    let turn = Script::new().request("elicitation/create", form()).end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let (session, command) = bench.open(&script).await;
    let said: Arc<str> = r#"{"action":"accept","content":{"a":1.0},"x":[ ]}"#.into();
    for advice in [
        ClientDecision::Result(said.clone()),
        ClientDecision::Result("[]".into()),
        ClientDecision::Choose("yes".into()),
    ] {
        let (advisor, mut questions) = mpsc::channel(4);
        // Whatever the policy is.
        let ticket = session.prompt_with_responder(Prompt::text("go").unwrap(), advisor).await.unwrap();
        let question = questions.recv().await.unwrap();
        let params: Value = serde_json::from_str(question.params()).unwrap();
        assert_eq!((question.kind(), params), (QuestionKind::Elicitation, form()));
        question.answer(advice);
        assert_eq!(ticket.finished().await.unwrap().permissions, PermissionCount::default());
    }
    prompt(&session, "nobody is there").await;
    let answers = received(&command).into_iter().filter(|(method, _)| method == "answer");
    let declined = json!({"action": "decline"});
    let expected = [serde_json::from_str(&said).unwrap(), declined.clone(), declined.clone(), declined];
    assert_eq!(answers.map(|(_, result)| result).collect::<Vec<_>>(), expected);
    let lines = bench.events(session.record_id()).await;
    assert!(lines.iter().any(|event| event.body.ends_with(&format!(r#""result":{said}}}"#))));
}

#[tokio::test]
async fn permission_request_is_withdrawn_by_its_agent_or_a_cancelled_turn() {
    let bench = Bench::new();
    let ask =
        json!({"jsonrpc": "2.0", "id": "a", "method": "elicitation/create", "params": form()}).to_string();
    let take_back = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a"}}"#;
    let go = bench.home.join("go");
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.line(&ask).await_file(&go).line(take_back).end("end_turn"))
        .expect_as("session/prompt", "second")
        .line(&ask)
        .expect("session/cancel")
        .reply_to("second", json!({"stopReason": "cancelled"}));
    let (session, command) = bench.open(&script).await;
    let (ticket, mut questions) = asking(&session).await;
    let mut question = questions.recv().await.unwrap();
    std::fs::write(&go, "").unwrap();
    question.withdrawn().await;
    question.answer(ClientDecision::Result(r#"{"action":"accept"}"#.into()));
    ticket.finished().await.unwrap();

    let (ticket, mut questions) = asking(&session).await;
    let mut question = questions.recv().await.unwrap();
    session.cancel(None).await.unwrap();
    question.withdrawn().await;
    ticket.finished().await.unwrap();
    bench.engine.shutdown().await;
    let answers = received(&command).into_iter().filter(|(method, _)| method == "answer");
    let cancelled = json!({"action": "cancel"});
    assert_eq!(answers.map(|(_, result)| result).collect::<Vec<_>>(), [cancelled.clone(), cancelled]);
}

#[tokio::test]
async fn permission_request_withdrawn_before_dispatch_does_not_affect_the_next() {
    let bench = Bench::new();
    let ask = |call: &str| {
        let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
        let params = json!({
            "sessionId": "s1",
            "toolCall": { "toolCallId": call, "kind": "edit" },
            "options": [option("yes", "allow_once"), option("no", "reject_once")],
        });
        json!({"jsonrpc": "2.0", "id": "a", "method": "session/request_permission", "params": params})
    };
    let take_back = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "a"}});
    let at_once = format!("{}\n{take_back}\n{}", ask("t1"), ask("t2"));
    let go = bench.home.join("go");
    let script = Script::new()
        .initialize(json!({}))
        .session_new("s1")
        .prompt(|turn| turn.line(&at_once).await_file(&go).end("end_turn"));
    let (session, command) = bench.open(&script).await;
    let (ticket, mut questions) = asking(&session).await;
    let question = questions.recv().await.unwrap();
    let params: Value = serde_json::from_str(question.params()).unwrap();
    assert_eq!(params["toolCall"]["toolCallId"], "t2");
    assert_eq!(questions.try_recv().err(), Some(mpsc::error::TryRecvError::Empty));
    question.answer(ClientDecision::Choose("yes".into()));
    std::fs::write(&go, "").unwrap();
    let turn = ticket.finished().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 1, rejected: 0 });
    bench.engine.shutdown().await;
    assert_eq!(answers(&command), [json!({"outcome": "cancelled"}), selected("yes")]);
}
