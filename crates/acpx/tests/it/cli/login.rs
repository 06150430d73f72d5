//! Logging in with an agent: by a credential, and what is said where a login is missing.

mod commands;

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Done, Place};

const SECRET: &str = "s3cret-cr3dential";
/// What the agents here offer, as it is named in a sentence.
const OFFERED: &str = "oauth (Account), api-key (API key), tui (Terminal login, in a terminal)";
const HINT: &str =
    "hint: acpx scripted auth shows how to log in, and acpx scripted auth METHOD does it; then try again\n";

/// An agent that offers logins, and does the rest.
fn offering(rest: impl FnOnce(Script) -> Script) -> Script {
    rest(offers(Script::new()))
}

/// The same, and begins to.
fn offers(script: Script) -> Script {
    let methods = json!([
        { "id": "oauth", "name": "Account", "description": "With a browser" },
        { "id": "api-key", "name": "API key" },
        { "id": "tui", "name": "Terminal login", "type": "terminal", "args": ["login"] },
    ]);
    let capabilities = json!({ "auth": { "logout": {} } });
    let answer = json!({ "protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": methods });
    script.expect("initialize").reply(answer)
}

/// One that is logged in with first, and then gives the credential away.
fn logging_in() -> Script {
    let says = Script::new().say(&format!("my key is {SECRET}")).end("end_turn");
    offering(|script| {
        script.expect("authenticate").reply(json!({})).session_new("s1").serve([("session/prompt", says)])
    })
}

/// A place with the agent, and more in its configuration.
fn place(script: &Script, more: &Value) -> (Place, Vec<String>) {
    let place = Place::new();
    let agent = place.scripted(script);
    let mut config = json!({ "agents": { "scripted": { "argv": agent } } });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    place.configure(&config.to_string());
    (place, agent)
}

/// The methods of what the agent received.
fn methods(agent: &[String]) -> Vec<String> {
    let method =
        |line: &String| serde_json::from_str::<Value>(line).unwrap()["method"].as_str().map(str::to_owned);
    received_lines(agent).iter().filter_map(method).collect()
}

/// The files of a home that have the credential in them.
fn files_with_secret(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.acpx_home()).unwrap().map(|entry| entry.unwrap());
    let has_it = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes())
    };
    let found = entries.filter(|entry| has_it(&entry.path()));
    found.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn configured_credential_logs_in_before_session_new_and_is_never_stored() {
    let (place, agent) = place(&logging_in(), &json!({ "auth": { "api-key": SECRET } }));
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(place.ok(&["--format", "quiet", "scripted", "go"]), "my key is [secret]\n");
    assert_eq!(methods(&agent), ["initialize", "authenticate", "session/new", "session/prompt"]);
    let login: Value = serde_json::from_str(&received_lines(&agent)[1]).unwrap();
    assert_eq!(login["params"], json!({ "methodId": "api-key" }));
    place.ok(&["host", "stop"]);
    assert_eq!(files_with_secret(&place), ["config.json"]);
}

