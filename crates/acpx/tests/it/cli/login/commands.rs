//! `acpx auth`: the ways to log in, and one of them gone.

use std::os::unix::fs::PermissionsExt;

use acpx_testkit::Script;
use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use super::super::processes::{is_alive, pid_in};
use super::{SECRET, offering, place};
use crate::acpx::Place;
#[cfg(target_os = "linux")]
use crate::terminal::OnTerminal;

#[test]
fn the_ways_to_log_in_are_listed_with_what_each_needs() {
    let (place, _) = place(&offering(|script| script), &json!({ "auth": { "api-key": SECRET } }));
    let expected = "\
oauth	Account	no credential in ACPX_AUTH_OAUTH or config.json
  With a browser
  acpx scripted auth oauth
api-key	API key	with the credential in config.json
  acpx scripted auth api-key
tui	Terminal login	in a terminal
  acpx scripted auth tui
log out: acpx scripted auth --logout
";
    assert_eq!(place.ok(&["auth", "scripted"]), expected);
    assert_eq!(place.ok(&["scripted", "auth"]), expected);
    assert_eq!(place.ok(&["--format", "quiet", "auth", "scripted"]), "oauth\napi-key\ntui\n");
    let none = "demo offers no login; if it wants one, log in with its own program, or set what it takes from its environment\n";
    assert_eq!(place.ok(&["auth", "demo"]), none);
}

#[test]
fn credential_in_an_agents_env_is_listed_with_where_to_change_it() {
    let refusal = json!({ "code": -32000, "message": "it has expired" });
    let script = offering(|script| script.refuse("authenticate", refusal));
    let (place, agent) = place(&script, &json!({}));
    let entry = json!({ "argv": agent, "env": { "ACPX_AUTH_OAUTH": SECRET } });
    place.configure(&json!({ "agents": { "scripted": entry } }).to_string());
    let listed = place.ok(&["scripted", "auth"]);
    assert!(listed.starts_with("oauth\tAccount\twith the credential in ACPX_AUTH_OAUTH\n"), "{listed}");
    let refused = place.acpx(&["scripted", "auth", "oauth"]);
    let hint = "hint: put another credential in ACPX_AUTH_OAUTH; acpx scripted auth has the other ways, if there are any\n";
    assert!(refused.err.ends_with(hint), "{refused:?}");
}

#[test]
fn login_and_logout_commands_work_with_agents_of_both_versions() {
    let done = || Script::new().reply(json!({}));
    let v1 = offering(|script| script.serve([("authenticate", done()), ("logout", done())]));
    let answer = json!({
        "protocolVersion": 2, "info": { "name": "s", "version": "1" }, "capabilities": { "session": {} },
        "authMethods": [{ "methodId": "oauth", "name": "Account", "type": "agent" }],
    });
    let v2 = Script::new().expect("initialize").reply(answer);
    let v2 = v2.serve([("auth/login", done()), ("auth/logout", done())]);
    for (version, script) in [("1", v1), ("2", v2)] {
        let (place, _) = place(&script, &json!({}));
        let auth = |rest: &[&str]| place.ok(&[&["--protocol", version, "scripted", "auth"], rest].concat());
        assert_eq!(auth(&["oauth"]), "logged in with scripted: Account\n");
        assert_eq!(
            auth(&["oauth", "--format", "json"]),
            "{\"action\":\"auth_result\",\"agentName\":\"scripted\",\"methodId\":\"oauth\",\"status\":\"logged-in\"}\n"
        );
        assert_eq!(auth(&["--logout"]), "logged out of scripted\n");
    }
}

#[test]
fn rejected_login_fails_with_the_agents_message() {
    let refusal = json!({ "code": -32000, "message": "the browser was closed" });
    let script = offering(|script| script.refuse("authenticate", refusal));
    let (place, _) = place(&script, &json!({}));
    let refused = place.acpx(&["scripted", "auth", "oauth"]);
    let words = "refused authenticate: the browser was closed (-32000)\nhint: if it takes a credential, put it in \
        ACPX_AUTH_OAUTH or under \"auth\" in config.json; acpx scripted auth has the other ways, if there are any\n";
    assert!(refused.err.ends_with(words), "{refused:?}");
    assert_eq!(refused.code, Some(1));
}

