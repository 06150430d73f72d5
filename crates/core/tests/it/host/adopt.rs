//! Sessions that the agent has and we do not: listed after ours, and taken over when they are asked for.

use acpx_core::model::LineageReason;
use acpx_core::store::{RecordFilter, Store};
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, kept_by_agent, prompt_params};
use crate::engine::{methods, received};

fn capabilities() -> Value {
    json!({ "loadSession": true, "sessionCapabilities": { "resume": {}, "list": {} } })
}

/// An agent that has a conversation of its own and lists it, with a session that it gives to us beside it.
fn with_history(bench: &Bench) -> Script {
    let row = |session: &str, title: &str| json!({ "sessionId": session, "cwd": bench.home.path(), "title": title, "updatedAt": "2026-11-15T00:00:00Z" });
    let elsewhere = json!({ "sessionId": "elsewhere", "cwd": "/", "title": "elsewhere" });
    let listed = json!({ "sessions": [row("theirs", "Theirs"), row("s1", "Ours"), elsewhere] });
    let replay = Script::new().user_said("hello?").say("yes").reply(json!({}));
    Script::new().initialize(capabilities()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/list", Script::new().reply(listed)),
        ("session/load", replay),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("done").end("end_turn")),
    ])
}

/// Asks for the first page of the agent's own sessions, of a list that had no record of ours.
fn agent_list_start() -> Value {
    json!({ "cursor": json!({ "directoryName": "really" }).to_string() })
}

fn ids(page: &Value) -> Vec<&str> {
    let rows = page["sessions"].as_array().unwrap();
    rows.iter().map(|row| row["sessionId"].as_str().unwrap()).collect()
}

/// How an agent was asked for its sessions; what it can do it is asked besides.
fn setups(argv: &[String]) -> Vec<String> {
    let is_setup = |method: &String| matches!(&**method, "session/new" | "session/load" | "session/resume");
    methods(argv).into_iter().filter(is_setup).collect()
}

/// What a client was told of a conversation: who said what.
fn conversation(lines: &[Value]) -> Vec<(&str, &str)> {
    let updates = lines.iter().map(|line| &line["params"]["update"]);
    let said = updates.map(|update| (update["sessionUpdate"].as_str(), update["content"]["text"].as_str()));
    said.filter_map(|(kind, text)| Some((kind?, text?))).collect()
}

#[tokio::test]
async fn session_list_has_our_records_and_those_of_the_agent_each_once() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut editor = bench.editor(&argv).await;
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    let ours = editor.call("session/new", new).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    editor
        .call("session/prompt", prompt_params(&ours, "\nfix the tests\nall of them", json!({})))
        .await
        .unwrap();

    // The directory by another name.
    let link = bench.home.join("link");
    std::os::unix::fs::symlink(bench.home.path(), &link).unwrap();
    let first = editor.call("session/list", json!({ "cwd": link })).await.unwrap();
    assert_eq!(ids(&first), [ours.as_str(), "theirs"]);
    let row = &first["sessions"][0];
    assert_eq!((&row["title"], &row["cwd"]), (&json!("fix the tests"), &json!(bench.home.path())));
    assert_eq!(row["_meta"]["acpx"], json!({ "acpxRecordId": ours, "acpxSessionId": "s1" }));
    assert!(row["updatedAt"].is_string(), "{row}");

    let theirs = json!({
        "sessionId": "theirs", "cwd": bench.home.path(), "title": "Theirs",
        "updatedAt": "2026-11-15T00:00:00Z",
    });
    assert_eq!(first["sessions"][1], theirs);
    // An agent that follows links itself tells it by both names of the directory, and it is listed once.
    let next = json!({ "cwd": link, "cursor": first["nextCursor"] });
    assert_eq!(editor.call("session/list", next).await.unwrap(), json!({ "sessions": [] }));

    let error = editor.call("session/list", json!({ "cursor": "nowhere" })).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("cursor")));
}

