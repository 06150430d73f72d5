//! The identity contract over the command line.

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Place, text};

/// The three ids of an object; `Null` for one that is not there.
fn ids(value: &Value) -> [&Value; 3] {
    [&value["acpxRecordId"], &value["acpxSessionId"], &value["agentSessionId"]]
}

/// What every command about the session of `demo` here says, in JSON.
fn every_command(place: &Place) -> Vec<(&'static str, Value)> {
    let listed = place.json(&["demo", "sessions", "list"]);
    let queued = place.json(&["demo", "prompt", "--no-wait", "later"]);
    let queued_turn = place.json(&["demo", "prompt", "and this"]);
    vec![
        ("ensure", place.json(&["demo", "sessions", "ensure"])),
        ("status", place.json(&["demo", "status"])),
        ("show", place.json(&["demo", "sessions", "show"])),
        ("list", listed[0].clone()),
        ("history", place.json(&["demo", "sessions", "history"])),
        ("queued", queued),
        ("prompt", queued_turn),
        ("cancel", place.json(&["demo", "cancel"])),
        ("close", place.json(&["demo", "sessions", "close"])),
    ]
}

#[test]
fn new_ensure_status_show_list_history_close_prompt_carry_the_ids() {
    let place = Place::new();
    place.demo_with(&["--agent-session-id"]);
    let new = place.json(&["demo", "sessions", "new"]);
    let [record, session, inner] = ids(&new).map(Value::clone);
    assert_eq!(inner, json!(format!("inner-{}", session.as_str().unwrap())), "{new}");
    assert_ne!(record, session);
    for (command, said) in every_command(&place) {
        assert_eq!(ids(&said), [&record, &session, &inner], "{command}: {said}");
    }
    let first = json!([record, session, inner]);
    let next = place.json(&["demo", "sessions", "new"]);
    assert_ne!(json!(ids(&next)), first);
    let replaced = place.json(&["demo", "sessions", "new"]);
    assert_eq!(replaced["replacedRecordId"], next["acpxRecordId"]);
}

#[test]
fn everything_works_without_an_inner_id() {
    let place = Place::new();
    let new = place.json(&["demo", "sessions", "new"]);
    let [record, session, _] = ids(&new).map(Value::clone);
    for (command, said) in every_command(&place) {
        assert_eq!(ids(&said), [&record, &session, &Value::Null], "{command}: {said}");
        assert!(said.get("agentSessionId").is_none(), "{command}: {said}");
    }
    place.ok(&["demo", "sessions", "new"]);
    for command in [&["demo", "status"][..], &["demo", "sessions", "show"]] {
        assert!(!place.ok(command).contains("agentSessionId"), "{command:?}");
    }
}

#[test]
fn fallback_keeps_the_record_id_and_changes_the_session_id() {
    let place = Place::new();
    place.demo_with(&["--agent-session-id"]);
    let new = place.json(&["demo", "sessions", "new"]);
    let [record, lost, lost_inner] = ids(&new).map(Value::clone);
    place.ok(&["demo", "My name is Ada."]);
    place.ok(&["host", "stop"]);
    std::fs::remove_dir_all(place.acpx_home().join("demo")).unwrap();

    let refused = place.acpx(&["--format", "json", "demo", "prompt", "--no-fallback", "recall"]);
    let (code, hint, _) = refused.failure();
    assert_eq!(code, "SESSION_NOT_RESTORED");
    let expected = format!(
        "the prompt was not sent; try again: the session is kept; to continue in a fresh session, add --fallback always \
         (and --carry-history to pass on the conversation), or run: acpx sessions reset {}",
        record.as_str().unwrap()
    );
    assert_eq!(hint, expected);
    let stored = &place.json(&["demo", "status"])["lastRestoreError"];
    let told = (&stored["code"], &stored["data"]["method"], &stored["data"]["detailCode"]);
    let expected = (&json!(-32002), &json!("session/load"), &json!("SESSION_NOT_RESTORED"));
    assert_eq!(told, expected, "{stored}");
    assert_eq!(ids(&refused.lines().last().unwrap()["error"]["data"]), [&record, &lost, &lost_inner]);
    assert_eq!(refused.code, Some(1));

    let done = place.acpx(&["--format", "json", "demo", "recall"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("the agent could not restore the session (agent-lost: session/"), "{done:?}");
    let lines = done.lines();
    let result = lines.last().unwrap();
    let [_, session, inner] = ids(result).map(Value::clone);
    assert_eq!(result["acpxRecordId"], record);
    assert!(session != lost && inner != lost_inner, "{result}");
    let reset = lines.iter().find(|line| line["action"] == "session_reset").unwrap();
    let expected = json!({
        "action": "session_reset", "acpxRecordId": record, "acpxSessionId": session, "agentSessionId": inner,
        "fromAcpxSessionId": lost, "reason": "agent-lost", "announced": true, "error": reset["error"],
    });
    assert_eq!(*reset, expected);
    assert_eq!(reset["error"]["code"], -32002, "{reset}");
    assert!(place.json(&["demo", "status"]).get("lastRestoreError").is_none());
    assert!(done.out.contains("You said nothing before."), "{}", done.out);

    let shown = place.json(&["demo", "sessions", "show"]);
    let rows = shown["lineage"].as_array().unwrap();
    let told: Vec<[&Value; 3]> =
        rows.iter().map(|row| [&row["reason"], &row["acpxSessionId"], &row["agentSessionId"]]).collect();
    assert_eq!(told, [[&json!("created"), &lost, &lost_inner], [&json!("agent-lost"), &session, &inner]]);
    assert_eq!(ids(&place.json(&["demo", "status"])), [&record, &session, &inner]);
    // What was said before is still here, whatever the agent has forgotten.
    assert!(place.ok(&["demo", "sessions", "history"]).contains("My name is Ada."));
}

#[test]
fn history_is_carried_into_a_fresh_session_on_request() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "My name is Ada."]);
    place.ok(&["host", "stop"]);
    std::fs::remove_dir_all(place.acpx_home().join("demo")).unwrap();
    let lines = place.json_lines(&["demo", "prompt", "--carry-history", "hello again"]);
    let prompt = lines.iter().find(|line| line["method"] == "session/prompt").unwrap();
    assert!(prompt["params"]["prompt"].to_string().contains("My name is Ada."), "{prompt}");
}

