//! When MCP servers are connected and when they are ended.

use std::path::Path;

use acpx_testkit::{Script, ScriptStep, TempHome, children_of, scripted_agent_command, starts_of};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{initialized, program, saying, scripted, shell, tools};
use crate::acpx::eventually;
use crate::cli::processes::is_alive;
use crate::demo_process::{RawClient, asked, prompt, said};

/// A server that leaves a mark when it is asked for its tools, and so is about to be connected.
fn marking(mark: &Path) -> Script {
    Script::new()
        .serve([("initialize", initialized()), ("tools/list", Script::new().touch(mark).step(tools_step()))])
}

fn tools_step() -> ScriptStep {
    ScriptStep::Reply { to: None, result: json!({ "tools": [] }) }
}

#[tokio::test]
async fn mcp_servers_connect_before_the_replay_and_before_every_answer() {
    let home = TempHome::new();
    let mark = home.join("connected");
    let server = scripted("s", &marking(&mark), &home);
    let setup = |session: &str| json!({ "sessionId": session, "cwd": "/", "mcpServers": [server] });
    let was_connected = || std::fs::remove_file(&mark).is_ok();
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(std::slice::from_ref(&server)).await;
    assert!(was_connected(), "new: create, connect, respond");
    client.prompt(&session, "hello").await;
    assert!(client.leave().success());

    let mut client = RawClient::start(&home, &[]).await;
    let id = client.send("session/load", setup(&session)).await;
    assert_eq!(client.next_update().await, asked("hello"));
    assert!(was_connected(), "load: restore, connect, replay");
    let (replayed, answer) = client.until_answered(id).await;
    assert_eq!((replayed, answer["result"].is_object()), (vec![said("You said: hello")], true));
    assert!(client.leave().success());

    let mut client = RawClient::start(&home, &[]).await;
    let answer = client.call("session/resume", setup(&session)).await;
    assert!(answer["result"].is_object() && was_connected(), "resume: restore, connect, respond");
}

#[tokio::test]
async fn failed_mcp_servers_are_named_right_after_the_answer_to_every_setup() {
    let home = TempHome::new();
    let refusing = Script::new().refuse("initialize", json!({ "code": -32000, "message": "not today" }));
    let servers = [
        program("missing", &["/no/such/program".to_owned()]),
        shell("dying", "echo first >&2; echo out of memory >&2; exit 3"),
        scripted("silent", &Script::new().hang(), &home),
        scripted("refusing", &refusing, &home),
        shell("foreign", "echo Welcome; read line"),
        json!({ "type": "http", "name": "closed", "url": "http://127.0.0.1:1/?key=in-the-url", "headers": [] }),
        json!({ "type": "http", "name": "odd", "url": "gopher://x", "headers": [] }),
        json!({ "type": "http", "name": "header", "url": "http://127.0.0.1:1/", "headers":
            [{ "name": "X-Key", "value": "two\nlines" }] }),
    ];
    let failed = [
        "missing failed: there is no program /no/such/program",
        "dying failed: it ended (exit code 3): out of memory",
        "silent failed: it did not answer within 2 s",
        "refusing failed: it answered with an error: not today (-32000)",
        "foreign failed: it ended (exit code 0)",
        "closed failed: cannot reach 127.0.0.1:1: Connection refused (os error 111)",
        "odd failed: its URL does not begin with http:// or https://",
        "header failed: its header X-Key cannot be sent",
    ];
    let failed = failed.map(|words| said(&format!("MCP server {words}.\n")));
    let mut client = RawClient::start(&home, &["--mcp-timeout", "2000"]).await;
    let session = client.session_with(&servers).await;
    for expected in &failed {
        assert_eq!(client.next_update().await, *expected);
    }
    let (told, _) = client.prompt(&session, "hello").await;
    assert_eq!(told, [said("You said: hello")], "the session goes on without them");
    let setup = json!({ "sessionId": session, "cwd": "/", "mcpServers": servers });
    for (method, replayed) in
        [("session/load", vec![asked("hello"), said("You said: hello")]), ("session/resume", vec![])]
    {
        let (before, answer) = client.exchange(method, setup.clone()).await;
        assert_eq!((before, answer["result"].is_object()), (replayed, true), "{method}");
        for expected in &failed {
            assert_eq!(client.next_update().await, *expected, "{method}");
        }
    }
}

