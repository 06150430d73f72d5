//! A service that queues prompts and sends states itself, chooses its offer, and forwards permission requests.

use tokio::sync::Semaphore;

use super::*;
use crate::acp::agent::{ClientFacts, ClientRequestError, LoginCall};

/// Inserts prompts as they arrive, and ends their turns only through the gate.
struct Switchboard {
    gate: Semaphore,
    inserted: Mutex<Vec<String>>,
    /// The sessions whose turns were cancelled through `cancel_turns`.
    stopped: Mutex<Vec<AcpSessionId>>,
}

impl Switchboard {
    fn new() -> Arc<Self> {
        Arc::new(Self { gate: Semaphore::new(0), inserted: Mutex::default(), stopped: Mutex::default() })
    }
}

impl AgentService for Switchboard {
    async fn offer(&self, client: &ClientFacts, base_offer: Offer) -> Result<Offer, CallError> {
        if client.name.as_deref() == Some("stranger") {
            return Err(CallError::PassedOn(RpcError::new(-32000, "who are you?")));
        }
        let version = client.protocol;
        let behind = json!({ "protocolVersion": version.number(), "authMethods": [{ "methodId": "key" }] });
        Ok(base_offer.on_behalf_of(&behind.to_string(), version))
    }

    async fn new_session(&self, call: NewCall, link: ClientLink) -> Result<SessionSetup, CallError> {
        let mut setup = SessionSetup::new(session("s1"));
        let modes = if link.client().protocol == ProtocolVersion::V1 {
            r#""modes":{"n":1.0e2}"#
        } else {
            r#""availableCommands":[7]"#
        };
        setup.forwarded = Some(format!(r#"{{{modes},"configOptions":[{{"n":1.50}}]}}"#));
        if call.cwd.as_str() == "/ask" {
            let answer = link.ask("elicitation/create", r#"{"message":"?"}"#).await;
            setup.meta.insert(
                "answer".into(),
                match answer {
                    Ok(answer) => serde_json::from_str(&answer).unwrap(),
                    Err(ClientRequestError::Refused(error)) => json!(error.code),
                    Err(other) => json!(other.to_string()),
                },
            );
        }
        Ok(setup)
    }

    async fn prompt(
        &self,
        call: PromptCall,
        mut cancellation: Cancellation,
        link: TurnLink,
    ) -> Result<PromptReply, CallError> {
        if call.text == "ask" {
            tokio::select! {
                _ = cancellation.requested() => {}
                _ = link.ask("elicitation/create", "{}") => {}
            }
            return Ok(StopReason::cancelled().into());
        }
        let meta = Meta::from_iter([("turn".to_owned(), json!(1))]);
        if call.text == "queue" {
            link.queued();
            self.gate.acquire().await.unwrap().forget();
        }
        link.inserted(&call.text, &meta).await;
        link.inserted("twice", &meta).await;
        self.inserted.lock().unwrap().push(call.text.clone());
        self.gate.acquire().await.unwrap().forget();
        Ok(StopReason::new("end_turn").into())
    }

    async fn login(&self, call: LoginCall, _: RpcId, _: ClientLink) -> Result<(), CallError> {
        if call.method == "key" { Ok(()) } else { Err(ParamProblem::new("methodId", "is unknown").into()) }
    }

    async fn logout(&self, _: CallExtras) -> Result<(), CallError> {
        Ok(())
    }

    async fn cancel_turns(&self, session: AcpSessionId, _: CallExtras, _: ClientLink) {
        self.stopped.lock().unwrap().push(session);
    }

    async fn set(&self, call: SetCall, _: ClientLink) -> Result<String, CallError> {
        Ok(call.params.into())
    }
}

impl Client {
    async fn of_switchboard(version: u16) -> (Self, Arc<Switchboard>) {
        let service = Switchboard::new();
        let features = [Feature::ConfigOptions, Feature::Logout];
        let offer = Offer::new("board", "1", features).up_to(ProtocolVersion::V2).sends_states();
        let mut client = Self::offered(Arc::clone(&service), offer);
        let info = json!({ "name": "client", "version": "1" });
        let answer = client.call("initialize", json!({ "protocolVersion": version, "info": info })).await;
        assert_eq!(answer["result"]["authMethods"], json!([{ "methodId": "key" }]));
        (client, service)
    }
}

#[tokio::test]
async fn an_offer_can_be_refused_and_asked_for_again() {
    let offer = Offer::new("board", "1", []).up_to(ProtocolVersion::V2);
    let mut client = Client::offered(Switchboard::new(), offer);
    let hello = |name: &str| json!({ "protocolVersion": 2, "info": { "name": name, "version": "1" } });
    let refused = client.call("initialize", hello("stranger")).await;
    assert_eq!(refused, json!({ "error": { "code": -32000, "message": "who are you?" } }));
    assert_eq!(client.call("session/new", json!({ "cwd": "/w" })).await["error"]["code"], -32600);
    assert_eq!(client.call("initialize", hello("friend")).await["result"]["protocolVersion"], 2);
}

#[tokio::test]
async fn queued_prompts_start_after_the_previous_insertion() {
    let (mut client, service) = Client::of_switchboard(2).await;
    client.call("session/new", json!({ "cwd": "/w" })).await;
    for text in ["one", "two", "three"] {
        let id = client.prompt("s1", text).await;
        let answer = json!({ "messageId": text, "_meta": { "turn": 1 } });
        assert_eq!(client.next().await, result(&id, answer));
    }
    assert_eq!(*service.inserted.lock().unwrap(), ["one", "two", "three"]);
    let resumed = client.send("session/close", json!({ "sessionId": "s1" })).await;
    service.gate.add_permits(3);
    assert_eq!(client.next().await, result(&resumed, json!({})));
}

#[tokio::test]
async fn in_version_1_such_prompts_are_answered_as_their_turns_end() {
    let (mut client, service) = Client::of_switchboard(1).await;
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let ids = [client.prompt("s1", "one").await, client.prompt("s1", "two").await];
    service.gate.add_permits(2);
    let mut answers = [client.next().await, client.next().await];
    answers.sort_by_key(|answer| answer["id"].to_string());
    assert_eq!(answers, ids.each_ref().map(|id| result(id, json!({ "stopReason": "end_turn" }))));
    assert_eq!(*service.inserted.lock().unwrap(), ["one", "two"]);
}

#[tokio::test]
async fn session_offer_is_forwarded_in_the_members_of_its_version() {
    let table = [
        (1, json!({ "sessionId": "s1", "modes": { "n": 1.0e2 }, "configOptions": [{ "n": 1.50 }] })),
        (2, json!({ "sessionId": "s1", "configOptions": [{ "n": 1.50 }], "availableCommands": [7] })),
    ];
    for (version, expected) in table {
        let (mut client, _) = Client::of_switchboard(version).await;
        let new = client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
        assert_eq!(new, json!({ "result": expected }));
    }
}

#[tokio::test]
async fn login_logout_and_options_have_the_methods_of_their_version() {
    let table = [(1, ["authenticate", "logout"]), (2, ["auth/login", "auth/logout"])];
    for (version, [login, logout]) in table {
        let (mut client, _) = Client::of_switchboard(version).await;
        assert_eq!(client.call(login, json!({ "methodId": "key" })).await, json!({ "result": {} }));
        let unknown = client.call(login, json!({ "methodId": "x" })).await;
        assert_eq!(unknown["error"]["data"], wrong("methodId", "is unknown"));
        assert_eq!(client.call(logout, json!({})).await, json!({ "result": {} }));
        client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
        let set = json!({ "sessionId": "s1", "configId": "c", "type": "boolean", "value": true, "x": 1 });
        let answer = client.call("session/set_config_option", set.clone()).await;
        assert_eq!(answer, json!({ "result": set }));
        let elsewhere = json!({ "sessionId": "s9", "configId": "c", "type": "boolean", "value": true });
        let unknown = client.call("session/set_config_option", elsewhere).await;
        assert_eq!(unknown["error"]["data"], not_found_data("s9"));
    }
}

#[tokio::test]
async fn elicitation_and_its_response_are_forwarded_unchanged() {
    let (mut client, _) = Client::of_switchboard(2).await;
    for (is_error, expected) in [(false, json!({ "action": "decline" })), (true, json!(-32601))] {
        let id = client.send("session/new", json!({ "cwd": "/ask" })).await;
        let asked = client.next().await;
        let question =
            json!({ "id": asked["id"], "method": "elicitation/create", "params": { "message": "?" } });
        assert_eq!(asked, question);
        let request = RpcId::from_raw(&asked["id"].to_string()).unwrap();
        if is_error {
            client.peer.respond_error(&request, &RpcError::method_not_found("x")).await.unwrap();
        } else {
            client.peer.respond(&request, r#"{"action":"decline"}"#).await.unwrap();
        }
        let answer = client.next().await;
        assert_eq!(answer["id"].to_string(), id.as_str());
        assert_eq!(answer["result"]["_meta"], json!({ "answer": expected }));
    }
}

#[tokio::test]
async fn elicitation_of_a_cancelled_turn_is_withdrawn() {
    let (mut client, _) = Client::of_switchboard(1).await;
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let turn = client.prompt("s1", "ask").await;
    let asked = client.next().await;
    assert_eq!(asked["method"], "elicitation/create");
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    let withdrawn = json!({ "method": "$/cancel_request", "params": { "requestId": asked["id"] } });
    assert_eq!(client.next().await, withdrawn);
    assert_eq!(client.next().await, result(&turn, json!({ "stopReason": "cancelled" })));
}

#[tokio::test]
async fn a_prompt_comes_as_soon_as_the_one_before_is_queued() {
    let (mut client, service) = Client::of_switchboard(2).await;
    client.call("session/new", json!({ "cwd": "/w" })).await;
    let waits = client.prompt("s1", "queue").await;
    let id = client.prompt("s1", "next").await;
    assert_eq!(client.next().await, result(&id, json!({ "messageId": "next", "_meta": { "turn": 1 } })));
    service.gate.add_permits(3);
    assert_eq!(client.next().await, result(&waits, json!({ "messageId": "queue", "_meta": { "turn": 1 } })));
}

#[tokio::test]
async fn session_cancel_signals_the_turns_of_its_connection_and_reaches_the_service() {
    let (mut client, service) = Client::of_switchboard(2).await;
    client.call("session/new", json!({ "cwd": "/w" })).await;
    let turn = client.prompt("s1", "ask").await;
    client.next().await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    assert_eq!(client.next().await["method"], "$/cancel_request");
    let answer = client.next().await;
    assert_eq!((answer["id"].to_string(), &answer["error"]["code"]), (turn.to_string(), &json!(-32800)));
    client.notify("session/cancel", json!({ "sessionId": "unknown" })).await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    while service.stopped.lock().unwrap().len() < 2 {
        client.call("session/set_config_option", json!({})).await;
    }
    assert_eq!(*service.stopped.lock().unwrap(), [session("s1"), session("s1")]);
}
