//! Requests and responses, in both directions.

use agent_client_protocol_schema::{v1, v2};
use serde_json::json;

use super::*;
use crate::acp::translate::blocks::prompt_blocks;
use crate::acp::translate::servers::{servers_to_v1, servers_to_v2};
use crate::model::ProtocolVersion::{V1, V2};

fn v2_call(method: &str, params: &Value) -> (&'static str, Value) {
    let call = request_to_v2(method, &params.to_string()).unwrap();
    (call.method, value(&call.params))
}

fn v1_call(method: &str, params: &Value) -> (&'static str, Value) {
    let call = request_to_v1(method, &params.to_string()).unwrap();
    (call.method, value(&call.params))
}

#[test]
fn a_session_is_set_up_in_the_words_of_the_other_version() {
    let stdio = |tag: bool| {
        let mut server = json!({"name": "a", "command": "/a", "args": [], "env": [], "new": 1});
        if tag {
            server["type"] = json!("stdio");
        }
        server
    };
    let http = json!({"type": "http", "name": "h", "url": "u", "headers": []});
    let of_v1 = json!({"cwd": "/c", "mcpServers": [stdio(false), http], "_meta": {"k": 1}});
    let of_v2 = json!({"cwd": "/c", "mcpServers": [stdio(true), http], "_meta": {"k": 1}});
    assert_eq!(v2_call("session/new", &of_v1), ("session/new", of_v2.clone()));
    assert_eq!(v1_call("session/new", &of_v2), ("session/new", of_v1));
    let bare = json!({"cwd": "/c", "mcpServers": [{"type": "stdio", "name": "a", "command": "/a"}]});
    let full = json!({"cwd": "/c", "mcpServers": [{"name": "a", "command": "/a", "args": [], "env": []}]});
    assert_eq!(v1_call("session/new", &bare), ("session/new", full));
    assert_eq!(
        v1_call("session/new", &json!({"cwd": "/c"})),
        ("session/new", json!({"cwd": "/c", "mcpServers": []}))
    );
}

#[test]
fn load_is_a_v2_resume_with_replay_from_the_start() {
    let load = json!({"sessionId": "s", "cwd": "/c", "mcpServers": []});
    let mut resume = load.clone();
    resume["replayFrom"] = json!({"type": "start"});
    assert_eq!(v2_call("session/load", &load), ("session/resume", resume.clone()));
    assert_eq!(v1_call("session/resume", &resume), ("session/load", load.clone()));
    resume["replayFrom"] = Value::Null;
    assert_eq!(v1_call("session/resume", &resume), ("session/resume", load));
    for cursor in [json!({"type": "_acpx/seq", "seq": 1}), json!({}), json!(7)] {
        resume["replayFrom"] = cursor.clone();
        let refused = request_to_v1("session/resume", &resume.to_string()).unwrap_err();
        assert_eq!(refused, TranslationError::Cursor { cursor: cursor.to_string().into() });
        assert_eq!(refused.field().as_deref(), Some("replayFrom"));
    }
}

#[test]
fn untranslatable_request_is_refused_by_name() {
    let server = |kind| json!([{"type": kind, "name": "n", "url": "u", "headers": []}]).to_string();
    let refused =
        |transport: &str| TranslationError::Server { server: "n".into(), transport: transport.into() };
    assert_eq!(servers_to_v2(&server("sse")), Err(refused("sse")));
    assert_eq!(servers_to_v1(&server("_odd")), Err(refused("_odd")));
    let blocks = r#"[{"type":"text","text":"a"},{"type":"_odd"}]"#;
    assert_eq!(prompt_blocks(blocks, V2).as_deref(), Ok(blocks));
    assert_eq!(prompt_blocks(blocks, V1), Err(TranslationError::Block { index: 1, kind: "_odd".into() }));
    assert_eq!(
        request_to_v1("tool_call/cancel", "{}"),
        Err(TranslationError::Method { method: "tool_call/cancel".into() })
    );
    let shape = |field: &str| Err(TranslationError::Shape { field: field.into() });
    assert_eq!(request_to_v2("session/prompt", "{}"), shape("prompt"));
    assert_eq!(request_to_v2("session/load", r#"{"mcpServers":7}"#), shape("mcpServers"));
}

#[test]
fn logins_and_options_have_other_names_and_tags() {
    let login = json!({"methodId": "m"});
    assert_eq!(v2_call("authenticate", &login), ("auth/login", login.clone()));
    assert_eq!(v1_call("auth/login", &login), ("authenticate", login));
    assert_eq!(v2_call("logout", &Value::Null), ("auth/logout", json!({})));
    let (plain, tagged) =
        (json!({"configId": "c", "value": "v"}), json!({"configId": "c", "value": "v", "type": "id"}));
    assert_eq!(v2_call("session/set_config_option", &plain), ("session/set_config_option", tagged.clone()));
    assert_eq!(v1_call("session/set_config_option", &tagged), ("session/set_config_option", plain));
    let list = json!({"cwd": "/c", "cursor": ""});
    assert_eq!(v2_call("session/list", &list), ("session/list", list));
}

#[test]
fn agent_capabilities_are_translated_between_versions() {
    let of_v1 = json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "a", "version": "1"},
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false},
            "mcpCapabilities": {"http": true, "sse": true},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": null},
            "auth": {"logout": {}},
        },
        "authMethods": [
            {"id": "a", "name": "A"},
            {"id": "t", "name": "T", "type": "terminal", "env": {"K": "V"}},
        ],
    });
    let of_v2 = json!({
        "protocolVersion": 2,
        "info": {"name": "a", "version": "1"},
        "capabilities": {
            "session": {"prompt": {"image": {}}, "mcp": {"http": {}, "stdio": {}}, "delete": {}},
            "auth": {},
        },
        "authMethods": [
            {"methodId": "a", "name": "A", "type": "agent"},
            {"methodId": "t", "name": "T", "type": "terminal", "env": [{"name": "K", "value": "V"}]},
        ],
    });
    assert_eq!(value(&initialize_answer_to_v2(&of_v1.to_string()).unwrap()), of_v2);
    let mut back = of_v1;
    back["agentCapabilities"]["promptCapabilities"] = json!({"image": true});
    back["agentCapabilities"]["mcpCapabilities"] = json!({"http": true});
    back["agentCapabilities"]["sessionCapabilities"] =
        json!({"list": {}, "resume": {}, "close": {}, "delete": {}});
    assert_eq!(value(&initialize_answer_to_v1(&of_v2.to_string()).unwrap()), back);
    serde_json::from_value::<v2::InitializeResponse>(of_v2).unwrap();
    serde_json::from_value::<v1::InitializeResponse>(back).unwrap();
}

