//! An agent on another machine is an agent like any other, over a WebSocket and over HTTP.

use acpx_testkit::Script;
use serde_json::json;

use super::Served;
use crate::acpx::{Place, eventually, text};

/// Lives a session of a far home from a near one.
fn lives_a_session(url: impl Fn(&Served) -> String) {
    let (far, near) = (Place::new(), Place::new());
    let served = Served::new(&far, &[]);
    let url = url(&served);
    let agent = ["--agent", url.as_str()];
    let directory = text(near.work());
    let made = near.json(&[&agent[..], &["sessions", "new"]].concat());
    let (record, session) = (&made["acpxRecordId"], &made["acpxSessionId"]);
    assert!(record != session);
    let lines = near.json_lines(&[&agent[..], &["hello"]].concat());
    assert!(lines.iter().any(|line| line.to_string().contains("You said: hello")), "{lines:?}");
    // Over there it is a session like any other, too.
    let kept = far.json(&["sessions", "show", session.as_str().unwrap()]);
    assert_eq!((&kept["acpxRecordId"], &kept["cwd"]), (session, &json!(directory)));

    // The line is gone in mid-turn, and what is there then lets nobody in.
    let mut turn = near.start(&[&agent[..], &["wait"]].concat());
    turn.wait_for("Waiting until cancelled");
    let address = served.place.clone();
    served.kill();
    let token = far.ok(&["token", "new"]);
    let served = Served::new(&far, &["--listen", &address]);
    let done = turn.done();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.out.contains("a bearer token is needed") && done.out.contains("the next prompt restores"),
        "{done:?}"
    );
    // When it does, the next prompt goes on with the same session; over there nothing was lost.
    far.ok(&["demo", "cancel", "-s", session.as_str().unwrap()]);
    let arguments = [&["--format", "json"], &agent[..], &["recall"]].concat();
    let mut recall = near.command(&arguments);
    let done = crate::acpx::Done::of(recall.env("ACPX_REMOTE_TOKEN", token.trim()));
    assert!(done.out.contains("1. hello"), "{done:?}");
    assert_eq!(&done.lines().last().unwrap()["acpxSessionId"], session);
    drop(served);
}

/// Loses the line to a far home in mid-turn, where the turn goes on and ends before there is another line.
fn misses_nothing(url: impl Fn(&Served) -> String) {
    let (far, near) = (Place::new(), Place::new());
    let gate = far.path_of("gate");
    let turn = Script::new().say("before the loss\n").await_file(&gate).say("while it lasts").end("end_turn");
    let script = Script::new().initialize(json!({})).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
    ]);
    far.scripted(&script);
    let served = Served::agent(&far, "scripted", &[]);
    let url = url(&served);
    let agent = ["--agent", url.as_str()];
    let made = near.json(&[&agent[..], &["sessions", "new"]].concat());
    let session = made["acpxSessionId"].as_str().unwrap();
    let mut turn = near.start(&[&agent[..], &["tell me"]].concat());
    turn.wait_for("before the loss");
    let address = served.place.clone();
    served.kill();
    std::fs::write(&gate, "").unwrap();
    eventually("the turn ends over there", || {
        far.ok(&["scripted", "sessions", "replay", session]).contains("while it lasts")
    });
    let status = [&agent[..], &["status"]].concat();
    eventually("it is said what is waited for", || near.json(&status)["waitingFor"]["what"] == "agent-away");
    let _served = Served::agent(&far, "scripted", &["--listen", &address]);
    let done = turn.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let said = "the connection to the agent's machine is lost; reconnecting\n[acpx] the connection to the agent's machine is restored";
    assert!(done.err.contains(said), "{done:?}");
    assert!(done.out.contains("before the loss\nwhile it lasts\n"), "{done:?}");
    let kept = near.ok(&[&agent[..], &["sessions", "replay"]].concat());
    for (words, times) in [("before the loss\n", 1), ("\nwhile it lasts\n", 1), ("tell me", 1)] {
        assert_eq!(kept.matches(words).count(), times, "{kept}");
    }
}

#[test]
fn turn_continues_over_the_next_websocket_with_all_missed_updates() {
    misses_nothing(|served| served.websocket.clone());
}

#[test]
fn turn_continues_over_the_next_http_connection_with_all_missed_updates() {
    misses_nothing(|served| served.url.clone());
}

