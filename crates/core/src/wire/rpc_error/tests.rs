//! Errors as real peers write them.

use super::*;

#[test]
fn an_error_is_read_as_it_was_written() {
    let error = RpcError::invalid_params("no such mode").with_data(r#"{"mode": 1e3}"#);
    let json = serde_json::to_string(&error).unwrap();
    assert_eq!(json, r#"{"code":-32602,"message":"no such mode","data":{"mode": 1e3}}"#);
    assert_eq!(RpcError::read(&json), error);
    assert_eq!(serde_json::from_str::<RpcError>(&json).unwrap(), error);
    assert_eq!(error.to_string(), "no such mode (code -32602)");
}

#[test]
fn no_shape_of_an_error_is_unreadable() {
    let with = |code, message: &str| RpcError::new(code, message);
    let odd = |data: &str| RpcError::internal("the error is not an object").with_data(data);
    let cases = [
        (r#"{"code":-32000}"#, with(-32000, "no message given")),
        (r#"{"message":"m"}"#, with(-32603, "m")),
        (r#" {"code":"-32002","message":"m"} "#, with(-32002, "m")),
        (r#"{"code":-32002.0,"message":"m"}"#, with(-32002, "m")),
        (r#"{"code":"ENOENT","message":"m"}"#, with(-32603, "m")),
        (r#"{"code":1e99,"message":{"a":1}}"#, with(-32603, r#"{"a":1}"#)),
        (r#"{"code":1,"code":2,"message":"m"}"#, with(-32603, "m")),
        (r#"{"code":1,"message":"m","data":null}"#, with(1, "m").with_data("null")),
        (r#""boom""#, odd(r#""boom""#)),
        ("null", odd("null")),
        ("[1]", odd("[1]")),
        ("not json", odd(r#""not json""#)),
        ("", odd(r#""""#)),
    ];
    for (json, error) in cases {
        assert_eq!(RpcError::read(json), error, "{json}");
    }
}