#[test]
fn a_permission_is_asked_with_the_whole_question_in_either_version() {
    let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
    let options = json!([option("y", "allow_once"), option("n", "reject_once")]);
    let of_v1 = json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": "t", "title": "T", "kind": null}});
    let of_v2 = json!({
        "sessionId": "s", "title": "T", "options": options,
        "subject": {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "T"}},
    });
    assert_eq!(value(&permission_to_v2(&of_v1.to_string()).unwrap()), of_v2);

    let mut asked = of_v2;
    asked["description"] = json!("why");
    asked["options"] = json!([option("y", "allow_once"), option("n", "reject_once"), option("o", "_odd")]);
    let told = value(&permission_to_v1(&asked.to_string(), "made").unwrap());
    let expected =
        json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": "t", "title": "T\nwhy"}});
    assert_eq!(told, expected);

    asked["subject"] = json!({"type": "command", "command": "rm -r x", "cwd": "/c"});
    let told = value(&permission_to_v1(&asked.to_string(), "made").unwrap());
    let shown = json!({"type": "content", "content": {"type": "text", "text": "$ rm -r x\nin /c"}});
    let call = json!({
        "kind": "execute", "content": [shown], "rawInput": {"command": "rm -r x", "cwd": "/c"},
        "toolCallId": "made", "title": "T\nwhy",
    });
    assert_eq!(told["toolCall"], call);
    serde_json::from_value::<v1::RequestPermissionRequest>(told).unwrap();
    asked["subject"] = json!({"type": "_odd"});
    let told = value(&permission_to_v1(&asked.to_string(), "made").unwrap());
    assert_eq!(told["toolCall"], json!({"toolCallId": "made", "title": "T\nwhy"}));
}

proptest::proptest! {
    #[test]
    fn v1_permission_request_survives_the_round_trip(fields in super::values::tool_fields()) {
        let mut call = json!({"toolCallId": "t", "title": "T"});
        call.as_object_mut().unwrap().extend(fields.into_iter().map(|(name, it)| (name.to_owned(), it)));
        let options = json!([{"optionId": "y", "name": "Y", "kind": "allow_always"}]);
        let asked = json!({"sessionId": "s", "toolCall": call, "options": options, "_meta": {"k": 1}});
        let there = permission_to_v2(&asked.to_string()).unwrap();
        proptest::prop_assert!(serde_json::from_str::<v2::RequestPermissionRequest>(&there).is_ok());
        let back = permission_to_v1(&there, "made").unwrap();
        proptest::prop_assert!(serde_json::from_str::<v1::RequestPermissionRequest>(&back).is_ok());
        proptest::prop_assert_eq!(value(&back), asked);
    }
}

#[test]
fn an_outcome_that_is_not_known_is_never_an_approval() {
    let selected = r#"{"outcome":{"outcome":"selected","optionId":"y"},"_meta":{}}"#;
    let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#;
    assert_eq!(&*permission_answer(selected), selected);
    for result in [
        cancelled,
        "null",
        "{}",
        r#"{"outcome":{"outcome":"_yes"}}"#,
        r#"{"outcome":{"outcome":"selected"}}"#,
    ] {
        assert_eq!(&*permission_answer(result), cancelled);
    }
}

#[test]
fn a_turn_ends_for_the_reason_it_ended_for() {
    let answer = json!({"stopReason": "refusal", "usage": {"totalTokens": 1}});
    let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "refusal", "usage": {"totalTokens": 1}});
    assert_eq!(value(&idle_update(&answer.to_string())), idle);
    assert_eq!(stop_reason_to_v1("cancelled"), ("cancelled", None));
    assert_eq!(stop_reason_to_v1("_odd"), ("end_turn", Some("_odd")));
}

#[test]
fn elicitation_form_gets_a_type_and_a_v1_readable_answer() {
    let asked =
        elicitation_to_v2(r#"{"mode":"form","sessionId":"s","message":"m","requestedSchema":{"title":"t"}}"#);
    let schema = json!({"title": "t", "type": "object", "properties": {}});
    assert_eq!(value(&asked.unwrap())["requestedSchema"], schema);
    let answer = r#"{"action":"accept","content":{"a":"x","b":1,"c":[],"d":["y"],"e":{},"f":[1],"g":null}}"#;
    let expected = json!({"action": "accept", "content": {"a": "x", "b": 1, "c": [], "d": ["y"]}});
    assert_eq!(value(&elicitation_answer_to_v1(answer)), expected);
    let odd = elicitation_answer_to_v1(r#"{"action":"accept","content":7}"#);
    assert_eq!(value(&odd), json!({"action": "accept"}));
    assert_eq!(value(&elicitation_answer_to_v1("7")), json!({"action": "cancel"}));
}