#[test]
fn login_shows_progress_and_quotes_an_agent_that_fails_to_start() {
    let (place, _) = place(&Script::new().stderr("fetching a package").hang(), &json!({}));
    let late = place.acpx(&["--timeout", "2.5", "scripted", "auth"]);
    let words = "[acpx] waiting for the agent scripted to start\n\
        acpx: the agent \"scripted\" did not answer initialize within 2.5 s; it said: fetching a package\n\
        hint: a first start may download a package; give the agent more time, with --timeout or startTimeoutSeconds in its profile\n";
    assert_eq!((late.err.as_str(), late.code), (words, Some(3)));
}

#[test]
fn agent_without_logout_is_left_to_its_own_program() {
    let script = Script::new().expect("initialize").reply(json!({ "protocolVersion": 1 }));
    let (place, _) = place(&script, &json!({}));
    let refused = place.acpx(&["scripted", "auth", "--logout"]);
    let words = "acpx: the agent \"scripted\" does not offer logout\n\
        hint: log out with scripted's own program, which keeps the login\n";
    assert_eq!((refused.err.as_str(), refused.code), (words, Some(1)));
}

#[test]
fn unknown_login_method_and_extra_arguments_are_usage_errors() {
    let refusal = json!({ "code": -32603, "message": "not now" });
    let (place, _) = place(&offering(|script| script.refuse("logout", refusal)), &json!({}));
    let unknown = place.acpx(&["scripted", "auth", "nothing"]);
    let words = "acpx: scripted offers no login \"nothing\"\nhint: it offers oauth, api-key, tui\n";
    assert!(unknown.err.ends_with(words), "{unknown:?}");
    assert_eq!(unknown.code, Some(2));
    assert_eq!(place.acpx(&["scripted", "auth", "oauth", "api-key"]).code, Some(2));
    assert_eq!(place.acpx(&["auth", "scripted", "oauth", "--logout"]).code, Some(2));
    let refused = place.acpx(&["scripted", "auth", "--logout"]);
    assert!(refused.err.contains("refused logout: not now (-32603)"), "{refused:?}");
    assert_eq!(refused.code, Some(1));
    assert_eq!(place.acpx(&["auth", "nobody"]).code, Some(2));
}

