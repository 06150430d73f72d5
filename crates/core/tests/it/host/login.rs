//! Logging in, with an agent that keeps a login for as long as its process runs and no longer.

use acpx_core::model::{RecordId, Seq};
use acpx_core::store::Store;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::Editor;
use super::{Bench, prompt_params};
use crate::engine::received;

/// What the agent says of itself, in one version of the protocol.
fn greeting(script: Script, version: u16) -> Script {
    let answer = match version {
        1 => json!({
            "protocolVersion": 1, "agentCapabilities": { "auth": { "logout": {} } },
            "authMethods": [{ "id": "key", "name": "Key" }],
        }),
        _ => json!({
            "protocolVersion": 2, "info": { "name": "a", "version": "1" }, "capabilities": { "session": {} },
            "authMethods": [{ "methodId": "key", "name": "Key", "type": "agent" }],
        }),
    };
    script.expect("initialize").reply(answer)
}

/// The words of a version: how one logs in, and how one logs out.
fn words(version: u16) -> (&'static str, &'static str) {
    if version == 1 { ("authenticate", "logout") } else { ("auth/login", "auth/logout") }
}

/// What an agent does that takes a session only where it was logged in, in that very process; for some starts, each with
/// a session of its own.
fn forgetful(script: Script, version: u16, logged_in: &Value) -> Script {
    let start = |script: Script, session: u32| start(script, version, (logged_in, &format!("s{session}")));
    (1..9).fold(start(script, 0), |script, session| start(script.next_start(), session))
}

fn start(script: Script, version: u16, (logged_in, session): (&Value, &str)) -> Script {
    let wanted = || json!({ "code": -32000, "message": "Authentication required" });
    let known = Script::new().reply(logged_in.clone()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": session }))),
        ("session/prompt", Script::new().reply(json!({ "stopReason": "end_turn" }))),
    ]);
    let (login, logout) = words(version);
    greeting(script, version).serve([
        ("session/new", Script::new().reply_error(wanted())),
        (login, known),
        (logout, Script::new().reply(json!({}))),
    ])
}

async fn begin(bench: &Bench, editor: &mut Editor) -> Result<String, Value> {
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [], "_meta": { "acpx": { "idleMs": 0 } } });
    let answer = editor.call("session/new", new).await;
    answer.map(|answer| answer["sessionId"].as_str().unwrap().to_owned())
}

async fn is_refused(bench: &Bench, editor: &mut Editor) -> bool {
    begin(bench, editor).await.is_err_and(|error| error["code"] == -32000)
}

#[tokio::test]
async fn login_is_repeated_at_each_agent_start_until_the_client_logs_out() {
    let bench = Bench::new();
    for (version, of_agent) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let argv = bench.agent(&forgetful(Script::new(), of_agent, &json!({})));
        let (login, logout) = words(version);
        let mut editor = bench.speaking(version, of_agent, &argv).await;
        assert!(is_refused(&bench, &mut editor).await, "{version} over {of_agent}");
        assert_eq!(editor.call(login, json!({ "methodId": "key" })).await, Ok(json!({})));
        for _ in ["the first session", "the second, in a process of its own"] {
            begin(&bench, &mut editor).await.unwrap();
        }
        let mut other = bench.speaking(version, of_agent, &argv).await;
        assert!(is_refused(&bench, &mut other).await, "nobody else is logged in by it");

        assert_eq!(editor.call(logout, json!({})).await, Ok(json!({})));
        assert!(is_refused(&bench, &mut editor).await, "{version} over {of_agent}");
    }
}

#[tokio::test]
async fn turn_that_needs_a_login_continues_after_its_client_logged_in() {
    let bench = Bench::new();
    let wanted = json!({ "code": -32000, "message": "Authentication required" });
    let asked = greeting(Script::new(), 1).next_start();
    let refused = greeting(asked, 1).session_new("s1").refuse("session/prompt", wanted).next_start();
    let mut editor = bench.editor(&bench.agent(&forgetful(refused, 1, &json!({})))).await;
    let record = begin(&bench, &mut editor).await.unwrap();
    let prompt = prompt_params(&record, "one", json!({}));
    assert_eq!(editor.call("session/prompt", prompt.clone()).await.unwrap_err()["code"], -32000);
    editor.call("authenticate", json!({ "methodId": "key" })).await.unwrap();
    assert_eq!(editor.call("session/prompt", prompt).await.unwrap()["stopReason"], "end_turn");
}

#[tokio::test]
async fn failed_repeated_login_is_the_error_of_the_start() {
    let bench = Bench::new();
    let asked = greeting(Script::new(), 1).next_start();
    let once = greeting(asked, 1).expect("authenticate").reply(json!({})).next_start();
    let spent = json!({ "code": -32000, "message": "the code is spent" });
    let mut editor = bench.editor(&bench.agent(&greeting(once, 1).refuse("authenticate", spent))).await;
    editor.call("authenticate", json!({ "methodId": "key" })).await.unwrap();
    let error = begin(&bench, &mut editor).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["acpx"]["code"]), (&json!(-32000), &json!("AUTH_REQUIRED")));
    assert!(error["message"].as_str().unwrap().contains("the code is spent"), "{error}");
}