#[test]
fn environment_credential_logs_in_and_is_never_written_to_the_home() {
    let (place, agent) = place(&logging_in(), &json!({}));
    for arguments in [&["scripted", "sessions", "new"], &["scripted", "prompt", "go"]] {
        let done = Done::of(place.command(arguments).env("ACPX_AUTH_API_KEY", SECRET));
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert_eq!(methods(&agent), ["initialize", "authenticate", "session/new", "session/prompt"]);
    place.ok(&["host", "stop"]);
    assert_eq!(files_with_secret(&place), [""; 0]);
}

#[test]
fn project_file_provides_no_credential() {
    let (place, agent) = place(&offering(|script| script.session_new("s1")), &json!({}));
    let project = json!({ "auth": { "api-key": SECRET }, "authPolicy": "fail" });
    std::fs::write(place.work().join(".acpxrc.json"), project.to_string()).unwrap();
    place.ok(&["scripted", "sessions", "new"]);
    assert_eq!(methods(&agent), ["initialize", "session/new"]);
}

#[test]
fn auth_policy_decides_whether_to_continue_without_a_credential() {
    let (place, _) = place(&offering(|script| script.session_new("s1")), &json!({ "authPolicy": "fail" }));
    place.ok(&["--auth-policy", "skip", "scripted", "sessions", "new"]);
    let refused = place.acpx(&["--format", "json", "scripted", "exec", "go"]);
    let error = &refused.lines()[0]["error"];
    let words = format!(
        "the agent \"scripted\" offers logins, and there is no credential for any of them: {OFFERED}"
    );
    assert_eq!(error["message"], words);
    assert_eq!((&error["data"]["detailCode"], refused.code), (&json!("AUTH_REQUIRED"), Some(1)));
    assert_eq!(place.acpx(&["--auth-policy", "never", "scripted", "exec", "go"]).code, Some(2));
}

#[test]
fn rejected_login_is_reported_without_the_credential() {
    let refusal = json!({ "code": -32603, "message": format!("bad key {SECRET}") });
    let script = offering(|script| script.refuse("authenticate", refusal));
    let (place, _) = place(&script, &json!({ "auth": { "api-key": SECRET } }));
    let refused = place.acpx(&["--format", "quiet", "scripted", "sessions", "new"]);
    let words = "the agent \"scripted\" refused authenticate: bad key [secret] (-32603)";
    assert_eq!(refused.err, format!("[acpx] error: RUNTIME [AUTH_REQUIRED] {words}\n"));
    assert_eq!(refused.code, Some(1));
}

#[test]
fn missing_login_at_session_new_lists_the_login_methods() {
    let refusal = json!({ "code": -32000, "message": "Authentication required" });
    let (place, _) = place(&offering(|script| script.refuse("session/new", refusal)), &json!({}));
    let refused = place.acpx(&["scripted", "sessions", "new"]);
    let words = format!(
        "the agent \"scripted\" refused session/new: Authentication required; it offers {OFFERED} (-32000)"
    );
    assert!(refused.err.ends_with(&format!("acpx: {words}\n{HINT}")), "{refused:?}");
    assert_eq!(refused.code, Some(1));
}

#[test]
fn login_methods_that_only_the_error_names_are_listed() {
    let ways =
        json!([{ "id": "openai", "name": "API key" }, { "id": "tui", "name": "Pi", "type": "terminal" }]);
    let refusal =
        json!({ "code": -32000, "message": "Authentication required", "data": { "authMethods": ways } });
    let script = Script::new().initialize(json!({})).refuse("session/new", refusal);
    let (place, _) = place(&script, &json!({}));
    let refused = place.acpx(&["scripted", "sessions", "new"]);
    let words = "the agent \"scripted\" refused session/new: Authentication required; it offers openai (API key), tui (Pi, in a terminal) (-32000)";
    assert!(refused.err.ends_with(&format!("acpx: {words}\n{HINT}")), "{refused:?}");
}

#[test]
fn prompt_succeeds_after_a_login_that_a_turn_had_missed() {
    let refusal = json!({ "code": -32000, "message": "Authentication required" });
    let script = offering(|script| script.session_new("s1").refuse("session/prompt", refusal));
    let script = offers(script.next_start()).expect("authenticate").reply(json!({})).session_new("s2");
    let script = script.prompt(|turn| turn.say("hi").end("end_turn"));
    let (place, agent) = place(&script, &json!({}));
    place.ok(&["scripted", "sessions", "new"]);
    let refused = place.acpx(&["scripted", "go"]);
    let words = format!(
        "the agent \"scripted\" refused session/prompt: Authentication required; it offers {OFFERED} (-32000)"
    );
    assert!(refused.out.ends_with(&format!("[error] AUTH_REQUIRED: {words}\n{HINT}")), "{refused:?}");
    assert_eq!(refused.code, Some(1));
    let again = ["--format", "quiet", "scripted", "again"];
    let done = Done::of(place.command(&again).env("ACPX_AUTH_API_KEY", SECRET));
    assert_eq!((done.out.as_str(), done.code), ("hi\n", Some(0)), "{done:?}");
    assert_eq!(methods(&agent)[3..], ["initialize", "authenticate", "session/new", "session/prompt"]);
}

/// A session with two modes.
fn with_modes(id: &str) -> Value {
    let mode = |id: &str| json!({ "id": id, "name": id });
    let modes = json!({ "currentModeId": "ask", "availableModes": [mode("ask"), mode("plan")] });
    json!({ "sessionId": id, "modes": modes })
}

#[test]
fn missing_login_at_set_mode_lists_the_login_methods() {
    let refusal = json!({ "code": -32000, "message": "Authentication required" });
    let script = offering(|script| {
        script.expect("session/new").reply(with_modes("s1")).refuse("session/set_mode", refusal)
    });
    let (place, _) = place(&script, &json!({}));
    place.ok(&["scripted", "sessions", "new"]);
    let refused = place.acpx(&["--format", "json", "scripted", "set-mode", "plan"]);
    let words = format!(
        "the agent \"scripted\" refused session/set_mode: Authentication required; it offers {OFFERED} (-32000)"
    );
    assert_eq!(refused.json()["error"]["message"], words, "{refused:?}");
    let hint = HINT.trim_start_matches("hint: ").trim_end().to_owned();
    assert_eq!(refused.failure(), ("AUTH_REQUIRED".to_owned(), hint, Some(1)));
}

#[test]
fn missing_login_when_a_mode_is_restored_lists_the_login_methods() {
    let refusal = json!({ "code": -32000, "message": "Authentication required" });
    let script = offering(|script| {
        script.expect("session/new").reply(with_modes("s1")).expect("session/set_mode").reply(json!({}))
    });
    let script = offers(script.next_start()).expect("session/new").reply(with_modes("s2"));
    let script = script.refuse("session/set_mode", refusal).prompt(|turn| turn.say("hi").end("end_turn"));
    let (place, _) = place(&script, &json!({}));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "set-mode", "plan"]);
    place.ok(&["host", "stop"]);
    place.ok(&["scripted", "go"]);
    let reason = format!(
        "the agent \"scripted\" refused session/set_mode: Authentication required; it offers {OFFERED} (-32000)"
    );
    let open = json!([{ "value": "plan", "reason": reason }]);
    assert_eq!(place.json(&["scripted", "status"])["openWishes"], open);
}

