//! The dispatcher as a client sees it: whole exchanges over an in-memory connection.

#![expect(
    clippy::needless_pass_by_value,
    reason = "values made in place read better than references to them"
)]

mod close;
mod disconnect;
mod malformed;
mod state_updates;
mod version_2;

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::acp::agent::{
    CallExtras, Cancellation, ExtensionCall, Feature, ListCall, Meta, Modes, NewCall, ParamProblem,
    PermissionOption, PermissionOptionKind, PermissionOutcome, PromptCall, PromptReply, RestoreCall,
    SessionPage, SessionSetup, SessionSummary, SetCall, SetChoice, ToolPermissionRequest, ToolReport,
    TurnLink, UpdateBody,
};
use crate::model::{AbsolutePath, AcpSessionId, AgentSessionId, StopReason, Timestamp};
use crate::wire::{RpcError, WireLimits, memory};

const GRACE: Duration = Duration::from_secs(5);

/// Creates sessions `s1`, `s2`, …; the prompt's text selects what the turn does.
#[derive(Default)]
struct Toy {
    begun: Mutex<u32>,
}

impl AgentService for Toy {
    async fn new_session(&self, call: NewCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        assert_ne!(call.cwd.as_str(), "/panic", "a handler may fail in ways nobody thought of");
        let number = {
            let mut begun = self.begun.lock().unwrap();
            *begun += 1;
            *begun
        };
        let mut setup = SessionSetup::new(session(&format!("s{number}")));
        if call.cwd.as_str() == "/all" {
            setup.agent_session = AgentSessionId::from_agent("inner");
            setup.modes = Some(Modes {
                current: "ask".into(),
                available: vec![crate::acp::agent::SessionMode { id: "ask".into(), name: "Ask".into() }],
            });
            setup.afterwards = vec![UpdateBody::current_mode("ask")];
        }
        Ok(setup)
    }

