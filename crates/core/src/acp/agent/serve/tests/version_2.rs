//! The dispatcher with a version 2 client, for a service that leaves states to it.

use super::*;

fn info() -> Value {
    json!({ "name": "client", "version": "1" })
}

impl Client {
    async fn v2() -> Self {
        let mut client = Self::offered(Arc::new(Toy::default()), offer().up_to(ProtocolVersion::V2));
        client.call("initialize", json!({ "protocolVersion": 2, "info": info() })).await;
        client
    }

    async fn v2_with_session() -> Self {
        let mut client = Self::v2().await;
        let new = client.call("session/new", json!({ "cwd": "/w" })).await;
        assert_eq!(new, json!({ "result": { "sessionId": "s1" } }));
        client
    }

    /// Sends a prompt and reads everything up to the start of its turn.
    async fn begun(&mut self, text: &str) -> RpcId {
        let id = self.prompt("s1", text).await;
        let message = format!("user {text}");
        assert_eq!(self.next().await, result(&id, json!({ "messageId": message })));
        let content = json!([{ "type": "text", "text": text }]);
        let echo = json!({ "sessionUpdate": "user_message", "messageId": message, "content": content });
        assert_eq!(self.next().await, told(echo));
        assert_eq!(self.next().await, state("running"));
        id
    }

    /// Reads the next update, a message chunk; returns its text and the message's id.
    async fn piece(&mut self) -> (String, String) {
        let line = self.next().await;
        let update = &line["params"]["update"];
        assert_eq!(update["sessionUpdate"], "agent_message_chunk", "{line}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&update["content"]["text"]), text(&update["messageId"]))
    }
}

fn told(update: Value) -> Value {
    json!({ "method": "session/update", "params": { "sessionId": "s1", "update": update } })
}

fn state(state: &str) -> Value {
    told(json!({ "sessionUpdate": "state_update", "state": state }))
}

fn idle(reason: &str) -> Value {
    told(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": reason }))
}

fn dropped(id: &RpcId) -> Value {
    let id: Value = serde_json::from_str(id.as_str()).unwrap();
    json!({ "id": id, "error": { "code": -32800, "message": "request cancelled" } })
}

#[tokio::test]
async fn second_initialize_is_refused_and_the_version_stays() {
    let mut client = Client::v2().await;
    let message = "Invalid request: version 2 of the protocol is spoken already";
    let data = json!({ "protocolVersion": 2, "details": message });
    let settled = json!({ "code": -32600, "message": message, "data": data });
    for version in [0, 1, 2, 9] {
        let again = client.call("initialize", json!({ "protocolVersion": version, "info": info() })).await;
        assert_eq!(again, json!({ "error": settled }), "{version}");
    }
    let listed = client.call("session/list", json!({})).await;
    assert!(listed["result"].is_object(), "{listed}");
}

#[tokio::test]
async fn v2_prompt_is_answered_at_insertion_and_ends_with_a_state() {
    let mut client = Client::v2_with_session().await;
    let mut messages = Vec::new();
    for text in ["hello", "again"] {
        client.begun(text).await;
        let (said, message) = client.piece().await;
        assert_eq!(said, text);
        messages.push(message);
        assert_eq!(client.next().await, idle("end_turn"));
    }
    assert_ne!(messages[0], messages[1]);
    assert!(!messages[0].is_empty());
}

#[tokio::test]
async fn v2_error_is_a_reply_before_insertion_and_a_state_after() {
    let mut client = Client::v2_with_session().await;
    let id = client.prompt("s1", "fail before it is inserted").await;
    let details = json!({ "details": "cannot store the session s1: broken" });
    assert_eq!(client.next().await, failure(&id, -32603, "Internal error", details.clone()));
    client.begun("fail").await;
    let error = json!({ "code": -32603, "message": "Internal error", "data": details });
    let mut failed = idle("error");
    failed["params"]["update"]["error"] = error;
    assert_eq!(client.next().await, failed);
    client.begun("panic").await;
    let torn = json!({ "details": "the handler of session/prompt has failed" });
    failed["params"]["update"]["error"]["data"] = torn;
    assert_eq!(client.next().await, failed);
}

#[tokio::test]
async fn v2_prompt_cancelled_before_insertion_is_dropped() {
    let mut client = Client::v2_with_session().await;
    let id = client.prompt("s1", "wait before it is inserted").await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, dropped(&id));
    let id = client.prompt("s1", "wait before it is inserted").await;
    client.peer.cancel(&id);
    assert_eq!(client.next().await, dropped(&id));
    let id = client.prompt("s1", "wait before it is inserted").await;
    let close = client.send("session/close", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, dropped(&id));
    assert_eq!(client.next().await, result(&close, json!({})));
}

#[tokio::test]
async fn v2_cancelled_turn_ends_idle_after_its_last_update() {
    for way in ["wait", "fail when cancelled", "panic when cancelled"] {
        let mut client = Client::v2_with_session().await;
        client.begun(way).await;
        if way == "wait" {
            assert_eq!(client.piece().await.0, "waiting");
        }
        client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
        if way == "wait" {
            assert_eq!(client.piece().await.0, "stopping");
        }
        assert_eq!(client.next().await, idle("cancelled"));
    }
}

#[tokio::test]
async fn answered_request_cannot_be_withdrawn_and_its_id_is_free() {
    let mut client = Client::v2_with_session().await;
    client.begun("wait").await;
    let request = |method: &str| {
        let params = r#"{"sessionId":"s1","prompt":[{"type":"text","text":"wait"}]}"#;
        crate::wire::encode::request(&RpcId::from_string("same"), method, params)
    };
    assert_eq!(client.piece().await.0, "waiting");
    client.peer.send(request("session/prompt")).await.unwrap();
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.piece().await.0, "stopping");
    assert_eq!(client.next().await, idle("cancelled"));
    // The second prompt was cancelled while it waited, and this service inserts it nevertheless.
    assert_eq!(client.next().await["id"], "same");
    let mut rest = Vec::new();
    while rest.last() != Some(&idle("cancelled")) {
        rest.push(client.next().await);
    }
    client.begun("wait").await;
    assert_eq!(client.piece().await.0, "waiting");
    client.notify("$/cancel_request", json!({ "requestId": "same" })).await;
    client.peer.send(request("_toy/never")).await.unwrap();
    client.notify("$/cancel_request", json!({ "requestId": "same" })).await;
    assert_eq!(client.next().await, dropped(&RpcId::from_string("same")));
}

