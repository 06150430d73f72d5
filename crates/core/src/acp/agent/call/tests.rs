//! Every check, with its exact error object.

mod version_2;

use serde_json::{Value, json};

use super::*;
use crate::model::{McpTransport, NamedValue};

fn everything() -> Offer {
    use Feature::{Audio, Close, Delete, EmbeddedContext, Image, List, Load, McpHttp, McpSse, Modes, Resume};
    let features = [
        Load,
        Resume,
        Close,
        List,
        Delete,
        Modes,
        McpHttp,
        McpSse,
        Image,
        Audio,
        EmbeddedContext,
        Feature::AdditionalDirectories,
    ];
    Offer::new("test", "1", features)
}

fn restoring() -> Offer {
    Offer::new("test", "1", [Feature::Load, Feature::Resume, Feature::List])
}

fn on(offer: &Offer) -> NegotiatedOffer<'_> {
    NegotiatedOffer { offer, version: ProtocolVersion::V1 }
}

fn error(method: &str, params: &Value, offer: &Offer) -> Value {
    refusal(method, Some(&params.to_string()), offer)
}

fn refusal(method: &str, params: Option<&str>, offer: &Offer) -> Value {
    let refused = ClientCall::read(method, params, on(offer)).unwrap_err();
    serde_json::to_value(refused.to_rpc()).unwrap()
}

fn invalid(field: &str, problem: &str) -> Value {
    json!({
        "code": -32602,
        "message": format!("Invalid params: {field} {problem}"),
        "data": { "field": field, "problem": problem },
    })
}

fn path(text: &str) -> AbsolutePath {
    AbsolutePath::new(text).unwrap()
}

fn session(text: &str) -> AcpSessionId {
    AcpSessionId::new(text).unwrap()
}

