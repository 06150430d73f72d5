//! Tests of routing lines to streams, and of the bounds of their queues.

use std::future::poll_fn;

use futures_util::StreamExt;

use super::*;

fn message(line: &str) -> RpcMessage {
    RpcMessage::parse(line).unwrap()
}

fn request(id: u32, method: &str, params: &str) -> RpcMessage {
    message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
}

/// Routes a line of the host.
async fn tell(streams: &mut ConnectionStreams, line: &str) {
    let message = message(line);
    let (mailbox, line) = streams.route(&message);
    mailbox.put(line).await;
}

async fn next(reader: &mut SessionStreamReader) -> Option<String> {
    reader.next().await.map(|line| line.to_string())
}

#[test]
fn header_and_params_name_one_session_or_the_message_is_not_taken() {
    let mut streams = ConnectionStreams::default();
    let prompt = |params: &str| request(1, "session/prompt", params);
    let cases: &[(&str, Option<&str>, Result<&str, BadMessage>)] = &[
        (r#"{"sessionId":"s"}"#, None, Ok(r#"{"sessionId":"s"}"#)),
        (r#"{"sessionId":"s"}"#, Some("s"), Ok(r#"{"sessionId":"s"}"#)),
        (r#"{"sessionId":"s"}"#, Some("t"), Err(BadMessage::TwoSessions)),
        (r#"{"prompt":[]}"#, Some("s"), Ok(r#"{"sessionId":"s","prompt":[]}"#)),
        (r#"{"prompt":[]}"#, None, Err(BadMessage::NoSession)),
        ("[1]", Some("s"), Err(BadMessage::BadParams)),
    ];
    for (params, header, expected) in cases {
        let line = expected.map(|params| prompt(params).line().to_string());
        assert_eq!(streams.register(&prompt(params), *header), line, "{params} {header:?}");
    }
    let bare = message(r#"{"jsonrpc":"2.0","method":"session/cancel"}"#);
    let full = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
    assert_eq!(streams.register(&bare, Some("s")), Ok(full.to_owned()));
    let withdrawal = message(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
    assert_eq!(streams.register(&withdrawal, Some("s")), Ok(withdrawal.line().to_string()));
    let answer = message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(streams.register(&answer, Some("s")), Ok(answer.line().to_string()));
}

#[tokio::test]
async fn session_messages_go_to_the_session_stream_others_to_the_connection() {
    let mut streams = ConnectionStreams::default();
    streams.register(&request(1, "session/new", "{}"), None).unwrap();
    let made = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;
    tell(&mut streams, made).await;
    streams.register(&request(2, "session/prompt", r#"{"sessionId":"s"}"#), None).unwrap();
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#;
    let withdrawal = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"sessionId":"s"}}"#;
    for line in [update, answer, withdrawal] {
        tell(&mut streams, line).await;
    }
    let mut session = streams.open(Some("s")).unwrap();
    let mut connection = streams.open(None).unwrap();
    assert_eq!(next(&mut session).await.as_deref(), Some(update));
    assert_eq!(next(&mut session).await.as_deref(), Some(answer));
    assert_eq!(next(&mut connection).await.as_deref(), Some(made));
    assert_eq!(next(&mut connection).await.as_deref(), Some(withdrawal));
    drop(streams);
    assert_eq!((next(&mut session).await, next(&mut connection).await), (None, None));
}

#[tokio::test]
async fn stream_has_one_reader_and_the_next_one_continues() {
    let mut streams = ConnectionStreams::default();
    let line = |n: u32| format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"n":{n}}}}}"#);
    tell(&mut streams, &line(1)).await;
    tell(&mut streams, &line(2)).await;
    let mut first = streams.open(None).unwrap();
    assert_eq!(streams.open(None).unwrap_err(), NoStream::Busy);
    assert!(streams.has_reader());
    assert_eq!(next(&mut first).await, Some(line(1)));
    drop(first);
    assert!(!streams.has_reader());
    assert_eq!(next(&mut streams.open(None).unwrap()).await, Some(line(2)));
}

#[tokio::test]
async fn few_streams_may_be_opened_before_their_session_loads() {
    let mut streams = ConnectionStreams::default();
    let mut early: Vec<SessionStreamReader> =
        (0..UNKNOWN).map(|n| streams.open(Some(&format!("s{n}"))).unwrap()).collect();
    assert_eq!(streams.open(Some("more")).unwrap_err(), NoStream::Unknown);
    let replayed = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s0"}}"#;
    tell(&mut streams, replayed).await;
    assert_eq!(next(&mut early[0]).await.as_deref(), Some(replayed));
    // The host has named it, so it does not count as unknown any more.
    let more = streams.open(Some("more")).unwrap();
    assert_eq!(streams.open(Some("another")).unwrap_err(), NoStream::Unknown);
    drop(more);
    assert!(streams.open(Some("another")).is_ok());
}

#[tokio::test]
async fn stream_of_a_closed_session_delivers_the_reply_and_stays() {
    let mut streams = ConnectionStreams::default();
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#;
    tell(&mut streams, update).await;
    streams.register(&request(1, "session/close", r#"{"sessionId":"s"}"#), None).unwrap();
    let mut reader = streams.open(Some("s")).unwrap();
    let closed = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    tell(&mut streams, closed).await;
    assert_eq!(next(&mut reader).await.as_deref(), Some(update));
    assert_eq!(next(&mut reader).await.as_deref(), Some(closed));
    assert_eq!(streams.open(Some("s")).unwrap_err(), NoStream::Busy);
    drop(reader);
    // Without a reader the stream is dropped, and replies arrive on the connection's stream.
    tell(&mut streams, update).await;
    streams.register(&request(2, "session/delete", r#"{"sessionId":"s"}"#), None).unwrap();
    let deleted = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    tell(&mut streams, deleted).await;
    assert_eq!(next(&mut streams.open(None).unwrap()).await.as_deref(), Some(deleted));
}

#[tokio::test]
async fn error_for_an_unknown_session_goes_to_the_connection_stream() {
    let mut streams = ConnectionStreams::default();
    streams.register(&request(1, "session/load", r#"{"sessionId":"no"}"#), None).unwrap();
    let failed = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no"}}"#;
    tell(&mut streams, failed).await;
    assert_eq!(next(&mut streams.open(None).unwrap()).await.as_deref(), Some(failed));
}

#[tokio::test]
async fn replay_and_load_answer_use_the_connection_stream_without_a_session_reader() {
    for method in ["session/load", "session/resume"] {
        let mut streams = ConnectionStreams::default();
        let mut connection = streams.open(None).unwrap();
        streams.register(&request(1, method, r#"{"sessionId":"s"}"#), None).unwrap();
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#;
        tell(&mut streams, update).await;
        assert_eq!(next(&mut connection).await.as_deref(), Some(update));
        // The client opens the stream as soon as it sees the session's id; the replay keeps its order all the same.
        let mut session = streams.open(Some("s")).unwrap();
        tell(&mut streams, update).await;
        tell(&mut streams, r#"{"jsonrpc":"2.0","id":1,"result":{"modes":null}}"#).await;
        tell(&mut streams, update).await;
        assert_eq!(next(&mut connection).await.as_deref(), Some(update));
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s","modes":null}}"#;
        assert_eq!(next(&mut connection).await.as_deref(), Some(answer), "{method}");
        assert_eq!(next(&mut session).await.as_deref(), Some(update));
    }
}

#[tokio::test]
async fn replay_and_load_answer_stay_on_a_session_stream_that_is_read() {
    let mut streams = ConnectionStreams::default();
    let mut session = streams.open(Some("s")).unwrap();
    streams.register(&request(1, "session/load", r#"{"sessionId":"s"}"#), None).unwrap();
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    tell(&mut streams, update).await;
    tell(&mut streams, answer).await;
    assert_eq!(next(&mut session).await.as_deref(), Some(update));
    assert_eq!(next(&mut session).await.as_deref(), Some(answer));
}

#[tokio::test]
async fn unread_stream_is_bounded() {
    let mut streams = ConnectionStreams::default();
    let half = "x".repeat(BYTES as usize / 2);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"{half}"}}"#);
    tell(&mut streams, &line).await;
    let message = message(&line);
    let (mailbox, line_put) = streams.route(&message);
    let put = mailbox.put(line_put);
    let mut put = std::pin::pin!(put);
    let waits = poll_fn(|context| Poll::Ready(put.as_mut().poll(context).is_pending())).await;
    assert!(waits);
    let mut reader = streams.open(None).unwrap();
    assert_eq!(next(&mut reader).await, Some(line.clone()));
    put.await;
    assert_eq!(next(&mut reader).await, Some(line));
}
