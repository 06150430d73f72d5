//! Guarantees of a connection. Time is paused in tests that expect nothing to happen: the clock then advances only when
//! every task is blocked, so a timeout proves that nothing moves.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::timeout;

use super::*;

/// A connection whose other end is raw bytes, with a pipe of `pipe` bytes.
fn raw(pipe: usize, limits: WireLimits) -> (Peer, InboundStream, BufReader<DuplexStream>) {
    let (near, far) = tokio::io::duplex(pipe);
    let (source, target) = tokio::io::split(near);
    let (peer, incoming) = connect(source, target, limits);
    (peer, incoming, BufReader::new(far))
}

fn small() -> WireLimits {
    WireLimits { queue_messages: 2, ..WireLimits::default() }
}

async fn next_line(far: &mut BufReader<DuplexStream>) -> String {
    let mut line = String::new();
    far.read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}

async fn stuck<F: Future>(future: F) -> bool {
    timeout(Duration::from_secs(1), future).await.is_err()
}

/// Waits until every task is blocked.
async fn settled() {
    assert!(stuck(std::future::pending::<()>()).await);
}

async fn lines(incoming: &mut InboundStream) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(inbound) = incoming.recv().await {
        lines.push(inbound.message().line().to_string());
    }
    lines
}

#[tokio::test]
async fn a_response_comes_after_the_notifications_sent_before_it() {
    let ((client, mut from_agent), (agent, mut from_client)) = memory(small());
    let serving = tokio::spawn(async move {
        let Some(InboundMessage::Request { id, message }) = from_client.recv().await else {
            panic!("no request")
        };
        assert_eq!(message.params(), Some(r#"{"a":1}"#));
        for n in 0..500 {
            agent.notify("session/update", &n.to_string()).await.unwrap();
        }
        agent.respond(&id, "true").await.unwrap();
        agent.close().await.unwrap();
    });
    let id = client.request("session/prompt", r#"{"a":1}"#).await.unwrap();
    for n in 0..500 {
        let line = encode::notification("session/update", &n.to_string());
        let expected = InboundMessage::Notification(RpcMessage::parse(line).unwrap());
        assert_eq!(from_agent.recv().await, Some(expected));
    }
    let message = RpcMessage::parse(encode::response(&id, "true")).unwrap();
    let expected = InboundMessage::Response { id, method: "session/prompt".into(), message };
    assert_eq!(from_agent.recv().await, Some(expected));
    assert_eq!((from_agent.recv().await, from_agent.end()), (None, Some(DisconnectReason::Eof)));
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancellation_is_not_lost_when_the_queue_is_full() {
    let (peer, _incoming, mut far) = raw(8, WireLimits { queue_messages: 3, ..WireLimits::default() });
    let first = peer.request("first", "").await.unwrap();
    settled().await;
    // The writer has the first line and cannot write it; two more fill the queue.
    let second = peer.request("second", "").await.unwrap();
    peer.notify("filler", "").await.unwrap();
    let third = peer.mint_id();
    let line = encode::request(&third, "third", "");
    let mut waiting = Box::pin(peer.send_request(third.clone(), "third", line));
    assert!(stuck(&mut waiting).await);
    for id in [&third, &second, &first, &third, &RpcId::from_number(99)] {
        peer.cancel(id);
    }
    let reading = async {
        let mut seen = Vec::new();
        for _ in 0..7 {
            seen.push(next_line(&mut far).await);
        }
        seen
    };
    let (seen, sent) = tokio::join!(reading, waiting);
    sent.unwrap();
    let expected = [
        encode::request(&first, "first", ""),
        encode::cancel_request(&first),
        encode::request(&second, "second", ""),
        encode::cancel_request(&second),
        encode::notification("filler", ""),
        encode::request(&third, "third", ""),
        encode::cancel_request(&third),
    ];
    assert_eq!(seen, expected);
    assert!(stuck(next_line(&mut far)).await);
}

#[tokio::test(start_paused = true)]
async fn cancelling_what_is_answered_sends_nothing() {
    let (peer, mut incoming, mut far) = raw(1024, WireLimits::default());
    let id = peer.request("m", "").await.unwrap();
    assert_eq!(next_line(&mut far).await, encode::request(&id, "m", ""));
    far.write_all(format!("{}\n", encode::response(&id, "1")).as_bytes()).await.unwrap();
    assert!(matches!(incoming.recv().await, Some(InboundMessage::Response { .. })));
    peer.cancel(&id);
    assert!(stuck(next_line(&mut far)).await);
}

#[tokio::test(start_paused = true)]
async fn request_dropped_while_queued_sends_nothing() {
    let (peer, _incoming, mut far) = raw(8, WireLimits { queue_messages: 1, ..WireLimits::default() });
    peer.notify("a", "").await.unwrap();
    settled().await;
    assert!(stuck(peer.notify("b", "")).await);
    let id = RpcId::from_string("x");
    assert!(stuck(peer.send_request(id.clone(), "m", encode::request(&id, "m", ""))).await);
    peer.cancel(&id);
    assert_eq!(next_line(&mut far).await, encode::notification("a", ""));
    peer.send_request(id.clone(), "n", encode::request(&id, "n", "")).await.unwrap();
    assert_eq!(next_line(&mut far).await, encode::request(&id, "n", ""));
    assert!(stuck(next_line(&mut far)).await);
}

#[tokio::test(start_paused = true)]
async fn a_slow_consumer_makes_the_sender_wait_and_loses_nothing() {
    let limits = WireLimits { queue_messages: 1000, queue_bytes: 1000, ..WireLimits::default() };
    let (peer, mut incoming, far) = raw(100, limits);
    let mut far = far.into_inner();
    let line = format!("{}\n", encode::notification("m", &"1".repeat(50)));
    let mut sent = 0;
    while timeout(Duration::from_secs(1), far.write_all(line.as_bytes())).await.is_ok() {
        sent += 1;
    }
    // The queue, a line in the reader, the contents of one read, and the pipe.
    assert!(sent < (1000 + 64 * 1024 + 200) / line.len() + 2, "{sent} lines were taken");
    for _ in 0..sent {
        assert_eq!(incoming.recv().await.unwrap().message().line().len(), line.len() - 1);
    }
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn sending_waits_by_count_and_by_bytes() {
    let limits = WireLimits { queue_messages: 1000, queue_bytes: 100, ..WireLimits::default() };
    for (limits, fits) in [(small(), 2), (limits, 2)] {
        let (peer, _incoming, mut far) = raw(8, limits);
        let line = encode::notification("m", "12345");
        for _ in 0..fits {
            assert!(!stuck(peer.send(line.clone())).await);
        }
        assert!(stuck(peer.send(line.clone())).await);
        for _ in 0..fits {
            assert_eq!(next_line(&mut far).await, line);
        }
        assert!(!stuck(peer.send(line.clone())).await);
    }
}

#[tokio::test]
async fn a_line_longer_than_the_queue_passes_alone() {
    let limits = WireLimits { queue_bytes: 10, ..WireLimits::default() };
    let ((left, _), (_right, mut incoming)) = memory(limits);
    let params = format!("\"{}\"", "x".repeat(300_000));
    let sending = async {
        left.notify("a", &params).await.unwrap();
        left.notify("b", "").await.unwrap();
        left.close().await.unwrap();
    };
    let (seen, ()) = tokio::join!(lines(&mut incoming), sending);
    assert_eq!(seen, [encode::notification("a", &params), encode::notification("b", "")]);
}

#[tokio::test]
async fn garbage_is_counted_and_remembered_up_to_a_bound_and_never_answered() {
    let limits =
        WireLimits { line_bytes: 40, garbage_lines: 3, garbage_line_bytes: 5, ..WireLimits::default() };
    let (peer, mut incoming, far) = raw(4096, limits);
    let mut far = far.into_inner();
    let too_long = encode::notification("m", &"1".repeat(40));
    let bytes =
        format!("hello world\n\n  \r\n[]\n{too_long}\nca\u{e9}\u{e9}\n{{\"method\":\"m\"}}\n{{\"id\":1}}");
    far.write_all(bytes.as_bytes()).await.unwrap();
    far.write_all(b"\n\xff\xfe\n{\"method\":\"n\"}").await.unwrap();
    far.shutdown().await.unwrap();
    assert_eq!(lines(&mut incoming).await, [r#"{"method":"m"}"#, r#"{"method":"n"}"#]);
    assert_eq!(incoming.end(), Some(DisconnectReason::Eof));
    let expected = GarbageReport {
        lines: 6,
        answerable: 2,
        bytes: 11 + 2 + too_long.len() as u64 + 6 + 8 + 2,
        recent: vec!["ca\u{e9}\u{fffd}".into(), "{\"id\"".into(), "\u{fffd}\u{fffd}".into()],
    };
    assert_eq!(peer.garbage(), expected);
    assert_eq!(peer.dropped_lines(), 1, "the one that was too long began like a message");
    peer.close().await.unwrap();
    let mut answer = Vec::new();
    far.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"");
}

#[tokio::test]
async fn garbage_without_end_ends_the_connection_and_a_message_between_does_not() {
    let limits = WireLimits { line_bytes: 1000, flood_bytes: 2000, ..WireLimits::default() };
    for part in [&b"x"[..], b"\n", b"warning\n", b"[]\n"] {
        let (_peer, mut incoming, far) = raw(4096, limits);
        let mut far = far.into_inner();
        let flooding = async { while far.write_all(part).await.is_ok() {} };
        let (seen, ()) = tokio::join!(lines(&mut incoming), flooding);
        assert_eq!((seen, incoming.end()), (vec![], Some(DisconnectReason::Flooded)));
    }
    let (peer, mut incoming, far) = raw(4096, limits);
    let mut far = far.into_inner();
    let sending = async move {
        for _ in 0..20 {
            far.write_all("y".repeat(1900).as_bytes()).await.unwrap();
            far.write_all(b"\n{\"method\":\"m\"}\n").await.unwrap();
        }
    };
    let (seen, ()) = tokio::join!(lines(&mut incoming), sending);
    assert_eq!((seen.len(), incoming.end()), (20, Some(DisconnectReason::Eof)));
    assert_eq!(peer.garbage().lines, 20);
}

#[tokio::test(start_paused = true)]
async fn a_response_to_nothing_outstanding_is_a_stray() {
    let (peer, mut incoming, mut far) = raw(8, small());
    let id = peer.request("m", "").await.unwrap();
    assert_eq!(next_line(&mut far).await, encode::request(&id, "m", ""));
    // The writer is blocked with a line, so this request is registered but not written: no response can be genuine.
    peer.notify("stuck", "").await.unwrap();
    settled().await;
    let unwritten = peer.request("unwritten", "").await.unwrap();
    let strays = [
        encode::response(&RpcId::from_number(77), "1"),
        encode::response(&RpcId::from_string(id.as_str()), "1"),
        encode::response(&unwritten, "1"),
        encode::error_response(&RpcId::null(), &RpcError::parse_error("what?")),
    ];
    let answer = encode::response(&id, "2");
    let mut expected: Vec<_> =
        strays.iter().map(|line| InboundMessage::Stray(RpcMessage::parse(line.as_str()).unwrap())).collect();
    let message = RpcMessage::parse(answer.as_str()).unwrap();
    expected.push(InboundMessage::Response { id, method: "m".into(), message: message.clone() });
    expected.push(InboundMessage::Stray(message));
    let bytes = format!("{}\n{answer}\n{answer}\n", strays.join("\n"));
    let receiving = async {
        let mut seen = Vec::new();
        for _ in 0..expected.len() {
            seen.push(incoming.recv().await.unwrap());
        }
        seen
    };
    let (seen, written) = tokio::join!(receiving, far.get_mut().write_all(bytes.as_bytes()));
    written.unwrap();
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn close_flushes_the_queue_and_keeps_reading() {
    let (peer, mut incoming, mut far) = raw(8, small());
    peer.notify("a", "").await.unwrap();
    settled().await;
    peer.notify("b", "").await.unwrap();
    let late = peer.clone();
    let late = tokio::spawn(async move {
        late.notify("c", "").await?;
        late.notify("d", "").await
    });
    settled().await;
    let mut written = String::new();
    let (closed, read) = tokio::join!(peer.close(), far.read_to_string(&mut written));
    closed.unwrap();
    read.unwrap();
    let expected = ["a", "b"].map(|method| encode::notification(method, "") + "\n").concat();
    assert_eq!(written, expected);
    assert!(matches!(late.await.unwrap(), Err(WireError::Closed)));
    assert!(matches!(peer.request("e", "").await, Err(WireError::Closed)));
    let sending = async {
        far.write_all(b"{\"method\":\"still here\"}\n").await.unwrap();
        far.shutdown().await.unwrap();
    };
    let (seen, ()) = tokio::join!(lines(&mut incoming), sending);
    assert_eq!(seen, [r#"{"method":"still here"}"#]);
}

#[tokio::test(start_paused = true)]
async fn aborting_drops_what_is_queued_in_both_directions() {
    let (peer, mut incoming, far) = raw(1024, WireLimits::default());
    let mut far = far.into_inner();
    far.write_all(b"{\"method\":\"m\"}\n").await.unwrap();
    settled().await;
    assert_eq!(incoming.end(), None);
    peer.abort();
    assert_eq!((incoming.recv().await, incoming.try_recv()), (None, None));
    assert_eq!(incoming.end(), Some(DisconnectReason::Aborted));
    assert!(matches!(peer.notify("m", "").await, Err(WireError::Closed)));
    assert!(matches!(peer.close().await, Err(WireError::Closed)));
    assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn unsendable_message_is_refused_with_its_reason() {
    let limits = WireLimits { line_bytes: 60, outstanding: 1, ..WireLimits::default() };
    let (peer, mut incoming, far) = raw(1024, limits);
    let error = peer.notify("m", &"1".repeat(60)).await.unwrap_err();
    assert_eq!(error.to_string(), "a message of 100 bytes is over the limit of 60");
    let too_long = encode::request(&RpcId::from_number(5), "m", &"1".repeat(60));
    assert!(peer.send_request(RpcId::from_number(5), "m", too_long).await.is_err());
    let id = peer.request("m", "").await.unwrap();
    let again = encode::request(&id, "m", "");
    let error = peer.send_request(id, "m", again).await.unwrap_err();
    assert_eq!(error.to_string(), "1 requests are outstanding already");
    drop(far);
    assert_eq!((incoming.recv().await, incoming.end()), (None, Some(DisconnectReason::Eof)));
    assert!(peer.request("m", "").await.is_err());
}

#[tokio::test]
async fn an_id_in_use_is_refused() {
    let (peer, _incoming, _far) = raw(1024, WireLimits::default());
    let id = peer.request("m", "").await.unwrap();
    let again = encode::request(&id, "m", "");
    let error = peer.send_request(id, "m", again).await.unwrap_err();
    assert_eq!(error.to_string(), "a request with the id 0 is outstanding already");
}

#[tokio::test(start_paused = true)]
async fn peer_that_stops_reading_is_a_send_error() {
    let (peer, incoming, far) = raw(8, small());
    drop(far);
    peer.notify("m", "").await.unwrap();
    settled().await;
    let error = peer.notify("m", "").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot write to the peer");
    assert!(matches!(peer.close().await, Err(WireError::WriteFailed { .. })));
    drop(incoming);
}

#[tokio::test]
async fn dropping_the_last_peer_writes_what_is_queued_and_ends_the_stream() {
    let ((left, mut to_left), (right, mut to_right)) = memory(WireLimits::default());
    left.notify("a", "").await.unwrap();
    drop(left);
    assert_eq!(lines(&mut to_right).await, [encode::notification("a", "")]);
    right.notify("b", "").await.unwrap();
    drop(right);
    assert_eq!(lines(&mut to_left).await, [encode::notification("b", "")]);
}

#[tokio::test]
async fn dropping_both_ends_stops_everything() {
    let (peer, incoming, far) = raw(1024, WireLimits::default());
    drop((peer, incoming));
    let mut rest = Vec::new();
    far.into_inner().read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}

#[tokio::test(start_paused = true)]
async fn stalled_peer_is_no_longer_written_to() {
    let limit = Duration::from_mins(1);
    let limits = WireLimits { write_timeout: Some(limit), ..small() };
    let (peer, _incoming, mut far) = raw(16, limits);
    let line = r#"{"jsonrpc":"2.0","method":"x"}"#;
    // A slow peer that reads occasionally is waited for.
    peer.notify("x", "").await.unwrap();
    assert!(timeout(limit.mul_f32(0.9), peer.stalled()).await.is_err());
    assert_eq!(next_line(&mut far).await, line);
    assert!(timeout(limit * 3, peer.stalled()).await.is_err());
    // A peer that reads nothing is not.
    peer.notify("x", "").await.unwrap();
    assert!(timeout(limit.mul_f32(1.1), peer.stalled()).await.is_ok());
    assert!(matches!(peer.notify("x", "").await, Err(WireError::WriteFailed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_peer_takes_nothing_only_while_there_is_something_to_take() {
    let time = Duration::from_secs(30);
    let (peer, _incoming, mut far) = raw(16, small());
    assert!(timeout(time * 5, peer.stalled_for(time)).await.is_err());
    peer.notify("x", "").await.unwrap();
    assert!(timeout(time * 2, peer.stalled_for(time)).await.is_ok());
    next_line(&mut far).await;
    assert!(timeout(time * 5, peer.stalled_for(time)).await.is_err());
}
