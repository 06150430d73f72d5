//! Files and terminals of an agent, as clients have part in them: a file that an editor may have open goes to that
//! editor, and what a terminal shows is told to everybody.

use std::path::Path;
use std::sync::{Arc, Mutex};

use acpx_core::home::published;
use acpx_testkit::Script;
use acpx_testkit::sdk::v1::prompt as sdk_prompt;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, FileSystemCapabilities, InitializeRequest, NewSessionRequest, ReadTextFileRequest,
    ReadTextFileResponse, SessionId, StopReason, WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::{ByteStreams, Client};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::editor::Editor;
use super::{Bench, environment, prompt_params, sdk};
use crate::engine::{everything, received};

/// What the agent was answered, in order.
fn answers(argv: &[String]) -> Vec<Value> {
    received(argv).into_iter().filter(|(method, _)| method == "answer").map(|(_, answer)| answer).collect()
}

fn path(file: &Path) -> Value {
    json!({ "sessionId": "{sessionId}", "path": file })
}

fn content(file: &Path, text: &str) -> Value {
    json!({ "sessionId": "{sessionId}", "path": file, "content": text })
}

/// An agent that does this in every turn.
fn doing(turn: Script) -> Script {
    Script::new().initialize(everything()).serve([
        ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
        ("session/resume", Script::new().reply(json!({}))),
        ("session/prompt", turn.end("end_turn")),
    ])
}

/// An editor of version 1 that offers this.
async fn offering(bench: &Bench, argv: &[String], capabilities: Value) -> Editor {
    let mut editor = bench.joined(1).await;
    let agent = json!({ "name": "scripted", "argv": argv });
    let client = json!({ "agent": agent, "environment": environment(), "cwd": bench.home.path() });
    let params = json!({
        "protocolVersion": 1, "clientCapabilities": capabilities, "_meta": { "acpx": { "client": client } },
    });
    editor.call("initialize", params).await.unwrap();
    editor
}

fn files() -> Value {
    json!({ "fs": { "readTextFile": true, "writeTextFile": true } })
}