    async fn load_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        match call.session.as_str() {
            "never" => std::future::pending().await,
            "kept" => {
                for text in ["one", "two"] {
                    link.update(&call.session, &UpdateBody::agent_text(text)).await.unwrap();
                }
                Ok(SessionSetup::new(call.session))
            }
            _ => Err(CallError::UnknownSession(call.session)),
        }
    }

    async fn resume_session(&self, call: RestoreCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        if call.session.as_str() == "s1" {
            if call.replay_from.is_some() {
                for text in ["one", "two"] {
                    let update = UpdateBody::agent_text(text).in_message("m");
                    link.update(&call.session, &update).await.unwrap();
                }
            }
            return Ok(SessionSetup::new(call.session));
        }
        Err(CallError::PassedOn(RpcError::new(-31002, format!("Session {} is already open", call.session))))
    }

    async fn list_sessions(&self, call: ListCall) -> Result<SessionPage, CallError> {
        if call.cursor.is_some() {
            return Err(ParamProblem::new("cursor", "is unknown").into());
        }
        let row = SessionSummary {
            forwarded: None,
            session: session("kept"),
            cwd: AbsolutePath::new("/w").unwrap(),
            additional_directories: Vec::new(),
            title: Some("Kept".into()),
            updated_at: Some(Timestamp::from_millis(0).unwrap()),
            meta: Meta::new(),
        };
        Ok(SessionPage { sessions: vec![row], next_cursor: Some("more".into()), meta: Meta::new() })
    }

    async fn extension(&self, call: ExtensionCall, link: ClientLink) -> Result<String, CallError> {
        match call.method.as_str() {
            "_toy/echo" => {
                link.notify("_toy/heard", "{}").await.unwrap();
                Ok(format!(r#"{{"params":{}}}"#, call.params.as_deref().unwrap_or("null")))
            }
            "_toy/never" => std::future::pending().await,
            _ => Err(CallError::UnknownMethod(call.method)),
        }
    }

    async fn delete_session(&self, session: AcpSessionId, _: CallExtras) -> Result<Meta, CallError> {
        Err(CallError::UnknownSession(session))
    }

    async fn set(&self, call: SetCall, _: ClientLink) -> Result<String, CallError> {
        match &call.choice {
            SetChoice::Mode(mode) if mode == "ask" => Ok("{}".to_owned()),
            SetChoice::Mode(_) => Err(ParamProblem::new("modeId", "is unknown").into()),
            _ => Err(call.unknown_setting()),
        }
    }

    async fn prompt(
        &self,
        call: PromptCall,
        mut cancellation: Cancellation,
        link: TurnLink,
    ) -> Result<PromptReply, CallError> {
        if call.text == "fail before it is inserted" {
            return Err(CallError::NotStored { session: call.session, source: "broken".into() });
        }
        if call.text == "wait before it is inserted" {
            cancellation.requested().await;
            return Ok(StopReason::cancelled().into());
        }
        link.inserted(&format!("user {}", call.text), &Meta::new()).await;
        let say = async |text: &str| link.update(&call.session, &UpdateBody::agent_text(text)).await.unwrap();
        match call.text.as_str() {
            "wait" => {
                say("waiting").await;
                cancellation.requested().await;
                say("stopping").await;
                Ok(StopReason::cancelled().into())
            }
            "fail when cancelled" => {
                cancellation.requested().await;
                Err(CallError::NotStored { session: call.session, source: "torn".into() })
            }
            "fail with a turn when cancelled" => {
                cancellation.requested().await;
                let data = json!({ "acpx": { "code": "INTERRUPTED", "turn": { "turn": 3, "seq": 17 } } });
                let error = RpcError::new(RpcError::INTERNAL, "interrupted").with_data(&data.to_string());
                Err(CallError::PassedOn(error))
            }
            "panic" => panic!("a turn may fail in ways nobody thought of"),
            "panic when cancelled" => {
                cancellation.requested().await;
                panic!("a turn may fail in ways nobody thought of")
            }
            "ask when cancelled" => {
                cancellation.requested().await;
                let outcome = link.request_permission(&ask(&call.session), &mut cancellation).await;
                assert_eq!(outcome.unwrap(), PermissionOutcome::Cancelled);
                Ok(StopReason::cancelled().into())
            }
            "fail" => Err(CallError::NotStored { session: call.session, source: "broken".into() }),
            "ask" => {
                let outcome = link.request_permission(&ask(&call.session), &mut cancellation).await;
                match outcome.unwrap() {
                    PermissionOutcome::Selected(id) => say(&id).await,
                    PermissionOutcome::Cancelled => return Ok(StopReason::cancelled().into()),
                    PermissionOutcome::Unknown => say("unknown").await,
                }
                Ok(StopReason::new("end_turn").into())
            }
            text => {
                say(text).await;
                Ok(StopReason::new("end_turn").into())
            }
        }
    }
}

fn ask(session: &AcpSessionId) -> ToolPermissionRequest {
    let option =
        PermissionOption { id: "yes".into(), name: "Yes".into(), kind: PermissionOptionKind::AllowOnce };
    ToolPermissionRequest {
        session: session.clone(),
        tool_call: ToolReport::new("t1").title("Edit"),
        options: vec![option],
    }
}

fn offer() -> Offer {
    use Feature::{Close, Delete, List, Load, Modes, Resume};
    Offer::new("toy", "0.1", [Load, Resume, Close, Delete, List, Modes])
}

fn session(text: &str) -> AcpSessionId {
    AcpSessionId::new(text).unwrap()
}

/// A client that reads raw lines.
struct Client {
    peer: Peer,
    incoming: InboundStream,
    served: JoinHandle<()>,
}

impl Client {
    fn bare() -> Self {
        Self::of(Arc::new(Toy::default()))
    }

    fn of(service: Arc<impl AgentService>) -> Self {
        Self::offered(service, offer())
    }

    fn offered(service: Arc<impl AgentService>, offer: Offer) -> Self {
        let ((peer, incoming), (agent, requests)) = memory(WireLimits::default());
        let served = tokio::spawn(serve(agent, requests, service, offer, GRACE));
        Self { peer, incoming, served }
    }

    async fn initialized() -> Self {
        let mut client = Self::bare();
        client.call("initialize", json!({ "protocolVersion": 1 })).await;
        client
    }

    async fn with_session() -> Self {
        let mut client = Self::initialized().await;
        client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
        client
    }

    async fn send(&self, method: &str, params: Value) -> RpcId {
        self.peer.request(method, &params.to_string()).await.unwrap()
    }

    async fn notify(&self, method: &str, params: Value) {
        self.peer.notify(method, &params.to_string()).await.unwrap();
    }

    async fn prompt(&self, session: &str, text: &str) -> RpcId {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    async fn next(&mut self) -> Value {
        let inbound = self.incoming.recv().await.expect("the agent is there");
        let mut line: Value = serde_json::from_str(inbound.message().line()).unwrap();
        line.as_object_mut().unwrap().remove("jsonrpc");
        line
    }

    /// Sends a request and reads its reply, which must be the next line.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let mut answer = self.next().await;
        assert_eq!(answer["id"].to_string(), id.as_str());
        answer.as_object_mut().unwrap().remove("id");
        answer
    }
}

fn said(session: &str, text: &str) -> Value {
    let update =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    json!({ "method": "session/update", "params": { "sessionId": session, "update": update } })
}

fn result(id: &RpcId, result: Value) -> Value {
    json!({ "id": serde_json::from_str::<Value>(id.as_str()).unwrap(), "result": result })
}

fn failure(id: &RpcId, code: i64, message: &str, data: Value) -> Value {
    let id: Value = serde_json::from_str(id.as_str()).unwrap();
    json!({ "id": id, "error": { "code": code, "message": message, "data": data } })
}

/// The reply to a request about a session that does not exist.
fn not_found(id: &RpcId, session: &str) -> Value {
    failure(id, -32002, "Resource not found", not_found_data(session))
}

fn not_found_data(session: &str) -> Value {
    let details =
        format!("there is no session {session}; open one of the listed sessions, or begin a new one");
    json!({ "sessionId": session, "details": details })
}

/// The data of an error about a parameter.
fn wrong(field: &str, problem: &str) -> Value {
    let details = format!("Invalid params: {field} {problem}");
    json!({ "field": field, "problem": problem, "details": details })
}

#[tokio::test]
async fn nothing_comes_before_initialize() {
    let mut client = Client::bare();
    let early = client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let error = json!({
        "code": -32600,
        "message": "Invalid request: initialize comes first",
        "data": {
            "method": "session/new",
            "details": "session/new came before initialize; send initialize first",
        },
    });
    assert_eq!(early, json!({ "error": error }));
    let bad = client.call("initialize", json!({})).await;
    assert_eq!(bad["error"]["data"], wrong("protocolVersion", "is missing"));
    assert_eq!(client.call("session/list", json!({})).await["error"]["code"], -32600);
}

#[tokio::test]
async fn initialize_answers_version_1_and_what_is_offered_whatever_is_asked() {
    let answer = json!({ "result": {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": false, "audio": false, "embeddedContext": false },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "list": {}, "delete": {}, "resume": {}, "close": {} },
            "auth": {},
        },
        "authMethods": [],
        "agentInfo": { "name": "toy", "version": "0.1" },
    }});
    for version in [0, 1, 2, 999] {
        let mut client = Client::bare();
        assert_eq!(client.call("initialize", json!({ "protocolVersion": version })).await, answer);
    }
}

