//! How the demo agent's conversations outlive its process, and how it fails to bring them back when told to.

use std::fs;

use acpx_testkit::TempHome;
use serde_json::{Value, json};

use crate::demo_process::{RawClient, asked, ended, prompt, restore, said};

/// A session with two exchanges, made by a process that is gone.
async fn kept_session(home: &TempHome) -> String {
    let mut client = RawClient::start(home, &[]).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    client.prompt(&session, "two").await;
    assert!(client.leave().success());
    session
}

fn exchange(text: &str) -> [Value; 2] {
    [asked(text), said(&format!("You said: {text}"))]
}

fn setup() -> Value {
    let modes = json!([{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }]);
    json!({ "result": { "modes": { "currentModeId": "ask", "availableModes": modes } } })
}

#[tokio::test]
async fn load_replays_the_whole_conversation_before_its_response() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    let text = "think plan tool";
    let (said_live, _) = client.prompt(&session, text).await;
    assert!(client.leave().success());

    let mut client = RawClient::start(&home, &[]).await;
    let (replayed, answer) = client.exchange("session/load", restore(&session)).await;
    let expected: Vec<Value> = [asked(text)].into_iter().chain(said_live).collect();
    assert_eq!(replayed, expected);
    assert_eq!(answer, setup());
    let (recalled, _) = client.prompt(&session, "recall").await;
    assert_eq!(recalled, vec![said("You said before:\n1. think plan tool")]);
}

#[tokio::test]
async fn messages_have_ids_that_are_the_same_when_they_are_replayed() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    client.prompt(&session, "think chunks 2").await;
    client.prompt(&session, "wait 1 tool").await;
    assert_eq!(client.messages, ["agent-1-1", "agent-1-2", "agent-1-2", "agent-2-1", "agent-2-2"]);
    client.kill();

    let mut client = RawClient::start(&home, &[]).await;
    client.exchange("session/load", restore(&session)).await;
    let first = ["user-1", "agent-1-1", "agent-1-2", "agent-1-2"];
    let second = ["user-2", "agent-2-1", "agent-2-2"];
    assert_eq!(client.messages, [&first[..], &second[..]].concat());
}

#[tokio::test]
async fn resume_replays_nothing_and_the_conversation_continues() {
    let home = TempHome::new();
    let session = kept_session(&home).await;
    let mut client = RawClient::start(&home, &[]).await;
    assert_eq!(client.call("session/resume", restore(&session)).await, setup());
    let (recalled, _) = client.prompt(&session, "recall").await;
    assert_eq!(recalled, vec![said("You said before:\n1. one\n2. two")]);
}

#[tokio::test]
async fn kill_in_mid_turn_loses_the_answer_and_keeps_the_prompt() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    client.send("session/prompt", prompt(&session, "wait")).await;
    assert_eq!(client.next_update().await, said("Waiting until cancelled.\n"));
    client.kill();

    let mut client = RawClient::start(&home, &[]).await;
    let (replayed, answer) = client.exchange("session/load", restore(&session)).await;
    let expected: Vec<Value> = exchange("one").into_iter().chain([asked("wait")]).collect();
    assert_eq!((replayed, answer), (expected, setup()));
    let (recalled, end) = client.prompt(&session, "recall").await;
    assert_eq!((recalled, end), (vec![said("You said before:\n1. one\n2. wait")], ended("end_turn")));
}

/// The data of an error about a session that is not there.
pub(crate) fn not_found(session: &str) -> Value {
    let details =
        format!("there is no session {session}; open one of the listed sessions, or begin a new one");
    json!({ "sessionId": session, "details": details })
}

#[tokio::test]
async fn session_without_a_prompt_is_not_stored_unless_configured() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    let unknown = json!({
        "code": -32002,
        "message": "Resource not found",
        "data": not_found(&session),
    });
    for method in ["session/load", "session/resume"] {
        assert_eq!(client.call(method, restore(&session)).await, json!({ "error": unknown }));
    }
    assert_eq!(client.call("session/list", json!({})).await, json!({ "result": { "sessions": [] } }));
    client.kill();
    assert_eq!(std::fs::read_dir(home.join("demo")).unwrap().count(), 0);

    let mut client = RawClient::start(&home, &["--materialise-early"]).await;
    let session = client.new_session().await;
    client.kill();
    let mut client = RawClient::start(&home, &[]).await;
    assert_eq!(client.call("session/load", restore(&session)).await, setup());
}

#[tokio::test]
async fn a_replay_can_be_late_partial_missing_or_on_resume() {
    let home = TempHome::new();
    let session = kept_session(&home).await;
    let [first, second] = [exchange("one"), exchange("two")];
    let all: Vec<Value> = first.iter().chain(&second).cloned().collect();
    let table = [
        ("--replay=full", "session/load", all.clone(), vec![]),
        ("--replay=late", "session/load", first.to_vec(), second.to_vec()),
        ("--replay=partial", "session/load", second.to_vec(), vec![]),
        ("--replay=none", "session/load", vec![], vec![]),
        ("--replay-on-resume", "session/resume", all, vec![]),
    ];
    for (flag, method, before, after) in table {
        let mut client = RawClient::start(&home, &[flag]).await;
        let exchange = client.exchange(method, restore(&session)).await;
        assert_eq!(exchange, (before, setup()), "{flag}");
        for update in after {
            assert_eq!(client.next_update().await, update, "{flag}");
        }
    }
}

