//! MCP servers are kept by name and source, and come back from there.

use acpx_core::model::McpServerRef;
use acpx_testkit::Script;
use serde_json::{Value, json};

use super::{Bench, prompt};
use crate::engine::{everything, faithful, received};

/// The servers an agent was told of, start by start.
fn told(argv: &[String]) -> Vec<Value> {
    let setups = received(argv).into_iter().filter(|(_, params)| params.get("mcpServers").is_some());
    setups.map(|(_, params)| params["mcpServers"].clone()).collect()
}

fn stdio(name: &str, command: &str) -> Value {
    json!({ "name": name, "command": command, "args": [], "env": [] })
}

impl Bench {
    /// Makes a session with the servers of a configuration file, and kills its host.
    async fn with_servers(&self, script: &Script) -> (String, Vec<String>) {
        let argv = self.agent(script);
        let file = self.home.join("servers");
        std::fs::write(&file, "one /bin/one\ntwo /bin/two").unwrap();
        let mut client = self.client().await;
        let mut params = self.new_params(&argv);
        params["mcpServers"] = json!([stdio("one", "/bin/one"), stdio("two", "/bin/two")]);
        params["_meta"]["acpx"]["mcpSource"] = json!(file);
        let answer: Value = client.call("session/new", &params).await.unwrap();
        let record = answer["sessionId"].as_str().unwrap().to_owned();
        prompt(&mut client, &record, "one").await;
        self.kill_host().await;
        (record, argv)
    }
}

#[tokio::test]
async fn mcp_servers_are_restored_from_their_file_with_current_values() {
    let bench = Bench::new();
    let (record, argv) = bench.with_servers(&faithful(everything())).await;
    std::fs::write(bench.home.join("servers"), "two /bin/other\none /bin/one\nthree /bin/three").unwrap();
    let mut client = bench.client().await;
    bench.resume(&mut client, &record).await;
    let before = json!([stdio("one", "/bin/one"), stdio("two", "/bin/two")]);
    let now = json!([stdio("one", "/bin/one"), stdio("two", "/bin/other")]);
    assert_eq!(told(&argv), [before, now]);
}

#[tokio::test]
async fn mcp_server_missing_from_its_file_is_left_out_and_named() {
    let bench = Bench::new();
    let file = bench.home.join("servers");
    let unread = |why: &str| json!(format!("cannot read {}: {why}", file.display()));
    for (text, left_out, reason, rest) in [
        (Some("one /bin/one"), vec!["two"], Value::Null, json!([stdio("one", "/bin/one")])),
        (Some("no"), vec!["one", "two"], json!("line 1 is no server"), json!([])),
        (None, vec!["one", "two"], unread("No such file or directory (os error 2)"), json!([])),
    ] {
        let (record, argv) = bench.with_servers(&faithful(everything())).await;
        match text {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let mut client = bench.client().await;
        client.call::<Value>("session/resume", &bench.resume_params(&record)).await.unwrap();
        assert_eq!(told(&argv).last(), Some(&rest), "{text:?}");
        let facts = bench.facts(&record).await;
        let mut named = json!({ "fact": "mcp_servers_left_out", "names": left_out });
        if !reason.is_null() {
            named["reason"] = reason;
        }
        assert_eq!(facts.iter().filter(|fact| fact["fact"] == named["fact"]).collect::<Vec<_>>(), [&named]);
        // They may come back one day.
        let source = Some(acpx_core::model::AbsolutePath::from_path(&file).unwrap());
        let server = |name: &str| McpServerRef { name: name.to_owned(), source: source.clone() };
        assert_eq!(bench.record(&record).await.mcp_servers, [server("one"), server("two")]);
        bench.kill_host().await;
    }
}

#[tokio::test]
async fn a_client_that_names_its_servers_has_those_and_no_others() {
    let bench = Bench::new();
    let (record, argv) = bench.with_servers(&faithful(everything())).await;
    let mut client = bench.client().await;
    let mut params = bench.resume_params(&record);
    params["mcpServers"] = json!([stdio("mine", "/bin/mine")]);
    client.call::<Value>("session/resume", &params).await.unwrap();
    assert_eq!(told(&argv).last(), Some(&json!([stdio("mine", "/bin/mine")])));
    let kept = [McpServerRef { name: "mine".to_owned(), source: None }];
    assert_eq!(bench.record(&record).await.mcp_servers, kept);
}

impl Bench {
    /// The facts of a record, in order.
    async fn facts(&self, record: &str) -> Vec<Value> {
        use acpx_core::model::{EventKind, RecordId, Seq};
        use acpx_core::store::Store;
        let events = self.store().events(RecordId::new(record).unwrap(), Seq::FIRST, 1000).await.unwrap();
        let facts = events.iter().filter(|event| event.kind == EventKind::Fact);
        facts.map(|fact| serde_json::from_str(&fact.body).unwrap()).collect()
    }
}

#[tokio::test]
async fn unreadable_mcp_file_leaves_a_parked_session_unchanged() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let file = bench.home.join("servers");
    let mut client = bench.client().await;
    let mut params = bench.new_params(&argv);
    params["mcpServers"] = json!([stdio("one", "/bin/one")]);
    params["_meta"]["acpx"]["mcpSource"] = json!(file);
    let answer: Value = client.call("session/new", &params).await.unwrap();
    let record = answer["sessionId"].as_str().unwrap().to_owned();
    prompt(&mut client, &record, "one").await;
    // The last client to close it has it parked; its task still knows the servers.
    client.call::<Value>("session/close", &json!({ "sessionId": record })).await.unwrap();
    bench.resume(&mut client, &record).await;
    let one = json!([stdio("one", "/bin/one")]);
    assert_eq!(told(&argv), [one.clone(), one]);
    let facts = bench.facts(&record).await;
    assert!(!facts.iter().any(|fact| fact["fact"] == "mcp_servers_left_out"), "{facts:?}");
}

