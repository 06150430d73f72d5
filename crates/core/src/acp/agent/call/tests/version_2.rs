//! Calls that version 2 reads differently.

use super::*;

fn on_v2(offer: &Offer) -> NegotiatedOffer<'_> {
    NegotiatedOffer { offer, version: ProtocolVersion::V2 }
}

fn read(method: &str, params: &Value, offer: &Offer) -> Result<ClientCall, Value> {
    ClientCall::read(method, Some(&params.to_string()), on_v2(offer))
        .map_err(|error| serde_json::to_value(error.to_rpc()).unwrap())
}

fn problem(method: &str, params: &Value) -> Value {
    read(method, params, &everything()).unwrap_err()
}

#[test]
fn servers_may_be_left_out_and_have_a_type() {
    let new = |servers: Value| json!({ "cwd": "/w", "mcpServers": servers });
    let expected = |mcp_servers| NewCall {
        cwd: path("/w"),
        additional_directories: vec![],
        mcp_servers,
        unknown: None,
        meta: None,
    };
    let none = Ok(ClientCall::New(expected(vec![])));
    assert_eq!(read("session/new", &json!({ "cwd": "/w" }), &everything()), none);
    assert_eq!(read("session/new", &new(json!(null)), &everything()), none);
    let stdio = McpTransport::Stdio { command: path("/b"), args: vec![], env: vec![] };
    let http = McpTransport::Http { url: "u".into(), headers: vec![] };
    let servers = json!([
        { "type": "stdio", "name": "a", "command": "/b" },
        { "type": "http", "name": "b", "url": "u" },
    ]);
    let both = vec![McpServer::new("a", stdio), McpServer::new("b", http)];
    assert_eq!(read("session/new", &new(servers), &everything()), Ok(ClientCall::New(expected(both))));

    let table = [
        (json!({ "name": "a", "command": "/b" }), "mcpServers[0].type", "is missing"),
        (
            json!({ "type": "sse", "name": "a", "url": "u" }),
            "mcpServers[0].type",
            r#"is "sse", which is no transport of ACP v2"#,
        ),
        (
            json!({ "type": "stdio", "name": "a", "command": "b" }),
            "mcpServers[0].command",
            r#"must be an absolute path, not "b""#,
        ),
    ];
    for (server, field, words) in table {
        assert_eq!(problem("session/new", &new(json!([server]))), invalid(field, words));
    }
    let server = json!([{ "type": "http", "name": "docs", "url": "u" }]);
    let words = r#"is "http" for the server "docs", and this agent does not advertise session.mcp.http"#;
    let refused = read("session/new", &new(server), &restoring()).unwrap_err();
    assert_eq!(refused, invalid("mcpServers[0].type", words));
}