#[tokio::test]
async fn a_setup_tells_inner_id_and_modes_and_sends_the_rest_afterwards() {
    let mut client = Client::initialized().await;
    let plain = client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    assert_eq!(plain, json!({ "result": { "sessionId": "s1" } }));
    let full = client.call("session/new", json!({ "cwd": "/all", "mcpServers": [] })).await;
    let modes = json!({ "currentModeId": "ask", "availableModes": [{ "id": "ask", "name": "Ask" }] });
    let expected = json!({ "sessionId": "s2", "modes": modes, "_meta": { "agentSessionId": "inner" } });
    assert_eq!(full, json!({ "result": expected }));
    let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "ask" });
    let params = json!({ "sessionId": "s2", "update": update });
    assert_eq!(client.next().await, json!({ "method": "session/update", "params": params }));
}

#[tokio::test]
async fn load_is_answered_after_the_replay_with_an_object() {
    let mut client = Client::initialized().await;
    let params = json!({ "sessionId": "kept", "cwd": "/w", "mcpServers": [] });
    let id = client.send("session/load", params).await;
    assert_eq!(client.next().await, said("kept", "one"));
    assert_eq!(client.next().await, said("kept", "two"));
    assert_eq!(client.next().await, result(&id, json!({})));
    let id = client.prompt("kept", "go on").await;
    assert_eq!(client.next().await, said("kept", "go on"));
    assert_eq!(client.next().await, result(&id, json!({ "stopReason": "end_turn" })));
}

#[tokio::test]
async fn an_unknown_session_is_not_found_by_its_id() {
    let mut client = Client::initialized().await;
    let workspace = json!({ "sessionId": "x", "cwd": "/w", "mcpServers": [] });
    let prompt = json!({ "sessionId": "x", "prompt": [] });
    let mode = json!({ "sessionId": "x", "modeId": "ask" });
    let error = json!({ "code": -32002, "message": "Resource not found", "data": not_found_data("x") });
    let calls = [("session/load", workspace), ("session/prompt", prompt), ("session/set_mode", mode)];
    for (method, params) in calls {
        assert_eq!(client.call(method, params).await, json!({ "error": error }));
    }
}