#[tokio::test]
async fn session_list_asks_the_agent_for_real_and_given_directory_paths() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut editor = bench.editor(&argv).await;
    let real = bench.home.path().to_str().unwrap();
    std::os::unix::fs::symlink(real, bench.home.join("link")).unwrap();
    let mut asked = Vec::new();
    for (written, names) in [
        (format!("{real}/"), vec![real.to_owned()]),
        (format!("{real}/link/"), vec![real.to_owned(), format!("{real}/link")]),
    ] {
        let (mut listed, mut params) = (Vec::new(), json!({ "cwd": written }));
        loop {
            let page = editor.call("session/list", params.clone()).await.unwrap();
            listed.extend(ids(&page).into_iter().map(str::to_owned));
            let Some(next) = page.get("nextCursor") else { break };
            params["cursor"] = next.clone();
        }
        assert_eq!(listed, ["theirs", "s1"], "{written}");
        asked.extend(names);
    }
    let lists = received(&argv).into_iter().filter(|(method, _)| method == "session/list");
    let cwds: Vec<_> = lists.map(|(_, params)| params["cwd"].as_str().unwrap().to_owned()).collect();
    assert_eq!(cwds, asked);
}

#[tokio::test]
async fn broken_session_list_of_an_agent_does_not_hide_our_records() {
    let bench = Bench::new();
    // It is asked what it can do, makes a session, and is broken from then on.
    let asked = Script::new().initialize(capabilities()).next_start();
    let prompted = asked.initialize(capabilities()).session_new("s1").prompt(|turn| turn.end("end_turn"));
    let broken = prompted.next_start().exit(3);
    let mut editor = bench.editor(&bench.agent(&broken)).await;
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    let made = editor.call("session/new", new).await.unwrap();
    editor.turn(made["sessionId"].as_str().unwrap(), "x").await;
    // While it runs, it is the one that is asked.
    editor.call("session/close", json!({ "sessionId": made["sessionId"] })).await.unwrap();
    let first = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!((ids(&first), first.get("nextCursor")), (vec![made["sessionId"].as_str().unwrap()], None));
    let why = first["_meta"]["acpx"]["remoteError"].as_str().expect("why");
    assert!(why.contains("ended before it answered initialize"), "{why}");

    let without = Script::new().initialize(json!({})).serve([("session/new", Script::new())]);
    let mut editor = bench.editor(&bench.agent(&without)).await;
    let rest = editor.call("session/list", agent_list_start()).await.unwrap();
    assert_eq!(rest, json!({ "sessions": [] }));
}

#[tokio::test]
async fn agents_own_session_becomes_a_record_with_its_history_and_id() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut editor = bench.editor(&argv).await;
    let load = editor.ask("session/load", bench.load_params("theirs")).await;
    let (answer, told) = editor.answer(load).await;
    let answer = answer.unwrap();
    assert_eq!(answer["_meta"]["acpx"]["acpxRecordId"], "theirs");
    let history = [("user_message_chunk", "hello?"), ("agent_message_chunk", "yes")];
    assert_eq!(conversation(&told), history);
    let record = bench.record("theirs").await;
    assert_eq!(record.lineage.current().reason, LineageReason::Adopted);
    assert_eq!((record.lineage.rows().len(), record.lineage.current().session.as_str()), (1, "theirs"));
    let answer = editor.call("session/prompt", prompt_params("theirs", "go on", json!({}))).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");

    // From now on it is a record like any other: the agent is not asked for what was said.
    let mut other = bench.editor(&argv).await;
    let load = other.ask("session/load", bench.load_params("theirs")).await;
    let (answer, told) = other.answer(load).await;
    answer.unwrap();
    let more = [("user_message_chunk", "go on"), ("agent_message_chunk", "done")];
    assert_eq!(conversation(&told), [history, more].concat());
    let page = other.call("session/list", json!({})).await.unwrap();
    assert_eq!(ids(&page), ["theirs", "s1", "elsewhere"]);
    assert_eq!(setups(&argv), ["session/load"]);
}

