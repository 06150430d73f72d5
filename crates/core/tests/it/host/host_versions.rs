//! Several hosts at once, and hosts of other versions: one wins, and there is never a downgrade.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use acpx_core::client::{Bridge, running};
use acpx_core::home::{HostInfo, HostLock};
use acpx_core::model::ProcessIdentity;
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{PROTOCOL, ProtocolRange, RemoteClientMeta};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::Bench;

/// Something that has the lock of a home and answers like a host of another version.
struct OtherHost {
    serving: JoinHandle<()>,
}

impl OtherHost {
    /// A host with these versions of the protocol, so many live sessions, and an answer to everything, or
    /// none.
    fn start(bench: &Bench, protocol: ProtocolRange, live: u64, answers: bool) -> Self {
        let lock = HostLock::try_take(&bench.paths).unwrap().expect("no host runs");
        let directory = bench.sockets();
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
        let socket = directory.join("other.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        publish(bench, protocol, socket);
        let path = bench.paths.home().join("host.lock");
        let serving = tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                if !answers {
                    silent.push(stream);
                } else if serve(stream, live).await {
                    break;
                }
            }
            // It leaves as a host does: nobody finds the way to it any more, and then its lock is free.
            std::fs::write(path, "").unwrap();
            drop(listener);
            drop(lock);
        });
        Self { serving }
    }
}

impl Drop for OtherHost {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn publish(bench: &Bench, protocol: ProtocolRange, socket: PathBuf) {
    let info = HostInfo {
        process: ProcessIdentity::of_this_process(),
        socket,
        protocol,
        version: "7.0".to_owned(),
        build: None,
    };
    let text = serde_json::to_string(&info).unwrap();
    std::fs::write(bench.paths.home().join("host.lock"), text).unwrap();
}

/// Answers one client; whether it was told to stop.
async fn serve(stream: UnixStream, live: u64) -> bool {
    let (source, mut target) = stream.into_split();
    let mut lines = BufReader::new(source).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let request: Value = serde_json::from_str(&line).unwrap();
        let method = request["method"].as_str().unwrap().to_owned();
        let result = match method.as_str() {
            "initialize" => json!({ "protocolVersion": 1, "agentCapabilities": {} }),
            "_acpx/host/status" => json!({ "liveSessions": live, "clients": 1, "unheardOf": true }),
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        target.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        if method == "_acpx/host/stop" {
            return true;
        }
    }
    false
}

fn older() -> ProtocolRange {
    ProtocolRange { oldest: 0, newest: PROTOCOL.oldest - 1 }
}

fn newer() -> ProtocolRange {
    ProtocolRange { oldest: PROTOCOL.newest + 1, newest: PROTOCOL.newest + 3 }
}

#[tokio::test]
async fn of_concurrently_started_hosts_one_serves_every_client() {
    let bench = Bench::new();
    // Nobody is there, so each of them starts one.
    let (one, two, three) = tokio::join!(bench.client(), bench.client(), bench.client());
    let mut pids = Vec::new();
    for mut client in [one, two, three] {
        let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
        pids.push(status["pid"].as_u64().unwrap());
    }
    assert_eq!(pids, [u64::from(bench.host_process().pid); 3]);
}

#[tokio::test]
async fn an_older_host_with_nothing_to_do_is_replaced() {
    let bench = Bench::new();
    let _other = OtherHost::start(&bench, older(), 0, true);
    let found = running(&bench.paths).await.err().expect("they have no version in common");
    assert_eq!((found.code().as_str(), found.to_string().contains("7.0")), ("HOST_OLDER", true));
    let mut client = bench.client().await;
    let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!(status["version"], "example");
}

#[tokio::test]
async fn older_host_with_live_sessions_stays_and_is_reported() {
    let bench = Bench::new();
    let other = OtherHost::start(&bench, older(), 1, true);
    let refused = bench.launcher.reach(&bench.paths).await.err().expect("it is busy");
    assert!(matches!(&refused, HostError::Older { version } if version == "7.0"), "{refused:?}");
    assert_eq!(refused.hint(), Some("`acpx host restart` replaces it; running turns are interrupted"));
    assert!(!other.serving.is_finished());
}

#[tokio::test]
async fn a_newer_host_is_never_replaced() {
    let bench = Bench::new();
    let other = OtherHost::start(&bench, newer(), 0, true);
    let refused = bench.launcher.reach(&bench.paths).await.err().expect("there is no downgrade");
    assert!(matches!(&refused, HostError::Newer { version } if version == "7.0"), "{refused:?}");
    assert_eq!(refused.code().as_str(), "HOST_NEWER");
    assert!(!other.serving.is_finished());
}

#[tokio::test]
async fn host_with_more_protocol_versions_is_used_as_it_is() {
    let bench = Bench::new();
    let wider = ProtocolRange { oldest: PROTOCOL.oldest, newest: PROTOCOL.newest + 3 };
    let _other = OtherHost::start(&bench, wider, 1, true);
    let mut client = bench.client().await;
    let status: Value = client.call("_acpx/host/status", &json!({})).await.unwrap();
    assert_eq!(status["unheardOf"], true);
}

#[tokio::test(start_paused = true)]
async fn unresponsive_host_blocks_no_client_for_ever() {
    let bench = Bench::new();
    let _other = OtherHost::start(&bench, PROTOCOL, 0, false);
    let silent = bench.launcher.reach(&bench.paths).await.err().expect("nobody answers");
    assert_eq!(silent.code().as_str(), "HOST_SILENT");
}

#[tokio::test]
async fn lock_file_of_a_killed_host_misleads_no_client() {
    let bench = Bench::new();
    drop(HostLock::try_take(&bench.paths).unwrap());
    for text in ["", "{", "[]", "{\"pid\":1}", "\u{0}\u{0}"] {
        std::fs::write(bench.paths.home().join("host.lock"), text).unwrap();
        assert!(running(&bench.paths).await.unwrap().is_none(), "{text:?}");
    }
    publish(&bench, PROTOCOL, bench.home.join("run/nowhere/x.sock"));
    assert!(running(&bench.paths).await.unwrap().is_none());
    drop(HostLock::try_take(&bench.paths).unwrap().expect("nobody has it"));
    assert_eq!(std::fs::read_to_string(bench.paths.home().join("host.lock")).unwrap(), "");
    bench.client().await;
}

#[tokio::test]
async fn remote_client_is_not_connected_to_a_host_too_old_for_it() {
    let unknowing = ProtocolRange { oldest: 1, newest: 1 };
    for (live, expected) in [(1, Some("HOST_OLDER")), (0, None)] {
        let bench = Bench::new();
        let _other = OtherHost::start(&bench, unknowing, live, true);
        let client = RemoteClientMeta { who: "somebody".to_owned(), ..RemoteClientMeta::default() };
        let bridge = Bridge::for_remote_client(bench.launcher.clone(), bench.paths.clone(), &client);
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let (source, target) = tokio::io::split(near);
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
        let speaking = async {
            far.write_all(format!("{initialize}\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            BufReader::new(&mut far).read_line(&mut answer).await.unwrap();
            serde_json::from_str::<Value>(&answer).unwrap()
        };
        tokio::select! {
            ended = bridge.run(source, target, std::future::pending(), std::future::ready(())) => {
                assert_eq!(ended.as_ref().err().map(HostError::code), expected.map(Into::into));
            }
            answer = speaking => {
                assert_eq!((&answer["result"]["agentInfo"]["version"], expected), (&json!("example"), None));
            }
        }
    }
}
