//! The state of a bridge, line by line.

use super::*;
use crate::client::bridge::profile::KEPT_BYTES;
use crate::wire::encode::{self, error_response, notification, request, response};

const CLIENT: &str = r#"{"agent":{"argv":["a"]},"seq":true}"#;
/// The capabilities of a client that requests all data of an error.
const WANTS: &str = r#"{"_meta":{"acpx":{"errorData":true}}}"#;

fn bridge() -> BridgeState {
    BridgeState { prefix: "p".to_owned(), ..BridgeState::new(BridgeProfile::local(CLIENT.to_owned())) }
}

fn message(line: &str) -> RpcMessage {
    RpcMessage::parse(line).unwrap()
}

fn id(number: u64) -> RpcId {
    RpcId::from_number(number)
}

fn to_host(line: impl Into<String>) -> LineRoute {
    LineRoute::ToHost(line.into())
}

fn to_client(line: impl Into<String>) -> LineRoute {
    LineRoute::ToClient(line.into())
}

impl BridgeState {
    fn asks(&mut self, number: u64, method: &str, params: &str) -> LineRoute {
        self.on_client_message(&message(&request(&id(number), method, params)))
    }

    fn is_answered(&mut self, number: u64, result: &str) {
        let line = response(&id(number), result);
        assert_eq!(self.on_host_message(&message(&line)), to_client(line));
    }

