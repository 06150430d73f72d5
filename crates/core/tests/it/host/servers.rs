//! MCP servers are kept by name and source, and come back from there.

use acpx_core::model::KeptServer;
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
async fn servers_come_back_from_the_file_they_came_from_with_its_values_of_now() {
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
async fn a_server_that_is_gone_from_its_file_is_left_out_and_named() {
    let bench = Bench::new();
    for (text, left_out, rest) in [
        (Some("one /bin/one"), vec!["two"], json!([stdio("one", "/bin/one")])),
        (Some("no server"), vec!["one", "two"], json!([])),
        (None, vec!["one", "two"], json!([])),
    ] {
        let (record, argv) = bench.with_servers(&faithful(everything())).await;
        let file = bench.home.join("servers");
        match text {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let mut client = bench.client().await;
        client.call::<Value>("session/resume", &bench.resume_params(&record)).await.unwrap();
        assert_eq!(told(&argv).last(), Some(&rest), "{text:?}");
        let facts = bench.facts(&record).await;
        let named = json!({ "fact": "mcp_servers_left_out", "names": left_out });
        assert_eq!(facts.iter().filter(|fact| fact["fact"] == named["fact"]).collect::<Vec<_>>(), [&named]);
        // They may come back one day.
        let source = Some(acpx_core::model::AbsolutePath::from_path(&file).unwrap());
        let server = |name: &str| KeptServer { name: name.to_owned(), source: source.clone() };
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
    let kept = [KeptServer { name: "mine".to_owned(), source: None }];
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
