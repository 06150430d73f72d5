//! Who may come in, and what they may do.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use acpx_core::client::Launcher;
use acpx_core::home::{HostPaths, published};
use acpx_core::protocol::HostError;
use acpx_core::tools::Tag;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::settings::{offering, options, with_settings};
use super::{Bench, eventually, prompt_params};
use crate::engine::{everything, received};

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o777
}

impl Bench {
    /// Has the host started, and tells why that did not work.
    async fn refused(&self) -> String {
        let error = self.launcher.reach(&self.paths).await.err().expect("it does not come up");
        assert_eq!(error.code().as_str(), "HOST_DIRECTORY_UNSAFE");
        error.to_string()
    }
}

#[tokio::test]
async fn socket_and_its_directory_are_accessible_only_to_the_user() {
    let bench = Bench::new();
    let _client = bench.client().await;
    let socket = published(&bench.paths).unwrap().socket;
    assert_eq!(socket.parent().unwrap(), bench.sockets());
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    assert_eq!((mode(bench.paths.home()), mode(&bench.paths.home().join("host.lock"))), (0o700, 0o600));
}

#[tokio::test]
async fn socket_directory_open_to_others_or_a_link_is_refused() {
    let bench = Bench::new();
    let directory = bench.sockets();
    std::fs::create_dir_all(&directory).unwrap();
    for allowed in [0o701, 0o710, 0o777] {
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(allowed)).unwrap();
        let said = bench.refused().await;
        assert!(said.contains("is not safe: others than its owner may use it"), "{said}");
    }
    std::fs::remove_dir(&directory).unwrap();
    let elsewhere = bench.home.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o700)).unwrap();
    symlink(&elsewhere, &directory).unwrap();
    let said = bench.refused().await;
    assert!(said.contains("is not safe: it is not a directory"), "{said}");
    std::fs::remove_file(&directory).unwrap();
    bench.client().await;
}

