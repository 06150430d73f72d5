//! The demo agent with a real MCP server that nobody here wrote, over stdio and streamable HTTP.
//!
//! `.ci/npm-sdk` installs the server and a node to run it; without them these tests fail.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use acpx_testkit::TempHome;
use serde_json::{Value, json};

use crate::acpx::Place;
use crate::demo_process::RawClient;

/// How often a port that another program took meanwhile is replaced.
const TRIES: usize = 10;

/// Some of the tools of the server.
const TOOLS: [&str; 3] = ["echo", "get-env", "get-sum"];

fn node() -> PathBuf {
    let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm/node_modules/.bin/node");
    assert!(node.exists(), "{} is not there: run .ci/npm-sdk", node.display());
    node.canonicalize().unwrap()
}

fn script() -> PathBuf {
    let package = "../../target/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(package);
    assert!(script.exists(), "{} is not there: run .ci/npm-sdk", script.display());
    script.canonicalize().unwrap()
}

/// The server over stdio. The mark in its command line tells its processes from all others.
fn over_stdio(mark: &Path) -> Value {
    let env = json!([{ "name": "MARK_TOKEN", "value": "hush-hush-hush" }]);
    json!({ "type": "stdio", "name": "pipe", "command": node(), "args": [script(), "stdio", mark], "env": env })
}

/// The server over HTTP, killed with the value.
struct WebServer {
    child: Child,
    port: u16,
}

impl WebServer {
    /// The server takes its port from the environment and cannot say which one it was given, so a free one is chosen.
    fn start() -> Self {
        (0..TRIES).find_map(|_| Self::try_start()).expect("one of ten free ports stays free")
    }

    fn try_start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(node());
        command.arg(script()).arg("streamableHttp").env("PORT", port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = Self { child: command.spawn().unwrap(), port };
        let mut lines = BufReader::new(server.child.stderr.take().unwrap()).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("listening on port"));
        std::thread::spawn(move || lines.for_each(drop));
        is_ready.then_some(server)
    }

    fn described(&self) -> Value {
        let headers = json!([{ "name": "Authorization", "value": "Bearer hush-hush-hush" }]);
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        json!({ "type": "http", "name": "web", "url": url, "headers": headers })
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// How many processes have this mark in their command line.
fn processes(mark: &Path) -> usize {
    let mark = mark.to_str().unwrap();
    let has_mark = |pid: &str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    };
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|name| name.parse::<u32>().is_ok() && has_mark(name)).count()
}

/// What both servers answer in a session.
async fn try_tools(client: &mut RawClient, session: &str) {
    let listed = client.words(session, "mcp").await;
    let lines: Vec<&str> = listed.lines().collect();
    for (line, name) in lines.iter().zip(["pipe", "web"]) {
        let beginning = format!("- {name}: connected to Everything Reference Server ");
        assert!(line.starts_with(&beginning) && TOOLS.iter().all(|tool| line.contains(tool)), "{listed}");
    }
    assert_eq!(lines.len(), 2, "{listed}");
    for name in ["pipe", "web"] {
        for (words, answer) in [
            (r#"echo {"message": "wait and see"}"#, json!("Echo: wait and see")),
            (r#"get-sum {"a": 1, "b": 2}"#, json!("The sum of 1 and 2 is 3.")),
        ] {
            let (told, _) = client.turn(session, &format!("mcp {name} {words}"), "allow").await;
            let done = &told[3];
            assert_eq!(
                (&done["status"], &done["content"][0]["content"]["text"]),
                (&json!("completed"), &answer)
            );
        }
        let (told, _) = client.turn(session, &format!("mcp {name} get-sum {{}}"), "allow").await;
        assert_eq!(told[3]["status"], "failed", "{told:?}");
        let (told, _) = client.turn(session, &format!("mcp {name} get-tiny-image"), "allow").await;
        assert_eq!(told[3]["content"][1]["content"]["type"], "image", "{told:?}");
    }
    let (told, _) = client.turn(session, "mcp pipe get-env", "allow").await;
    let told = Value::from(told).to_string();
    assert!(told.contains("MARK_TOKEN") && !told.contains("hush-hush-hush"), "{told}");
}

#[tokio::test]
async fn server_everything_is_listed_called_reconnected_on_load_and_ended_on_close() {
    let home = TempHome::new();
    let web = WebServer::start();
    let mark = home.join("mark");
    let servers = [over_stdio(&mark), web.described()];
    let mut client = RawClient::start(&home, &["--mcp-timeout", "60000"]).await;
    let session = client.session_with(&servers).await;
    assert_eq!(processes(&mark), 1);
    try_tools(&mut client, &session).await;
    client.call("session/close", json!({ "sessionId": session })).await;
    assert_eq!(processes(&mark), 0, "close ends the server");
    assert!(client.leave().success());

    let mut client = RawClient::start(&home, &["--mcp-timeout", "60000"]).await;
    let load = json!({ "sessionId": session, "cwd": "/", "mcpServers": servers });
    let (_, answer) = client.exchange("session/load", load).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(processes(&mark), 1);
    try_tools(&mut client, &session).await;
    assert!(client.leave().success());
    assert_eq!(processes(&mark), 0, "the end of stdin ends the server");
}

#[test]
fn server_everything_of_the_configuration_follows_a_session_through_the_host() {
    let place = Place::new();
    let web = WebServer::start();
    let mark = place.work().join("mark");
    let file = json!({ "mcpServers": [over_stdio(&mark), web.described()] });
    std::fs::write(place.work().join("mcp.json"), file.to_string()).unwrap();
    place.ok(&["--mcp-config", "mcp.json", "demo", "sessions", "new"]);
    let echo = |name: &str, word: &str| {
        let prompt = format!("mcp {name} echo {{\"message\": \"{word}\"}}");
        let said = place.ok(&["--approve-all", "demo", &prompt]);
        assert!(said.contains(&format!("Echo: {word}")), "{said}");
    };
    echo("pipe", "first");
    echo("web", "first");
    place.ok(&["host", "stop"]);
    assert_eq!(processes(&mark), 0, "the host ends the agent, and the agent its server");
    echo("pipe", "second");
    echo("web", "second");
    assert_eq!(processes(&mark), 1);
    place.ok(&["demo", "sessions", "close"]);
    assert_eq!(processes(&mark), 0);

    let done = place.acpx(&["--format", "json", "--mcp-config", "mcp.json", "doctor"]);
    for name in ["pipe", "web"] {
        let beginning = format!("\"detail\":\"{name}: Everything Reference Server ");
        assert!(done.out.contains(&beginning), "{done:?}");
    }
    assert!(!done.out.contains("hush-hush-hush"), "{done:?}");
    assert_eq!(processes(&mark), 0, "the doctor leaves no server");
}