#[tokio::test]
async fn v2_close_reply_follows_the_last_update_and_idle() {
    for method in ["session/close", "session/delete"] {
        let mut client = Client::v2_with_session().await;
        client.begun("wait").await;
        assert_eq!(client.piece().await.0, "waiting");
        let held = client.prompt("s1", "wait before it is inserted").await;
        let end = client.send(method, json!({ "sessionId": "s1" })).await;
        assert_eq!(client.piece().await.0, "stopping");
        assert_eq!(client.next().await, idle("cancelled"));
        assert_eq!(client.next().await, dropped(&held));
        assert_eq!(client.next().await, result(&end, json!({})));
        let late = client.prompt("s1", "hello").await;
        assert_eq!(client.next().await, not_found(&late, "s1"));
    }
}

#[tokio::test]
async fn resume_tells_the_state_after_any_replay_and_before_the_answer() {
    let mut client = Client::v2_with_session().await;
    let restore = |from: Value| json!({ "sessionId": "s1", "cwd": "/w", "replayFrom": from });
    let silent = client.send("session/resume", restore(json!(null))).await;
    assert_eq!(client.next().await, state("idle"));
    assert_eq!(client.next().await, result(&silent, json!({})));

    client.begun("wait").await;
    assert_eq!(client.piece().await.0, "waiting");
    let loud = client.send("session/resume", restore(json!({ "type": "start" }))).await;
    let whole = json!({ "sessionUpdate": "agent_message", "messageId": "m", "content": [] });
    assert_eq!(client.next().await, told(whole));
    assert_eq!(client.piece().await, ("one".into(), "m".into()));
    assert_eq!(client.piece().await, ("two".into(), "m".into()));
    assert_eq!(client.next().await, state("running"));
    assert_eq!(client.next().await, result(&loud, json!({})));
}

#[tokio::test]
async fn v2_permission_request_sets_requires_action() {
    let mut client = Client::v2_with_session().await;
    client.begun("ask").await;
    assert_eq!(client.next().await, state("requires_action"));
    let asked = client.next().await;
    let params = json!({
        "sessionId": "s1",
        "title": "Edit",
        "subject": { "type": "tool_call", "toolCall": { "toolCallId": "t1", "title": "Edit" } },
        "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }],
    });
    assert_eq!(asked, json!({ "id": asked["id"], "method": "session/request_permission", "params": params }));
    let id = RpcId::from_raw(&asked["id"].to_string()).unwrap();
    client.peer.respond(&id, r#"{"outcome":{"outcome":"selected","optionId":"yes"}}"#).await.unwrap();
    assert_eq!(client.next().await, state("running"));
    assert_eq!(client.piece().await.0, "yes");
    assert_eq!(client.next().await, idle("end_turn"));

    client.begun("ask").await;
    assert_eq!(client.next().await, state("requires_action"));
    let asked = client.next().await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    let withdrawn = json!({ "method": "$/cancel_request", "params": { "requestId": asked["id"] } });
    assert_eq!(client.next().await, withdrawn);
    assert_eq!(client.next().await, idle("cancelled"));
}

#[tokio::test]
async fn modes_are_an_option_that_can_be_set() {
    let mut client = Client::v2().await;
    client.call("session/new", json!({ "cwd": "/w" })).await;
    let new = client.call("session/new", json!({ "cwd": "/all" })).await;
    let options = &new["result"]["configOptions"];
    assert_eq!(new["result"]["sessionId"], "s2");
    assert_eq!(new["result"]["_meta"], json!({ "agentSessionId": "inner" }));
    let option = |name: &str| options[0][name].clone();
    let expected = (json!("acpx.mode"), json!("mode"), json!("ask"));
    assert_eq!((option("configId"), option("category"), option("currentValue")), expected);
    let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
    let params = json!({ "sessionId": "s2", "update": update });
    assert_eq!(client.next().await, json!({ "method": "session/update", "params": params }));

    let set = |option: &str, value: &str| json!({ "sessionId": "s2", "configId": option, "type": "id", "value": value });
    let done = client.call("session/set_config_option", set("acpx.mode", "ask")).await;
    assert_eq!(done, json!({ "result": { "configOptions": options } }));
    let unknown = client.call("session/set_config_option", set("acpx.mode", "fly")).await;
    assert_eq!(unknown["error"]["data"], wrong("value", "is unknown"));
    let other = client.call("session/set_config_option", set("colour", "red")).await;
    let problem = "is \"colour\", which this session does not have";
    assert_eq!(other["error"]["data"], wrong("configId", problem));
}

#[tokio::test]
async fn methods_absent_in_version_2_are_not_found() {
    let mut client = Client::v2_with_session().await;
    for method in ["session/load", "session/set_mode", "authenticate", "logout", "auth/login", "auth/logout"]
    {
        let data = json!({ "method": method, "details": format!("there is no method {method}") });
        let missing = json!({ "code": -32601, "message": "Method not found", "data": data });
        assert_eq!(client.call(method, json!({})).await, json!({ "error": missing }));
    }
}