#[tokio::test]
async fn client_does_not_connect_to_a_socket_others_could_have_made() {
    let bench = Bench::new();
    drop(bench.client().await);
    let directory = bench.sockets();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let error = acpx_core::client::running(&bench.paths).await.err().expect("it is not safe");
    assert_eq!(error.code().as_str(), "HOST_DIRECTORY_UNSAFE");
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_home_with_a_path_of_any_length_has_a_host() {
    let bench = Bench::new();
    let long = (0..2).fold(bench.home.path().to_owned(), |path, _| path.join("x".repeat(120)));
    let paths = HostPaths::new(long, None, &bench.home.join("run"));
    let mut args = bench.launcher.args.clone();
    args[0] = paths.home().into();
    let launcher = Launcher { args, ..bench.launcher.clone() };
    let far = Bench { home: acpx_testkit::TempHome::new(), paths, launcher };
    let mut client = far.client().await;
    let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!(status["clients"], 1);
}

/// An agent that asks for a permission in every turn, and that can be set not to.
fn asking() -> Script {
    let served = |script: Script, session: &str| {
        let command = json!({ "sessionId": "{sessionId}", "command": "true" });
        let turn = Script::new().ask_permission("t1").request("terminal/create", command).end("end_turn");
        script.initialize(everything()).serve([
            ("session/new", Script::new().reply(offering(session))),
            ("session/resume", Script::new().reply(json!({}))),
            ("session/set_mode", Script::new().reply(json!({}))),
            ("session/set_config_option", Script::new().reply(json!({ "configOptions": options("m2") }))),
            ("session/prompt", turn),
        ])
    };
    served(served(Script::new(), "s1").next_start(), "s2")
}

#[tokio::test(flavor = "multi_thread")]
async fn program_started_by_an_agent_cannot_decide_permissions() {
    let bench = Bench::new();
    let argv = bench.agent(&asking());
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    let (mut child, stdin, stdout) = bench.started_by_an_agent();
    // Its connection ends on another thread while this one reads: nobody is left who could be asked.
    drop(client);
    bench.is_confined(&record, &argv, stdin, stdout);
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn program_started_by_an_agent_cannot_set_how_agents_start() {
    for method in ["session/resume", "session/new"] {
        let bench = Bench::new();
        let argv = bench.agent(&asking());
        let mut client = bench.client().await;
        let made: Value = client.call("session/new", &bench.shell_params(&argv, json!({}))).await.unwrap();
        let record = made["sessionId"].as_str().unwrap();
        let (mut child, stdin, stdout) = bench.started_by_an_agent();
        drop(client);
        // By its id, or as the one of its directory.
        let mut params = if method == "session/resume" {
            bench.resume_params(record)
        } else {
            let mut found = bench.shell_params(&argv, json!({ "unlessIn": [bench.home.path()] }));
            found["additionalDirectories"] = json!(["/"]);
            found
        };
        params["_meta"]["acpx"]["agent"] = json!({ "name": "scripted", "argv": ["/no/such/agent"] });
        let lines = [
            line(0, "initialize", json!({ "protocolVersion": 1 })),
            line(1, "session/resume", bench.resume_params(record)),
            line(2, "session/close", json!({ "sessionId": record })),
            line(3, method, params),
            line(4, "session/prompt", prompt_params(record, "x", json!({}))),
        ];
        let said = speak(stdin, stdout, &lines);
        assert_eq!(said.last().unwrap()["result"]["stopReason"], "end_turn", "{method}: {said:?}");
        let kept = bench.record(record).await;
        assert_eq!((kept.agent.command(), kept.additional_directories), (argv, Vec::new()), "{method}");
        child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_left_its_parent_and_environment_is_still_recognised() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let [to, from] = ["to", "from"].map(|name| bench.home.join(name));
    assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
    // The subshell is gone before the agent is there, and its child waits for the pipe to be opened.
    let script = "(setsid env -i \"$1\" connect \"$2\" <\"$3\" >\"$4\" &); shift 4; exec \"$@\"";
    let asking = bench.agent(&asking());
    let paths = [crate::examples::program("holder"), published(&bench.paths).unwrap().socket, to, from];
    let paths = paths.map(|path| path.into_os_string().into_string().unwrap());
    let shell = ["sh", "-c", script, "sh"].map(str::to_owned);
    let argv = [&shell[..], &paths, &asking].concat();
    let record = bench.open(&mut client, &argv).await;
    let [.., to, from] = &paths;
    let target = OpenOptions::new().write(true).open(to).unwrap();
    drop(client);
    bench.is_confined(&record, &asking, target, File::open(from).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn program_started_by_an_agent_ends_only_sessions_of_such_programs() {
    let bench = Bench::new();
    let began = bench.home.join("began");
    let served = |script: Script, session: &str| {
        let turn = Script::new().touch(&began).expect("session/cancel").end("cancelled");
        script.initialize(everything()).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": session }))),
            ("session/resume", Script::new().reply(json!({}))),
            ("session/prompt", turn),
        ])
    };
    let two = served(served(Script::new(), "s1").next_start(), "s2");
    let argv = bench.agent(&served(two.next_start(), "s3"));
    let mut user = bench.client().await;
    let unprompted = bench.open(&mut user, &argv).await;
    let shell = bench.shell_params(&argv, json!({}));
    let made: Value = user.call("session/new", &shell).await.unwrap();
    let record = made["sessionId"].as_str().unwrap();
    user.request("session/prompt", &prompt_params(record, "runs on", json!({}))).await.unwrap();
    eventually("the turn runs", || began.exists()).await;
    // The turn outlives its client, so any other client of the user may cancel it.
    user.close().await;
    let (of, initialize) = (json!({ "sessionId": record }), wanting_error_data());
    let mut reset = bench.resume_params(record);
    reset["_meta"]["acpx"]["fallback"] = json!("reset");
    let mut restore = bench.resume_params(record);
    restore["_meta"]["acpx"]["returnTo"] = json!("s1");
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": of });
    let close = line(2, "session/close", of.clone());
    let lines = [
        line(0, "initialize", initialize.clone()),
        line(1, "session/resume", bench.resume_params(record)),
        format!("{cancel}\n{close}"),
        line(3, "session/resume", reset),
        line(4, "session/new", shell),
        line(5, "_acpx/cancel", of.clone()),
        line(6, "_acpx/close", of.clone()),
        line(7, "session/delete", of.clone()),
        line(8, "_acpx/host/stop", json!({})),
        line(9, "session/new", bench.new_params(&argv)),
        line(10, "session/resume", bench.resume_params(&unprompted)),
        line(11, "session/close", json!({ "sessionId": unprompted })),
        line(12, "session/resume", restore),
        line(13, "_acpx/queue", json!({})),
        line(14, "_acpx/queue/drop", json!({ "sessionId": record, "requestIds": ["any"] })),
        line(15, "_acpx/answer", json!({ "questionId": "any", "approve": false })),
    ];
    let (mut child, stdin, stdout) = bench.started_by_an_agent();
    let said = speak(stdin, stdout, &lines);
    let answer = |id: u64| said.iter().find(|message| message["id"] == id).unwrap();
    for id in (3..=8).chain(12..=15) {
        assert_eq!(answer(id)["error"]["data"]["acpx"]["code"], "NOT_ALLOWED", "{}", answer(id));
    }
    child.wait().unwrap();
    let mut user = bench.client().await;
    let cancelled: Value = user.call("_acpx/cancel", &of).await.unwrap();
    assert_eq!(cancelled, json!({ "cancelled": true }), "the turn still ran");
    let resumed: Result<Value, _> = user.call("session/resume", &bench.resume_params(&unprompted)).await;
    assert!(resumed.is_ok(), "closing did not delete it: {resumed:?}");
    // Another program of the agents ends the session that the first one made.
    let made = answer(9);
    let of = json!({ "sessionId": made["result"]["sessionId"] });
    assert!(of["sessionId"].is_string(), "{made}");
    let lines = [
        line(0, "initialize", initialize),
        line(1, "_acpx/cancel", of.clone()),
        line(2, "_acpx/close", of.clone()),
        line(3, "session/delete", of),
    ];
    let (mut child, stdin, stdout) = bench.started_by_an_agent();
    let said = speak(stdin, stdout, &lines);
    assert!(said.iter().all(|message| message.get("error").is_none()), "{said:?}");
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_agent_programs_are_bounded_and_the_user_gets_in() {
    let bench = Bench::new().with_files(64);
    drop(bench.client().await);
    // The host has 21 places. Half of them are the user's alone.
    let mut programs: Vec<_> = (0..40).map(|_| bench.started_by_an_agent()).collect();
    let (mut served, mut refused) = (0, 0);
    for (_, stdin, stdout) in &mut programs {
        // One that is refused may be gone before it has said anything.
        drop(writeln!(stdin, "{}", line(0, "initialize", json!({ "protocolVersion": 1 }))));
        let mut text = String::new();
        BufReader::new(stdout).read_line(&mut text).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        match answer["error"]["data"]["acpx"]["code"].as_str() {
            None => served += 1,
            Some(code) => {
                assert_eq!((code, &answer["id"]), ("NOT_ALLOWED", &Value::Null), "{answer}");
                refused += 1;
            }
        }
    }
    assert_eq!((served, refused), (10, 30));
    let status: Value = bench.client().await.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!(status["clients"], 11);
    for (mut program, stdin, _) in programs {
        drop(stdin);
        program.wait().unwrap();
    }
}

#[tokio::test]
async fn connections_without_initialize_yield_to_others() {
    let stall = std::time::Duration::from_millis(50);
    let bench = Bench::with_client_timeouts(stall, stall).with_files(64);
    let mut first = bench.client().await;
    let socket = published(&bench.paths).unwrap().socket;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(tokio::net::UnixStream::connect(&socket).await.unwrap());
    }
    let mut second = bench.client().await;
    for client in [&mut first, &mut second] {
        client.call::<Value>("_acpx/host/status", &json!({})).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_started_by_an_agent_imports_only_the_homes_npm_sessions() {
    const RECORD: &str = "01a1e15a-0ea5-74d4-bd63-354b704a25e3";
    let bench = Bench::new();
    drop(bench.client().await);
    let theirs = crate::workspace::root().join("crates/core/tests/fixtures/npm-acpx/turns");
    let own = bench.paths.npm_sessions();
    std::fs::create_dir(&own).unwrap();
    for file in std::fs::read_dir(&theirs).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, own.join(path.file_name().unwrap())).unwrap();
    }
    let agents = json!([{ "name": "other", "argv": ["acpx", "demo-agent"] }]);
    let lines = [
        line(0, "initialize", wanting_error_data()),
        line(1, "_acpx/import", json!({ "directory": theirs, "agents": agents })),
        line(2, "_acpx/import", json!({ "directory": bench.home.join("missing") })),
        line(3, "_acpx/import", json!({ "directory": own, "agents": agents })),
    ];
    let (mut child, stdin, stdout) = bench.started_by_an_agent();
    let said = speak(stdin, stdout, &lines);
    let codes = [1, 2].map(|id: usize| said[id]["error"]["data"]["acpx"]["code"].clone());
    assert_eq!(codes, ["NOT_ALLOWED", "NOT_ALLOWED"], "{said:?}");
    assert_eq!(said[3]["result"]["taken"][0]["acpxRecordId"], RECORD, "{said:?}");
    assert_eq!(bench.record(RECORD).await.agent.name, None);
    child.wait().unwrap();
}

#[tokio::test]
async fn import_of_an_archive_refuses_params_that_name_no_agent_or_session() {
    let bench = Bench::new();
    let mut client = bench.client().await;
    let params = json!({ "archive": "/missing", "argv": ["a"], "cwd": "/" });
    let wrong = [
        ("argv", json!([])),
        ("argv", json!([""])),
        ("agent", json!("")),
        ("name", json!("")),
        ("name", json!("a\nb")),
        ("nativeSessionId", json!("")),
        ("cwd", json!("here")),
    ];
    for (field, value) in wrong {
        let mut params = params.clone();
        params[field] = value;
        match client.call::<Value>("_acpx/import_archive", &params).await {
            Err(HostError::Refused(refusal)) => assert_eq!(refusal.number, -32602, "{params}: {refusal}"),
            other => panic!("{params}: {other:?}"),
        }
    }
}

/// The params of `initialize` of a client that reads `data.acpx` in errors.
fn wanting_error_data() -> Value {
    let meta = json!({ "acpx": { "errorData": true } });
    json!({ "protocolVersion": 1, "clientCapabilities": { "_meta": meta } })
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_host_raises_its_open_files_limit_and_agents_get_the_original() {
    let soft = |pid: u32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap().to_owned();
        line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap()
    };
    let bench = Bench::new().with_ulimit("-Sn 200");
    let mut client = bench.client().await;
    let record =
        bench.open(&mut client, &bench.agent(&Script::new().initialize(json!({})).session_new("s1"))).await;
    let agent = bench.record(&record).await.agent_run.unwrap().process;
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    assert_eq!((soft(agent.pid), soft(bench.host_process().pid)), (200, hard.min(65_536)));
}

fn line(id: u64, method: &str, params: Value) -> String {
    let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    message["params"] = params;
    message.to_string()
}

impl Bench {
    /// A program that an agent of the host has started, and that joins its stdin and stdout to the host.
    fn started_by_an_agent(&self) -> (Child, ChildStdin, ChildStdout) {
        let home = self.paths.name().unwrap();
        let tag = Tag { holder: self.host_process(), ..Tag::of_this_process(home).unwrap() };
        let mut child = Command::new(crate::examples::program("holder"))
            .arg("connect")
            .arg(published(&self.paths).unwrap().socket)
            .env(Tag::VARIABLE, tag.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        (child, stdin, stdout)
    }

    /// Speaks to the host of a session as a program that may not decide, and sees that it does not.
    fn is_confined(&self, record: &str, agent: &[String], target: impl Write, source: impl Read) {
        // What a client offers to do itself is no way to allow it.
        let meta = json!({ "acpx": { "errorData": true } });
        let offers =
            json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true, "_meta": meta });
        let mut wider = self.resume_params(record);
        wider["additionalDirectories"] = json!(["/"]);
        let freer = json!([{ "value": "plan" }]);
        let model = json!([{ "option": "model", "value": "m2" }]);
        let option = json!({ "sessionId": record, "configId": "engine", "value": "m2" });
        let lines = [
            line(0, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": offers })),
            line(1, "session/resume", self.resume_params(record)),
            line(2, "session/prompt", prompt_params(record, "x", json!({ "policy": "approve-all" }))),
            line(3, "session/prompt", prompt_params(record, "x", json!({}))),
            line(4, "session/prompt", prompt_params(record, "x", json!({ "toolPolicy": {} }))),
            line(5, "_acpx/answer", json!({ "questionId": "1", "approve": true })),
            line(6, "session/resume", wider),
            line(7, "session/set_mode", json!({ "sessionId": record, "modeId": "plan" })),
            line(8, "session/set_config_option", option),
            line(9, "_acpx/forget", json!({ "sessionId": record })),
            line(10, "session/resume", with_settings(self.resume_params(record), model.clone())),
            line(11, "session/load", with_settings(self.load_params(record), freer.clone())),
            line(12, "session/new", with_settings(self.new_params(agent), freer)),
            line(13, "session/new", with_settings(self.new_params(agent), model)),
        ];
        let said = speak(target, source, &lines);
        let refused = said.iter().find(|message| message["id"] == 6).unwrap();
        assert_eq!(refused["error"]["data"]["field"], "additionalDirectories", "{refused}");
        for id in [2, 4, 5, 7, 8, 9, 10, 11, 12] {
            let refused = said.iter().find(|message| message["id"] == id).unwrap();
            assert_eq!(refused["error"]["data"]["acpx"]["code"], "NOT_ALLOWED", "{refused}");
        }
        // The model of a session that it makes is its own to choose.
        let made = said.iter().find(|message| message["id"] == 13).unwrap();
        assert_eq!(made["result"]["configOptions"], options("m2"), "{made}");
        let answered = said.iter().find(|message| message["id"] == 3).unwrap();
        let meta = &answered["result"]["_meta"]["acpx"];
        assert_eq!((&meta["approved"], &meta["rejected"]), (&json!(0), &json!(2)));
        let answers: Vec<_> = received(agent).into_iter().filter(|(method, _)| method == "answer").collect();
        let no = json!({ "outcome": { "outcome": "selected", "optionId": "no" } });
        let denied = "Permission denied for terminal/create";
        let denied = json!({ "code": -32603, "message": denied, "data": { "details": denied, "acpx": { "code": "PERMISSION_DENIED" } } });
        assert_eq!(answers, [("answer".to_owned(), no), ("answer".to_owned(), denied)]);
    }
}

/// Says one line after the other, each when the one before is answered, and is asked nothing; everything that was
/// heard.
fn speak(mut target: impl Write, source: impl Read, lines: &[String]) -> Vec<Value> {
    let mut source = BufReader::new(source);
    let mut said: Vec<Value> = Vec::new();
    for (id, line) in lines.iter().enumerate() {
        writeln!(target, "{line}").unwrap();
        while said.last().is_none_or(|message| message["id"] != id || message.get("method").is_some()) {
            let mut text = String::new();
            assert_ne!(source.read_line(&mut text).unwrap(), 0, "the host is gone");
            let message: Value = serde_json::from_str(&text).unwrap();
            assert_ne!(message["method"], "session/request_permission", "it is asked");
            said.push(message);
        }
    }
    said
}