    /// The state of a client that has initialized and created the session `s`.
    fn with_session() -> Self {
        let mut bridge = bridge();
        bridge.asks(0, "initialize", r#"{"protocolVersion":1}"#);
        bridge.is_answered(0, r#"{"protocolVersion":1}"#);
        bridge.asks(1, "session/new", r#"{"cwd":"/w","mcpServers":[]}"#);
        bridge.is_answered(1, r#"{"sessionId":"s"}"#);
        bridge
    }

    fn hears_update(&mut self, seq: u64) -> LineRoute {
        self.on_host_message(&message(&update(seq)))
    }
}

fn update(seq: u64) -> String {
    let params =
        format!(r#"{{"sessionId":"s","update":{{"n":1.0}},"_meta":{{"acpx":{{"seq":{seq},"at":"t"}}}}}}"#);
    notification("session/update", &params)
}

fn resume(own: u64, from: &str) -> String {
    let params = format!(
        r#"{{"_meta":{{"acpx":{{"later":true,"replayFrom":{from}}}}},"sessionId":"s","cwd":"/w","mcpServers":[]}}"#
    );
    request(&RpcId::from_string(&format!("p-{own}")), "session/resume", &params)
}

/// The error of a request that no host has answered, as an editor receives it.
fn lost(method: &str) -> RpcError {
    let what = format!("the host went away before it answered {method}");
    let details = format!("{what}; try again: a new host is started, and everything stored is there");
    RpcError::internal(what).with_data(&serde_json::json!({ "details": details }).to_string())
}

fn from_seq(seq: u64) -> String {
    crate::acp::Cursor::json_from(crate::model::Seq(seq))
}

#[test]
fn initialize_carries_the_bridges_description_and_not_the_clients() {
    for (said, passed) in [
        (
            r#"{ "protocolVersion":1.0 }"#,
            r#"{"clientCapabilities":WANTS,"_meta":{"acpx":{"client":CLIENT}}, "protocolVersion":1.0 }"#,
        ),
        (
            r#"{"_meta":{"acpx":{"client":{"agent":7}}},"protocolVersion":2,"capabilities":{"a":1.0}}"#,
            r#"{"_meta":{"acpx":{"client":CLIENT}},"protocolVersion":2,"capabilities":{"_meta":{"acpx":{"errorData":true}},"a":1.0}}"#,
        ),
        ("7", "7"),
    ] {
        let expected =
            request(&id(0), "initialize", &passed.replace("CLIENT", CLIENT).replace("WANTS", WANTS));
        assert_eq!(bridge().asks(0, "initialize", said), to_host(expected), "{said}");
    }
}

#[test]
fn a_prompt_without_request_id_gets_one_and_others_pass_unchanged() {
    let mut bridge = bridge();
    let named =
        request(&id(0), "session/prompt", r#"{"_meta":{"acpx":{"requestId":"p-1"}},"sessionId":"s"}"#);
    assert_eq!(bridge.asks(0, "session/prompt", r#"{"sessionId":"s"}"#), to_host(named));
    let own = r#"{"_meta":{"acpx":{"requestId":"mine"}}, "prompt" : []}"#;
    assert_eq!(bridge.asks(1, "session/prompt", own), to_host(request(&id(1), "session/prompt", own)));
    let odd = r#"{"id":"x\u0041" ,"jsonrpc":"2.0","params": {"n":1e2},"more":[], "method":"session/list"}"#;
    assert_eq!(bridge.on_client_message(&message(odd)), to_host(odd));
    let accepted =
        |name: &str| notification("_acpx/accepted", &format!(r#"{{"turn":1,"requestId":"{name}"}}"#));
    assert_eq!(bridge.on_host_message(&message(&accepted("p-1"))), LineRoute::Nothing);
    assert_eq!(bridge.on_host_message(&message(&accepted("mine"))), to_client(accepted("mine")));
    // A prompt whose JSON-RPC id is in use is not kept; the bridge created its request id, so the client never sees it.
    bridge.asks(1, "session/prompt", r#"{"sessionId":"s"}"#);
    assert_eq!(bridge.on_host_message(&message(&accepted("p-2"))), LineRoute::Nothing);
}

#[test]
fn event_numbers_are_removed_unless_the_client_requested_them() {
    let mut quiet = BridgeState::with_session();
    let plain = notification("session/update", r#"{"sessionId":"s","update":{"n":1.0}}"#);
    assert_eq!(quiet.hears_update(7), to_client(plain));
    quiet.asks(2, "session/load", r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#);
    let with_time =
        notification("session/update", r#"{"sessionId":"s","update":{"n":1.0},"_meta":{"acpx":{"at":"t"}}}"#);
    assert_eq!(quiet.hears_update(1), to_client(with_time));
    let mut curious = bridge();
    curious.asks(0, "initialize", r#"{"_meta":{"acpx":{"seq":true}}}"#);
    assert_eq!(curious.hears_update(7), to_client(update(7)));
}

#[test]
fn new_host_gets_the_same_initialize_and_each_session_from_its_cursor() {
    let mut bridge = BridgeState::with_session();
    assert_eq!(bridge.on_host_exit(), [""; 0]);
    let params = format!(
        r#"{{"clientCapabilities":{WANTS},"_meta":{{"acpx":{{"client":{CLIENT}}}}},"protocolVersion":1}}"#
    );
    let greeting = request(&RpcId::from_string("p-1"), "initialize", &params);
    assert_eq!(bridge.greeting().as_deref(), Some(&*greeting));
    let answer = |own: u64| message(&response(&RpcId::from_string(&format!("p-{own}")), "{}"));
    assert!(bridge.has_own_pending());
    assert_eq!(bridge.on_host_message(&answer(1)), LineRoute::Own(BridgeRequest::Initialize, None));
    assert_eq!(bridge.resumes(), [resume(2, &from_seq(1))]);
    assert_eq!(
        bridge.on_host_message(&answer(2)),
        LineRoute::Own(BridgeRequest::Resume("s".to_owned()), None)
    );
    assert!(!bridge.has_own_pending());
    bridge.hears_update(7);
    bridge.on_host_exit();
    assert_eq!(bridge.resumes(), [resume(3, &from_seq(8))]);
    let error = r#"{"code":-32002,"message":"gone"}"#;
    let refusal = error_response(&RpcId::from_string("p-3"), &RpcError::read(error));
    assert_eq!(
        bridge.on_host_message(&message(&refusal)),
        LineRoute::Own(BridgeRequest::Resume("s".to_owned()), Some(error.into()))
    );
    bridge.remove_session("s");
    assert_eq!(bridge.resumes(), [""; 0]);
    assert_eq!(bridge.kept_bytes, 0);
}

#[test]
fn a_session_without_position_resumes_without_replay_and_a_closed_one_not() {
    let mut bridge = bridge();
    bridge.asks(0, "session/resume", r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#);
    bridge.is_answered(0, "{}");
    assert_eq!(bridge.resumes().len(), 1);
    assert!(bridge.resumes()[0].contains(r#""replayFrom":null"#));
    bridge.asks(1, "session/prompt", r#"{"sessionId":"s"}"#);
    bridge.is_answered(1, r#"{"stopReason":"end_turn","_meta":{"acpx":{"seq":9}}}"#);
    assert!(bridge.resumes()[0].contains(&from_seq(10)));
    bridge.asks(2, "session/close", r#"{"sessionId":"s"}"#);
    bridge.is_answered(2, "{}");
    assert_eq!(bridge.resumes(), [""; 0]);
}

#[test]
fn an_open_prompt_is_echoed_only_in_a_requested_replay() {
    let words = |name: &str, seq: &str| {
        let update = r#"{"sessionUpdate":"user_message_chunk"}"#;
        let meta = format!(r#"{{"acpx":{{{seq}"requestId":"{name}"}}}}"#);
        let params = format!(r#"{{"sessionId":"s","update":{update},"_meta":{meta}}}"#);
        notification("session/update", &params)
    };
    let mut bridge = BridgeState::with_session();
    bridge.asks(2, "session/prompt", r#"{"sessionId":"s"}"#);
    bridge.asks(3, "session/prompt", r#"{"sessionId":"s","_meta":{"acpx":{"requestId":"mine"}}}"#);
    bridge.on_host_exit();
    // Of several lines for one event, only the last carries its number.
    for own in [words("p-1", ""), words("p-1", r#""seq":7,"#), words("mine", r#""seq":9,"#)] {
        assert_eq!(bridge.on_host_message(&message(&own)), LineRoute::Nothing, "{own}");
    }
    assert_eq!(bridge.resumes(), [resume(3, &from_seq(10))]);
    let others = words("theirs", "");
    assert_eq!(bridge.on_host_message(&message(&others)), to_client(others));
    bridge.asks(4, "session/load", r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#);
    let replayed = words("mine", "");
    assert_eq!(bridge.on_host_message(&message(&replayed)), to_client(replayed));
}

#[test]
fn the_error_of_a_turn_advances_the_clients_position() {
    let mut bridge = BridgeState::with_session();
    bridge.asks(2, "session/prompt", r#"{"sessionId":"s"}"#);
    let error = RpcError::internal("no").with_data(r#"{"acpx":{"code":"INTERRUPTED","turn":{"seq":9}}}"#);
    let line = error_response(&id(2), &error);
    let told = error_response(&id(2), &RpcError::internal("no").with_data(r#"{"details":"no"}"#));
    assert_eq!(bridge.on_host_message(&message(&line)), to_client(told));
    assert_eq!(bridge.resumes(), [resume(2, &from_seq(10))]);
}

#[test]
fn error_data_is_removed_unless_the_client_requested_it() {
    let error = RpcError::internal("no").with_data(r#"{"acpx":{"code":"C","hint":"go on"}}"#);
    let short = RpcError::internal("no").with_data(r#"{"details":"no; go on"}"#);
    let state = |error: &RpcError| {
        let error = serde_json::to_string(error).unwrap();
        let update = format!(r#"{{"sessionUpdate":"state_update","state":"idle","error":{error}}}"#);
        notification("session/update", &format!(r#"{{"sessionId":"s","update":{update}}}"#))
    };
    let wants = format!(r#"{{"protocolVersion":1,"clientCapabilities":{WANTS}}}"#);
    for (params, told) in [(r#"{"protocolVersion":1}"#, &short), (&wants, &error)] {
        let mut bridge = bridge();
        bridge.asks(0, "initialize", params);
        bridge.asks(1, "session/list", "{}");
        let answer = bridge.on_host_message(&message(&error_response(&id(1), &error)));
        assert_eq!(answer, to_client(error_response(&id(1), told)));
        assert_eq!(bridge.on_host_message(&message(&state(&error))), to_client(state(told)));
    }
}

#[test]
fn open_requests_are_resent_in_order_with_their_cancellations() {
    let mut bridge = BridgeState::with_session();
    let LineRoute::ToHost(first) = bridge.asks(7, "session/prompt", r#"{"sessionId":"s"}"#) else { panic!() };
    let LineRoute::ToHost(second) = bridge.asks(5, "session/list", "{}") else { panic!() };
    let cancel = notification("session/cancel", r#"{"sessionId":"s"}"#);
    assert_eq!(bridge.on_client_message(&message(&cancel)), to_host(cancel.clone()));
    bridge.on_host_exit();
    let again = bridge.resent_requests();
    assert_eq!(again, [to_host(first), to_host(encode::cancel_request(&id(7))), to_host(second)]);
    bridge.is_answered(7, r#"{"stopReason":"cancelled"}"#);
    bridge.is_answered(5, "{}");
    bridge.on_host_exit();
    assert_eq!(bridge.resent_requests(), []);
}

#[test]
fn requests_that_cannot_be_repeated_fail_instead() {
    let mut bridge = bridge();
    bridge.asks(0, "session/new", "{}");
    bridge.asks(1, "_acpx/watch", "{}");
    let LineRoute::ToHost(rows) = bridge.asks(2, "session/list", "{}") else { panic!() };
    let unanswered = |number: u64, method: &str| to_client(error_response(&id(number), &lost(method)));
    bridge.on_host_exit();
    let again = [unanswered(0, "session/new"), unanswered(1, "_acpx/watch"), to_host(rows.clone())];
    assert_eq!(bridge.resent_requests(), again);
    bridge.on_host_exit();
    assert_eq!(bridge.resent_requests(), [to_host(rows)]);
    bridge.on_host_exit();
    assert_eq!(bridge.resent_requests(), [unanswered(2, "session/list")]);
    assert_eq!(bridge.kept_bytes, 0);
}

#[test]
fn an_interrupted_replay_resumes_after_the_last_delivered_event() {
    let mut bridge = BridgeState::with_session();
    bridge.hears_update(50);
    let params = r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#;
    bridge.asks(2, "session/load", params);
    bridge.on_host_exit();
    assert_eq!(bridge.resent_requests(), [to_host(request(&id(2), "session/load", params))]);
    bridge.hears_update(3);
    bridge.on_host_exit();
    let resume = format!(
        r#"{{"_meta":{{"acpx":{{"replayFrom":{}}}}},"sessionId":"s","cwd":"/w","mcpServers":[]}}"#,
        from_seq(4)
    );
    assert_eq!(bridge.resent_requests(), [to_host(request(&id(2), "session/resume", &resume))]);
}

#[test]
fn a_failed_load_keeps_the_clients_position() {
    let params = r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#;
    for replayed in [None, Some(3), Some(60)] {
        let mut bridge = BridgeState::with_session();
        bridge.hears_update(50);
        bridge.asks(2, "session/load", params);
        if let Some(seq) = replayed {
            bridge.hears_update(seq);
        }
        let error = RpcError::internal("withdrawn").with_data(r#"{"details":"withdrawn"}"#);
        let refusal = error_response(&id(2), &error);
        assert_eq!(bridge.on_host_message(&message(&refusal)), to_client(refusal));
        assert_eq!(bridge.resumes(), [resume(1, &from_seq(replayed.unwrap_or(0).max(50) + 1))]);
    }
    // A client that never had the session has no position in it.
    let mut stranger = bridge();
    stranger.asks(0, "session/load", params);
    stranger.hears_update(3);
    stranger.fail(&id(0), &RpcError::internal("no"));
    assert_eq!(stranger.delivered.len(), 0);
}

#[test]
fn requests_of_an_exited_host_are_withdrawn_and_late_answers_dropped() {
    let mut bridge = bridge();
    let question = request(&id(0), "session/request_permission", "{}");
    assert_eq!(bridge.on_host_message(&message(&question)), to_client(question.clone()));
    assert_eq!(bridge.on_host_exit(), [encode::cancel_request(&id(0))]);
    let known = RpcId::from_string("p-1");
    let renamed = request(&known, "session/request_permission", "{}");
    assert_eq!(bridge.on_host_message(&message(&question)), to_client(renamed));
    assert_eq!(bridge.on_client_message(&message(&response(&id(0), "{}"))), LineRoute::Nothing);
    let withdrawn = encode::cancel_request(&id(0));
    assert_eq!(bridge.on_host_message(&message(&withdrawn)), to_client(encode::cancel_request(&known)));
    // A withdrawn request is removed, whether or not the client ever answers.
    assert_eq!(bridge.agent_requests.len(), 0);
    assert_eq!(bridge.on_client_message(&message(&response(&known, "{}"))), LineRoute::Nothing);
}

#[test]
fn without_a_host_everything_open_is_answered_once() {
    let mut bridge = bridge();
    bridge.asks(1, "session/list", "{}");
    bridge.asks(0, "session/prompt", "{}");
    let error = RpcError::internal("no host").with_data(r#"{"details":"no host"}"#);
    assert_eq!(bridge.fail_all(&error), [error_response(&id(1), &error), error_response(&id(0), &error)]);
    assert_eq!(bridge.fail_all(&error), [""; 0]);
}

#[test]
fn a_request_over_the_byte_limit_is_forwarded_and_not_resent() {
    let mut bridge = bridge();
    bridge.kept_bytes = KEPT_BYTES;
    assert!(matches!(bridge.asks(0, "session/list", "{}"), LineRoute::ToHost(_)));
    bridge.on_host_exit();
    let lost = error_response(&id(0), &lost("session/list"));
    assert_eq!(bridge.resent_requests(), [to_client(lost)]);
    assert_eq!(bridge.kept_bytes, KEPT_BYTES);
}

#[test]
fn prompt_to_a_remote_acpx_host_has_a_request_id() {
    let hosts = r#"{"protocolVersion":1,"_meta":{"acpx":{"protocol":{"oldest":1,"newest":2}}}}"#;
    let named = r#"{"_meta":{"acpx":{"requestId":"p-1"}},"sessionId":"s"}"#;
    for (answer, is_host, prompt) in
        [(r#"{"protocolVersion":1,"_meta":{}}"#, false, r#"{"sessionId":"s"}"#), (hosts, true, named)]
    {
        let mut bridge =
            BridgeState { prefix: "p".to_owned(), ..BridgeState::new(BridgeProfile::remote_agent()) };
        let greeting = r#"{"_meta":{"acpx":{"states":true,"seq":true}},"protocolVersion":1}"#;
        let asked = bridge.asks(0, "initialize", r#"{"protocolVersion":1}"#);
        assert_eq!(asked, to_host(request(&id(0), "initialize", greeting)));
        assert!(!bridge.can_continue());
        bridge.is_answered(0, answer);
        assert_eq!(bridge.can_continue(), is_host);
        let asked = bridge.asks(1, "session/prompt", r#"{"sessionId":"s"}"#);
        assert_eq!(asked, to_host(request(&id(1), "session/prompt", prompt)));
    }
}

#[test]
fn a_remote_host_receives_the_state_of_foreign_turns_only() {
    let mut bridge = BridgeState::new(BridgeProfile::remote_agent());
    bridge.on_client_message(&message(&request(
        &id(1),
        "session/prompt",
        r#"{"_meta":{"acpx":{"requestId":"own"}},"sessionId":"s"}"#,
    )));
    let state = |of: &str| {
        let update = r#"{"sessionUpdate":"state_update","state":"running"}"#;
        let params =
            format!(r#"{{"sessionId":"s","update":{update},"_meta":{{"acpx":{{"requestId":"{of}"}}}}}}"#);
        notification(acpx_peer::STATE, &params)
    };
    assert_eq!(bridge.on_host_message(&message(&state("own"))), LineRoute::Nothing);
    assert_eq!(bridge.on_host_message(&message(&state("another"))), to_client(state("another")));
    // Only this bridge reports the state of its connection.
    for word in [acpx_peer::AWAY, acpx_peer::BACK] {
        assert_eq!(bridge.on_host_message(&message(&notification(word, "{}"))), LineRoute::Nothing);
    }
}

#[test]
fn prompt_to_a_remote_acpx_host_is_resent_without_limit() {
    let prompt = request(&id(1), "session/prompt", r#"{"_meta":{"acpx":{"requestId":"p"}},"sessionId":"s"}"#);
    let lost = error_response(&id(1), &for_client(rpc_error::unanswered("session/prompt"), true));
    for is_accepted in [true, false] {
        let mut bridge = BridgeState::new(BridgeProfile::remote_agent());
        bridge.on_client_message(&message(&prompt));
        if is_accepted {
            let accepted =
                r#"{"jsonrpc":"2.0","method":"_acpx/accepted","params":{"requestId":"p","turn":1}}"#;
            bridge.on_host_message(&message(accepted));
        }
        for _ in 1..MAX_HOSTS {
            bridge.on_host_exit();
            assert_eq!(bridge.resent_requests(), [to_host(&*prompt)]);
        }
        bridge.on_host_exit();
        let expected = if is_accepted { to_host(&*prompt) } else { to_client(&*lost) };
        assert_eq!(bridge.resent_requests(), [expected], "{is_accepted}");
    }
}