#[tokio::test]
async fn official_sdk_client_with_file_capabilities_serves_reads_and_writes() {
    let bench = Bench::new();
    let (open, outside) = (bench.home.join("open"), Path::new("/etc/hostname"));
    std::fs::write(&open, "saved").unwrap();
    let turn = Script::new()
        .request("fs/read_text_file", path(&open))
        .request("fs/write_text_file", content(&open, "changed"))
        .request("fs/read_text_file", path(outside));
    let argv = bench.agent(&doing(turn));
    // Somebody has to start the host.
    let first = bench.client().await;
    let stream = UnixStream::connect(published(&bench.paths).unwrap().socket).await.unwrap();
    let (source, target) = stream.into_split();
    let heard: Arc<Mutex<Vec<(SessionId, String)>>> = Arc::default();
    let (reads, writes) = (Arc::clone(&heard), Arc::clone(&heard));
    let session = Client
        .v1()
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _| {
                reads.lock().unwrap().push((request.session_id, request.path.display().to_string()));
                responder.respond(ReadTextFileResponse::new("unsaved"))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WriteTextFileRequest, responder, _| {
                writes.lock().unwrap().push((request.session_id, request.content));
                responder.respond(WriteTextFileResponse::new())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(ByteStreams::new(target.compat_write(), source.compat()), async move |connection| {
            let fs = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
            let initialize = InitializeRequest::new(ProtocolVersion::V1)
                .client_capabilities(ClientCapabilities::new().fs(fs));
            connection.send_request(initialize).block_task().await?;
            let acpx = json!({ "agent": { "argv": argv }, "environment": environment() });
            let new = NewSessionRequest::new(bench.home.path()).meta(sdk::meta(acpx));
            let session = connection.send_request(new).block_task().await?.session_id;
            let answer = connection.send_request(sdk_prompt(&session, "go")).block_task().await?;
            assert_eq!(answer.stop_reason, StopReason::EndTurn);
            // What is outside goes to nobody.
            let told = answers(&argv);
            assert_eq!(told[..2], [json!({ "content": "unsaved" }), json!({})]);
            assert_eq!(told[2]["code"], -32602);
            assert_eq!(std::fs::read_to_string(bench.home.join("open")).unwrap(), "saved");
            Ok((session, bench))
        })
        .await;
    let (session, bench) = session.unwrap();
    let asked = [bench.home.join("open").display().to_string(), "changed".to_owned()];
    assert_eq!(*heard.lock().unwrap(), asked.map(|about| (session.clone(), about)));
    drop(first);
}

#[tokio::test]
async fn disconnected_client_leaves_reads_to_the_host_and_writes_undone() {
    let bench = Bench::new();
    let (file, read, written) =
        (bench.home.join("file"), bench.home.join("read"), bench.home.join("written"));
    std::fs::write(&file, "saved").unwrap();
    let script = Script::new()
        .initialize(everything())
        .session_new("s1")
        .prompt(|turn| turn.request("fs/read_text_file", path(&file)).touch(&read).end("end_turn"))
        .prompt(|turn| {
            turn.request("fs/write_text_file", content(&file, "x")).touch(&written).end("end_turn")
        });
    let argv = bench.agent(&script);
    let mut one = offering(&bench, &argv, files()).await;
    let record = one.open(&bench).await;
    one.ask("session/prompt", prompt_params(&record, "read", json!({}))).await;
    one.until(|line| line["method"] == "fs/read_text_file").await;
    drop(one);
    super::eventually("the file is read", || read.exists()).await;

    let mut two = offering(&bench, &argv, files()).await;
    two.call("session/resume", bench.load_params(&record)).await.unwrap();
    two.ask("session/prompt", prompt_params(&record, "write", json!({}))).await;
    two.until(|line| line["method"] == "fs/write_text_file").await;
    drop(two);
    super::eventually("the write is answered", || written.exists()).await;
    let words = "the client that has the file did not confirm the write";
    assert_eq!(answers(&argv), [json!({ "content": "saved" }), json!({ "code": -32603, "message": words })]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "saved");
}

#[tokio::test]
async fn editor_gets_permission_requests_for_tools_it_does_not_serve() {
    let bench = Bench::new();
    let file = bench.home.join("file");
    let turn = Script::new()
        .request("fs/write_text_file", content(&file, "text"))
        .request("terminal/create", json!({ "sessionId": "{sessionId}", "command": "true" }));
    let argv = bench.agent(&doing(turn));
    // One that has neither is asked about both.
    let mut editor = offering(&bench, &argv, json!({})).await;
    let record = editor.open(&bench).await;
    let id = editor.ask("session/prompt", prompt_params(&record, "go", json!({}))).await;
    let write = editor.until(|line| line["method"] == "session/request_permission").await;
    assert_eq!(write["params"]["sessionId"], record.as_str());
    assert_eq!(write["params"]["toolCall"]["title"], format!("Write {}", file.display()));
    editor.choose(&write["id"], "allow").await;
    let run = editor.until(|line| line["method"] == "session/request_permission").await;
    assert_eq!(run["params"]["toolCall"]["title"], "Run true");
    editor.choose(&run["id"], "reject").await;
    let (answer, _) = editor.answer(id).await;
    let numbers = answer.unwrap()["_meta"]["acpx"].clone();
    assert_eq!([&numbers["approved"], &numbers["rejected"]], [&json!(1), &json!(1)]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
    // One that runs commands for any agent is not asked about one, though it is the host that runs it.
    let mut other = offering(&bench, &argv, json!({ "terminal": true })).await;
    other.call("session/resume", bench.load_params(&record)).await.unwrap();
    let id = other.ask("session/prompt", prompt_params(&record, "go", json!({}))).await;
    let write = other.question().await;
    other.choose(&write, "reject").await;
    let (answer, before) = other.answer(id).await;
    answer.unwrap();
    assert!(before.iter().all(|line| line["method"] != "session/request_permission"), "{before:?}");
    // Unless a rule wants just that asked.
    let rules =
        json!({ "policy": "approve-all", "interactive": true, "toolPolicy": { "escalate": ["execute"] } });
    let id = other.ask("session/prompt", prompt_params(&record, "go", rules)).await;
    let run = other.question().await;
    other.choose(&run, "reject").await;
    assert_eq!(other.answer(id).await.0.unwrap()["_meta"]["acpx"]["rejected"], 1);
    let told = answers(&argv);
    assert_eq!(told[1]["message"], "Permission denied for terminal/create");
    assert!(told[3]["terminalId"].is_string(), "{told:?}");
}

/// A permission for a tool with this input, to be allowed as `yes` or rejected as `no`.
fn permission(kind: &str, input: &Value) -> Value {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    json!({
        "sessionId": "{sessionId}",
        "toolCall": { "toolCallId": "t1", "title": "a tool", "kind": kind, "rawInput": input },
        "options": [option("yes", "allow_once"), option("no", "reject_once")],
    })
}

#[tokio::test]
async fn identical_approved_tool_request_is_not_asked_again() {
    let bench = Bench::new();
    let file = bench.home.join("file");
    let command = |line: &str| json!({ "sessionId": "{sessionId}", "command": line });
    let ask = "session/request_permission";
    let turn = Script::new()
        .request(ask, permission("other", &json!({ "command": "true" })))
        .request("terminal/create", command("true"))
        // A yes is for one time,
        .request("terminal/create", command("true"))
        .request(ask, permission("edit", &json!({ "path": file, "content": "text" })))
        .request("fs/write_text_file", content(&file, "text"))
        // a no is no yes,
        .request(ask, permission("other", &json!({ "command": "false" })))
        .request("terminal/create", command("false"))
        // and reading is little to say yes to.
        .request(ask, permission("read", &json!({ "command": "id" })))
        .request("terminal/create", command("id"));
    let argv = bench.agent(&doing(turn));
    let mut editor = offering(&bench, &argv, json!({})).await;
    let record = editor.open(&bench).await;
    let id = editor.ask("session/prompt", prompt_params(&record, "go", json!({}))).await;
    let expected = [
        ("a tool", "yes"),
        ("Run true", "reject"),
        ("a tool", "yes"),
        ("a tool", "no"),
        ("Run false", "reject"),
        ("a tool", "yes"),
        ("Run id", "reject"),
    ];
    for (title, option) in expected {
        let question = editor.until(|line| line["method"] == ask).await;
        assert_eq!(question["params"]["toolCall"]["title"], title);
        editor.choose(&question["id"], option).await;
    }
    let (answer, _) = editor.answer(id).await;
    let numbers = answer.unwrap()["_meta"]["acpx"].clone();
    assert_eq!([&numbers["approved"], &numbers["rejected"]], [&json!(3), &json!(4)]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
    let told = answers(&argv);
    assert!(told[1]["terminalId"].is_string(), "{told:?}");
    assert_eq!(told[2]["message"], "Permission denied for terminal/create");
}

/// An agent that runs a command in a tool call, and tells of that as most do.
fn running() -> Script {
    let terminal = json!([{ "type": "terminal", "terminalId": "{terminalId}" }]);
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Run", "status": "in_progress", "content": terminal,
    });
    let about = json!({ "sessionId": "{sessionId}", "terminalId": "{terminalId}" });
    let turn = Script::new()
        .request(
            "terminal/create",
            json!({ "sessionId": "{sessionId}", "command": "echo one; echo two; exit 3" }),
        )
        .update(call)
        .request("terminal/wait_for_exit", about.clone())
        .update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed" }))
        .request("terminal/release", about);
    doing(turn)
}

/// The last content that lines tell of a tool call.
fn last_content(lines: &[Value]) -> Option<&Value> {
    let updates = lines.iter().map(|line| &line["params"]["update"]);
    updates
        .filter(|update| update["toolCallId"] == "t1")
        .filter_map(|update| update.get("content"))
        .next_back()
}

#[tokio::test]
async fn v1_editor_gets_terminal_output_as_text_live_and_replayed() {
    let bench = Bench::new();
    let argv = bench.agent(&running());
    let mut editor = bench.editor(&argv).await;
    let record = editor.open(&bench).await;
    let go = prompt_params(&record, "go", json!({ "policy": "approve-all" }));
    let id = editor.ask("session/prompt", go).await;
    let (answer, lines) = editor.answer(id).await;
    answer.unwrap();
    let text = "$ echo one; echo two; exit 3\none\ntwo\n[exit code 3]";
    let shown = json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
    assert_eq!(last_content(&lines), Some(&shown));
    assert!(lines.iter().all(|line| !line.to_string().contains("terminalId")), "{lines:#?}");
    let mut again = bench.editor(&argv).await;
    let id = again.ask("session/load", bench.load_params(&record)).await;
    let (answer, lines) = again.answer(id).await;
    answer.unwrap();
    let calls: Vec<_> = lines
        .iter()
        .map(|line| &line["params"]["update"])
        .filter(|update| update["toolCallId"] == "t1")
        .collect();
    let expected = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Run", "status": "completed", "content": shown,
    });
    assert_eq!(calls, [&expected]);
}