#[test]
fn session_without_a_prompt_is_recreated_silently() {
    let place = Place::new();
    let new = place.json(&["demo", "sessions", "new"]);
    place.ok(&["host", "stop"]);
    let done = place.acpx(&["--format", "json", "demo", "hello"]);
    assert!(!done.err.contains("fresh"), "{}", done.err);
    let lines = done.lines();
    let result = lines.last().unwrap();
    assert_eq!(result["acpxRecordId"], new["acpxRecordId"]);
    assert_ne!(result["acpxSessionId"], new["acpxSessionId"]);
    let reset = lines.iter().find(|line| line["action"] == "session_reset").unwrap();
    assert_eq!((&reset["reason"], &reset["announced"]), (&json!("not-materialised"), &json!(false)));
}

#[test]
fn remote_list_distinguishes_our_records_from_other_sessions() {
    let place = Place::new();
    place.demo_with(&["--materialise-early"]);
    let ours = place.json(&["demo", "sessions", "new"]);
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["host", "stop"]);
    // A session that another program began with the same agent: exec keeps no record, and an agent that cannot delete
    // its keeps it.
    place.demo_with(&["--materialise-early", "--no-delete"]);
    let theirs = place.json(&["demo", "exec", "hello"]);
    place.demo_with(&["--materialise-early"]);
    let rows = place.json(&["demo", "sessions", "list", "--remote"]);
    let row = |session: &Value| {
        let found = rows["sessions"].as_array().unwrap().iter().find(|row| row["acpxSessionId"] == *session);
        found.unwrap_or_else(|| panic!("{session} in {rows}")).clone()
    };
    assert_eq!(row(&ours["acpxSessionId"])["acpxRecordId"], ours["acpxRecordId"]);
    let remote = row(&theirs["acpxSessionId"]);
    assert_eq!(remote.get("acpxRecordId"), None, "{remote}");
    place.demo_with(&["--no-list"]);
    let refused = place.acpx(&["--format", "json", "demo", "sessions", "list", "--remote"]);
    assert_eq!((refused.failure().0.as_str(), refused.code), ("LIST_UNSUPPORTED", Some(1)));
}

#[test]
fn remote_list_of_a_directory_has_sessions_of_both_its_paths_once() {
    let place = Place::new();
    let link = place.path_of("link");
    std::os::unix::fs::symlink(place.work(), &link).unwrap();
    let (real, link) = (text(place.work().canonicalize().unwrap()), text(link));
    let row = |session: &str, cwd: &str| json!({ "sessionId": session, "cwd": cwd });
    // Asked by a link, it tells of what it knows by the real path too.
    let pages = [
        json!({ "sessions": [row("r1", &real)], "nextCursor": "c" }),
        json!({ "sessions": [row("r2", &real)] }),
        json!({ "sessions": [row("w1", &link), row("r1", &real)], "nextCursor": "d" }),
        json!({ "sessions": [row("w2", &link)] }),
    ];
    let script = pages.into_iter().fold(Script::new(), |script, page| {
        let list = json!({ "sessionCapabilities": { "list": {} } });
        script.initialize(list).expect("session/list").reply(page).next_start()
    });
    let argv = place.scripted(&script);
    let list = ["--format", "quiet", "scripted", "sessions", "list", "--remote", "--filter-cwd", &link];
    let listed = |cursor: &[&str]| {
        let done = place.acpx(&[&list[..], cursor].concat());
        (done.out, done.err)
    };
    let shown = |out: &str, err: &str| (out.to_owned(), err.to_owned());
    assert_eq!(listed(&[]), shown("r1\n", "[acpx] more: --cursor c\n"));
    assert_eq!(listed(&["--cursor", "c"]), shown("r2\nw1\n", "[acpx] more: --cursor written:d\n"));
    assert_eq!(listed(&["--cursor", "written:d"]), shown("w2\n", ""));
    let received =
        received_lines(&argv).into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let asked = received.filter(|line| line["method"] == "session/list").map(|line| line["params"].clone());
    assert_eq!(
        asked.collect::<Vec<_>>(),
        [
            json!({ "cwd": real }),
            json!({ "cwd": real, "cursor": "c" }),
            json!({ "cwd": link }),
            json!({ "cwd": link, "cursor": "d" }),
        ]
    );
}