#[tokio::test]
async fn named_pipe_in_place_of_a_file_or_directory_is_refused() {
    let bench = Bench::new();
    let (record, argv) = bench.with_servers(&faithful(everything())).await;
    let file = bench.home.join("servers");
    std::fs::remove_file(&file).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut client = bench.client().await;
    bench.resume(&mut client, &record).await;
    assert_eq!(told(&argv).last(), Some(&json!([])));
    let left_out = json!({
        "fact": "mcp_servers_left_out", "names": ["one", "two"],
        "reason": format!("cannot read {}: it is not a regular file", file.display()),
    });
    assert!(bench.facts(&record).await.contains(&left_out));

    let mut params = bench.new_params(&argv);
    params["cwd"] = json!(file);
    assert_eq!(super::refusal(&mut client, "session/new", &params).await.code().as_str(), "BAD_DIRECTORY");
    let list: Value = client.call("session/list", &json!({ "cwd": file })).await.unwrap();
    assert_eq!(list["sessions"], json!([]));
}

#[tokio::test]
async fn agent_starts_with_the_values_of_the_client_that_prompts() {
    let bench = Bench::new();
    let argv = bench.agent(&faithful(everything()));
    let mut client = bench.client().await;
    let record = bench.open(&mut client, &argv).await;
    bench.kill_host().await;
    let (mut one, mut two) = (bench.client().await, bench.client().await);
    for (client, name) in [(&mut one, "one"), (&mut two, "two")] {
        let mut params = bench.resume_params(&record);
        params["_meta"]["acpx"]["later"] = json!(true);
        params["_meta"]["acpx"]["environment"] = json!([["GIVEN_BY", name]]);
        params["mcpServers"] = json!([stdio(name, "/bin/x")]);
        client.call::<Value>("session/resume", &params).await.unwrap();
    }
    prompt(&mut one, &record, "who?").await;
    assert_eq!(told(&argv).last(), Some(&json!([stdio("one", "/bin/x")])));
    let agent = bench.record(&record).await.agent_run.unwrap().process;
    let environment = std::fs::read(format!("/proc/{}/environ", agent.pid)).unwrap();
    let given: Vec<&[u8]> =
        environment.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"GIVEN_BY")).collect();
    assert_eq!(given, [b"GIVEN_BY=one"]);
}