#[tokio::test]
async fn v2_editor_gets_terminals_as_terminals() {
    let bench = Bench::new();
    let argv = bench.agent(&running());
    let mut editor = bench.speaking(2, 1, &argv).await;
    let record = editor.open(&bench).await;
    editor.ask("session/prompt", prompt_params(&record, "go", json!({ "policy": "approve-all" }))).await;
    let lines = {
        let mut lines = Vec::new();
        editor.until(|line| line["params"]["update"]["state"] == "running").await;
        lines.extend(editor.until_idle().await);
        lines
    };
    let updates: Vec<&Value> = lines.iter().map(|line| &line["params"]["update"]).collect();
    let started = updates.iter().find(|update| update["sessionUpdate"] == "terminal_update").unwrap();
    let id = &started["terminalId"];
    assert_eq!(started["command"], "echo one; echo two; exit 3");
    assert_eq!(last_content(&lines), Some(&json!([{ "type": "terminal", "terminalId": id }])));
    let data: Vec<_> = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "terminal_output_chunk" && update["terminalId"] == *id)
        .collect();
    assert!(!data.is_empty(), "{lines:#?}");
    let ended = updates.iter().rfind(|update| update["sessionUpdate"] == "terminal_update").unwrap();
    assert_eq!(ended["exitStatus"]["exitCode"], 3);
}