#[tokio::test]
async fn two_concurrent_loads_of_one_session_create_one_record() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let (mut one, mut two) = (bench.editor(&argv).await, bench.editor(&argv).await);
    let first = one.ask("session/resume", bench.load_params("theirs")).await;
    let second = two.ask("session/resume", bench.load_params("theirs")).await;
    one.answer(first).await.0.unwrap();
    two.answer(second).await.0.unwrap();
    assert_eq!(setups(&argv), ["session/load"]);
    assert_eq!(bench.record("theirs").await.lineage.rows().len(), 1);
}

#[tokio::test]
async fn session_of_an_agent_named_by_command_line_has_one_record() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut client = bench.client().await;
    let agent = json!({ "argv": argv });
    let new = json!({ "cwd": bench.home.path(), "mcpServers": [], "_meta": { "acpx": { "agent": agent } } });
    let ours: Value = client.call("session/new", &new).await.unwrap();
    super::prompt(&mut client, ours["sessionId"].as_str().unwrap(), "x").await;

    let mut editor = bench.editor(&argv).await;
    let error = editor.call("session/load", bench.load_params("s1")).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!("s1")));
    assert_eq!(editor.call("session/delete", json!({ "sessionId": "s1" })).await, Ok(json!({})));
    // By the id that it has here it is there, whoever calls its agent how, and so it is listed.
    let ours = ours["sessionId"].as_str().unwrap();
    let page = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!(ids(&page), [ours, "theirs", "elsewhere"]);
    let known = json!({ "acpxRecordId": ours, "acpxSessionId": "s1" });
    assert_eq!(page["sessions"][0]["_meta"]["acpx"], known);
    let answer = editor.call("session/resume", bench.load_params(ours)).await.unwrap();
    assert_eq!(answer["_meta"]["acpx"]["acpxSessionId"], "s1");
    assert_eq!(setups(&argv), ["session/new"]);
}

#[tokio::test]
async fn session_unknown_to_the_agent_is_unknown_and_leaves_nothing() {
    let bench = Bench::new();
    let refuse = || Script::new().reply_error(json!({ "code": -32602, "message": "no such session" }));
    let unknowing = Script::new()
        .initialize(capabilities())
        .serve([("session/load", refuse()), ("session/resume", refuse())]);
    let unable = Script::new().initialize(json!({}));
    for (script, asked) in [(unknowing, &["session/load", "session/resume"][..]), (unable, &[])] {
        let argv = bench.agent(&script);
        let mut editor = bench.editor(&argv).await;
        for method in ["session/load", "session/resume"] {
            let error = editor.call(method, bench.load_params("nobodys")).await.unwrap_err();
            assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!("nobodys")));
        }
        assert_eq!(setups(&argv), [asked, asked].concat());
        let heard = received(&argv).len();
        // A command of ours has no agent of its own to ask.
        let mut client = bench.client().await;
        let refusal = super::refusal(&mut client, "session/resume", &bench.resume_params("nobodys")).await;
        assert_eq!((refusal.number, received(&argv).len()), (-32002, heard));
    }
}

#[tokio::test]
async fn temporary_load_failure_is_not_reported_as_an_unknown_session() {
    let bench = Bench::new();
    let refuse = || Script::new().reply_error(json!({ "code": -32603, "message": "the disk is busy" }));
    let script = Script::new()
        .initialize(capabilities())
        .serve([("session/load", refuse()), ("session/resume", refuse())]);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let error = editor.call("session/load", bench.load_params("theirs")).await.unwrap_err();
    let message = "the agent \"scripted\" did not restore the session theirs: session/resume failed: the disk is busy (-32603)";
    let hint = "no session was opened; do what the agent's message asks for, then try again";
    let acpx = json!({ "code": "SESSION_NOT_RESTORED", "hint": hint });
    let data = json!({ "details": format!("{message}; {hint}"), "acpx": acpx });
    assert_eq!(error, json!({ "code": -32603, "message": message, "data": data }));
    assert_eq!(bench.store().records(RecordFilter::default(), None, 9).await.unwrap(), []);
}