#[tokio::test]
async fn extension_method_gets_raw_params_and_can_be_cancelled() {
    let mut client = Client::initialized().await;
    let echo = client.send("_toy/echo", json!({ "a": [1, null] })).await;
    assert_eq!(client.next().await, json!({ "method": "_toy/heard", "params": {} }));
    assert_eq!(client.next().await, result(&echo, json!({ "params": { "a": [1, null] } })));
    let never = client.send("_toy/never", json!({})).await;
    client
        .notify(
            "$/cancel_request",
            json!({ "requestId": serde_json::from_str::<Value>(never.as_str()).unwrap() }),
        )
        .await;
    let cancelled = client.next().await;
    assert_eq!(cancelled["error"]["code"], -32800);
    let data = json!({ "method": "_toy/x", "details": "there is no method _toy/x" });
    let missing = json!({ "code": -32601, "message": "Method not found", "data": data });
    assert_eq!(client.call("_toy/x", json!({})).await, json!({ "error": missing }));
}

#[tokio::test]
async fn closing_or_deleting_an_unknown_session_succeeds() {
    let mut client = Client::initialized().await;
    for method in ["session/close", "session/delete"] {
        assert_eq!(client.call(method, json!({ "sessionId": "x" })).await, json!({ "result": {} }));
    }
}

#[tokio::test]
async fn an_error_of_someone_else_is_passed_on_as_it_is() {
    let mut client = Client::initialized().await;
    let resumed = client.call("session/resume", json!({ "sessionId": "x", "cwd": "/w" })).await;
    assert_eq!(resumed, json!({ "error": { "code": -31002, "message": "Session x is already open" } }));
}

#[tokio::test]
async fn a_list_has_its_rows_and_its_cursor() {
    let mut client = Client::initialized().await;
    let row = json!({
        "sessionId": "kept",
        "cwd": "/w",
        "title": "Kept",
        "updatedAt": "1970-01-01T00:00:00.000Z",
    });
    let page = json!({ "result": { "sessions": [row], "nextCursor": "more" } });
    assert_eq!(client.call("session/list", json!({})).await, page);
    let refused = client.call("session/list", json!({ "cursor": "?" })).await;
    assert_eq!(refused["error"]["data"], wrong("cursor", "is unknown"));
}

#[tokio::test]
async fn cancel_sends_pending_updates_and_then_answers_cancelled() {
    let mut client = Client::with_session().await;
    let id = client.prompt("s1", "wait").await;
    assert_eq!(client.next().await, said("s1", "waiting"));
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, said("s1", "stopping"));
    assert_eq!(client.next().await, result(&id, json!({ "stopReason": "cancelled" })));
}

#[tokio::test]
async fn cancel_directly_after_its_prompt_is_not_lost() {
    let mut client = Client::with_session().await;
    let id = client.prompt("s1", "fail when cancelled").await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, result(&id, json!({ "stopReason": "cancelled" })));
    let id = client.prompt("s1", "fail").await;
    let expected =
        failure(&id, -32603, "Internal error", json!({ "details": "cannot store the session s1: broken" }));
    assert_eq!(client.next().await, expected);
}

#[tokio::test]
async fn a_cancelled_prompt_whose_turn_failed_says_where_its_client_goes_on() {
    let mut client = Client::with_session().await;
    let id = client.prompt("s1", "fail with a turn when cancelled").await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    let turn = json!({ "acpx": { "turn": 3, "seq": 17 } });
    assert_eq!(client.next().await, result(&id, json!({ "stopReason": "cancelled", "_meta": turn })));
}

#[tokio::test]
async fn cancelling_the_request_of_a_prompt_ends_its_turn_as_cancelled() {
    let mut client = Client::with_session().await;
    let id = client.prompt("s1", "wait").await;
    assert_eq!(client.next().await, said("s1", "waiting"));
    client.peer.cancel(&id);
    assert_eq!(client.next().await, said("s1", "stopping"));
    assert_eq!(client.next().await, result(&id, json!({ "stopReason": "cancelled" })));
}

