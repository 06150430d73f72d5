//! Exchanges with a host that is slow, accepts no other client, or disconnects.

use std::io::sink;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acpx_core::home::{HostInfo, HostLock};
use acpx_core::model::{ProcessIdentity, Seq};
use acpx_core::protocol::meta::PROTOCOL;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::{HostSession, HostSessionError, PromptOutcome};
use crate::output::{Console, OutputMode, TurnView};
use crate::session::host_locator::HostLocator;
use crate::session::interrupt::InterruptWatcher;
use crate::session::prompt_request::PromptSubmission;

/// A host that accepts one client. It answers `initialize` and `probes` status requests, then the prompt. Returns the
/// received requests when the client has disconnected.
fn slow_host(locator: &HostLocator, socket: PathBuf, mut probes: usize) -> JoinHandle<Vec<String>> {
    let (lock, listener) = listening(locator, socket);
    tokio::spawn(async move {
        let _lock = lock;
        let (source, mut target) = listener.accept().await.unwrap().0.into_split();
        let mut lines = BufReader::new(source).lines();
        let mut asked = Vec::new();
        let mut prompt = Value::Null;
        while let Some(line) = lines.next_line().await.unwrap() {
            let request: Value = serde_json::from_str(&line).unwrap();
            let method = request["method"].as_str().unwrap().to_owned();
            let mut answered = Vec::new();
            match method.as_str() {
                "initialize" => answered.push(&request["id"]),
                "session/prompt" => prompt = request["id"].clone(),
                "_acpx/host/status" if probes > 0 => {
                    probes -= 1;
                    answered.push(&request["id"]);
                    answered.extend((probes == 0).then_some(&prompt));
                }
                _ => {}
            }
            for id in answered {
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": {} });
                target.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
            asked.push(method);
        }
        asked
    })
}

/// The lock and the socket of a host.
fn listening(locator: &HostLocator, socket: PathBuf) -> (HostLock, UnixListener) {
    let lock = HostLock::try_take(&locator.paths).unwrap().expect("no host runs");
    let listener = UnixListener::bind(&socket).unwrap();
    let process = ProcessIdentity::of_this_process();
    let info = HostInfo { process, socket, protocol: PROTOCOL, version: "7.0".to_owned(), build: None };
    let text = serde_json::to_string(&info).unwrap();
    std::fs::write(locator.paths.home().join("host.lock"), text).unwrap();
    (lock, listener)
}

/// A locator for the host of a new home, and a path for its socket.
fn locator(home: &Path) -> (HostLocator, PathBuf) {
    let run = home.join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
    let locator = HostLocator::of_home(home.join("home")).unwrap();
    locator.paths.make_home().unwrap();
    (locator, run.join("s"))
}

/// Prompts a host that answers a number of probes, each in this time; returns the outcome and the received requests.
async fn prompted(
    probes: usize,
    probe_timeout: Duration,
) -> (Result<PromptOutcome, HostSessionError>, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let (locator, socket) = locator(home.path());
    let host = slow_host(&locator, socket, probes);
    let mut console = Console::over(OutputMode::default(), sink(), sink());
    let mut session = HostSession::new(&mut console, InterruptWatcher::new(None).unwrap(), Some(&locator));
    session.silence = (Duration::from_millis(10), probe_timeout);
    session.reset_silence();
    let mut client = locator.running().await.unwrap().expect("the host listens");
    let outcome = session.prompt(&mut client, "record", &PromptSubmission::sample()).await;
    drop(client);
    (outcome, host.await.unwrap())
}

#[tokio::test]
async fn a_host_that_accepts_no_other_client_is_probed_over_the_connection() {
    let (outcome, asked) = prompted(3, Duration::from_mins(1)).await;
    assert!(
        matches!(&outcome, Ok(PromptOutcome::Answered(answer, None)) if &**answer == "{}"),
        "{outcome:?}"
    );
    let probe = "_acpx/host/status";
    assert_eq!(asked, ["initialize", "session/prompt", probe, probe, probe]);
}

#[tokio::test]
async fn a_turn_is_not_cancelled_because_the_host_is_silent() {
    let (outcome, asked) = prompted(0, Duration::from_millis(10)).await;
    let Err(HostSessionError::Failed(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.code().as_str(), "HOST_SILENT");
    assert_eq!(asked, ["initialize", "session/prompt", "_acpx/host/status"]);
}

#[tokio::test]
async fn a_sigterm_before_acceptance_detaches_from_the_next_host_too() {
    let home = tempfile::tempdir().unwrap();
    let (locator, socket) = locator(home.path());
    let (_lock, listener) = listening(&locator, socket);
    // The first connection is lost at the prompt, and the second host accepts it.
    let host = tokio::spawn(async move {
        for accepts in [false, true] {
            let (source, mut target) = listener.accept().await.unwrap().0.into_split();
            let mut lines = BufReader::new(source).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                let request: Value = serde_json::from_str(&line).unwrap();
                let is_prompt = request["method"] == "session/prompt";
                let said = if is_prompt {
                    json!({ "jsonrpc": "2.0", "method": "_acpx/accepted", "params": { "turn": 1, "requestId": "r" } })
                } else {
                    json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} })
                };
                if is_prompt && !accepts {
                    break;
                }
                target.write_all(format!("{said}\n").as_bytes()).await.unwrap();
            }
        }
    });
    let (mut view, asking) = (TurnView::new(OutputMode::default(), None), PromptSubmission::sample());
    let mut console = Console::over(OutputMode::default(), sink(), sink());
    let session = HostSession::new(&mut console, InterruptWatcher::new(None).unwrap(), Some(&locator));
    let mut session = session.showing(&mut view, asking.request.clone(), Seq::FIRST);
    // As after SIGTERM.
    session.detaches = true;
    let mut client = locator.running().await.unwrap().expect("the host listens");
    let lost = session.prompt(&mut client, "record", &asking).await;
    assert!(matches!(lost, Err(HostSessionError::Lost)), "{lost:?}");
    let mut client = locator.running().await.unwrap().expect("the host listens");
    let outcome = session.prompt(&mut client, "record", &asking).await;
    assert!(matches!(outcome, Ok(PromptOutcome::Detached { has_begun: false })), "{outcome:?}");
    drop(client);
    host.await.unwrap();
}