#[test]
fn prompt_refused_for_a_missing_login_is_reported_as_not_sent() {
    let refusal = json!({ "code": -32000, "message": "Authentication required" });
    let script = offering(|script| script.session_new("s1").prompt(|turn| turn.say("hi").end("end_turn")));
    let script = offers(script.next_start()).refuse("session/new", refusal);
    let (place, _) = place(&script, &json!({}));
    place.ok(&["scripted", "sessions", "new"]);
    place.ok(&["scripted", "go"]);
    place.ok(&["host", "stop"]);
    let refused = place.acpx(&["scripted", "again"]);
    let unsent = HINT.replace("hint: ", "hint: the prompt was not sent; ");
    assert!(refused.code == Some(1) && refused.err.ends_with(&unsent), "{refused:?}");
    let history = place.ok(&["--format", "quiet", "scripted", "sessions", "history"]);
    assert_eq!(history, "go\nhi\n");
}

#[test]
fn missing_login_in_the_agents_own_words_is_quoted() {
    let refusal = json!({ "code": -32603, "message": "Internal error", "data": "Missing provider" });
    let script = offering(|script| script.session_new("s1").refuse("session/prompt", refusal));
    let (place, _) = place(&script, &json!({}));
    place.ok(&["scripted", "sessions", "new"]);
    let refused = place.acpx(&["scripted", "go"]);
    assert!(refused.out.contains("[error] AUTH_REQUIRED: "), "{refused:?}");
    assert!(refused.out.contains("Missing provider") && refused.out.ends_with(HINT), "{refused:?}");
    assert_eq!(refused.code, Some(1));
}

#[test]
fn silent_agent_is_reported_with_a_possible_missing_login() {
    // What it reports when it is told to stop is no work on the prompt.
    let usage = json!({ "sessionUpdate": "usage_update", "used": 0, "size": 200_000 });
    let turn = |turn: Script| turn.expect("session/cancel").update(usage.clone()).end("end_turn");
    let script = offering(|script| script.session_new("s1").prompt(turn).prompt(turn));
    let (place, _) = place(&script, &json!({}));
    place.ok(&["scripted", "sessions", "new"]);
    for flag in ["--timeout", "--idle-timeout"] {
        let silent = place.acpx(&[flag, "1", "scripted", "go"]);
        let hint = format!(
            "hint: the agent said nothing at all: it may lack a login, which acpx scripted auth shows, or need more time, with {flag}\n"
        );
        assert!(silent.out.ends_with(&hint), "{silent:?}");
        assert_eq!(silent.code, Some(3));
    }
}

#[test]
fn an_agent_that_exits_at_once_is_quoted() {
    let script = Script::new().stderr("no provider is configured: run setup").exit(1);
    let (place, _) = place(&script, &json!({}));
    let exited = place.acpx(&["scripted", "sessions", "new"]);
    assert!(exited.err.contains("; it said: no provider is configured: run setup\n"), "{exited:?}");
    assert_eq!(exited.code, Some(1));
}