#[test]
fn a_resume_says_from_where_to_replay_and_null_is_from_nowhere() {
    let resumed = |replay_from: Option<&str>| {
        let call = RestoreCall {
            session: session("s"),
            cwd: path("/w"),
            additional_directories: vec![],
            mcp_servers: Some(vec![]),
            replay_from: replay_from.map(Into::into),
            unknown: None,
            meta: None,
        };
        Ok(ClientCall::Restore("session/resume", call))
    };
    let params = |from: Value| json!({ "sessionId": "s", "cwd": "/w", "replayFrom": from });
    let read = |params: &Value| read("session/resume", params, &everything());
    assert_eq!(read(&json!({ "sessionId": "s", "cwd": "/w" })), resumed(None));
    assert_eq!(read(&params(json!(null))), resumed(None));
    assert_eq!(read(&params(json!({ "type": "start" }))), resumed(Some(r#"{"type":"start"}"#)));
    let custom = json!({ "type": "_x", "n": 1 });
    assert_eq!(read(&params(custom.clone())), resumed(Some(&custom.to_string())));
    let table = [
        (json!("start"), "replayFrom", "must be an object, not a string"),
        (json!([]), "replayFrom", "must be an object, not an array"),
        (json!({}), "replayFrom.type", "is missing"),
        (json!({ "type": null }), "replayFrom.type", "must be a string, not null"),
    ];
    for (from, field, words) in table {
        assert_eq!(problem("session/resume", &params(from)), invalid(field, words));
    }
    let in_version_1 =
        ClientCall::read("session/resume", Some(&params(json!(7)).to_string()), on(&everything()));
    assert!(in_version_1.is_ok());
}

#[test]
fn an_option_is_set_to_a_value_of_a_type() {
    let set = |kind: Option<&str>, value: Value| {
        let mut params = json!({ "sessionId": "s", "configId": "c", "value": value });
        if let Some(kind) = kind {
            params["type"] = json!(kind);
        }
        params
    };
    let offer = Offer::new("test", "1", [Feature::ConfigOptions]);
    let value = |params: &Value, terms: NegotiatedOffer<'_>| {
        let call = ClientCall::read("session/set_config_option", Some(&params.to_string()), terms);
        match call {
            Ok(ClientCall::Set(SetCall {
                session: set,
                choice: SetChoice::Option { id, value },
                params: all,
            })) => {
                assert_eq!((set, &*id, &*all), (session("s"), "c", &*params.to_string()));
                Ok(value)
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_rpc().message),
        }
    };
    let wrong = |words: &str| Err(format!("Invalid params: {words}"));
    let id = || Ok(OptionValue::Id("x".into()));
    let table = [
        (None, json!("x"), id(), wrong("type is missing")),
        (Some("id"), json!("x"), id(), id()),
        (Some("boolean"), json!(true), Ok(OptionValue::Boolean(true)), Ok(OptionValue::Boolean(true))),
        (Some("_new"), json!([1]), Ok(OptionValue::Other), Ok(OptionValue::Other)),
        (
            Some("boolean"),
            json!("yes"),
            wrong("value must be a boolean, not a string"),
            wrong("value must be a boolean, not a string"),
        ),
        (
            Some("id"),
            json!(7),
            wrong("value must be a string, not the number 7"),
            wrong("value must be a string, not the number 7"),
        ),
    ];
    for (kind, given, old, new) in table {
        let params = set(kind, given);
        assert_eq!((value(&params, on(&offer)), value(&params, on_v2(&offer))), (old, new), "{params}");
    }
}

#[test]
fn a_prompt_says_something_and_its_unknown_blocks_are_refused() {
    let prompt = |blocks: Value| json!({ "sessionId": "s", "prompt": blocks });
    assert_eq!(problem("session/prompt", &prompt(json!([]))), invalid("prompt", "must not be empty"));
    let smell = prompt(json!([{ "type": "_smell" }]));
    let words = r#"is "_smell", which is no content type of ACP v2"#;
    assert_eq!(problem("session/prompt", &smell), invalid("prompt[0].type", words));
    let image = prompt(json!([{ "type": "image", "data": "", "mimeType": "m" }]));
    let words = r#"is "image", and this agent does not advertise session.prompt.image"#;
    let refused = read("session/prompt", &image, &restoring()).unwrap_err();
    assert_eq!(refused, invalid("prompt[0].type", words));
}

#[test]
fn v2_sessions_imply_resume_list_and_close() {
    let bare = Offer::new("test", "1", []);
    let restore = json!({ "sessionId": "s", "cwd": "/w" });
    for method in ["session/new", "session/resume", "session/list", "session/close"] {
        assert!(read(method, &restore, &bare).is_ok(), "{method}");
    }
    let gone = ["session/load", "session/set_mode", "authenticate", "logout"];
    for (offer, methods) in [
        (everything(), &gone[..]),
        (bare, &["session/delete", "session/fork", "session/set_config_option", "auth/login", "auth/logout"]),
    ] {
        for method in methods {
            let data = json!({ "method": method, "details": format!("there is no method {method}") });
            let expected = json!({ "code": -32601, "message": "Method not found", "data": data });
            assert_eq!(read(method, &restore, &offer), Err(expected));
        }
    }
}

#[test]
fn a_fork_names_its_session_and_its_place() {
    let offer = Offer::new("test", "1", [Feature::Fork]);
    let new = NewCall {
        cwd: path("/w"),
        additional_directories: vec![],
        mcp_servers: vec![],
        unknown: None,
        meta: None,
    };
    let expected = ForkCall { session: session("s"), new };
    let params = json!({ "sessionId": "s", "cwd": "/w" });
    for terms in [on(&offer), on_v2(&offer)] {
        let read = ClientCall::read("session/fork", Some(&params.to_string()), terms);
        assert_eq!(read.unwrap(), ClientCall::Fork(expected.clone()));
    }
}

#[test]
fn null_servers_are_refused_in_version_1_where_they_must_be_named() {
    let params = json!({ "sessionId": "s", "cwd": "/w", "mcpServers": null });
    for method in ["session/new", "session/load"] {
        let refused = error(method, &params, &everything());
        assert_eq!(refused, invalid("mcpServers", "must be an array, not null"));
    }
    assert!(ClientCall::read("session/resume", Some(&params.to_string()), on(&everything())).is_ok());
}