#[tokio::test]
async fn missing_login_during_adoption_is_reported() {
    let bench = Bench::new();
    let refuse =
        || Script::new().reply_error(json!({ "code": -32000, "message": "Authentication required" }));
    let script = Script::new().initialize(capabilities()).serve([("session/load", refuse())]);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let error = editor.call("session/load", bench.load_params("theirs")).await.unwrap_err();
    assert_eq!(error["code"], -32000);
}

#[tokio::test]
async fn adopted_session_has_the_agents_title_or_its_first_message() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut editor = bench.editor(&argv).await;
    let answer = editor.call("session/load", bench.load_params("theirs")).await.unwrap();
    let how = &answer["_meta"]["acpx"];
    assert_eq!((&how["created"], &how["awakening"]["by"]), (&json!(true), &json!("session/load")));
    assert_eq!(bench.record("theirs").await.info.title.as_deref(), Some("Theirs"));

    let replay = Script::new().user_said("first").user_said(" words").say("yes").user_said("more");
    let nameless = Script::new()
        .initialize(json!({ "loadSession": true }))
        .serve([("session/load", replay.reply(json!({})))]);
    let mut editor = bench.editor(&bench.agent(&nameless)).await;
    editor.call("session/load", bench.load_params("nameless")).await.unwrap();
    assert_eq!(bench.record("nameless").await.info.title.as_deref(), Some("first words"));
}

#[tokio::test]
async fn adopted_session_has_the_agents_time_until_its_first_turn() {
    let bench = Bench::new();
    let row = json!({ "sessionId": "old", "cwd": bench.home.path(), "updatedAt": "2020-01-02T03:04:05Z" });
    let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] });
    let replay = Script::new().user_said("hello?").say("yes").reply(json!({})).update(commands);
    let script = Script::new().initialize(capabilities()).serve([
        ("session/list", Script::new().reply(json!({ "sessions": [row] }))),
        ("session/load", replay),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", Script::new().say("done").end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    let told = json!("2020-01-02T03:04:05.000Z");
    // It is looked at, let go of and brought back, also by another host.
    editor.call("session/load", bench.load_params("old")).await.unwrap();
    for _ in 0..2 {
        editor.call("session/close", json!({ "sessionId": "old" })).await.unwrap();
        editor.call("session/resume", bench.load_params("old")).await.unwrap();
        let page = editor.call("session/list", json!({})).await.unwrap();
        assert_eq!((ids(&page), &page["sessions"][0]["updatedAt"]), (vec!["old"], &told));
        bench.kill_host().await;
        editor = bench.editor(&argv).await;
        editor.call("session/resume", bench.load_params("old")).await.unwrap();
    }
    assert_eq!(json!(bench.record("old").await.updated_at.to_string()), told);
    editor.call("session/prompt", prompt_params("old", "go on", json!({}))).await.unwrap();
    let record = bench.record("old").await;
    assert!(record.updated_at >= record.created_at, "{record:?}");
}

#[tokio::test]
async fn last_turns_of_an_adopted_session_count_exchanges_and_own_turns() {
    let bench = Bench::new();
    let replay = Script::new().user_said("A?").say("a").user_said("B?").say("b").user_said("C?").say("c");
    let script = Script::new().initialize(json!({ "loadSession": true })).serve([
        ("session/load", replay.reply(json!({}))),
        ("session/prompt", Script::new().say("d").end("end_turn")),
    ]);
    let argv = bench.agent(&script);
    let mut editor = bench.editor(&argv).await;
    editor.call("session/load", bench.load_params("theirs")).await.unwrap();
    editor.call("session/prompt", prompt_params("theirs", "D?", json!({}))).await.unwrap();
    let all = ["A?", "a", "B?", "b", "C?", "c", "D?", "d"];
    for (turns, told) in [(1, &all[6..]), (2, &all[4..]), (4, &all[..]), (5, &all[..])] {
        let mut params = bench.load_params("theirs");
        params["_meta"] = json!({ "acpx": { "replay": { "turns": turns } } });
        let mut other = bench.editor(&argv).await;
        let load = other.ask("session/load", params).await;
        let (answer, lines) = other.answer(load).await;
        answer.unwrap();
        let texts: Vec<&str> = conversation(&lines).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, told, "the last {turns}");
    }
    let mut params = bench.load_params("theirs");
    params["_meta"] = json!({ "acpx": { "replayFrom": { "type": "_acpx/turn", "turn": 3 } } });
    let error = editor.call("session/load", params).await.unwrap_err();
    assert_eq!(
        error["data"]["problem"],
        "names a place that is not there: only what was said since the session was adopted has turns: it has no turn 3; its last one is 1"
    );
}

