//! Many at once: none lost, none twice, each in its turn.

use std::thread;

use acpx_core::model::{Fact, RecordId, Seq};
use acpx_core::store::{Access, SqliteStore, Store};
use serde_json::{Value, json};

use crate::acpx::Place;

const PROCESSES: usize = 8;
const PROMPTS: usize = 25;

/// The turns of a record, in the order in which they began.
fn begun(place: &Place, record: &str) -> Vec<u64> {
    let store = SqliteStore::open(&place.acpx_home().join("acpx.db"), Access::ReadOnly).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let record = RecordId::new(record).unwrap();
    let events = runtime.block_on(store.events(record, Seq::FIRST, 100_000)).unwrap();
    let started = events.iter().filter_map(|event| match Fact::from_body(&event.body) {
        Some(Fact::TurnStarted { turn, .. }) => Some(turn),
        _ => None,
    });
    started.collect()
}

#[test]
fn two_hundred_prompts_from_eight_processes_are_answered_once_in_queue_order() {
    let place = Place::new();
    let record = place.json(&["demo", "sessions", "new"])["acpxRecordId"].as_str().unwrap().to_owned();
    thread::scope(|scope| {
        for process in 0..PROCESSES {
            let place = &place;
            scope.spawn(move || {
                for prompt in 0..PROMPTS {
                    let words = format!("prompt {prompt} of process {process}");
                    let done = place.acpx(&["--format", "quiet", "demo", "prompt", &words]).without_tokens();
                    assert_eq!(done.out, format!("You said: {words}\n"), "{done:?}");
                    assert_eq!((done.err.as_str(), done.code), ("", Some(0)));
                }
            });
        }
    });
    let history = place.json(&["demo", "sessions", "history", "--limit", "1000"]);
    let entries = history["entries"].as_array().unwrap();
    assert_eq!(
        (entries.len(), &history["count"]),
        (2 * PROCESSES * PROMPTS, &json!(2 * PROCESSES * PROMPTS))
    );
    let said: Vec<&str> = entries.iter().map(|entry| entry["textPreview"].as_str().unwrap()).collect();
    for pair in said.chunks(2) {
        assert_eq!(pair[1], format!("You said: {}", pair[0]));
    }
    for process in 0..PROCESSES {
        let of_process = format!(" of process {process}");
        let prompts: Vec<&&str> = said.iter().step_by(2).filter(|text| text.ends_with(&of_process)).collect();
        let expected: Vec<String> =
            (0..PROMPTS).map(|prompt| format!("prompt {prompt}{of_process}")).collect();
        assert_eq!(prompts, expected.iter().collect::<Vec<_>>(), "process {process}");
    }
    // Turns are numbered when they are accepted.
    let expected: Vec<u64> = (1..=(PROCESSES * PROMPTS) as u64).collect();
    assert_eq!(begun(&place, &record), expected);
    assert_eq!(place.json(&["demo", "sessions", "show"])["answeredTurns"], json!(PROCESSES * PROMPTS));
}

#[test]
fn two_concurrent_commands_without_a_host_start_one_host() {
    for _ in 0..5 {
        let place = Place::new();
        let names = ["a", "b", "c", "d"];
        let started =
            names.map(|name| place.start(&["--format", "json", "demo", "sessions", "new", "-s", name]));
        let made: Vec<Value> = started.map(|started| started.done().json()).to_vec();
        assert_eq!(made.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
        let status = place.json(&["host", "status"]);
        assert_eq!((&status["status"], &status["liveSessions"]), (&json!("running"), &json!(names.len())));
        let hosts = place.processes().into_iter().filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(8).any(|words| words == b"host\0run")
        });
        assert_eq!(hosts.count(), usize::from(cfg!(target_os = "linux")));
    }
}