#[tokio::test]
async fn a_cancelled_load_is_dropped_and_says_so() {
    let mut client = Client::initialized().await;
    let params = json!({ "sessionId": "never", "cwd": "/w", "mcpServers": [] });
    let id = client.send("session/load", params).await;
    client.peer.cancel(&id);
    let answer = client.next().await;
    assert_eq!(
        answer,
        json!({ "id": answer["id"], "error": { "code": -32800, "message": "request cancelled" } })
    );
    assert_eq!(answer["id"].to_string(), id.as_str());
}

#[tokio::test]
async fn prompts_that_are_sent_at_once_have_their_turns_in_order() {
    let mut client = Client::with_session().await;
    let first = client.prompt("s1", "wait").await;
    let second = client.prompt("s1", "second").await;
    let third = client.prompt("s1", "third").await;
    assert_eq!(client.next().await, said("s1", "waiting"));
    client.peer.cancel(&first);
    assert_eq!(client.next().await, said("s1", "stopping"));
    assert_eq!(client.next().await, result(&first, json!({ "stopReason": "cancelled" })));
    for (id, text) in [(second, "second"), (third, "third")] {
        assert_eq!(client.next().await, said("s1", text));
        assert_eq!(client.next().await, result(&id, json!({ "stopReason": "end_turn" })));
    }
}

#[tokio::test]
async fn a_cancel_stops_the_turn_that_runs_and_those_that_wait() {
    let mut client = Client::with_session().await;
    let ids = [client.prompt("s1", "wait").await, client.prompt("s1", "wait").await];
    assert_eq!(client.next().await, said("s1", "waiting"));
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, said("s1", "stopping"));
    assert_eq!(client.next().await, result(&ids[0], json!({ "stopReason": "cancelled" })));
    assert_eq!(client.next().await, said("s1", "waiting"));
    assert_eq!(client.next().await, said("s1", "stopping"));
    assert_eq!(client.next().await, result(&ids[1], json!({ "stopReason": "cancelled" })));
}

#[tokio::test]
async fn sessions_run_concurrently() {
    let mut client = Client::with_session().await;
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let waiting = client.prompt("s1", "wait").await;
    assert_eq!(client.next().await, said("s1", "waiting"));
    let other = client.prompt("s2", "hello").await;
    assert_eq!(client.next().await, said("s2", "hello"));
    assert_eq!(client.next().await, result(&other, json!({ "stopReason": "end_turn" })));
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, said("s1", "stopping"));
    assert_eq!(client.next().await, result(&waiting, json!({ "stopReason": "cancelled" })));
}

#[tokio::test]
async fn close_and_delete_reply_after_the_turn_they_end() {
    for method in ["session/close", "session/delete"] {
        let mut client = Client::with_session().await;
        let turn = client.prompt("s1", "wait").await;
        assert_eq!(client.next().await, said("s1", "waiting"));
        let ending = client.send(method, json!({ "sessionId": "s1" })).await;
        assert_eq!(client.next().await, said("s1", "stopping"));
        assert_eq!(client.next().await, result(&turn, json!({ "stopReason": "cancelled" })));
        assert_eq!(client.next().await, result(&ending, json!({})));
        let late = client.prompt("s1", "hello").await;
        assert_eq!(client.next().await, not_found(&late, "s1"));
    }
}