#[test]
fn a_wrong_parameter_of_session_new_is_named_by_its_path() {
    let stdio = |command: Value| json!({ "cwd": "/w", "mcpServers": [{ "name": "a", "command": "/bin/a" }, command] });
    let with = |name: &str, value: Value| {
        let mut params = json!({ "cwd": "/w", "mcpServers": [] });
        params[name] = value;
        params
    };
    let table = [
        (json!({ "mcpServers": [] }), "cwd", "is missing"),
        (json!({ "cwd": "/w" }), "mcpServers", "is missing"),
        (with("cwd", json!(7)), "cwd", "must be a string, not the number 7"),
        (with("cwd", json!(null)), "cwd", "must be a string, not null"),
        (with("cwd", json!("src")), "cwd", r#"must be an absolute path, not "src""#),
        (with("cwd", json!("")), "cwd", r#"must be an absolute path, not """#),
        (with("mcpServers", json!(null)), "mcpServers", "must be an array, not null"),
        (with("mcpServers", json!({})), "mcpServers", "must be an array, not an object"),
        (with("mcpServers", json!(["a"])), "mcpServers[0]", "must be an object, not a string"),
        (stdio(json!({ "command": "/b" })), "mcpServers[1].name", "is missing"),
        (stdio(json!({ "name": "b" })), "mcpServers[1].command", "is missing"),
        (
            stdio(json!({ "name": "b", "command": "node" })),
            "mcpServers[1].command",
            r#"must be an absolute path, not "node""#,
        ),
        (
            stdio(json!({ "name": "b", "command": "/b", "args": [true] })),
            "mcpServers[1].args[0]",
            "must be a string, not a boolean",
        ),
        (
            stdio(json!({ "name": "b", "command": "/b", "env": { "A": "1" } })),
            "mcpServers[1].env",
            "must be an array, not an object",
        ),
        (
            stdio(json!({ "name": "b", "command": "/b", "env": [{ "name": "A" }] })),
            "mcpServers[1].env[0].value",
            "is missing",
        ),
        (
            stdio(json!({ "name": "b", "type": "pigeon" })),
            "mcpServers[1].type",
            r#"is "pigeon", which is no transport of ACP v1"#,
        ),
        (
            with("additionalDirectories", json!(["x"])),
            "additionalDirectories[0]",
            "must be an absolute path, not \"x\"",
        ),
    ];
    for (params, field, problem) in table {
        assert_eq!(error("session/new", &params, &everything()), invalid(field, problem));
    }
}

#[test]
fn params_that_are_no_object_are_refused_as_a_whole() {
    let array = error("session/new", &json!(["/w"]), &everything());
    assert_eq!(array, invalid("params", "must be an object, not an array"));
    assert_eq!(refusal("session/new", None, &everything()), invalid("cwd", "is missing"));
}

#[test]
fn half_a_surrogate_pair_is_no_text() {
    let refused = refusal("session/close", Some(r#"{"sessionId":"\ud800"}"#), &everything());
    assert_eq!(refused, invalid("sessionId", "is not valid text"));
}

#[test]
fn a_field_that_is_given_twice_is_refused_by_its_path() {
    let text = r#"{"type":"text","text":"a""#;
    let table = [
        ("session/close", r#"{"sessionId":"a","sessionId":"a"}"#.to_owned(), "sessionId"),
        // The same name, once plain and once escaped.
        ("session/close", r#"{"sessionId":"a","session\u0049d":"b"}"#.to_owned(), "sessionId"),
        ("session/new", r#"{"cwd":"/w","mcpServers":[],"cwd":"/x"}"#.to_owned(), "cwd"),
        ("session/new", r#"{"cwd":"/w","mcpServers":[],"mcpServers":null}"#.to_owned(), "mcpServers"),
        (
            "session/new",
            r#"{"cwd":"/w","mcpServers":[{"name":"a","command":"/a","command":"/b"}]}"#.to_owned(),
            "mcpServers[0].command",
        ),
        (
            "session/prompt",
            format!(r#"{{"sessionId":"a","prompt":[{text},"text":"b"}}]}}"#),
            "prompt[0].text",
        ),
        (
            "session/prompt",
            format!(r#"{{"sessionId":"a","prompt":[{text},"type":"text"}}]}}"#),
            "prompt[0].type",
        ),
    ];
    for (method, params, field) in table {
        let refused = refusal(method, Some(&params), &everything());
        assert_eq!(refused, invalid(field, "is given more than once"));
    }
}

#[test]
fn unknown_or_odd_params_do_not_refuse_a_request() {
    let odd = r#""\ud800":1,"x":"\udfff","x":{"x":[]},"_meta":{"a":1},"_meta":{}"#;
    let params = format!(r#"{{{odd},"sessionId":"s","prompt":[{{{odd},"type":"text","text":"a"}}]}}"#);
    let expected = PromptCall {
        session: session("s"),
        blocks: vec![format!(r#"{{{odd},"type":"text","text":"a"}}"#).into()],
        text: "a".into(),
        unknown: Some(r#""\ud800":1,"x":"\udfff","x":{"x":[]}"#.into()),
        meta: None,
    };
    let read = ClientCall::read("session/prompt", Some(&params), on(&everything()));
    assert_eq!(read.unwrap(), ClientCall::Prompt(expected));
}

#[test]
fn http_and_sse_mcp_servers_need_the_capability() {
    for (kind, capability) in [("http", "mcpCapabilities.http"), ("sse", "mcpCapabilities.sse")] {
        let server = json!({ "type": kind, "name": "docs", "url": "https://d", "headers": [] });
        let problem =
            format!("is \"{kind}\" for the server \"docs\", and this agent does not advertise {capability}");
        for method in ["session/new", "session/load", "session/resume"] {
            let params = json!({ "sessionId": "s", "cwd": "/w", "mcpServers": [server] });
            assert_eq!(error(method, &params, &restoring()), invalid("mcpServers[0].type", &problem));
        }
    }
}

#[test]
fn extra_roots_need_the_capability() {
    let params = json!({ "cwd": "/w", "mcpServers": [], "additionalDirectories": ["/x"] });
    let problem = "is given, and this agent does not advertise sessionCapabilities.additionalDirectories";
    assert_eq!(error("session/new", &params, &restoring()), invalid("additionalDirectories", problem));
}

#[test]
fn session_new_is_read_whole_and_keeps_unknown_members() {
    let params = json!({
        "cwd": "/w",
        "additionalDirectories": ["/x"],
        "mcpServers": [
            { "name": "a", "command": "/bin/a", "args": ["-v"], "env": [{ "name": "K", "value": "v" }], "new": 1 },
            { "type": "http", "name": "b", "url": "https://b", "headers": [{ "name": "H", "value": "h" }] },
            { "type": "sse", "name": "c", "url": "https://c", "headers": [] },
            { "type": "http", "name": "d", "url": "https://d" },
            { "type": "sse", "name": "e", "url": "https://e" },
        ],
        "_meta": { "a": 1 },
        "fromTheFuture": [1],
    });
    let value = |name: &str, value: &str| NamedValue { name: name.into(), value: value.into() };
    let expected = NewCall {
        cwd: path("/w"),
        additional_directories: vec![path("/x")],
        mcp_servers: vec![
            McpServer::new(
                "a",
                McpTransport::Stdio {
                    command: path("/bin/a"),
                    args: vec!["-v".into()],
                    env: vec![value("K", "v")],
                },
            )
            .with_client_json(ProtocolVersion::V1, &params["mcpServers"][0].to_string()),
            McpServer::new(
                "b",
                McpTransport::Http { url: "https://b".into(), headers: vec![value("H", "h")] },
            ),
            McpServer::new("c", McpTransport::Sse { url: "https://c".into(), headers: vec![] }),
            McpServer::new("d", McpTransport::Http { url: "https://d".into(), headers: vec![] }),
            McpServer::new("e", McpTransport::Sse { url: "https://e".into(), headers: vec![] }),
        ],
        unknown: Some(r#""fromTheFuture":[1]"#.into()),
        meta: Some(r#"{"a":1}"#.into()),
    };
    let read = ClientCall::read("session/new", Some(&params.to_string()), on(&everything()));
    assert_eq!(read.unwrap(), ClientCall::New(expected));
}

#[test]
fn a_malformed_meta_is_tolerated() {
    for meta in [json!(null), json!("x"), json!([1]), json!(7)] {
        let params = json!({ "sessionId": "s", "prompt": [], "_meta": meta });
        let call = PromptCall {
            session: session("s"),
            blocks: vec![],
            text: String::new(),
            unknown: None,
            meta: None,
        };
        let read = ClientCall::read("session/prompt", Some(&params.to_string()), on(&everything()));
        assert_eq!(read.unwrap(), ClientCall::Prompt(call));
    }
}

#[test]
fn load_needs_the_servers_and_resume_may_leave_them_out() {
    let params = json!({ "sessionId": "s", "cwd": "/w" });
    assert_eq!(error("session/load", &params, &restoring()), invalid("mcpServers", "is missing"));
    let resumed = RestoreCall {
        session: session("s"),
        cwd: path("/w"),
        additional_directories: vec![],
        mcp_servers: None,
        replay_from: None,
        unknown: None,
        meta: None,
    };
    let read = ClientCall::read("session/resume", Some(&params.to_string()), on(&restoring()));
    assert_eq!(read.unwrap(), ClientCall::Restore("session/resume", resumed));
}

#[test]
fn restoring_needs_a_session_and_a_directory() {
    for method in ["session/load", "session/resume"] {
        let table = [
            (json!({ "cwd": "/w", "mcpServers": [] }), "sessionId", "is missing"),
            (
                json!({ "sessionId": 7, "cwd": "/w", "mcpServers": [] }),
                "sessionId",
                "must be a string, not the number 7",
            ),
            (json!({ "sessionId": "", "cwd": "/w", "mcpServers": [] }), "sessionId", "must not be empty"),
            (json!({ "sessionId": "s", "mcpServers": [] }), "cwd", "is missing"),
            (
                json!({ "sessionId": "s", "cwd": "w", "mcpServers": [] }),
                "cwd",
                r#"must be an absolute path, not "w""#,
            ),
        ];
        for (params, field, problem) in table {
            assert_eq!(error(method, &params, &restoring()), invalid(field, problem));
        }
    }
}

#[test]
fn a_wrong_prompt_is_named_by_its_block() {
    let blocks = |blocks: Value| json!({ "sessionId": "s", "prompt": blocks });
    let table = [
        (json!({ "prompt": [] }), "sessionId", "is missing"),
        (json!({ "sessionId": "s" }), "prompt", "is missing"),
        (blocks(json!("hi")), "prompt", "must be an array, not a string"),
        (blocks(json!(["hi"])), "prompt[0]", "must be an object, not a string"),
        (blocks(json!([{ "text": "hi" }])), "prompt[0].type", "is missing"),
        (blocks(json!([{ "type": "text" }])), "prompt[0].text", "is missing"),
        (
            blocks(json!([{ "type": "text", "text": "a" }, { "type": "smell" }])),
            "prompt[1].type",
            r#"is "smell", which is no content type of ACP v1"#,
        ),
        (blocks(json!([{ "type": "resource_link", "name": "n" }])), "prompt[0].uri", "is missing"),
        (
            blocks(json!([{ "type": "image", "data": "", "mimeType": "image/png" }])),
            "prompt[0].type",
            r#"is "image", and this agent does not advertise promptCapabilities.image"#,
        ),
        (
            blocks(json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }])),
            "prompt[0].type",
            r#"is "audio", and this agent does not advertise promptCapabilities.audio"#,
        ),
        (
            blocks(json!([{ "type": "resource", "resource": { "uri": "u", "text": "t" } }])),
            "prompt[0].type",
            r#"is "resource", and this agent does not advertise promptCapabilities.embeddedContext"#,
        ),
    ];
    for (params, field, problem) in table {
        assert_eq!(error("session/prompt", &params, &restoring()), invalid(field, problem));
    }
    let empty = blocks(json!([{ "type": "resource", "resource": { "uri": "u" } }]));
    let expected = invalid("prompt[0].resource", "must have a text or a blob");
    assert_eq!(error("session/prompt", &empty, &everything()), expected);
}

#[test]
fn a_prompt_keeps_its_blocks_byte_for_byte() {
    let params = r#"{"sessionId":"s","prompt":[{"type":"text", "text":"a"},{"uri":"file:///x","type":"resource_link","name":"n","size":1.50},{"text":"b","type":"text"}]}"#;
    let expected = PromptCall {
        session: session("s"),
        blocks: vec![
            r#"{"type":"text", "text":"a"}"#.into(),
            r#"{"uri":"file:///x","type":"resource_link","name":"n","size":1.50}"#.into(),
            r#"{"text":"b","type":"text"}"#.into(),
        ],
        text: "a\nb".into(),
        unknown: None,
        meta: None,
    };
    assert_eq!(
        ClientCall::read("session/prompt", Some(params), on(&restoring())).unwrap(),
        ClientCall::Prompt(expected)
    );
}

#[test]
fn a_method_that_is_unknown_or_not_offered_is_not_found() {
    let bare = Offer::new("test", "1", []);
    let methods = [
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/delete",
        "session/set_mode",
        "session/set_config_option",
        "session/fork",
        "authenticate",
        "logout",
        "",
    ];
    for method in methods {
        let data = json!({ "method": method, "details": format!("there is no method {method}") });
        let expected = json!({ "code": -32601, "message": "Method not found", "data": data });
        assert_eq!(error(method, &json!({}), &bare), expected);
    }
}

#[test]
fn every_field_of_a_list_may_be_left_out() {
    let nothing = ListCall { cwd: None, cursor: None, meta: None };
    assert_eq!(
        ClientCall::read("session/list", None, on(&restoring())).unwrap(),
        ClientCall::List(nothing.clone())
    );
    assert_eq!(
        ClientCall::read("session/list", Some("null"), on(&restoring())).unwrap(),
        ClientCall::List(nothing.clone())
    );
    let nulls = r#"{"cwd":null,"cursor":null}"#;
    assert_eq!(
        ClientCall::read("session/list", Some(nulls), on(&restoring())).unwrap(),
        ClientCall::List(nothing)
    );
    let both = ListCall { cwd: Some(path("/w")), cursor: Some("c".into()), meta: None };
    let text = r#"{"cwd":"/w","cursor":"c"}"#;
    assert_eq!(
        ClientCall::read("session/list", Some(text), on(&restoring())).unwrap(),
        ClientCall::List(both)
    );
    assert_eq!(
        error("session/list", &json!({ "cwd": "w" }), &restoring()),
        invalid("cwd", r#"must be an absolute path, not "w""#)
    );
}