#[tokio::test]
async fn session_is_not_adopted_in_another_directory_than_the_agents() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut editor = bench.editor(&argv).await;
    let error = editor.call("session/resume", bench.load_params("elsewhere")).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("cwd")));
    assert_eq!(error["data"]["acpx"]["code"], "SESSION_WORKS_ELSEWHERE");
    assert_eq!(setups(&argv), Vec::<String>::new());
}

#[tokio::test]
async fn session_list_uses_a_running_agent_and_is_absent_without_one() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut editor = bench.editor(&argv).await;
    let ours = editor.open(&bench).await;
    editor.turn(&ours, "x").await;
    let kept = bench.record(&ours).await;
    let starts = || methods(&argv).iter().filter(|method| *method == "initialize").count();
    let before = starts();
    // The session whose process it is has nothing to do with it, and is as it was.
    let page = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!((ids(&page), starts()), (vec![ours.as_str(), "theirs", "elsewhere"], before));
    assert_eq!(bench.record(&ours).await, kept);

    let without = Script::new().initialize(json!({})).serve([("session/new", Script::new())]);
    let mut editor = bench.editor(&bench.agent(&without)).await;
    let page = editor.call("session/list", json!({ "cwd": bench.home.path() })).await.unwrap();
    assert_eq!(page.get("nextCursor"), None, "{page}");
}

#[tokio::test]
async fn session_list_of_a_busy_serial_agent_uses_another_process() {
    let bench = Bench::new();
    let (began, go) = (bench.home.join("began"), bench.home.join("go"));
    let capabilities = json!({ "sessionCapabilities": { "list": {}, "delete": {} } });
    let row = json!({ "sessionId": "theirs", "cwd": bench.home.path() });
    let script = Script::new().initialize(capabilities).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/prompt", Script::new().touch(&began).await_file(&go).end("end_turn")),
        ("session/list", Script::new().reply(json!({ "sessions": [row] }))),
        ("session/delete", Script::new().reply(json!({}))),
    ]);
    let mut editor = bench.editor(&bench.agent(&script)).await;
    let session = editor.open(&bench).await;
    let turn = editor.ask("session/prompt", prompt_params(&session, "work", json!({}))).await;
    super::eventually("the turn runs", || began.exists()).await;
    let page = editor.call("session/list", agent_list_start()).await.unwrap();
    assert_eq!(ids(&page), ["theirs"]);
    assert_eq!(editor.call("session/delete", json!({ "sessionId": "theirs" })).await, Ok(json!({})));
    std::fs::write(&go, "").unwrap();
    assert_eq!(editor.answer(turn).await.0.unwrap()["stopReason"], "end_turn");
}

