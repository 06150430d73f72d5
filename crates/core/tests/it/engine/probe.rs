//! An agent looked over without a prompt.

use acpx_core::acp::AgentInfo;
use acpx_core::engine::{ListLookup, ProbeReport, SessionTrial};
use acpx_core::model::{AcpSessionId, ErrorMeaning, Profiles, ProtocolVersion};
use acpx_core::store::RecordFilter;
use acpx_core::tools::TerminationOutcome;

use super::*;

async fn probe(bench: &Bench, script: &Script) -> (Result<ProbeReport, SessionError>, Vec<String>) {
    let (agent, command) = bench.agent(script);
    (bench.engine.probe(bench.new_session(agent, Vec::new())).await, command)
}

#[tokio::test]
async fn probe_reads_capabilities_and_a_session_and_leaves_nothing() {
    let bench = Bench::new();
    // One that wants to read a file first is told that it cannot, and does not wait for ever.
    let script = Script::new()
        .expect("initialize")
        .reply(json!({
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"close": {}, "delete": {}}},
            "agentInfo": {"name": "some-agent", "version": "1.2.3"},
        }))
        .expect_as("session/new", "new")
        .request("fs/read_text_file", json!({"sessionId": "s1", "path": "/x"}))
        .reply_to("new", json!({"sessionId": "s1", "modes": {"currentModeId": "a", "availableModes": []}}))
        .expect("session/close")
        .reply(json!({}))
        .expect("session/delete")
        .reply(json!({}));
    let (seen, command) = probe(&bench, &script).await;
    let seen = seen.unwrap();
    let info = AgentInfo { name: Some("some-agent".into()), version: Some("1.2.3".into()) };
    assert_eq!((seen.info, seen.protocol, seen.ended), (info, ProtocolVersion::V1, TerminationOutcome::Gone));
    assert_eq!(seen.exit.map(|exit| (exit.code, exit.signal)), Some((Some(0), None)));
    assert_eq!((seen.known_as, &seen.profile), (None, Profiles::built_in().any()));
    assert!(matches!(seen.trial, SessionTrial::Made { modes: true, .. }), "{:?}", seen.trial);
    assert!(seen.capabilities.sessions.load && !seen.capabilities.sessions.resume);
    assert_eq!(methods(&command), ["initialize", "session/new", "answer", "session/close", "session/delete"]);
    let records = bench.store.records(RecordFilter::default(), None, 9).await.unwrap();
    assert_eq!(records, []);
}

#[tokio::test]
async fn agents_session_list_is_read_to_its_last_page_by_one_process() {
    let bench = Bench::new();
    let pages = 25;
    let can = json!({ "sessionCapabilities": { "list": {} } });
    let mut script = Script::new().initialize(can.clone());
    for page in 1..=pages {
        let row = json!({ "sessionId": format!("on-{page}"), "cwd": "/" });
        let next = (page < pages).then(|| format!("after-{page}"));
        script = script.expect("session/list").reply(json!({ "sessions": [row], "nextCursor": next }));
    }
    let repeating = Script::new()
        .initialize(can)
        .serve([("session/list", Script::new().reply(json!({ "sessions": [], "nextCursor": "same" })))]);
    let found = async |script: &Script, session: &str| {
        let (agent, command) = bench.agent(script);
        let with = bench.new_session(agent, Vec::new());
        let found =
            bench.engine.find_agent_session(&with, &AcpSessionId::new(session).unwrap()).await.unwrap();
        let found = match found {
            ListLookup::Listed(row) => format!("listed as {}", row.session),
            other => format!("{other:?}"),
        };
        (found, acpx_testkit::starts_of(&command))
    };
    assert_eq!(found(&script, "on-25").await, ("listed as on-25".to_owned(), 1));
    assert_eq!(found(&script, "on-26").await, ("NotListed".to_owned(), 1));
    assert_eq!(found(&repeating, "on-1").await, ("Unread".to_owned(), 1));
    assert_eq!(found(&Script::new().initialize(json!({})), "on-1").await, ("NoList".to_owned(), 1));
}

#[tokio::test]
async fn probe_reports_a_missing_login_and_an_agent_crash() {
    let bench = Bench::new();
    let login = Script::new()
        .initialize(json!({}))
        .refuse("session/new", json!({"code": -32000, "message": "Authentication required"}));
    let (seen, _) = probe(&bench, &login).await;
    let SessionTrial::Refused(error) = seen.unwrap().trial else { panic!("it made a session") };
    assert_eq!(error.meaning(), ErrorMeaning::LoginNeeded);

    let dies = Script::new().initialize(json!({})).expect("session/new").exit(3);
    let (seen, _) = probe(&bench, &dies).await;
    let SessionTrial::Refused(error) = seen.unwrap().trial else { panic!("it made a session") };
    assert_eq!(error.code().as_str(), "AGENT_DIED");

    let (seen, _) = probe(&bench, &Script::new().stderr("no key").exit(1)).await;
    let Err(SessionError::Agent(error)) = seen else { panic!("it started") };
    assert_eq!(error.code().as_str(), "AGENT_EXITED_AT_START");
    assert!(error.to_string().contains("no key"), "{error}");
}
