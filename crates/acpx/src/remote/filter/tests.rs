use serde_json::{Value, json};

use super::*;

const ALL: Allowance = Allowance { approve_all: true, stdio_servers: true };

fn judged(line: &str, allowance: Allowance) -> Verdict {
    judge(&Message::parse(line).unwrap(), allowance)
}

/// The params of a request after it has passed.
fn passed(params: &str, allowance: Allowance) -> Value {
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{params}}}"#);
    match judged(&line, allowance) {
        Verdict::Passes(line) => serde_json::from_str::<Value>(&line).unwrap()["params"].take(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_says_nothing_of_ours_passes_byte_for_byte() {
    let lines = [
        r#"{"jsonrpc": "2.0", "id": "1", "method":"session/prompt","params":{"prompt":[ ],"_meta":{"x": 1.0}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"acpx":{"agent":1}}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"_vendor/x","params":[1]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"_acpx/watch","params":{"sessionId":"s","from":3}}"#,
    ];
    for line in lines {
        assert_eq!(judged(line, Allowance::default()), Verdict::Passes(line.to_owned()));
    }
}

#[test]
fn of_our_members_only_those_pass_that_choose_no_agent_and_nothing_on_this_machine() {
    let params = json!({
        "cwd": "/w",
        "_meta": { "other": 1, "acpx": {
            "agent": { "argv": ["sh"] }, "environment": [["A", "b"]], "mcpSource": "/etc/passwd",
            "shell": {}, "client": { "agent": { "argv": ["sh"] } }, "unheard-of": 1,
            "requestId": "r", "policy": "approve-reads", "seq": true, "later": true,
        } },
    });
    let kept = json!({
        "cwd": "/w",
        "_meta": { "other": 1, "acpx": {
            "requestId": "r", "policy": "approve-reads", "seq": true, "later": true,
        } },
    });
    assert_eq!(passed(&params.to_string(), ALL), kept);
}

#[test]
fn everything_is_approved_unseen_only_where_the_user_allows_it() {
    let params = r#"{"_meta":{"acpx":{"policy":"approve-all"}}}"#;
    assert_eq!(passed(params, Allowance::default()), json!({ "_meta": { "acpx": {} } }));
    assert_eq!(passed(params, ALL), json!({ "_meta": { "acpx": { "policy": "approve-all" } } }));
    let hidden = r#"{"_meta":{"acpx":{"policy":"approve\u002dall"}}}"#;
    assert_eq!(passed(hidden, Allowance::default()), json!({ "_meta": { "acpx": {} } }));
}

#[test]
fn what_is_said_twice_or_in_other_letters_is_seen() {
    let smuggled = [
        r#"{"_meta":{"acpx":{"agent":{"argv":["sh"]}}},"_meta":{}}"#,
        r#"{"_meta":{},"_meta":{"acpx":{"agent":{"argv":["sh"]}}}}"#,
        r#"{"\u005fmeta":{"acp\u0078":{"\u0061gent":{"argv":["sh"]}}}}"#,
        r#"{"_meta":{"acpx":{"agent":1},"acpx":{"seq":true}}}"#,
    ];
    for params in smuggled {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{params}}}"#);
        match judged(&line, Allowance::default()) {
            Verdict::Passes(line) => assert!(!line.contains("sh") && !line.contains("agent"), "{line}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_that_would_be_started_here_is_refused_by_its_place_in_the_list() {
    let http = r#"{"type":"http","name":"h","url":"http://x","headers":[]}"#;
    let stdio = [
        r#"{"name":"s","command":"sh","args":[],"env":[]}"#,
        r#"{"type":"stdio","name":"s","command":"sh"}"#,
        r#"{"type":"http","type":"stdio","command":"sh"}"#,
        r#"{"type":"other"}"#,
        "7",
    ];
    for server in stdio {
        for params in [
            format!(r#"{{"mcpServers":[{http},{server}]}}"#),
            format!(r#"{{"mcpServers":[{http},{server}],"mcpServers":[]}}"#),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"session/load","params":{params}}}"#);
            let Verdict::Refused(id, answer) = judged(&line, Allowance::default()) else { panic!("{line}") };
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(id, RpcId::from_string("a"));
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32602)));
            assert_eq!(answer["error"]["data"], json!({ "field": "mcpServers[1]" }));
            assert_eq!(judged(&line, ALL), Verdict::Passes(line.clone()));
        }
    }
    let reached =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{{"mcpServers":[{http}]}}}}"#);
    assert_eq!(judged(&reached, Allowance::default()), Verdict::Passes(reached.clone()));
    let told = r#"{"jsonrpc":"2.0","method":"x","params":{"mcpServers":[{"command":"sh"}]}}"#;
    assert_eq!(judged(told, Allowance::default()), Verdict::Dropped);
}

#[test]
fn the_methods_that_are_about_this_machine_are_unknown_elsewhere() {
    for method in ["_acpx/host/stop", "_acpx/host/status", "_acpx/import", "_acpx/anything"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#);
        let Verdict::Refused(_, answer) = judged(&line, ALL) else { panic!("{method}") };
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["error"]["code"], json!(-32601), "{method}");
        let told = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        assert_eq!(judged(&told, ALL), Verdict::Dropped);
    }
}

proptest::proptest! {
    #[test]
    fn any_params_are_judged_and_nothing_panics(params in "\\PC*") {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{params}}}"#);
        if let Ok(message) = Message::parse(line) {
            judge(&message, Allowance::default());
        }
    }
}