#[tokio::test]
async fn delete_of_a_session_only_the_agent_has_deletes_or_hides_it() {
    let bench = Bench::new();
    let row = json!({ "sessionId": "theirs", "cwd": bench.home.path() });
    let list = Script::new().reply(json!({ "sessions": [row] }));
    let able = Script::new()
        .initialize(json!({ "sessionCapabilities": { "list": {}, "delete": {} } }))
        .serve([("session/list", list.clone()), ("session/delete", Script::new().reply(json!({})))]);
    let argv = bench.agent(&able);
    let mut editor = bench.editor(&argv).await;
    let theirs = json!({ "sessionId": "theirs" });
    assert_eq!(editor.call("session/delete", theirs.clone()).await, Ok(json!({})));
    let deleted: Vec<_> =
        received(&argv).into_iter().filter(|(method, _)| method == "session/delete").collect();
    assert_eq!(deleted, [("session/delete".to_owned(), theirs.clone())]);

    let capabilities = json!({ "loadSession": true, "sessionCapabilities": { "list": {} } });
    let unable = Script::new().initialize(capabilities).serve([("session/list", list)]);
    let mut editor = bench.editor(&bench.agent(&unable)).await;
    assert_eq!(editor.call("session/delete", theirs).await, Ok(kept_by_agent()));
    let page = editor.call("session/list", agent_list_start()).await.unwrap();
    assert_eq!(ids(&page), Vec::<&str>::new());
    let error = editor.call("session/load", bench.load_params("theirs")).await.unwrap_err();
    assert_eq!(error["code"], -32002);
    // What the agent does not have leaves nothing behind.
    assert_eq!(editor.call("session/delete", json!({ "sessionId": "nobodys" })).await, Ok(json!({})));
    let nobodys = acpx_core::model::RecordId::new("nobodys").unwrap();
    assert_eq!(acpx_core::store::Store::record(&bench.store(), nobodys).await.unwrap(), None);
}

#[tokio::test]
async fn session_delete_is_remembered_for_an_agent_list_without_a_last_page() {
    let bench = Bench::new();
    let unread = Script::new().reply(json!({ "sessions": [], "nextCursor": "again" }));
    let capabilities = json!({ "loadSession": true, "sessionCapabilities": { "list": {} } });
    let agent = Script::new().initialize(capabilities).serve([("session/list", unread)]);
    let mut editor = bench.editor(&bench.agent(&agent)).await;
    let theirs = json!({ "sessionId": "theirs" });
    assert_eq!(editor.call("session/delete", theirs).await, Ok(kept_by_agent()));
    let error = editor.call("session/load", bench.load_params("theirs")).await.unwrap_err();
    assert_eq!(error["code"], -32002);
}

#[tokio::test]
async fn a_load_that_is_refused_has_done_nothing() {
    let bench = Bench::new();
    let argv = bench.agent(&with_history(&bench));
    let mut editor = bench.editor(&argv).await;
    let server = |name: &str| json!([{ "name": name, "command": "/bin/true", "args": [], "env": [] }]);
    let from = |cursor: Value| json!({ "_meta": { "acpx": { "replayFrom": cursor } } });
    let wrong = [
        (from(json!({ "type": "end" })), "_meta.acpx.replayFrom"),
        // Nothing is kept of it that could have such places.
        (from(json!({ "type": "_acpx/turn", "turn": 99 })), "_meta.acpx.replayFrom"),
        (from(json!({ "type": "_acpx/seq", "seq": 2 })), "_meta.acpx.replayFrom"),
        (from(json!({ "type": "_acpx/message", "messageId": "m" })), "_meta.acpx.replayFrom"),
        (json!({ "additionalDirectories": ["relative"] }), "additionalDirectories"),
    ];
    for (more, field) in wrong {
        let mut params = bench.load_params("theirs");
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = editor.call("session/load", params).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{refused}");
        assert!(refused["data"]["field"].as_str().unwrap().starts_with(field), "{refused}");
    }
    assert_eq!(setups(&argv), [""; 0]);
    assert_eq!(bench.store().record(acpx_core::model::RecordId::new("theirs").unwrap()).await.unwrap(), None);

    // Nor is an agent started anew for a place that is not there, whatever servers it would have.
    let record = editor.open(&bench).await;
    editor.turn(&record, "x").await;
    let before = bench.record(&record).await.agent_run.unwrap();
    let mut params = bench.load_params(&record);
    params["mcpServers"] = server("other");
    params["_meta"] = json!({ "acpx": { "replayFrom": { "type": "_acpx/turn", "turn": 9 } } });
    let refused = editor.call("session/load", params.clone()).await.unwrap_err();
    assert_eq!(refused["data"]["field"], "_meta.acpx.replayFrom");
    assert_eq!(bench.record(&record).await.agent_run, Some(before.clone()));
    params["_meta"] = json!({});
    editor.call("session/load", params).await.unwrap();
    assert_ne!(bench.record(&record).await.agent_run.unwrap().process, before.process);
}
