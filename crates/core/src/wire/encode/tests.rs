//! The exact encoded lines.

use super::*;

#[test]
fn lines_are_written_in_one_fixed_form() {
    let id = RpcId::from_number(7);
    assert_eq!(request(&id, "m", r#"{"a":1}"#), r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}"#);
    assert_eq!(notification("a\"\n", ""), r#"{"jsonrpc":"2.0","method":"a\"\n"}"#);
    assert_eq!(response(&RpcId::from_string("7"), "null"), r#"{"jsonrpc":"2.0","id":"7","result":null}"#);
    assert_eq!(
        error_response(&RpcId::null(), &RpcError::method_not_found("x")),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found: x","data":{"method":"x"}}}"#
    );
    assert_eq!(
        cancel_request(&id),
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#
    );
}

#[test]
fn pretty_printed_parts_still_make_one_line() {
    let pretty = "{\r\n  \"a\": \"x\\n\"\n}";
    assert_eq!(notification("m", pretty), r#"{"jsonrpc":"2.0","method":"m","params":{    "a": "x\n" }}"#);
    let error = RpcError::internal("a\nb").with_data("[\n1]");
    assert_eq!(
        error_response(&RpcId::from_number(1), &error),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"a\nb","data":[ 1]}}"#
    );
    assert_eq!(one_line("{\n}".to_owned()), "{ }");
}