#[tokio::test]
async fn additional_directories_are_only_for_supporting_agents() {
    let bench = Bench::new();
    let (more, gone) = (bench.home.join("more"), bench.home.join("gone"));
    std::fs::create_dir(&more).unwrap();
    let new = |directory: &Path| json!({ "cwd": bench.home.path(), "mcpServers": [], "additionalDirectories": [directory] });
    let without = bench.agent(&doing(Script::new()));
    let mut editor = bench.editor(&without).await;
    let refused = editor.call("session/new", new(&more)).await.unwrap_err();
    assert_eq!(
        (&refused["code"], &refused["data"]["field"]),
        (&json!(-32602), &json!("additionalDirectories"))
    );

    let capabilities = json!({ "sessionCapabilities": { "additionalDirectories": {} } });
    let script = Script::new()
        .initialize(capabilities)
        .serve([("session/new", Script::new().reply(json!({ "sessionId": "s1" })))]);
    let with = bench.agent(&script);
    let mut editor = bench.editor(&with).await;
    let refused = editor.call("session/new", new(&gone)).await.unwrap_err();
    assert_eq!(
        (&refused["code"], &refused["data"]["field"]),
        (&json!(-32602), &json!("additionalDirectories[0]"))
    );
    editor.call("session/new", new(&more)).await.unwrap();
    let (_, sent) = received(&with).into_iter().find(|(method, _)| method == "session/new").unwrap();
    assert_eq!(sent["additionalDirectories"], json!([more]));

    // A shell says so too, and its agent is asked when it runs.
    let mut shell = bench.client().await;
    let mut params = bench.new_params(&without);
    params["additionalDirectories"] = json!([more]);
    let refusal = super::refusal(&mut shell, "session/new", &params).await;
    assert_eq!(refusal.code().as_str(), "DIRECTORIES_UNSUPPORTED");
}

#[tokio::test]
async fn directories_of_a_client_replace_all_and_an_unset_list_changes_none() {
    let bench = Bench::new();
    let [one, two] = ["one", "two"].map(|name| {
        let path = bench.home.join(name);
        std::fs::create_dir(&path).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let capabilities =
        json!({ "loadSession": true, "sessionCapabilities": { "resume": {}, "additionalDirectories": {} } });
    let argv = bench.agent(&crate::engine::faithful(capabilities));
    // What the agent was told with its last start.
    let told = || {
        let mut setups = received(&argv).into_iter().filter(|(_, params)| params.get("cwd").is_some());
        setups.next_back().unwrap().1["additionalDirectories"].clone()
    };
    let mut editor = bench.editor(&argv).await;
    let mut new = json!({ "cwd": bench.home.path(), "mcpServers": [] });
    new["additionalDirectories"] = json!([one, two]);
    let made = editor.call("session/new", new).await.unwrap();
    let record = made["sessionId"].as_str().unwrap().to_owned();
    editor.turn(&record, "x").await;
    let rows = editor.call("session/list", json!({})).await.unwrap();
    assert_eq!(rows["sessions"][0]["additionalDirectories"], json!([one, two]));

    // A shell joins and leaves everything as it is.
    let mut shell = bench.client().await;
    let mut same = bench.resume_params(&record);
    same["_meta"]["acpx"]["sameDirectories"] = json!(true);
    shell.call::<Value>("session/resume", &same).await.unwrap();
    assert_eq!(told(), json!([one, two]));
    // While somebody else is at the session its agent keeps what it has, and whoever names others hears so.
    let mut load = bench.load_params(&record);
    let kept = editor.call("session/load", load.clone()).await.unwrap();
    assert_eq!(kept["_meta"]["acpx"]["additionalDirectories"], "kept");
    assert_eq!(told(), json!([one, two]));
    shell.close().await;

    // Alone it has what it names, and what it leaves out is no more.
    let mut known = bench.client().await;
    for (named, expected) in [
        (json!([two]), json!([two])),
        (json!(null), json!(null)),
        (json!([one]), json!([one])),
        (json!([]), json!(null)),
    ] {
        load["additionalDirectories"] = named.clone();
        let mut clients = json!(null);
        while clients != json!(2) {
            clients = known.call::<Value>("_acpx/host/status", &json!({})).await.unwrap()["clients"].clone();
        }
        let answer = editor.call("session/load", load.clone()).await.unwrap();
        assert_eq!(answer["_meta"]["acpx"]["additionalDirectories"], Value::Null, "{named}");
        assert_eq!(told(), expected, "{named}");
        let kept: Vec<String> =
            bench.record(&record).await.additional_directories.iter().map(ToString::to_string).collect();
        assert_eq!(json!(kept), if expected.is_null() { json!([]) } else { expected });
    }
}
