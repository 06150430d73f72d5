//! Hosts of other versions, and hosts that come and go.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};
use crate::editor::Editor;

/// More than any system gives out.
const NOBODY: u32 = 1 << 30;

/// A host of another version: all that every version understands, and nothing more. It leaves when it is told to.
struct Other {
    socket: PathBuf,
    serving: Option<JoinHandle<Vec<String>>>,
}

impl Other {
    fn new(place: &Place, protocol: u32, live_sessions: u32) -> Self {
        let directory = place.path_of("other");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
        let socket = directory.join("host.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let lock = place.acpx_home().join("host.lock");
        let info = json!({
            "pid": NOBODY, "started": 0, "boot": "none", "socket": text(&socket), "version": "7.7.7",
            "protocol": { "oldest": protocol, "newest": protocol },
        });
        std::fs::write(&lock, info.to_string()).unwrap();
        let held = File::open(&lock).unwrap();
        held.lock().unwrap();
        let path = socket.clone();
        let serving = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for stream in listener.incoming() {
                let is_over = serve(stream.unwrap(), live_sessions, &mut asked);
                if is_over {
                    std::fs::write(&lock, "").unwrap();
                    std::fs::remove_file(&path).unwrap();
                    break;
                }
            }
            drop(held);
            asked
        });
        Self { socket, serving: Some(serving) }
    }

    /// The methods it was asked for, once it has left.
    fn asked(&mut self) -> Vec<String> {
        self.serving.take().unwrap().join().unwrap()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take()
            && let Ok(mut stream) = UnixStream::connect(&self.socket)
        {
            stream.write_all(b"{\"method\":\"_acpx/host/stop\",\"id\":0}\n").unwrap();
            serving.join().unwrap();
        }
    }
}

/// Answers one client; whether it said that the host is to stop.
fn serve(stream: UnixStream, live_sessions: u32, asked: &mut Vec<String>) -> bool {
    let mut answers = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(request) = line.map(|line| serde_json::from_str::<Value>(&line).unwrap()) else {
            return false;
        };
        let method = request["method"].as_str().unwrap().to_owned();
        let result = match method.as_str() {
            "initialize" => json!({ "protocolVersion": 1 }),
            "_acpx/host/status" => json!({
                "pid": NOBODY, "version": "7.7.7", "startedAt": "2026-01-01T00:00:00.000Z",
                "liveSessions": live_sessions, "clients": 1,
            }),
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        // A client that only looked whether somebody listens is gone.
        if writeln!(answers, "{answer}").is_err() {
            return false;
        }
        asked.push(method.clone());
        if method == "_acpx/host/stop" {
            return true;
        }
    }
    false
}

#[test]
fn newer_host_is_not_replaced_and_its_version_is_printed() {
    let place = Place::new();
    let _other = Other::new(&place, 99, 0);
    for verb in [&["sessions", "new"][..], &["sessions", "ensure"]] {
        let done = place.acpx(&[&["--format", "json", "demo"], verb].concat());
        let (code, hint, exit) = done.failure();
        assert_eq!((code.as_str(), exit), ("HOST_NEWER", Some(1)), "{verb:?}");
        assert!(hint.starts_with("use that version of acpx"), "{hint}");
        assert!(done.json()["error"]["message"].as_str().unwrap().contains("7.7.7"));
    }
    let status = place.json(&["host", "status"]);
    assert_eq!((&status["status"], &status["version"]), (&json!("running"), &json!("7.7.7")));
    // What only reads needs no host.
    assert_eq!(place.json(&["demo", "status"])["status"], "no-session");
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
}

#[test]
fn older_host_with_work_keeps_running() {
    let place = Place::new();
    let _other = Other::new(&place, 0, 1);
    let (code, hint, exit) = place.acpx(&["--format", "json", "demo", "sessions", "new"]).failure();
    assert_eq!((code.as_str(), exit), ("HOST_OLDER", Some(1)));
    assert!(hint.contains("`acpx host restart` replaces it"), "{hint}");
}

/// Puts a store of format 9 in the place of the store.
fn store_of_format_9(place: &Place) -> Connection {
    let store = Connection::open(place.acpx_home().join("acpx.db")).unwrap();
    store.execute_batch(include_str!("../../../../core/src/store/sqlite/tests/format_9.sql")).unwrap();
    store
}

