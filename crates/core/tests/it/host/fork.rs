//! `session/fork`, of an agent that has it.

use acpx_core::model::LineageReason;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::editor::conversation;
use super::version_combinations::with_replay;
use super::{Bench, eventually, prompt_params};
use crate::engine::received;

fn capabilities(fork: bool) -> Value {
    let mut session = json!({ "resume": {} });
    if fork {
        session["fork"] = json!({});
    }
    json!({ "loadSession": true, "sessionCapabilities": session })
}

fn script(fork: bool) -> Script {
    Script::new().initialize(capabilities(fork)).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/fork", Script::new().reply(json!({ "sessionId": "s2" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("done").end("end_turn")),
    ])
}

fn texts(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["params"]["update"]["content"]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_fork_has_the_whole_conversation_and_the_two_go_on_apart() {
    let bench = Bench::new();
    let argv = bench.agent(&script(true));
    let mut editor = bench.editor(&argv).await;
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    let first = editor.call("session/new", new).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    editor.call("session/prompt", prompt_params(&first, "one", json!({}))).await.unwrap();

    let forked = editor.call("session/fork", bench.load_params(&first)).await.unwrap();
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    let expected = json!({
        "acpxRecordId": fork, "acpxSessionId": "s2", "created": true, "seq": forked["_meta"]["acpx"]["seq"],
    });
    assert_eq!(forked["_meta"]["acpx"], expected);
    let asked = received(&argv).into_iter().find(|(method, _)| method == "session/fork").unwrap().1;
    assert_eq!(asked, json!({ "sessionId": "s1", "cwd": bench.home.path(), "mcpServers": [] }));
    let lineage = bench.record(&fork).await.lineage;
    let rows: Vec<_> = lineage.rows().iter().map(|row| (row.session.as_str(), row.reason)).collect();
    assert_eq!(rows, [("s1", LineageReason::Created), ("s2", LineageReason::Forked)]);

    let answer = editor.call("session/prompt", prompt_params(&fork, "two", json!({}))).await.unwrap();
    assert_eq!((&answer["stopReason"], &answer["_meta"]["acpx"]["turn"]), (&json!("end_turn"), &json!(2)));
    // The agent remembers what came before, and nobody is to take it for one that does not.
    let meta = &answer["_meta"]["acpx"];
    assert_eq!((&meta["awakening"], &meta["memory"]), (&json!({ "by": "session/fork" }), &Value::Null));
    editor.call("session/prompt", prompt_params(&first, "apart", json!({}))).await.unwrap();
    let mut other = bench.editor(&argv).await;
    for (record, said) in
        [(&fork, ["one", "done", "two", "done"]), (&first, ["one", "done", "apart", "done"])]
    {
        let load = other.ask("session/load", bench.load_params(record)).await;
        let (answer, told) = other.answer(load).await;
        answer.unwrap();
        assert_eq!(texts(&told), said);
    }
}

/// The same agent in version 2.
fn script_v2() -> Script {
    Script::new().initialize_v2(json!({ "fork": {} })).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/fork", Script::new().reply(json!({ "sessionId": "s2" }))),
        ("session/resume", Script::new().state("idle").reply(json!({}))),
        ("session/prompt", Script::new().insert("go on").say_in("agent-{id}", "done").idle("end_turn")),
    ])
}

#[tokio::test]
async fn clients_of_both_versions_fork_sessions_of_agents_of_both_versions() {
    for (client, of_agent) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let bench = Bench::new();
        let argv = bench.agent(&if of_agent == 1 { script(true) } else { script_v2() });
        let mut editor = bench.speaking(client, of_agent, &argv).await;
        let first = editor.open(&bench).await;
        editor.turn(&first, "go on").await;
        let forked = editor.call("session/fork", bench.load_params(&first)).await.unwrap();
        let fork = forked["sessionId"].as_str().unwrap().to_owned();
        assert_eq!(forked["_meta"]["acpx"]["acpxSessionId"], "s2", "{client} over {of_agent}");
        let asked = received(&argv).into_iter().find(|(method, _)| method == "session/fork").unwrap().1;
        assert_eq!(asked, json!({ "sessionId": "s1", "cwd": bench.home.path(), "mcpServers": [] }));

        editor.turn(&fork, "go on").await;
        for _ in 0..2 {
            editor.turn(&first, "go on").await;
        }
        let mut other = bench.speaking(client, of_agent, &argv).await;
        for (record, turns) in [(&fork, 2), (&first, 3)] {
            let (answer, told) = with_replay(&bench, &mut other, record).await;
            answer.unwrap();
            let said = ["user: go on", "agent: done"].repeat(turns);
            assert_eq!(conversation(&told), said, "{client} over {of_agent}");
        }
    }
}

#[tokio::test]
async fn session_fork_needs_the_capability_and_an_idle_session() {
    let bench = Bench::new();
    let mut editor = bench.editor(&bench.agent(&script(false))).await;
    let error = editor.call("session/fork", bench.load_params("any")).await.unwrap_err();
    assert_eq!(error["code"], -32601);

    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let turn = Script::new().touch(&began).await_file(&go).end("end_turn");
    let busy = Script::new().initialize(capabilities(true)).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", turn),
    ]);
    let argv = bench.agent(&busy);
    let mut editor = bench.editor(&argv).await;
    let error = editor.call("session/fork", bench.load_params("unknown")).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!("unknown")));
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    let record = editor.call("session/new", new).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    let prompt = editor.ask("session/prompt", prompt_params(&record, "x", json!({}))).await;
    eventually("the turn runs", || began.exists()).await;
    let error = editor.call("session/fork", bench.load_params(&record)).await.unwrap_err();
    assert_eq!(error["data"]["acpx"]["code"], "SESSION_BUSY");
    std::fs::write(&go, "").unwrap();
    assert_eq!(editor.answer(prompt).await.0.unwrap()["stopReason"], "end_turn");
    // The agent says no, and nothing is left of it.
    let error = editor.call("session/fork", bench.load_params(&record)).await.unwrap_err();
    assert_eq!(error["data"]["acpx"]["code"], "AGENT_REFUSED");
    let rows = editor.call("session/list", json!({})).await.unwrap()["sessions"].as_array().unwrap().len();
    assert_eq!(rows, 1);
}
