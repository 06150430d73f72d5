//! Parsing messages: valid, malformed, and the ranges of their parts.

use super::*;

fn parse(line: &str) -> RpcMessage {
    RpcMessage::parse(line).unwrap()
}

#[test]
fn a_request_says_where_its_parts_are() {
    let line = r#" {"jsonrpc":"2.0", "params" : {"n":1e3} ,"method":"a\/b","id": 92 } "#;
    let message = parse(line);
    let expected = Body::Request { id: RpcId::from_number(92), method: "a/b".into(), params: Some(30..39) };
    assert_eq!(message.body(), &expected);
    assert_eq!(message.params(), Some(r#"{"n":1e3}"#));
    assert_eq!(message.id_range().map(|range| &line[range]), Some("92"));
    assert_eq!(&**message.line(), line);
    assert_eq!((message.method(), message.result(), message.error()), (Some("a/b"), None, None));
}

#[test]
fn a_method_without_an_id_is_a_notification() {
    let message = parse(r#"{"method":"m","params":null,"result":1}"#);
    assert_eq!(message.body(), &Body::Notification { method: "m".into(), params: Some(23..27) });
    assert_eq!((message.params(), message.id(), message.id_range()), (Some("null"), None, None));
    assert_eq!(parse(r#"{"method":"m"}"#).params(), None);
}

#[test]
fn message_with_method_and_id_is_a_request() {
    let message = parse(r#"{"id":"x","method":"m","result":1,"error":2,"_meta":{}}"#);
    let id = RpcId::from_string("x");
    assert_eq!(message.body(), &Body::Request { id, method: "m".into(), params: None });
}

#[test]
fn null_is_a_result_and_a_missing_result_is_none() {
    assert_eq!(parse(r#"{"id":1,"result":null}"#).result(), Some("null"));
    assert_eq!(RpcMessage::parse(r#"{"id":1}"#), Err(Malformed::NeitherRequestNorResponse));
}

#[test]
fn non_null_error_counts_before_the_result() {
    assert_eq!(parse(r#"{"id":1,"result":2,"error":null}"#).result(), Some("2"));
    assert_eq!(parse(r#"{"id":1,"result":null,"error":{}}"#).error(), Some("{}"));
    assert_eq!(parse(r#"{"id":1,"result":2,"error":"no"}"#).error(), Some(r#""no""#));
    assert_eq!(parse(r#"{"id":1,"error":null}"#).error(), Some("null"));
}

#[test]
fn an_id_may_be_null_only_in_an_error() {
    let message = parse(r#"{"id":null,"error":{"code":-32700}}"#);
    assert_eq!(message.id(), Some(&RpcId::null()));
    assert_eq!(RpcMessage::parse(r#"{"id":null,"result":1}"#), Err(Malformed::BadId));
    assert_eq!(RpcMessage::parse(r#"{"id":null,"method":"m"}"#), Err(Malformed::NullId));
}

#[test]
fn number_and_string_ids_are_kept_apart_and_as_written() {
    let id = |text: &str| RpcId::from_raw(text).unwrap();
    assert_ne!(id("92"), id(r#""92""#));
    assert_ne!(id("1"), id("1.0"));
    assert_eq!([id("92").to_string(), id(r#""92""#).to_string()], ["92", r#""92""#]);
    assert_eq!((id("92"), id(r#""a\"b""#)), (RpcId::from_number(92), RpcId::from_string("a\"b")));
    for wrong in ["", "null", "true", "{}", "[1]", "1 2", "01", "\"", "-"] {
        assert_eq!(RpcId::from_raw(wrong), None, "{wrong}");
    }
}

#[test]
fn a_line_that_is_no_message_has_a_reason() {
    let cases = [
        ("", Malformed::NotJson),
        ("npm WARN deprecated", Malformed::NotJson),
        (r#"{"method":"m"} x"#, Malformed::NotJson),
        (r#"{"method":"m""#, Malformed::NotJson),
        (r#"[{"method":"m"}]"#, Malformed::Batch),
        ("  []", Malformed::Batch),
        ("3", Malformed::NotAnObject),
        ("null", Malformed::NotAnObject),
        ("{}", Malformed::NeitherRequestNorResponse),
        (r#"{"id":1,"id":1,"method":"m"}"#, Malformed::DuplicateMember),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"m"}"#, Malformed::DuplicateMember),
        (r#"{"method":"m","x":1,"\u0078":2}"#, Malformed::DuplicateMember),
        (r#"{"method":1}"#, Malformed::BadMethod),
        (r#"{"method":null,"id":1}"#, Malformed::BadRequestMethod),
        (r#"{"method":"\ud800"}"#, Malformed::BadMethod),
        (r#"{"method":"m","id":{}}"#, Malformed::BadRequestId),
        (r#"{"method":"m","id":true}"#, Malformed::BadRequestId),
        (r#"{"method":7,"id":true}"#, Malformed::BadRequestId),
        (r#"{"id":[],"result":1}"#, Malformed::BadId),
        (r#"{"error":{}}"#, Malformed::MissingId),
    ];
    for (line, reason) in cases {
        assert_eq!(RpcMessage::parse(line), Err(reason), "{line}");
    }
}

#[test]
fn a_few_unknown_members_are_kept_and_very_many_are_refused() {
    let with = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!(r#","k{n}":0"#)).collect();
        RpcMessage::parse(format!(r#"{{"method":"m"{}}}"#, members.concat()))
    };
    assert_eq!(
        with(UNKNOWN_MEMBERS).map(|message| message.method().map(str::to_owned)),
        Ok(Some("m".into()))
    );
    assert_eq!(with(UNKNOWN_MEMBERS + 1), Err(Malformed::TooManyMembers));
}

#[test]
fn unpaired_surrogate_does_not_make_a_message_unreadable() {
    let message = parse(r#"{"method":"m","\ud800":1,"params":{"text":"\udfff"}}"#);
    assert_eq!(message.params(), Some(r#"{"text":"\udfff"}"#));
}

#[test]
fn nesting_as_deep_as_a_line_allows_overflows_nothing() {
    let deep = format!(r#"{{"method":"m","params":{}1{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(parse(&deep).params().map(str::len), Some(400_001));
    assert_eq!(RpcMessage::parse("[".repeat(200_000)), Err(Malformed::NotJson));
}
