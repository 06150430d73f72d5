//! Clients of both versions over agents of both versions: all four live the same session, and on one session they see
//! the same conversation. The agents are made with the official SDK.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Bench;
use super::editor::{Editor, conversation, last_state};
use crate::examples;

/// The command line of the agent that speaks this version.
fn agent(bench: &Bench, version: u16) -> Vec<String> {
    let directory = bench.home.join("agent");
    std::fs::create_dir_all(&directory).unwrap();
    let words = [examples::program("sdk_agent"), directory].map(PathBuf::into_os_string);
    let words = words.map(|word| word.into_string().unwrap()).into_iter();
    words.chain((version == 2).then(|| "--v2".to_owned())).collect()
}

/// Restores the session with all of its conversation, as the editor's version does that.
pub(super) async fn with_replay(
    bench: &Bench,
    editor: &mut Editor,
    record: &str,
) -> (Result<Value, Value>, Vec<Value>) {
    let mut params = bench.load_params(record);
    let method = if editor.version == 1 {
        "session/load"
    } else {
        params["replayFrom"] = json!({ "type": "start" });
        "session/resume"
    };
    let id = editor.ask(method, params).await;
    editor.answer(id).await
}

async fn lives_a_whole_session(client: u16, of_agent: u16) {
    let bench = Bench::new();
    let argv = agent(&bench, of_agent);
    let mut editor = bench.speaking(client, of_agent, &argv).await;
    let record = editor.open(&bench).await;
    let mut ids = Vec::new();
    let mut expected = Vec::new();
    for (prompt, said, stop) in [
        ("one", "You said: one", "end_turn"),
        ("permission", "selected yes", "end_turn"),
        ("wait", "waiting", "cancelled"),
    ] {
        let turn = editor.turn(&record, prompt).await;
        assert_eq!(turn.stop_reason, stop, "{prompt}");
        // Whoever asked is told its own words in version 2 only.
        let user = (client == 2).then(|| format!("user: {prompt}"));
        let heard: Vec<_> = user.into_iter().chain([format!("agent: {said}")]).collect();
        assert_eq!(conversation(&turn.lines), heard);
        expected.extend([format!("user: {prompt}"), format!("agent: {said}")]);
        ids.extend(turn.message);
    }
    let rows = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!(rows["sessions"][0]["sessionId"], json!(record), "{rows}");
    assert_eq!(rows["sessions"][0]["title"], "one");

    // It goes without a word, and so does the host.
    drop(editor);
    bench.kill_host().await;
    let mut editor = bench.speaking(client, of_agent, &argv).await;
    let (answer, replay) = with_replay(&bench, &mut editor, &record).await;
    answer.unwrap();
    assert_eq!(conversation(&replay), expected);
    let told: Vec<_> = replay.iter().filter_map(user_message).collect();
    assert_eq!(told, ids, "a message is replayed under the id that its prompt was answered with");
    let turn = editor.turn(&record, "recall").await;
    assert_eq!(conversation(&turn.lines).last().unwrap(), "agent: one, permission, wait");

    let id = editor.ask("session/resume", bench.load_params(&record)).await;
    let (answer, before) = editor.answer(id).await;
    answer.unwrap();
    let state = (client == 2).then(|| json!({ "sessionUpdate": "state_update", "state": "idle" }));
    assert_eq!(
        before.iter().map(|line| &line["params"]["update"]).collect::<Vec<_>>(),
        state.iter().collect::<Vec<_>>()
    );

    let params = json!({ "sessionId": record });
    assert_eq!(editor.call("session/close", params.clone()).await, Ok(json!({})));
    let closed = editor.call("session/prompt", super::prompt_params(&record, "x", json!({}))).await;
    assert_eq!(closed.unwrap_err()["data"]["sessionId"], json!(record));
    assert_eq!(editor.call("session/delete", params).await, Ok(json!({})));
    let (gone, _) = with_replay(&bench, &mut editor, &record).await;
    assert_eq!(gone.unwrap_err()["code"], -32002);
}

/// The id of a whole message of the user.
fn user_message(line: &Value) -> Option<String> {
    let update = &line["params"]["update"];
    (update["sessionUpdate"] == "user_message").then(|| update["messageId"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn v1_client_runs_a_session_with_a_v1_agent() {
    lives_a_whole_session(1, 1).await;
}

#[tokio::test]
async fn v1_client_runs_a_session_with_a_v2_agent() {
    lives_a_whole_session(1, 2).await;
}

#[tokio::test]
async fn v2_client_runs_a_session_with_a_v1_agent() {
    lives_a_whole_session(2, 1).await;
}

#[tokio::test]
async fn v2_client_runs_a_session_with_a_v2_agent() {
    lives_a_whole_session(2, 2).await;
}

/// What one of them asks the other hears, as the user's words and the agent's.
async fn see_the_same(of_agent: u16) {
    let bench = Bench::new();
    let argv = agent(&bench, of_agent);
    let mut first = bench.speaking(1, of_agent, &argv).await;
    let record = first.open(&bench).await;
    let mut second = bench.speaking(2, of_agent, &argv).await;
    second.call("session/resume", bench.load_params(&record)).await.unwrap();

    first.turn(&record, "by the first").await;
    let heard = second.until_idle().await;
    assert_eq!(conversation(&heard), ["user: by the first", "agent: You said: by the first"]);
    assert_eq!(last_state(&heard)["stopReason"], "end_turn");
    let own = second.turn(&record, "by the second").await;
    assert_eq!(conversation(&own.lines), ["user: by the second", "agent: You said: by the second"]);
    let mut lines = Vec::new();
    while conversation(&lines).len() < 2 {
        lines.push(first.next().await);
    }
    assert_eq!(conversation(&lines), ["user: by the second", "agent: You said: by the second"]);

    let (one, two) =
        (with_replay(&bench, &mut first, &record).await.1, with_replay(&bench, &mut second, &record).await.1);
    let expected = [
        "user: by the first",
        "agent: You said: by the first",
        "user: by the second",
        "agent: You said: by the second",
    ];
    assert_eq!(
        (conversation(&one), conversation(&two)),
        (expected.map(str::to_owned).to_vec(), expected.map(str::to_owned).to_vec())
    );
}

#[tokio::test]
async fn clients_of_both_versions_see_one_conversation_of_a_v1_agent() {
    see_the_same(1).await;
}

#[tokio::test]
async fn clients_of_both_versions_see_one_conversation_of_a_v2_agent() {
    see_the_same(2).await;
}
