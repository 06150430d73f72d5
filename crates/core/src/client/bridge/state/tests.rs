//! The state of a bridge, line by line.

use super::*;
use crate::client::bridge::profile::KEPT_BYTES;
use crate::wire::encode::{error_response, notification, request, response};

const CLIENT: &str = r#"{"agent":{"argv":["a"]},"seq":true}"#;
/// The capabilities of a client that requests all data of an error.
const WANTS: &str = r#"{"_meta":{"acpx":{"errorData":true}}}"#;

fn memory() -> BridgeState {
    BridgeState { prefix: "p".to_owned(), ..BridgeState::new(BridgeProfile::near(CLIENT.to_owned())) }
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
        self.client_says(&message(&request(&id(number), method, params)))
    }

    fn is_answered(&mut self, number: u64, result: &str) {
        let line = response(&id(number), result);
        assert_eq!(self.host_says(&message(&line)), to_client(line));
    }

    /// The state of a client that has initialized and created the session `s`.
    fn with_session() -> Self {
        let mut memory = memory();
        memory.asks(0, "initialize", r#"{"protocolVersion":1}"#);
        memory.is_answered(0, r#"{"protocolVersion":1}"#);
        memory.asks(1, "session/new", r#"{"cwd":"/w","mcpServers":[]}"#);
        memory.is_answered(1, r#"{"sessionId":"s"}"#);
        memory
    }

    fn hears_update(&mut self, seq: u64) -> LineRoute {
        self.host_says(&message(&update(seq)))
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
fn an_initialize_says_what_the_bridge_knows_of_its_client_and_not_what_the_client_says_there() {
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
        assert_eq!(memory().asks(0, "initialize", said), to_host(expected), "{said}");
    }
}

#[test]
fn a_prompt_gets_a_name_unless_it_has_one_and_everything_else_passes_as_it_came() {
    let mut memory = memory();
    let named =
        request(&id(0), "session/prompt", r#"{"_meta":{"acpx":{"requestId":"p-1"}},"sessionId":"s"}"#);
    assert_eq!(memory.asks(0, "session/prompt", r#"{"sessionId":"s"}"#), to_host(named));
    let own = r#"{"_meta":{"acpx":{"requestId":"mine"}}, "prompt" : []}"#;
    assert_eq!(memory.asks(1, "session/prompt", own), to_host(request(&id(1), "session/prompt", own)));
    let odd = r#"{"id":"x\u0041" ,"jsonrpc":"2.0","params": {"n":1e2},"more":[], "method":"session/list"}"#;
    assert_eq!(memory.client_says(&message(odd)), to_host(odd));
    let accepted =
        |name: &str| notification("_acpx/accepted", &format!(r#"{{"turn":1,"requestId":"{name}"}}"#));
    assert_eq!(memory.host_says(&message(&accepted("p-1"))), LineRoute::Nothing);
    assert_eq!(memory.host_says(&message(&accepted("mine"))), to_client(accepted("mine")));
    // A prompt whose JSON-RPC id is in use is not kept; the bridge created its request id, so the client never sees it.
    memory.asks(1, "session/prompt", r#"{"sessionId":"s"}"#);
    assert_eq!(memory.host_says(&message(&accepted("p-2"))), LineRoute::Nothing);
}

#[test]
fn the_number_of_an_event_is_for_the_bridge_unless_its_client_asked_for_it() {
    let mut quiet = BridgeState::with_session();
    let plain = notification("session/update", r#"{"sessionId":"s","update":{"n":1.0}}"#);
    assert_eq!(quiet.hears_update(7), to_client(plain));
    quiet.asks(2, "session/load", r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#);
    let with_time =
        notification("session/update", r#"{"sessionId":"s","update":{"n":1.0},"_meta":{"acpx":{"at":"t"}}}"#);
    assert_eq!(quiet.hears_update(1), to_client(with_time));
    let mut curious = memory();
    curious.asks(0, "initialize", r#"{"_meta":{"acpx":{"seq":true}}}"#);
    assert_eq!(curious.hears_update(7), to_client(update(7)));
}

#[test]
fn another_host_is_greeted_alike_and_given_every_session_from_where_its_client_left_off() {
    let mut memory = BridgeState::with_session();
    assert_eq!(memory.host_is_gone(), [""; 0]);
    let params = format!(
        r#"{{"clientCapabilities":{WANTS},"_meta":{{"acpx":{{"client":{CLIENT}}}}},"protocolVersion":1}}"#
    );
    let greeting = request(&RpcId::from_string("p-1"), "initialize", &params);
    assert_eq!(memory.greeting().as_deref(), Some(&*greeting));
    let answer = |own: u64| message(&response(&RpcId::from_string(&format!("p-{own}")), "{}"));
    assert!(memory.awaits());
    assert_eq!(memory.host_says(&answer(1)), LineRoute::Own(BridgeRequest::Initialize, None));
    assert_eq!(memory.resumes(), [resume(2, &from_seq(1))]);
    assert_eq!(memory.host_says(&answer(2)), LineRoute::Own(BridgeRequest::Resume("s".to_owned()), None));
    assert!(!memory.awaits());
    memory.hears_update(7);
    memory.host_is_gone();
    assert_eq!(memory.resumes(), [resume(3, &from_seq(8))]);
    let error = r#"{"code":-32002,"message":"gone"}"#;
    let refusal = error_response(&RpcId::from_string("p-3"), &RpcError::read(error));
    assert_eq!(
        memory.host_says(&message(&refusal)),
        LineRoute::Own(BridgeRequest::Resume("s".to_owned()), Some(error.into()))
    );
    memory.forget_session("s");
    assert_eq!(memory.resumes(), [""; 0]);
    assert_eq!(memory.kept_bytes, 0);
}

#[test]
fn a_session_of_which_nothing_is_known_is_taken_up_in_silence_and_one_that_was_closed_is_not() {
    let mut memory = memory();
    memory.asks(0, "session/resume", r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#);
    memory.is_answered(0, "{}");
    assert_eq!(memory.resumes().len(), 1);
    assert!(memory.resumes()[0].contains(r#""replayFrom":null"#));
    memory.asks(1, "session/prompt", r#"{"sessionId":"s"}"#);
    memory.is_answered(1, r#"{"stopReason":"end_turn","_meta":{"acpx":{"seq":9}}}"#);
    assert!(memory.resumes()[0].contains(&from_seq(10)));
    memory.asks(2, "session/close", r#"{"sessionId":"s"}"#);
    memory.is_answered(2, "{}");
    assert_eq!(memory.resumes(), [""; 0]);
}

#[test]
fn the_words_of_an_open_prompt_are_told_to_its_client_only_in_a_replay_that_it_asks_for() {
    let words = |name: &str, seq: &str| {
        let update = r#"{"sessionUpdate":"user_message_chunk"}"#;
        let meta = format!(r#"{{"acpx":{{{seq}"requestId":"{name}"}}}}"#);
        let params = format!(r#"{{"sessionId":"s","update":{update},"_meta":{meta}}}"#);
        notification("session/update", &params)
    };
    let mut memory = BridgeState::with_session();
    memory.asks(2, "session/prompt", r#"{"sessionId":"s"}"#);
    memory.asks(3, "session/prompt", r#"{"sessionId":"s","_meta":{"acpx":{"requestId":"mine"}}}"#);
    memory.host_is_gone();
    // Of several lines for one event, only the last carries its number.
    for own in [words("p-1", ""), words("p-1", r#""seq":7,"#), words("mine", r#""seq":9,"#)] {
        assert_eq!(memory.host_says(&message(&own)), LineRoute::Nothing, "{own}");
    }
    assert_eq!(memory.resumes(), [resume(3, &from_seq(10))]);
    let others = words("theirs", "");
    assert_eq!(memory.host_says(&message(&others)), to_client(others));
    memory.asks(4, "session/load", r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#);
    let replayed = words("mine", "");
    assert_eq!(memory.host_says(&message(&replayed)), to_client(replayed));
}

#[test]
fn whoever_hears_that_a_turn_failed_knows_what_happened_until_then() {
    let mut memory = BridgeState::with_session();
    memory.asks(2, "session/prompt", r#"{"sessionId":"s"}"#);
    let error = RpcError::internal("no").with_data(r#"{"acpx":{"code":"INTERRUPTED","turn":{"seq":9}}}"#);
    let line = error_response(&id(2), &error);
    let told = error_response(&id(2), &RpcError::internal("no").with_data(r#"{"details":"no"}"#));
    assert_eq!(memory.host_says(&message(&line)), to_client(told));
    assert_eq!(memory.resumes(), [resume(2, &from_seq(10))]);
}

#[test]
fn the_data_of_an_error_is_for_the_bridge_unless_its_client_wants_it() {
    let error = RpcError::internal("no").with_data(r#"{"acpx":{"code":"C","hint":"go on"}}"#);
    let short = RpcError::internal("no").with_data(r#"{"details":"no; go on"}"#);
    let state = |error: &RpcError| {
        let error = serde_json::to_string(error).unwrap();
        let update = format!(r#"{{"sessionUpdate":"state_update","state":"idle","error":{error}}}"#);
        notification("session/update", &format!(r#"{{"sessionId":"s","update":{update}}}"#))
    };
    let wants = format!(r#"{{"protocolVersion":1,"clientCapabilities":{WANTS}}}"#);
    for (params, told) in [(r#"{"protocolVersion":1}"#, &short), (&wants, &error)] {
        let mut memory = memory();
        memory.asks(0, "initialize", params);
        memory.asks(1, "session/list", "{}");
        let answer = memory.host_says(&message(&error_response(&id(1), &error)));
        assert_eq!(answer, to_client(error_response(&id(1), told)));
        assert_eq!(memory.host_says(&message(&state(&error))), to_client(state(told)));
    }
}

#[test]
fn what_is_open_is_asked_again_in_order_and_what_was_cancelled_is_cancelled_again() {
    let mut memory = BridgeState::with_session();
    let LineRoute::ToHost(first) = memory.asks(7, "session/prompt", r#"{"sessionId":"s"}"#) else { panic!() };
    let LineRoute::ToHost(second) = memory.asks(5, "session/list", "{}") else { panic!() };
    let cancel = notification("session/cancel", r#"{"sessionId":"s"}"#);
    assert_eq!(memory.client_says(&message(&cancel)), to_host(cancel.clone()));
    memory.host_is_gone();
    let again = memory.asked_again();
    assert_eq!(again, [to_host(first), to_host(edits::withdrawal(&id(7))), to_host(second)]);
    memory.is_answered(7, r#"{"stopReason":"cancelled"}"#);
    memory.is_answered(5, "{}");
    memory.host_is_gone();
    assert_eq!(memory.asked_again(), []);
}

#[test]
fn what_would_be_done_twice_or_ends_every_host_is_answered_instead() {
    let mut memory = memory();
    memory.asks(0, "session/new", "{}");
    memory.asks(1, "_acpx/watch", "{}");
    let LineRoute::ToHost(rows) = memory.asks(2, "session/list", "{}") else { panic!() };
    let unanswered = |number: u64, method: &str| to_client(error_response(&id(number), &lost(method)));
    memory.host_is_gone();
    let again = [unanswered(0, "session/new"), unanswered(1, "_acpx/watch"), to_host(rows.clone())];
    assert_eq!(memory.asked_again(), again);
    memory.host_is_gone();
    assert_eq!(memory.asked_again(), [to_host(rows)]);
    memory.host_is_gone();
    assert_eq!(memory.asked_again(), [unanswered(2, "session/list")]);
    assert_eq!(memory.kept_bytes, 0);
}

#[test]
fn a_load_whose_replay_had_begun_goes_on_after_what_was_told_of_it() {
    let mut memory = BridgeState::with_session();
    memory.hears_update(50);
    let params = r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#;
    memory.asks(2, "session/load", params);
    memory.host_is_gone();
    assert_eq!(memory.asked_again(), [to_host(request(&id(2), "session/load", params))]);
    memory.hears_update(3);
    memory.host_is_gone();
    let resume = format!(
        r#"{{"_meta":{{"acpx":{{"replayFrom":{}}}}},"sessionId":"s","cwd":"/w","mcpServers":[]}}"#,
        from_seq(4)
    );
    assert_eq!(memory.asked_again(), [to_host(request(&id(2), "session/resume", &resume))]);
}

#[test]
fn a_load_that_fails_leaves_its_client_where_it_was() {
    let params = r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#;
    for replayed in [None, Some(3), Some(60)] {
        let mut memory = BridgeState::with_session();
        memory.hears_update(50);
        memory.asks(2, "session/load", params);
        if let Some(seq) = replayed {
            memory.hears_update(seq);
        }
        let error = RpcError::internal("withdrawn").with_data(r#"{"details":"withdrawn"}"#);
        let refusal = error_response(&id(2), &error);
        assert_eq!(memory.host_says(&message(&refusal)), to_client(refusal));
        assert_eq!(memory.resumes(), [resume(1, &from_seq(replayed.unwrap_or(0).max(50) + 1))]);
    }
    // A client that never had the session has no position in it.
    let mut stranger = memory();
    stranger.asks(0, "session/load", params);
    stranger.hears_update(3);
    stranger.refuse(&id(0), &RpcError::internal("no"));
    assert_eq!(stranger.told.len(), 0);
}

#[test]
fn a_question_of_a_host_that_is_gone_is_withdrawn_and_its_late_answer_reaches_nobody() {
    let mut memory = memory();
    let question = request(&id(0), "session/request_permission", "{}");
    assert_eq!(memory.host_says(&message(&question)), to_client(question.clone()));
    assert_eq!(memory.host_is_gone(), [edits::withdrawal(&id(0))]);
    let known = RpcId::from_string("p-1");
    let renamed = request(&known, "session/request_permission", "{}");
    assert_eq!(memory.host_says(&message(&question)), to_client(renamed));
    assert_eq!(memory.client_says(&message(&response(&id(0), "{}"))), LineRoute::Nothing);
    let withdrawn = edits::withdrawal(&id(0));
    assert_eq!(memory.host_says(&message(&withdrawn)), to_client(edits::withdrawal(&known)));
    // A withdrawn request is removed, whether or not the client ever answers.
    assert_eq!(memory.questions.len(), 0);
    assert_eq!(memory.client_says(&message(&response(&known, "{}"))), LineRoute::Nothing);
}

#[test]
fn without_a_host_everything_open_is_answered_once() {
    let mut memory = memory();
    memory.asks(1, "session/list", "{}");
    memory.asks(0, "session/prompt", "{}");
    let error = RpcError::internal("no host").with_data(r#"{"details":"no host"}"#);
    assert_eq!(memory.give_up(&error), [error_response(&id(1), &error), error_response(&id(0), &error)]);
    assert_eq!(memory.give_up(&error), [""; 0]);
}

#[test]
fn a_request_that_is_too_much_to_keep_passes_and_is_not_asked_again() {
    let mut memory = memory();
    memory.kept_bytes = KEPT_BYTES;
    assert!(matches!(memory.asks(0, "session/list", "{}"), LineRoute::ToHost(_)));
    memory.host_is_gone();
    let lost = error_response(&id(0), &lost("session/list"));
    assert_eq!(memory.asked_again(), [to_client(lost)]);
    assert_eq!(memory.kept_bytes, KEPT_BYTES);
}

#[test]
fn to_another_machine_a_prompt_is_named_and_can_be_gone_on_with_once_a_host_of_ours_is_known_to_be_there() {
    let hosts = r#"{"protocolVersion":1,"_meta":{"acpx":{"protocol":{"oldest":1,"newest":2}}}}"#;
    let named = r#"{"_meta":{"acpx":{"requestId":"p-1"}},"sessionId":"s"}"#;
    for (answer, is_host, prompt) in
        [(r#"{"protocolVersion":1,"_meta":{}}"#, false, r#"{"sessionId":"s"}"#), (hosts, true, named)]
    {
        let mut memory = BridgeState { prefix: "p".to_owned(), ..BridgeState::new(BridgeProfile::far()) };
        let greeting = r#"{"_meta":{"acpx":{"states":true,"seq":true}},"protocolVersion":1}"#;
        let asked = memory.asks(0, "initialize", r#"{"protocolVersion":1}"#);
        assert_eq!(asked, to_host(request(&id(0), "initialize", greeting)));
        assert!(!memory.can_go_on());
        memory.is_answered(0, answer);
        assert_eq!(memory.can_go_on(), is_host);
        let asked = memory.asks(1, "session/prompt", r#"{"sessionId":"s"}"#);
        assert_eq!(asked, to_host(request(&id(1), "session/prompt", prompt)));
    }
}

#[test]
fn whoever_comes_from_another_machine_is_told_of_the_turns_of_others_and_not_of_its_own() {
    let mut memory = BridgeState::new(BridgeProfile::far());
    memory.client_says(&message(&request(
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
    assert_eq!(memory.host_says(&message(&state("own"))), LineRoute::Nothing);
    assert_eq!(memory.host_says(&message(&state("another"))), to_client(state("another")));
    // Only this bridge reports the state of its connection.
    for word in [acpx_peer::AWAY, acpx_peer::BACK] {
        assert_eq!(memory.host_says(&message(&notification(word, "{}"))), LineRoute::Nothing);
    }
}

#[test]
fn to_another_machine_a_prompt_is_asked_for_again_however_often_once_the_host_has_it() {
    let prompt = request(&id(1), "session/prompt", r#"{"_meta":{"acpx":{"requestId":"p"}},"sessionId":"s"}"#);
    let lost = error_response(&id(1), &for_client(rpc_error::unanswered("session/prompt"), true));
    for is_accepted in [true, false] {
        let mut memory = BridgeState::new(BridgeProfile::far());
        memory.client_says(&message(&prompt));
        if is_accepted {
            let accepted =
                r#"{"jsonrpc":"2.0","method":"_acpx/accepted","params":{"requestId":"p","turn":1}}"#;
            memory.host_says(&message(accepted));
        }
        for _ in 1..HOSTS_ASKED {
            memory.host_is_gone();
            assert_eq!(memory.asked_again(), [to_host(&*prompt)]);
        }
        memory.host_is_gone();
        let expected = if is_accepted { to_host(&*prompt) } else { to_client(&*lost) };
        assert_eq!(memory.asked_again(), [expected], "{is_accepted}");
    }
}