#[test]
fn a_session_with_an_agent_on_another_machine_outlives_its_websocket() {
    lives_a_session(|served| served.websocket.clone());
}

#[test]
fn a_session_with_an_agent_on_another_machine_outlives_its_http_connection() {
    lives_a_session(|served| served.url.clone());
}

#[test]
fn turn_whose_remote_host_dies_is_interrupted_and_not_failed() {
    let (far, near) = (Place::new(), Place::new());
    let served = Served::new(&far, &[]);
    let agent = ["--agent", served.websocket.as_str()];
    near.ok(&[&agent[..], &["sessions", "new"]].concat());
    let mut turn = near.start(&[&["--format", "json"], &agent[..], &["wait"]].concat());
    turn.wait_for("Waiting until cancelled");
    crate::acpx::kill_hard(far.host_pid());
    let done = turn.done();
    let lines = done.lines();
    let result = lines.last().unwrap();
    let error = &result["error"];
    assert_eq!(
        (&result["status"], &error["data"]["detailCode"], done.code),
        (&json!("interrupted"), &json!("INTERRUPTED"), Some(1)),
        "{result}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("may be done there in part: turn 1 was interrupted"), "{message}");
    assert_eq!(error["data"]["hint"], "the output until then is kept; prompt again to continue");
    assert_eq!(error["data"]["acp"]["data"]["acpx"]["code"], "INTERRUPTED", "{error}");
}

#[test]
fn remote_agent_token_is_read_from_its_file_and_stored_nowhere() {
    let (far, near) = (Place::new(), Place::new());
    let secret = far.ok(&["token", "new"]);
    let served = Served::new(&far, &[]);
    let file = near.path_of("token");
    std::fs::write(&file, &secret).unwrap();
    let agents = json!({
        "far": { "url": served.websocket, "tokenFile": file },
        "locked": { "url": served.url },
    });
    near.configure(&json!({ "agents": agents }).to_string());
    assert!(near.ok(&["far", "exec", "hello"]).contains("You said: hello"));
    let kept_out = near.acpx(&["--format", "json", "locked", "exec", "hello"]);
    assert!(kept_out.out.contains("401") && kept_out.out.contains("ACPX_REMOTE_TOKEN"), "{kept_out:?}");
    let mut command = near.command(&["locked", "sessions", "new"]);
    let made = crate::acpx::Done::of(command.env("ACPX_REMOTE_TOKEN", secret.trim()));
    assert_eq!(made.code, Some(0), "{made:?}");
    let kept = std::fs::read(near.acpx_home().join("acpx.db")).unwrap();
    let journal = std::fs::read(near.acpx_home().join("acpx.db-wal")).unwrap_or_default();
    let secret = secret.trim().as_bytes();
    for bytes in [kept, journal] {
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
}

#[test]
fn unreachable_remote_agent_is_reported_as_unreachable_and_not_as_exited() {
    let (far, near) = (Place::new(), Place::new());
    let served = Served::new(&far, &[]);
    far.ok(&["token", "new"]);
    let failure = |url: &str, token: Option<&str>| {
        let mut command = near.command(&["--format", "json", "--agent", url, "sessions", "new"]);
        if let Some(token) = token {
            command.env("ACPX_REMOTE_TOKEN", token);
        }
        let error = crate::acpx::Done::of(&mut command).json()["error"].clone();
        assert_eq!(error["data"]["detailCode"], "REMOTE_LOST", "{error}");
        let hint = "do what the message says; the other machine must be running and accept the connection";
        assert_eq!(error["data"]["hint"], hint, "{error}");
        error["message"].as_str().unwrap().to_owned()
    };
    for url in [&served.websocket, &served.url] {
        let missing = failure(url, None);
        assert!(missing.contains("a bearer token is needed"), "{missing}");
        assert!(missing.contains("set ACPX_REMOTE_TOKEN"), "{missing}");
        let wrong = failure(url, Some("acpx_wrong"));
        assert!(wrong.contains("this token is unknown or revoked"), "{wrong}");
        assert!(wrong.contains("was revoked") && !wrong.contains("ACPX_REMOTE_TOKEN"), "{wrong}");
    }
    let (websocket, url) = (served.websocket.clone(), served.url.clone());
    served.kill();
    for url in [&websocket, &url] {
        let down = failure(url, None);
        assert!(down.contains("cannot reach") && down.contains("acpx serve is running there"), "{down}");
    }
}