#[tokio::test]
async fn a_permission_is_asked_and_its_choice_comes_back() {
    let mut client = Client::with_session().await;
    let turn = client.prompt("s1", "ask").await;
    let asked = client.next().await;
    let params = json!({
        "sessionId": "s1",
        "toolCall": { "toolCallId": "t1", "title": "Edit" },
        "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }],
    });
    assert_eq!(asked, json!({ "id": asked["id"], "method": "session/request_permission", "params": params }));
    let id = RpcId::from_raw(&asked["id"].to_string()).unwrap();
    client.peer.respond(&id, r#"{"outcome":{"outcome":"selected","optionId":"yes"}}"#).await.unwrap();
    assert_eq!(client.next().await, said("s1", "yes"));
    assert_eq!(client.next().await, result(&turn, json!({ "stopReason": "end_turn" })));
}

#[tokio::test]
async fn an_open_permission_is_withdrawn_when_its_turn_is_cancelled() {
    let mut client = Client::with_session().await;
    let turn = client.prompt("s1", "ask").await;
    let asked = client.next().await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    let expected = json!({ "method": "$/cancel_request", "params": { "requestId": asked["id"] } });
    assert_eq!(client.next().await, expected);
    assert_eq!(client.next().await, result(&turn, json!({ "stopReason": "cancelled" })));
}

#[tokio::test]
async fn modes_are_set_on_active_sessions() {
    let mut client = Client::with_session().await;
    let known = client.call("session/set_mode", json!({ "sessionId": "s1", "modeId": "ask" })).await;
    assert_eq!(known, json!({ "result": {} }));
    let unknown = client.call("session/set_mode", json!({ "sessionId": "s1", "modeId": "fly" })).await;
    assert_eq!(unknown["error"]["message"], "Invalid params: modeId is unknown");
}

#[tokio::test]
async fn unknown_notifications_and_stray_answers_are_passed_over() {
    let mut client = Client::with_session().await;
    client.notify("session/cancel", json!({ "sessionId": "nobody" })).await;
    client.notify("session/cancel", json!([])).await;
    client.notify("$/cancel_request", json!({ "requestId": 4711 })).await;
    client.notify("_vendor/thing", json!({})).await;
    client.peer.respond(&RpcId::from_number(99), "{}").await.unwrap();
    let id = client.prompt("s1", "hello").await;
    assert_eq!(client.next().await, said("s1", "hello"));
    assert_eq!(client.next().await, result(&id, json!({ "stopReason": "end_turn" })));
}

#[tokio::test]
async fn a_handler_that_panics_still_answers_and_does_not_tell_why() {
    let mut client = Client::initialized().await;
    let answer = client.call("session/new", json!({ "cwd": "/panic", "mcpServers": [] })).await;
    let data = json!({ "details": "the handler of session/new has failed" });
    assert_eq!(answer, json!({ "error": { "code": -32603, "message": "Internal error", "data": data } }));
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let torn = client.prompt("s1", "panic").await;
    let data = json!({ "details": "the handler of session/prompt has failed" });
    assert_eq!(client.next().await, failure(&torn, -32603, "Internal error", data));
    let id = client.prompt("s1", "hello").await;
    assert_eq!(client.next().await, said("s1", "hello"));
    assert_eq!(client.next().await, result(&id, json!({ "stopReason": "end_turn" })));
}

#[tokio::test]
async fn turns_are_cancelled_and_answered_after_a_disconnect() {
    let mut client = Client::with_session().await;
    let turn = client.prompt("s1", "wait").await;
    assert_eq!(client.next().await, said("s1", "waiting"));
    client.peer.close().await.unwrap();
    assert_eq!(client.next().await, said("s1", "stopping"));
    assert_eq!(client.next().await, result(&turn, json!({ "stopReason": "cancelled" })));
    client.served.await.unwrap();
    assert!(client.incoming.recv().await.is_none());
}

#[tokio::test]
async fn turn_that_panics_after_a_cancel_counts_as_cancelled() {
    let mut client = Client::with_session().await;
    let cancelled = client.prompt("s1", "panic when cancelled").await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, result(&cancelled, json!({ "stopReason": "cancelled" })));
    let withdrawn = client.prompt("s1", "panic when cancelled").await;
    client.peer.cancel(&withdrawn);
    assert_eq!(client.next().await, result(&withdrawn, json!({ "stopReason": "cancelled" })));
    let closed = client.prompt("s1", "panic when cancelled").await;
    let close = client.send("session/close", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await, result(&closed, json!({ "stopReason": "cancelled" })));
    assert_eq!(client.next().await, result(&close, json!({})));
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let left = client.prompt("s2", "panic when cancelled").await;
    client.peer.close().await.unwrap();
    assert_eq!(client.next().await, result(&left, json!({ "stopReason": "cancelled" })));
    client.served.await.unwrap();
    assert!(client.incoming.recv().await.is_none());
}

#[tokio::test]
async fn disconnected_client_gets_replies_but_no_requests() {
    let mut client = Client::with_session().await;
    let asking = client.prompt("s1", "ask when cancelled").await;
    let unknown = client.prompt("nobody", "hello").await;
    client.peer.close().await.unwrap();
    let answers = [client.next().await, client.next().await];
    assert!(answers.contains(&not_found(&unknown, "nobody")));
    assert!(answers.contains(&result(&asking, json!({ "stopReason": "cancelled" }))));
    client.served.await.unwrap();
    assert!(client.incoming.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_end_is_dropped_after_the_grace() {
    let client = Client::initialized().await;
    let params = json!({ "sessionId": "never", "cwd": "/w", "mcpServers": [] });
    client.send("session/load", params).await;
    client.peer.close().await.unwrap();
    client.served.await.unwrap();
}