#[test]
fn idle_host_of_an_older_store_format_is_stopped_before_the_migration() {
    let place = Place::new();
    drop(store_of_format_9(&place));
    let mut other = Other::new(&place, 2, 0);
    assert_eq!(place.json(&["sessions", "list"]).as_array().unwrap().len(), 2);
    assert_eq!(other.asked(), ["initialize", "_acpx/host/status", "_acpx/host/stop"]);
}

#[test]
fn a_store_is_not_migrated_under_an_older_host_that_has_work() {
    let place = Place::new();
    let store = store_of_format_9(&place);
    let _other = Other::new(&place, 2, 1);
    let (code, hint, exit) = place.acpx(&["--format", "json", "sessions", "list"]).failure();
    assert_eq!((code.as_str(), exit), ("HOST_OLDER", Some(1)));
    assert!(hint.contains("`acpx host restart` replaces it"), "{hint}");
    let format: u32 = store.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(format, 9);
}

#[test]
fn a_host_of_any_version_can_be_stopped_and_restarted() {
    let place = Place::new();
    let mut older = Other::new(&place, 0, 1);
    let restarted = place.json(&["host", "restart"]);
    assert_eq!(restarted["pid"], place.host_pid());
    assert_eq!(older.asked().last().map(String::as_str), Some("_acpx/host/stop"));
    place.ok(&["host", "stop"]);
    let mut newer = Other::new(&place, 99, 1);
    assert_eq!(place.ok(&["host", "stop"]), "host stopped\n");
    assert_eq!(newer.asked().last().map(String::as_str), Some("_acpx/host/stop"));
}

#[test]
fn idle_older_host_is_replaced_automatically() {
    let place = Place::new();
    let mut other = Other::new(&place, 0, 0);
    let made = place.json(&["demo", "sessions", "new"]);
    assert_eq!(made["created"], true);
    assert_eq!(other.asked(), ["initialize", "_acpx/host/status", "_acpx/host/stop"]);
    assert_eq!(place.json(&["host", "status"])["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_host_is_shown_stopped_and_restarted() {
    let place = Place::new();
    let stopped = json!({ "action": "host_status", "status": "stopped", "home": text(place.acpx_home()) });
    assert_eq!(place.json(&["host", "status"]), stopped);
    assert_eq!(place.ok(&["host", "stop"]), "no host runs\n");
    assert_eq!(place.json(&["host", "stop"]), json!({ "action": "host_stopped", "stopped": false }));
    place.ok(&["demo", "sessions", "new"]);
    let first = place.json(&["host", "status"]);
    assert_eq!(
        (&first["status"], &first["liveSessions"], &first["clients"]),
        (&json!("running"), &json!(1), &json!(0))
    );
    let restarted = place.json(&["host", "restart"]);
    let expected = json!({ "action": "host_restarted", "stopped": true, "pid": place.host_pid() });
    assert_eq!(restarted, expected);
    assert_ne!(restarted["pid"], first["pid"]);
    assert_eq!(place.json(&["demo", "status"])["status"], "idle");
    assert_eq!(place.ok(&["--format", "quiet", "host", "status"]), "running\n");
    assert_eq!(place.ok(&["host", "stop"]), "host stopped\n");
    assert_eq!(place.processes(), [0; 0], "a host that was stopped is gone");
}

#[test]
fn stopping_a_host_under_an_editor_announces_that_another_will_start() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    editor.open(&place);
    let done = place.acpx(&["host", "stop"]);
    let said = "[acpx] clients were connected to it; those with open sessions, such as editors, start another host at once\n";
    assert_eq!(done, Done { out: "host stopped\n".to_owned(), err: said.to_owned(), code: Some(0) });
    // It is so.
    editor.call("session/list", json!({}));
    assert_eq!(place.json(&["host", "status"])["status"], "running");
    editor.leave();
}

#[test]
fn killed_host_leaves_no_agent_and_no_stale_file() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    crate::acpx::kill_hard(place.host_pid());
    assert_eq!(place.json(&["host", "status"])["status"], "stopped");
    let done = place.acpx(&["--format", "quiet", "demo", "hello"]).without_tokens();
    assert_eq!(done, Done { out: "You said: hello\n".to_owned(), err: String::new(), code: Some(0) });
}
