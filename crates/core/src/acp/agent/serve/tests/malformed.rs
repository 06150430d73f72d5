//! Malformed requests, over raw bytes.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::wire::connect;

/// Sends these lines and returns the reply to each.
async fn answers(lines: &[&str]) -> Vec<Value> {
    answers_within(WireLimits::default(), lines).await
}

async fn answers_within(limits: WireLimits, lines: &[&str]) -> Vec<Value> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (source, target) = tokio::io::split(theirs);
    let (peer, incoming) = connect(source, target, limits);
    let offer = Offer::new("toy", "0.1", []).up_to(ProtocolVersion::V2);
    let served = tokio::spawn(serve(peer, incoming, Arc::new(Toy::default()), offer, GRACE));
    let (source, mut target) = tokio::io::split(ours);
    let mut received = BufReader::new(source).lines();
    let mut answers = Vec::new();
    for line in lines {
        target.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        answers.push(serde_json::from_str(&received.next_line().await.unwrap().unwrap()).unwrap());
    }
    drop((target, received));
    served.await.unwrap();
    answers
}

fn refused(problem: &str) -> Value {
    let message = format!("Invalid request: {problem} is no request");
    let error = json!({ "code": -32600, "message": message, "data": { "details": message } });
    json!({ "jsonrpc": "2.0", "id": null, "error": error })
}

#[tokio::test]
async fn malformed_request_has_one_reply_before_and_after_initialize() {
    let (no_id, no_method) =
        ("a request whose id is neither a number nor a string", "a request whose method is not a string");
    let by_id = |id: Value, problem: &str| {
        let mut answer = refused(problem);
        answer["id"] = id;
        answer
    };
    let table = [
        ("[]", refused("a batch")),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"initialize"},{"jsonrpc":"2.0","method":"x"}]"#,
            refused("a batch"),
        ),
        (r#"{"jsonrpc":"2.0","id":null,"method":"session/list"}"#, refused("a request whose id is null")),
        (r#"{"jsonrpc":"2.0","id":true,"method":"session/list"}"#, refused(no_id)),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"session/list"}"#, refused(no_id)),
        (r#"{"jsonrpc":"2.0","id":5,"method":7}"#, by_id(json!(5), no_method)),
        (r#"{"jsonrpc":"2.0","id":"5","method":null}"#, by_id(json!("5"), no_method)),
    ];
    let initialize = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}"#;
    for (line, answer) in table {
        let answers = answers(&[line, initialize, line]).await;
        assert_eq!((&answers[0], &answers[2]), (&answer, &answer), "{line}");
        assert_eq!(answers[1]["id"], "i");
    }
}

#[tokio::test]
async fn other_garbage_is_passed_over_and_ids_come_back_as_they_came() {
    let request = |id: &str| {
        format!(
            "garbage\n7\n{{}}\n{{\"id\":true,\"result\":1}}\n{{\"method\":7}}\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/new\"}}"
        )
    };
    for id in ["7", "\"7\"", "-1", "\"\\u0061\""] {
        let answers = answers(&[&request(id)]).await;
        let expected: Value = serde_json::from_str(id).unwrap();
        assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&expected, &json!(-32600)));
    }
}

#[tokio::test]
async fn too_long_request_is_answered_by_id_and_noise_is_not() {
    let limits = WireLimits { line_bytes: 400, ..WireLimits::default() };
    let long = "x".repeat(400);
    let named = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"session/list","params":{{"x":"{long}"}}}}"#);
    let unnamed = format!(r#"{{"params":{{"x":"{long}"}},"jsonrpc":"2.0","id":7,"method":"session/list"}}"#);
    let noise = format!("{}\n{unnamed}", "x".repeat(500));
    let answers = answers_within(limits, &[&named, &noise]).await;
    let refused = refused("a line of more than 400 bytes");
    let mut by_id = refused.clone();
    by_id["id"] = json!(7);
    assert_eq!(answers, [by_id, refused]);
}