#[tokio::test]
async fn unknown_members_of_a_login_are_repeated_and_never_stored() {
    let bench = Bench::new();
    let extra = json!({ "gateway": { "headers": [{ "value": "Bearer hidden-1" }] }, "short": "h2" });
    let argv = bench.agent(&forgetful(Script::new(), 1, &json!({ "_meta": extra })));
    let mut editor = bench.editor(&argv).await;
    let login = json!({ "methodId": "key", "_meta": extra });
    editor.call("authenticate", login.clone()).await.unwrap();
    let record = begin(&bench, &mut editor).await.unwrap();
    let asked = received(&argv).into_iter().filter(|(method, _)| method == "authenticate");
    assert_eq!(asked.map(|(_, params)| params).collect::<Vec<_>>(), [login.clone(), login]);

    let kept = bench.store().events(RecordId::new(record).unwrap(), Seq::FIRST, 1000).await.unwrap();
    let kept: Vec<&str> = kept.iter().map(|event| &*event.body).collect();
    assert!(kept.iter().any(|line| line.contains(r#""params":{"methodId":"key"}}"#)), "{kept:?}");
    assert!(!kept.iter().any(|line| line.contains("hidden-1")), "{kept:?}");
    // What the agent repeats of it is masked from eight characters on.
    let repeated = r#""headers":[{"value":"[secret]"}]},"short":"h2"}"#;
    assert!(kept.iter().any(|line| line.contains(repeated)), "{kept:?}");
}

/// An agent that offers a login in a terminal and wants one.
fn in_terminal() -> Script {
    let method = json!({ "id": "tui", "name": "Terminal", "type": "terminal", "args": ["login"] });
    let answer = json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [method] });
    let wanted = json!({ "code": -32000, "message": "Authentication required", "data": { "why": 1 } });
    Script::new().serve([
        ("initialize", Script::new().reply(answer)),
        ("session/new", Script::new().reply_error(wanted.clone())),
        ("session/prompt", Script::new().reply_error(wanted)),
    ])
}

/// What an agent was told in each `initialize`.
fn told_terminal(argv: &[String]) -> Vec<Value> {
    let greetings = received(argv).into_iter().filter(|(method, _)| method == "initialize");
    greetings.map(|(_, params)| params["clientCapabilities"]["auth"]["terminal"].clone()).collect()
}

#[tokio::test]
async fn terminal_logins_are_forwarded_to_the_client_that_can_run_them() {
    let bench = Bench::new();
    let argv = bench.agent(&in_terminal());
    let offered = async |takes: Value| {
        let mut editor = bench.joined(1).await;
        let agent = json!({ "name": "scripted", "argv": argv });
        let client = json!({ "agent": agent, "environment": super::environment(), "cwd": bench.home.path() });
        let params = json!({
            "protocolVersion": 1, "clientCapabilities": takes, "_meta": { "acpx": { "client": client } },
        });
        let answer = editor.call("initialize", params).await.unwrap();
        let refused = begin(&bench, &mut editor).await.unwrap_err();
        (answer["authMethods"].clone(), refused)
    };
    let details = |way: &str| {
        let what = "Authentication required";
        let data = json!({ "details": format!("{what}; log in {way}, then try again: acpx scripted auth") });
        json!({ "code": -32000, "message": what, "data": data })
    };
    // A client without a terminal is given the command for a shell, and the agent knows that it has none.
    let expected = (json!([]), details("in a shell"));
    assert_eq!(offered(json!({})).await, expected);
    assert_eq!(told_terminal(&argv), [false, false]);
    let way = json!({ "id": "tui", "name": "Terminal", "type": "terminal", "args": ["--login", "tui"] });
    let expected = (json!([way]), details("by one of the offered ways, or in a shell"));
    assert_eq!(offered(json!({ "auth": { "terminal": true } })).await, expected);
    assert_eq!(told_terminal(&argv), [false, false, true, true]);
    // A command has a terminal, whatever the editor before it had.
    let mut shell = bench.client().await;
    let error = super::refusal(&mut shell, "session/new", &bench.new_params(&argv)).await;
    assert_eq!((error.code().as_str(), told_terminal(&argv).last()), ("AUTH_REQUIRED", Some(&json!(true))));
}

#[tokio::test]
async fn remote_client_gets_a_login_hint_without_the_command_line() {
    let bench = Bench::new();
    let argv = bench.agent(&in_terminal());
    let mut editor = bench.joined(1).await;
    let client =
        json!({ "agent": { "argv": argv }, "environment": super::environment(), "cwd": bench.home.path() });
    editor.call("_acpx/remote", json!({ "client": client, "who": "token" })).await.unwrap();
    let params = json!({ "protocolVersion": 1, "clientCapabilities": { "auth": { "terminal": true } } });
    let answer = editor.call("initialize", params).await.unwrap();
    assert_eq!(answer["authMethods"], json!([]));
    let refused = begin(&bench, &mut editor).await.unwrap_err();
    let details = "Authentication required; log in on the machine that runs acpx serve, then try again";
    let data = json!({ "details": details });
    assert_eq!(refused, json!({ "code": -32000, "message": "Authentication required", "data": data }));
}
