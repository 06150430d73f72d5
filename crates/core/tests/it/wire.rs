//! The wire under any bytes at all: nothing panics, nothing is lost, and nothing changes that was not named.

use acpx_core::wire::json::{get, items, set};
use acpx_core::wire::splice::Splice;
use acpx_core::wire::{
    Body, DisconnectReason, GarbageReport, InboundMessage, RpcError, RpcId, RpcMessage, WireLimits, connect,
    encode, memory,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use tokio::io::AsyncWriteExt;

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(future)
}

/// What a connection makes of a stream.
#[derive(Debug, PartialEq)]
struct Received {
    lines: Vec<String>,
    end: Option<DisconnectReason>,
    garbage: GarbageReport,
}

/// Sends a stream in these parts; each is read before the next one is written.
fn receive(parts: &[&[u8]], limits: WireLimits) -> Received {
    run(async {
        let (mut far, near) = tokio::io::duplex(64 * 1024);
        let (peer, mut incoming) = connect(near, tokio::io::sink(), limits);
        let sending = async move {
            for part in parts {
                // A flood ends the connection, and then nobody reads what is left.
                if far.write_all(part).await.is_err() || far.flush().await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let receiving = async {
            let mut lines = Vec::new();
            while let Some(inbound) = incoming.recv().await {
                lines.push(inbound.message().line().to_string());
            }
            lines
        };
        let (lines, ()) = tokio::join!(receiving, sending);
        Received { lines, end: incoming.end(), garbage: peer.garbage() }
    })
}

fn tight() -> WireLimits {
    WireLimits {
        line_bytes: 60,
        queue_messages: 2,
        queue_bytes: 100,
        garbage_lines: 4,
        garbage_line_bytes: 16,
        ..WireLimits::default()
    }
}

/// Pieces that streams of messages are made of, and of which the bad ones are.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => Just(b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n".to_vec()),
        2 => Just(b"{\"id\":\"1\",\"result\":null}\r\n".to_vec()),
        2 => Just(b"{\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\\n\"}}\n".to_vec()),
        1 => Just(b"[{\"method\":\"m\"}]\n".to_vec()),
        1 => Just(vec![b'x'; 70]),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"{\"method\":".to_vec()),
        2 => vec(any::<u8>(), 0..20),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn id() -> impl Strategy<Value = RpcId> {
    prop_oneof![
        any::<u64>().prop_map(RpcId::from_number),
        any::<String>().prop_map(|text| RpcId::from_string(&text)),
        any::<u64>().prop_map(|number| RpcId::from_string(&number.to_string())),
    ]
}

/// A path to each value inside, with the value.
fn places(value: &Value) -> Vec<Vec<Place>> {
    let mut found = vec![vec![]];
    let inner: Vec<(Place, &Value)> = match value {
        Value::Array(list) => list.iter().enumerate().map(|(n, value)| (Place::Index(n), value)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (Place::Key(key.clone()), value)).collect(),
        _ => vec![],
    };
    for (first, value) in inner {
        found.extend(places(value).into_iter().map(|rest| [vec![first.clone()], rest].concat()));
    }
    found
}

#[derive(Debug, Clone)]
enum Place {
    Key(String),
    Index(usize),
}

/// The range of the value at a path.
fn range(text: &str, path: &[Place]) -> std::ops::Range<usize> {
    let part = path.iter().fold(text, |text, place| match place {
        Place::Key(key) => get(text, &[key]).unwrap(),
        Place::Index(index) => items(text).unwrap()[*index],
    });
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

fn at<'v>(value: &'v mut Value, path: &[Place]) -> &'v mut Value {
    path.iter().fold(value, |value, place| match place {
        Place::Key(key) => &mut value[key.as_str()],
        Place::Index(index) => &mut value[*index],
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stream_split_anywhere_gives_the_same_messages(pieces in vec(piece(), 0..12), size in 1..50_usize) {
        let stream = pieces.concat();
        let cut: Vec<&[u8]> = stream.chunks(size).collect();
        prop_assert_eq!(receive(&cut, tight()), receive(&[&stream], tight()));
    }

    #[test]
    fn a_flood_is_noticed_however_the_stream_is_cut(pieces in vec(piece(), 0..30), size in 1..50_usize) {
        let limits = WireLimits { flood_bytes: 80, ..tight() };
        let stream = pieces.concat();
        let cut: Vec<&[u8]> = stream.chunks(size).collect();
        let (cut, whole) = (receive(&cut, limits), receive(&[&stream], limits));
        prop_assert_eq!((cut.lines, cut.end), (whole.lines, whole.end));
    }

    #[test]
    fn any_bytes_are_a_message_or_not_and_nothing_panics(bytes in vec(any::<u8>(), 0..200), text in any::<String>()) {
        let text = format!("{text}{}", String::from_utf8_lossy(&bytes));
        for text in [text.clone(), format!("{{{text}"), format!(r#"{{"method":"m","params":{text}}}"#)] {
            if let Ok(message) = RpcMessage::parse(text.as_str()) {
                prop_assert_eq!(&**message.line(), &text);
            }
            let error = RpcError::read(&text);
            prop_assert!(!encode::error_response(&RpcId::null(), &error).contains('\n'));
            drop((get(&text, &["a", "b"]), set(&text, &["a", "b"], "0"), items(&text), RpcId::from_raw(&text)));
        }
    }

    #[test]
    fn encoded_message_parses_to_the_same_parts(id in id(), method in any::<String>(), params in json()) {
        for params in [params.to_string(), serde_json::to_string_pretty(&params).unwrap()] {
            let one_line = params.replace('\n', " ");
            let parse = |line: String| {
                assert!(!line.contains('\n'));
                RpcMessage::parse(line).unwrap()
            };
            let request = parse(encode::request(&id, &method, &params));
            prop_assert_eq!((request.id(), request.method()), (Some(&id), Some(method.as_str())));
            prop_assert_eq!(request.params(), Some(one_line.as_str()));
            prop_assert_eq!(request.id_range().map(|range| &request.line()[range]), Some(id.as_str()));
            let notification = parse(encode::notification(&method, &params));
            let is_notification = matches!(notification.body(), Body::Notification { .. });
            prop_assert!(is_notification);
            prop_assert_eq!((notification.method(), notification.params()), (Some(method.as_str()), Some(one_line.as_str())));
            let response = parse(encode::response(&id, &params));
            prop_assert_eq!((response.id(), response.result(), response.error()), (Some(&id), Some(one_line.as_str()), None));
            let error = RpcError::new(-1, method.as_str()).with_data(&one_line);
            let failed = parse(encode::error_response(&id, &error));
            prop_assert_eq!((failed.id(), failed.error().map(RpcError::read)), (Some(&id), Some(error)));
        }
    }

    #[test]
    fn a_number_and_a_string_of_the_same_digits_are_two_ids(number in any::<u64>()) {
        let (integer, string) = (RpcId::from_number(number), RpcId::from_string(&number.to_string()));
        prop_assert_ne!(&integer, &string);
        let parsed = |id: &RpcId| RpcMessage::parse(encode::response(id, "0")).unwrap().id().cloned();
        prop_assert_eq!((parsed(&integer), parsed(&string)), (Some(integer), Some(string)));
    }

    #[test]
    fn a_splice_changes_only_the_value_it_names(
        value in json(), pretty in any::<bool>(), which in any::<prop::sample::Index>(), new in json(),
    ) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        // What the reader makes of the text, because a float may not come back as it was.
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let places = places(&value);
        let path = which.get(&places);
        let range = range(&text, path);
        prop_assert_eq!(&serde_json::from_str::<Value>(&text[range.clone()]).unwrap(), at(&mut value, path));
        let new_text = new.to_string();
        let mut splice = Splice::new(&text);
        splice.replace(range.clone(), &new_text).unwrap();
        let spliced = splice.finish();
        prop_assert_eq!(&spliced[..range.start], &text[..range.start]);
        prop_assert_eq!(&spliced[range.start + new_text.len()..], &text[range.end..]);
        *at(&mut value, path) = serde_json::from_str(&new_text).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&spliced).unwrap(), value);
    }

    #[test]
    fn all_elements_can_be_replaced_at_once(list in vec(json(), 0..8)) {
        let text = serde_json::to_string_pretty(&list).unwrap();
        let mut splice = Splice::new(&text);
        for index in (0..list.len()).rev() {
            splice.replace(range(&text, &[Place::Index(index)]), "0").unwrap();
        }
        let zeros: Vec<u8> = serde_json::from_str(&splice.finish()).unwrap();
        prop_assert_eq!(zeros, vec![0; list.len()]);
    }

    #[test]
    fn any_range_is_replaced_or_refused(text in any::<String>(), ranges in vec((0..40_usize, 0..40_usize), 0..8)) {
        let mut splice = Splice::new(&text);
        let mut made = 0;
        for (start, end) in ranges {
            if splice.replace(start..end, "").is_ok() {
                made += end - start;
            }
        }
        prop_assert_eq!(splice.finish().len(), text.len() - made);
    }

    #[test]
    fn lines_arrive_as_sent_and_a_response_after_what_came_before_it(
        before in vec(json(), 0..20), result in json(), after in vec(json(), 0..20),
    ) {
        let limits = WireLimits { line_bytes: 1 << 20, ..tight() };
        run(async {
            let ((client, mut to_client), (agent, mut to_agent)) = memory(limits);
            let id = client.request("ask", "").await.unwrap();
            let Some(InboundMessage::Request { id: asked, .. }) = to_agent.recv().await else { panic!("no request") };
            let notifications = |list: &[Value]| -> Vec<String> {
                list.iter().map(|params| encode::notification("tell", &params.to_string())).collect()
            };
            let lines = [
                notifications(&before),
                vec![encode::response(&asked, &result.to_string())],
                notifications(&after),
            ]
            .concat();
            let sending = async {
                for line in &lines {
                    agent.send(line.clone()).await.unwrap();
                }
                agent.close().await.unwrap();
            };
            let receiving = async {
                let mut seen = Vec::new();
                while let Some(inbound) = to_client.recv().await {
                    if let InboundMessage::Response { id: answered, method, .. } = &inbound {
                        assert_eq!((answered, &**method, seen.len()), (&id, "ask", before.len()));
                    }
                    seen.push(inbound.message().line().to_string());
                }
                seen
            };
            let (seen, ()) = tokio::join!(receiving, sending);
            assert_eq!((seen, to_client.end()), (lines, Some(DisconnectReason::Eof)));
        });
    }
}
