//! What an agent asks in a turn whose policy is to ask goes to the turn's client.

use acpx_core::engine::{Advice, Question};
use acpx_core::model::{PermissionCount, PermissionPolicy};
use tokio::sync::mpsc;

use super::*;

/// A turn that is to ask, and where its questions come out.
async fn asking(session: &Session) -> (acpx_core::engine::TurnTicket, mpsc::Receiver<Question>) {
    let (advisor, questions) = mpsc::channel(4);
    let prompt = Prompt::text("edit").unwrap().with_policy(PermissionPolicy::Ask);
    (session.prompt_asking(prompt, advisor).await.unwrap(), questions)
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
async fn the_clients_choice_reaches_the_agent_and_no_word_of_anybodys_is_no() {
    let bench = Bench::new();
    let (session, command) = bench.open(&script()).await;
    let (ticket, mut questions) = asking(&session).await;
    let question = questions.recv().await.unwrap();
    let params: Value = serde_json::from_str(question.params()).unwrap();
    assert_eq!((&params["sessionId"], &params["toolCall"]["toolCallId"]), (&json!("s1"), &json!("t1")));
    question.answer(Advice::Choose("yes".into()));
    let turn = ticket.over().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 1, rejected: 0 });

    let (ticket, mut questions) = asking(&session).await;
    drop(questions.recv().await.unwrap());
    let turn = ticket.over().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 0, rejected: 1 });

    // The client has gone before the agent asks.
    let (ticket, questions) = asking(&session).await;
    drop(questions);
    ticket.over().await.unwrap();

    // An option that the agent did not offer.
    let (ticket, mut questions) = asking(&session).await;
    questions.recv().await.unwrap().answer(Advice::Choose("everything".into()));
    ticket.over().await.unwrap();
    assert_eq!(answers(&command), [selected("yes"), selected("no"), selected("no"), selected("no")]);
}

#[tokio::test]
async fn an_answer_to_a_question_of_an_earlier_turn_is_no_answer_to_its_namesake() {
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
    ticket.over().await.unwrap();

    let (ticket, mut questions) = asking(&session).await;
    let question = questions.recv().await.unwrap();
    early.answer(Advice::Choose("yes".into()));
    question.answer(Advice::Choose("no".into()));
    let mut events = session.follow(Seq::FIRST);
    while !events.next().await.unwrap().unwrap().body.contains(r#""optionId":"no"}"#) {}
    std::fs::write(bench.home.join("answered"), "").unwrap();
    let turn = ticket.over().await.unwrap();
    assert_eq!(turn.permissions, PermissionCount { approved: 0, rejected: 1 });
    // An agent that was ended has read everything it was sent.
    bench.engine.shutdown().await;
    assert_eq!(answers(&command), [json!({"outcome": "cancelled"}), selected("no")]);
}