#[tokio::test]
async fn load_and_resume_fail_in_every_way_of_real_agents() {
    let home = TempHome::new();
    let session = kept_session(&home).await;
    let error = |code: i64, message: &str, data: Option<Value>| {
        let mut error = json!({ "code": code, "message": message });
        if let Some(data) = data {
            error["data"] = data;
        }
        json!({ "error": error })
    };
    let details = |text: &str| Some(json!({ "details": text }));
    let rollout = format!("no rollout found for thread id {session}");
    let told = "Invalid params: sessionId is unknown";
    let invalid = json!({ "field": "sessionId", "problem": "is unknown", "details": told });
    let table = [
        ("not-found", error(-32002, "Resource not found", Some(not_found(&session)))),
        ("not-found-plain", error(-32002, "Resource not found", None)),
        ("not-found-internal", error(-32603, "Internal error", details("Session not found"))),
        ("no-rollout", error(-32603, "Internal error", details(&rollout))),
        ("service-failure", error(-32603, "OpenCode service failure", None)),
        ("invalid-params", error(-32602, told, Some(invalid))),
        (
            "busy-active-writer",
            error(
                -32600,
                "Invalid request: the thread has an active writer",
                Some(json!({ "reason": "thread_active_writer" })),
            ),
        ),
        ("busy-open", error(-31002, "Session is already open", None)),
        ("busy-active", error(-32003, "Session is active", None)),
        ("auth", error(-32000, "Authentication required", None)),
        ("internal", error(-32603, "Internal error", None)),
    ];
    for (kind, expected) in table {
        let mut client = RawClient::start(&home, &["--load-fails", kind, "--resume-fails", kind]).await;
        assert_eq!(client.call("session/load", restore(&session)).await, expected, "{kind}");
        assert_eq!(client.call("session/resume", restore(&session)).await, expected, "{kind}");
    }
}

#[tokio::test]
async fn the_list_is_newest_first_by_directory_and_page() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &["--page-size", "2"]).await;
    let mut sessions = Vec::new();
    for title in ["a", "b", "c"] {
        let session = client.new_session().await;
        client.prompt(&session, title).await;
        sessions.push((session, title));
    }
    let mut rows = Vec::new();
    let mut params = json!({ "cwd": "/project" });
    loop {
        let page = client.call("session/list", params.clone()).await["result"].take();
        let page_rows = page["sessions"].as_array().unwrap().clone();
        assert!(page_rows.len() <= 2);
        rows.extend(page_rows);
        match page.get("nextCursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => break,
        }
    }
    let times: Vec<&str> = rows.iter().map(|row| row["updatedAt"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    let mut listed: Vec<Value> = rows.clone();
    for row in &mut listed {
        row.as_object_mut().unwrap().remove("updatedAt");
    }
    listed.sort_by_key(|row| row["title"].to_string());
    let row = |(session, title): &(String, &str)| json!({ "sessionId": session, "cwd": "/project", "title": title });
    assert_eq!(listed, sessions.iter().map(row).collect::<Vec<_>>());
    let elsewhere = client.call("session/list", json!({ "cwd": "/elsewhere" })).await;
    assert_eq!(elsewhere, json!({ "result": { "sessions": [] } }));
    let bad = client.call("session/list", json!({ "cursor": "nonsense" })).await;
    let problem = "is none that this agent gave";
    let details = format!("Invalid params: cursor {problem}");
    let data = json!({ "field": "cursor", "problem": problem, "details": details });
    assert_eq!(bad["error"]["data"], data);
}

#[tokio::test]
async fn closed_session_stays_listed_and_a_deleted_one_does_not() {
    let home = TempHome::new();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    let id = json!({ "sessionId": session });
    let unknown = json!({ "error": {
        "code": -32002,
        "message": "Resource not found",
        "data": not_found(&session),
    }});
    assert_eq!(client.call("session/close", id.clone()).await, json!({ "result": {} }));
    assert_eq!(client.prompt(&session, "two").await, (vec![], unknown.clone()));
    assert_eq!(client.exchange("session/load", restore(&session)).await.0, exchange("one"));
    assert_eq!(client.call("session/delete", id.clone()).await, json!({ "result": {} }));
    assert_eq!(client.call("session/load", restore(&session)).await, unknown);
    assert_eq!(client.call("session/delete", id).await, json!({ "result": {} }));
    assert_eq!(fs::read_dir(home.join("demo")).unwrap().count(), 0);
}
