//! A session with an acpx elsewhere is taken up again after the host here, or the way there, was gone for good: what was
//! said there meanwhile is told, and none of it is taken for the answer to another prompt.

use acpx_testkit::Script;
use serde_json::json;

use super::Served;
use crate::acpx::{Place, eventually, kill_hard};

/// A turn that was interrupted here, what was said there after that, and the next turn.
const WHOLE: [&str; 5] = [
    "user: first",
    "assistant: the beginning [interrupted]",
    "assistant: and the end",
    "user: second",
    "assistant: the beginning and the end",
];

/// A home that serves an agent whose turns wait in their middle until a file is there, and one that uses it.
struct Homes {
    // A home is looked over when it goes, and what runs in it has to be gone before.
    served: Served,
    near: Place,
    far: Place,
}

impl Homes {
    fn new() -> Self {
        let (far, near) = (Place::new(), Place::new());
        let turn = Script::new()
            .say("the beginning\n")
            .await_file(&far.path_of("gate"))
            .say("and the end")
            .end("end_turn");
        let script = Script::new().initialize(json!({})).serve([
            ("session/new", Script::new().reply(json!({ "sessionId": "s1" }))),
            ("session/prompt", turn),
        ]);
        far.scripted(&script);
        let served = Served::agent(&far, "scripted", &[]);
        let homes = Self { served, near, far };
        homes.near.ok(&homes.with(&["sessions", "new"]));
        homes
    }

    /// A command line of the near home about that agent.
    fn with<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [&["--agent", self.served.websocket.as_str()], words].concat()
    }

    /// Lets the turn that waits end.
    fn open(&self) {
        std::fs::write(self.far.path_of("gate"), "").unwrap();
    }

    /// The stored session on the remote machine.
    fn remote_replay(&self) -> String {
        let session = self.near.json(&self.with(&["sessions", "show"]))["acpxSessionId"].clone();
        self.far.ok(&["scripted", "sessions", "replay", session.as_str().unwrap()])
    }

    /// The messages with their authors, as stored here.
    fn said(&self) -> Vec<String> {
        let history = self.near.ok(&self.with(&["sessions", "history"]));
        let entry = |line: &str| line.split('\t').skip(1).collect::<Vec<_>>().join(": ");
        history.lines().skip(1).map(entry).collect()
    }

    /// Begins a turn and loses the host here in its middle.
    fn lose_host(&self) {
        let mut turn = self.near.start(&self.with(&["first"]));
        turn.wait_for("the beginning");
        kill_hard(self.near.host_pid());
        assert_eq!(turn.done().code, Some(1));
    }
}

#[test]
fn updates_of_a_remote_host_while_offline_are_replayed_once_on_restore() {
    let homes = Homes::new();
    homes.lose_host();
    homes.open();
    eventually("the turn ends over there", || homes.remote_replay().contains("[done] end_turn"));
    let answer = homes.near.ok(&homes.with(&["--format", "quiet", "second"]));
    assert_eq!(answer, "the beginning\nand the end\n");
    assert_eq!(homes.said(), WHOLE);
}

#[test]
fn rest_of_a_running_remote_turn_runs_before_new_prompts() {
    let homes = Homes::new();
    homes.lose_host();
    let second = homes.near.start(&homes.with(&["--format", "quiet", "second"]));
    let session = homes.near.json(&homes.with(&["sessions", "show"]))["acpxRecordId"].clone();
    let status = homes.with(&["status", "-s", session.as_str().unwrap()]);
    eventually("the second prompt waits behind what runs there", || {
        let status = homes.near.json(&status);
        status["queued"] == 1 && status["summary"] == "the agent works on a turn"
    });
    homes.open();
    let done = second.done();
    assert_eq!((done.code, done.out.as_str()), (Some(0), "the beginning\nand the end\n"), "{done:?}");
    assert_eq!(homes.said(), WHOLE);
    assert_eq!(homes.remote_replay().matches("[user").count(), 2, "{}", homes.remote_replay());
}

#[test]
fn turn_cancelled_while_disconnected_is_cancelled_on_the_remote_host() {
    is_cancelled_there(&[]);
}

#[test]
fn remote_restore_works_the_same_in_version_2() {
    is_cancelled_there(&["--protocol", "2"]);
}

/// Cancels a turn while its machine is away.
fn is_cancelled_there(spoken: &[&str]) {
    let (far, near) = (Place::new(), Place::new());
    let served = Served::new(&far, &[]);
    let (address, url) = (served.place.clone(), served.websocket.clone());
    let agent = [&["--agent", url.as_str()], spoken].concat();
    let made = near.json(&[&agent[..], &["sessions", "new"]].concat());
    let session = made["acpxSessionId"].as_str().unwrap();
    let mut turn = near.start(&[&agent[..], &["wait"]].concat());
    turn.wait_for("Waiting until cancelled.");
    let relay = near.json(&[&agent[..], &["status"]].concat())["pid"].as_u64().unwrap();
    served.kill();
    near.ok(&[&agent[..], &["cancel"]].concat());
    kill_hard(u32::try_from(relay).unwrap());
    let done = turn.done();
    assert!(done.out.ends_with("[done] cancelled\n"), "{done:?}");
    assert!(!far.ok(&["demo", "sessions", "replay", session]).contains("[done]"), "it still runs there");
    let _served = Served::new(&far, &["--listen", &address]);
    let answer = near.ok(&[&agent[..], &["--format", "quiet", "hello"]].concat());
    assert_eq!(answer, "You said: hello\n");
    let told = far.ok(&["demo", "sessions", "replay", session]);
    assert!(
        told.contains("[done] cancelled") && told.ends_with("You said: hello\n\n[done] end_turn\n"),
        "{told}"
    );
}