/// An agent that is a program of the shell: it answers `initialize`, or logs in if its first argument says so.
fn shell_agent(place: &Place, method: &Value, login: &str) -> String {
    let answer = json!({ "protocolVersion": 1, "authMethods": [method] });
    let program = place.work().join("agent");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = login ]; then {login}; fi\nread -r line\nid=${{line#*\\\"id\\\":}}\nid=${{id%%,*}}\n\
         printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{answer}'\ncat >/dev/null\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn terminal_login_runs_the_agents_program_and_returns_its_exit_code() {
    let place = Place::new();
    let method = json!({
        "id": "tui", "name": "Terminal login", "type": "terminal", "args": ["login"], "env": { "WHO": "you" },
    });
    let agent = shell_agent(&place, &method, "echo \"hello $WHO\"; exit 0");
    let done = place.acpx(&["--agent", &agent, "auth", "tui"]);
    let expected = format!("hello you\nlogged in with {agent}: Terminal login\n");
    assert_eq!((done.out.as_str(), done.code), (expected.as_str(), Some(0)), "{}", done.err);
    // An editor runs its own command with the arguments that it was offered.
    let by_editor = place.acpx(&["--agent", &agent, "acp", "--login", "tui"]);
    assert_eq!((by_editor.out.as_str(), by_editor.code), (expected.as_str(), Some(0)), "{}", by_editor.err);
    let quiet = place.acpx(&["--agent", &agent, "--format", "quiet", "auth", "tui"]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("logged-in\n", "hello you\n"));
    let agent = shell_agent(&place, &method, "exit 3");
    let failed = place.acpx(&["--agent", &agent, "--format", "json", "auth", "tui"]);
    let error = &failed.lines()[0]["error"];
    assert_eq!(error["message"], "the login \"tui\" failed: its program ended with exit status: 3");
    assert_eq!((&error["data"]["detailCode"], failed.code), (&json!("LOGIN_FAILED"), Some(1)));
}

/// A place, and the command that goes the way of an agent whose login is this line of a shell.
#[cfg(target_os = "linux")]
fn on_terminal(place: &Place, login: &str) -> OnTerminal {
    let method = json!({ "id": "tui", "name": "Terminal login", "type": "terminal", "args": ["login"] });
    let agent = shell_agent(place, &method, login);
    OnTerminal::start(&place.command(&["--agent", &agent, "auth", "tui"]))
}

#[test]
#[cfg(target_os = "linux")]
fn terminal_login_program_has_the_terminal_and_reads_its_input() {
    let place = Place::new();
    let login = "test -t 0 && test -t 1 && echo who? && read -r name && echo \"got $name\"; exit $?";
    let mut terminal = on_terminal(&place, login);
    terminal.wait_for("who?\n");
    terminal.type_in("ann\n");
    terminal.wait_for("got ann\n");
    terminal.wait_for(": Terminal login\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    assert!(!terminal.seen.contains("there is no terminal here"), "{}", terminal.seen);
}

#[test]
#[cfg(target_os = "linux")]
fn a_first_ctrl_c_is_for_the_program_of_a_login_alone() {
    let place = Place::new();
    // Whether the signal comes before it waits or meanwhile, it is heard and goes on.
    let login = "trap 'echo heard; heard=1' INT; echo first?; until [ \"$heard\" ]; do sleep 0.05; done; \
                 echo second?; read -r y && echo \"got $y\"; exit $?";
    let mut terminal = on_terminal(&place, login);
    terminal.wait_for("first?\n");
    terminal.type_in("\u{3}");
    terminal.wait_for("heard\n");
    terminal.wait_for("second?\n");
    terminal.type_in("ann\n");
    terminal.wait_for("got ann\n");
    terminal.wait_for(": Terminal login\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
}

#[test]
#[cfg(target_os = "linux")]
fn terminal_login_that_does_not_exit_is_killed_with_its_children() {
    let place = Place::new();
    let method = json!({ "id": "tui", "name": "Terminal login", "type": "terminal", "args": ["login"] });
    let [file, daemon] = ["login", "daemon"].map(|name| place.path_of(name));
    let daemonised = format!("(setsid sleep 600 >/dev/null 2>&1 & echo $! >'{}')", daemon.display());
    let stubborn =
        format!("trap '' TERM; {daemonised}; echo $$ >'{}'; while :; do sleep 600; done", file.display());
    let agent = shell_agent(&place, &method, &stubborn);
    let done = place.acpx(&["--agent", &agent, "--format", "json", "--timeout", "3", "auth", "tui"]);
    assert_eq!(done.failure().0, "TIMEOUT", "{done:?}");
    let alive = [file, daemon].map(|file| is_alive(pid_in(&file)));
    assert_eq!(alive, [false, false]);
}

#[test]
fn login_by_variables_names_the_variables_to_set() {
    let place = Place::new();
    let variables = json!([{ "name": "SOME_KEY" }, { "name": "SOME_ORG", "optional": true }]);
    let method = json!({ "id": "env", "name": "By key", "type": "env_var", "vars": variables });
    let agent = shell_agent(&place, &method, "exit 9");
    let missing = place.acpx(&["--agent", &agent, "auth", "env"]);
    let words = "By key needs variables to be set:\n  SOME_KEY (not set)\n  SOME_ORG (not set, optional)\n";
    assert_eq!((missing.out.as_str(), missing.code), (words, Some(1)));
    let mut command = place.command(&["--agent", &agent, "auth", "env"]);
    let there = crate::acpx::Done::of(command.env("SOME_KEY", SECRET));
    let words = "By key has what it needs:\n  SOME_KEY (set)\n  SOME_ORG (not set, optional)\n";
    assert_eq!((there.out.as_str(), there.code), (words, Some(0)));
}
