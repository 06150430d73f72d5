//! An agent on another machine is an agent like any other, over a WebSocket and over HTTP.

use serde_json::json;

use super::Served;
use crate::acpx::{Place, text};

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

    // The other machine goes away in mid-turn.
    let mut turn = near.start(&[&agent[..], &["wait"]].concat());
    turn.wait_for("Waiting until cancelled");
    let address = served.place.clone();
    served.kill();
    let done = turn.done();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.out.contains("the connection to") && done.out.contains("the next prompt restores"),
        "{done:?}"
    );
    // When it is back the next prompt goes on with the same session; over there nothing was lost.
    let _served = Served::new(&far, &["--listen", &address]);
    far.ok(&["demo", "cancel", "-s", session.as_str().unwrap()]);
    let lines = near.json_lines(&[&agent[..], &["recall"]].concat());
    let said = lines.iter().map(ToString::to_string).collect::<String>();
    assert!(said.contains("1. hello"), "{said}");
    assert_eq!(&lines.last().unwrap()["acpxSessionId"], session);
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
fn an_agent_elsewhere_is_configured_with_its_token_in_a_file_and_the_token_is_nowhere_else() {
    let (far, near) = (Place::new(), Place::new());
    let secret = far.ok(&["token", "new"]);
    let served = Served::new(&far, &[]);
    let file = near.beside("token");
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
fn an_agent_that_is_not_reached_is_said_to_be_lost_and_not_to_have_ended() {
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
        let hint = "do what these words say; the other machine must be there, and let us in";
        assert_eq!(error["data"]["hint"], hint, "{error}");
        error["message"].as_str().unwrap().to_owned()
    };
    for url in [&served.websocket, &served.url] {
        let missing = failure(url, None);
        assert!(missing.contains("a bearer token is needed"), "{missing}");
        assert!(missing.contains("set ACPX_REMOTE_TOKEN"), "{missing}");
        let wrong = failure(url, Some("acpx_wrong"));
        assert!(wrong.contains("this token does not hold here"), "{wrong}");
        assert!(wrong.contains("was revoked") && !wrong.contains("ACPX_REMOTE_TOKEN"), "{wrong}");
    }
    let (websocket, url) = (served.websocket.clone(), served.url.clone());
    served.kill();
    for url in [&websocket, &url] {
        let nobody = failure(url, None);
        assert!(nobody.contains("cannot reach") && nobody.contains("acpx serve runs there"), "{nobody}");
    }
}