#[tokio::test]
async fn load_and_resume_use_only_the_mcp_servers_of_their_request() {
    let home = TempHome::new();
    let [one, two] = [saying("one"), saying("two")].map(|script| scripted_agent_command(&script, &home));
    let (first, second) = (program("one", &one), program("two", &two));
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(std::slice::from_ref(&first)).await;
    client.prompt(&session, "hello").await;
    let line = |name: &str| format!("- {name}: connected to scripted 1, 1 tool: say\n");
    let nothing = || "This session has no MCP servers.\n".to_owned();
    let steps = [
        ("session/load", json!([first, second]), line("one") + &line("two"), [1, 1]),
        ("session/resume", json!([second]), line("two"), [1, 1]),
        ("session/load", json!([first]), line("one"), [2, 1]),
        ("session/load", json!([]), nothing(), [2, 1]),
        ("session/resume", json!([first]), line("one"), [3, 1]),
        ("session/resume", Value::Null, nothing(), [3, 1]),
    ];
    for (method, servers, expected, starts) in steps {
        let (_, answer) =
            client.exchange(method, json!({ "sessionId": session, "cwd": "/", "mcpServers": servers })).await;
        assert!(answer["result"].is_object(), "{answer}");
        assert_eq!(client.words(&session, "mcp").await, expected, "{method} {servers}");
        assert_eq!([starts_of(&one), starts_of(&two)], starts, "{method} {servers}");
    }
}

/// How a session loses its servers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Close,
    Delete,
    Unnamed,
    EndOfInput,
    Terminate,
    Crash,
}

#[tokio::test]
async fn an_mcp_servers_process_group_ends_with_its_session_and_its_agent() {
    for way in [Way::Close, Way::Delete, Way::Unnamed, Way::EndOfInput, Way::Terminate, Way::Crash] {
        let home = TempHome::new();
        let child = ScriptStep::Child { seconds: 600, holds_stdout: true, own_group: false };
        let serve =
            |script: Script| script.serve([("initialize", initialized()), ("tools/list", tools(&[]))]);
        let stubborn = serve(Script::new().step(child).ignoring_eof());
        let argv = scripted_agent_command(&stubborn, &home);
        let pid = home.join("pid");
        let command = format!("echo $$ > {}; exec {} {}", pid.display(), argv[0], argv[1]);
        let mut client = RawClient::start(&home, &[]).await;
        let session = client.session_with(&[shell("s", &command)]).await;
        let leader = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        let processes = [leader, children_of(&argv)[0]];
        assert!(processes.iter().all(|pid| is_alive(*pid)), "{way:?}");
        let named = json!({ "sessionId": session });
        match way {
            Way::Close => drop(client.call("session/close", named).await),
            Way::Delete => drop(client.call("session/delete", named).await),
            Way::Unnamed => {
                client.prompt(&session, "hello").await;
                let load = json!({ "sessionId": session, "cwd": "/", "mcpServers": [] });
                drop(client.exchange("session/load", load).await);
            }
            Way::EndOfInput => {
                client.end_input();
                assert_eq!(client.wait().code(), Some(0));
            }
            Way::Terminate => {
                let agent = Pid::from_raw(i32::try_from(client.pid()).unwrap()).unwrap();
                kill_process(agent, Signal::TERM).unwrap();
                assert_eq!(client.wait().code(), Some(143));
            }
            Way::Crash => {
                client.send("session/prompt", prompt(&session, "crash")).await;
                assert_eq!(client.wait().code(), Some(70));
            }
        }
        // Only a kill at once leaves the kernel something to do.
        eventually(&format!("{way:?} ends the group"), || !processes.iter().any(|pid| is_alive(*pid)));
        if !matches!(way, Way::EndOfInput | Way::Terminate | Way::Crash) {
            assert!(client.leave().success());
        }
    }
}

#[tokio::test]
async fn cancelled_load_leaves_no_mcp_server() {
    let home = TempHome::new();
    let began = home.join("began");
    let mut client = RawClient::start(&home, &[]).await;
    let session = client.session_with(&[]).await;
    client.prompt(&session, "hello").await;
    assert!(client.leave().success());
    let mut client = RawClient::start(&home, &[]).await;
    let slow = shell("slow", &format!("echo $$ > {}; exec sleep 600", began.display()));
    let id =
        client.send("session/load", json!({ "sessionId": session, "cwd": "/", "mcpServers": [slow] })).await;
    let mut pid = None;
    eventually("the server starts", || {
        pid = std::fs::read_to_string(&began).ok().and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    client.notify("$/cancel_request", json!({ "requestId": id })).await;
    let (before, answer) = client.until_answered(id).await;
    assert_eq!((before, &answer["error"]["code"]), (vec![], &json!(-32800)));
    eventually("its process is gone", || !is_alive(pid.unwrap()));
    assert!(client.leave().success());
}

#[tokio::test]
async fn a_signal_ends_the_group_of_an_mcp_server_that_is_connecting() {
    let home = TempHome::new();
    let child = ScriptStep::Child { seconds: 600, holds_stdout: true, own_group: false };
    let argv = scripted_agent_command(&Script::new().step(child).hang(), &home);
    let mut client = RawClient::start(&home, &[]).await;
    client.send("session/new", json!({ "cwd": "/", "mcpServers": [program("s", &argv)] })).await;
    eventually("the server starts its child", || !children_of(&argv).is_empty());
    let agent = Pid::from_raw(i32::try_from(client.pid()).unwrap()).unwrap();
    kill_process(agent, Signal::TERM).unwrap();
    assert_eq!(client.wait().code(), Some(143));
    let child = children_of(&argv)[0];
    eventually("its group is gone", || !is_alive(child));
}
