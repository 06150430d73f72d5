//! `sessions prune`: which sessions it deletes, what it prints, and that the store's file becomes smaller.

use serde_json::{Value, json};

use crate::acpx::{Done, Place, eventually};

fn id(made: &Value) -> &str {
    made["acpxRecordId"].as_str().unwrap()
}

/// A closed session of this name with a prompt of this many bytes.
fn closed(place: &Place, name: &str, bytes: usize) -> String {
    let made = place.json(&["demo", "sessions", "new", "-s", name]);
    std::fs::write(place.work().join("prompt"), "0123456789abcdef".repeat(bytes / 16)).unwrap();
    place.ok(&["demo", "-s", name, "-f", "prompt"]);
    place.ok(&["demo", "sessions", "close", name]);
    id(&made).to_owned()
}

fn listed(place: &Place) -> Vec<String> {
    let rows = place.json(&["sessions", "list"]);
    rows.as_array().unwrap().iter().map(|row| id(row).to_owned()).collect()
}

fn stored_bytes(place: &Place) -> u64 {
    let size = |name: &str| std::fs::metadata(place.acpx_home().join(name)).map_or(0, |found| found.len());
    size("acpx.db") + size("acpx.db-wal")
}

#[test]
fn prune_deletes_closed_sessions_and_shrinks_the_store_file() {
    let place = Place::new();
    let (small, large) = (closed(&place, "small", 16), closed(&place, "large", 3 << 20));
    let open = place.json(&["demo", "sessions", "new", "-s", "open"]);
    let dry = place.json(&["sessions", "prune", "--dry-run"]);
    let size = dry["contentBytes"].as_u64().unwrap();
    assert!(size > 3 << 20, "{dry}");
    let expected = json!({
        "action": "sessions_prune_dry_run", "dryRun": true, "count": 2, "bytesFreed": 0, "contentBytes": size,
        "pruned": [large, small],
    });
    assert_eq!(dry, expected);
    let text = place.ok(&["sessions", "prune", "--dry-run", "--larger-than", "1MB"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "[DRY RUN] Would prune 1 session");
    assert!(lines[1].starts_with(&format!("  {large} (large)\t20")), "{text}");
    assert_eq!(listed(&place).len(), 3);
    let before = stored_bytes(&place);
    let pruned = place.json(&["sessions", "prune", "--larger-than", "1MB"]);
    let freed = before - stored_bytes(&place);
    let expected = json!({
        "action": "sessions_pruned", "dryRun": false, "count": 1, "bytesFreed": freed, "pruned": [large],
    });
    assert_eq!(pruned, expected);
    assert!(freed > 3 << 20, "{freed}");
    assert_eq!(listed(&place), [id(&open).to_owned(), small.clone()]);
    // Without a running host too.
    place.ok(&["host", "stop"]);
    assert_eq!(place.ok(&["--format", "quiet", "sessions", "prune"]), format!("{small}\n"));
    assert_eq!(place.ok(&["sessions", "prune"]), "No sessions pruned\n");
    assert_eq!(place.ok(&["sessions", "prune", "--dry-run"]), "[DRY RUN] No sessions to prune\n");
    assert_eq!(listed(&place), [id(&open).to_owned()]);
}

#[test]
fn prune_selects_by_agent_age_and_date() {
    let place = Place::new();
    let made = closed(&place, "old", 16);
    place.configure(&json!({ "agents": { "other": { "command": "no-such-agent" } } }).to_string());
    let count = |flags: &[&str]| {
        place.json(&[&["sessions", "prune", "--dry-run"], flags].concat())["count"].as_u64().unwrap()
    };
    assert_eq!(count(&["--older-than", "1"]), 0);
    assert_eq!(count(&["--older-than", "12h"]), 0);
    assert_eq!(count(&["--older-than", "0d"]), 1);
    assert_eq!(count(&["--before", "2020-01-31"]), 0);
    assert_eq!(count(&["--before", "2120-01-31"]), 1);
    assert_eq!(count(&["--include-history"]), 1);
    let of = |agent: &str| place.json(&[agent, "sessions", "prune", "--dry-run"])["pruned"].clone();
    assert_eq!((of("demo"), of("other")), (json!([made]), json!([])));
    // Neither flag silently replaces the other.
    let both = ["sessions", "prune", "--before", "2120-01-31", "--older-than", "30"];
    let (code, hint, exit) = place.acpx(&[&["--format", "json"][..], &both].concat()).failure();
    assert_eq!((code.as_str(), exit), ("USAGE", Some(2)));
    assert_eq!(hint, "acpx help sessions prune lists its flags");
    let (code, hint, exit) =
        place.acpx(&["--format", "json", "sessions", "prune", "--older-than", "soon"]).failure();
    assert_eq!((code.as_str(), exit), ("USAGE", Some(2)));
    assert_eq!(hint, "acpx help sessions prune lists its flags");
}

#[test]
fn prune_with_open_sessions_skips_those_with_a_turn() {
    let place = Place::new();
    let idle = place.json(&["demo", "sessions", "new", "-s", "idle"]);
    let busy = place.json(&["demo", "sessions", "new", "-s", "busy"]);
    place.ok(&["demo", "-s", "busy", "--no-wait", "wait"]);
    eventually("the turn runs", || place.json(&["demo", "-s", "busy", "status"])["turn"]["number"] == 1);
    assert_eq!(place.json(&["sessions", "prune"])["count"], 0);
    let done = place.acpx(&["--format", "json", "sessions", "prune", "--include-open"]);
    let pruned = done.json();
    let freed = &pruned["bytesFreed"];
    let expected = json!({
        "action": "sessions_pruned", "dryRun": false, "count": 1, "bytesFreed": freed,
        "pruned": [id(&idle)], "skipped": [id(&busy)],
    });
    assert_eq!(pruned, expected);
    let notice = "[acpx] 1 session stays, because it has a turn or a pending request:";
    assert_eq!(done.err, format!("{notice} {}\n", id(&busy)));
    assert_eq!(listed(&place), [id(&busy).to_owned()]);
    place.ok(&["demo", "-s", "busy", "cancel"]);
}

#[test]
fn deleted_session_leaves_a_smaller_store_file() {
    let place = Place::new();
    closed(&place, "large", 3 << 20);
    let before = stored_bytes(&place);
    place.ok(&["demo", "sessions", "delete", "large"]);
    // The host returns the space as soon as it is idle.
    eventually("the file is smaller", || stored_bytes(&place) + (2 << 20) < before);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells what an agent has started")]
fn programs_started_by_an_agent_prune_nothing() {
    let place = Place::new();
    closed(&place, "old", 16);
    let tried = place.path_of("tried");
    let (program, said) = (env!("CARGO_BIN_EXE_acpx"), tried.display());
    let inside = format!(
        r#""{program}" --format json sessions prune >"{said}.part"; mv "{said}.part" "{said}"; exec "{program}" demo-agent"#
    );
    place.configure(&json!({ "agents": { "inside": { "argv": ["sh", "-c", inside] } } }).to_string());
    place.ok(&["inside", "sessions", "new"]);
    let refused = Done { out: std::fs::read_to_string(&tried).unwrap(), err: String::new(), code: Some(1) };
    assert_eq!(refused.failure().0, "NOT_ALLOWED");
    assert_eq!(listed(&place).len(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn prune_shows_a_table_and_asks_on_a_terminal() {
    use crate::terminal::OnTerminal;

    let place = Place::new();
    closed(&place, "old", 16);
    let prune = |answer: Option<&str>, flags: &[&str]| {
        let line = [&["sessions", "prune"], flags].concat();
        let mut terminal = OnTerminal::sized(&place.command(&line), 120, 24);
        if let Some(answer) = answer {
            terminal.wait_for("for good? (y/N) ");
            terminal.type_in(answer);
        }
        assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
        terminal.seen.clone()
    };
    let shown = prune(Some("\n"), &[]);
    assert!(shown.contains("CLOSED OR USED") && shown.contains("Nothing was deleted."), "{shown}");
    assert!(prune(None, &["--dry-run"]).contains("[DRY RUN] Would prune 1 session"), "{shown}");
    assert_eq!(listed(&place).len(), 1);
    assert!(prune(Some("y\n"), &[]).contains("Pruned 1 session, freed "), "{shown}");
    assert_eq!(listed(&place), [""; 0]);
    closed(&place, "old", 16);
    assert!(!prune(None, &["--yes"]).contains("(y/N)"));
    assert_eq!(listed(&place), [""; 0]);
}

#[cfg(target_os = "linux")]
#[test]
fn prune_keeps_a_session_that_is_used_while_it_asks() {
    use crate::terminal::OnTerminal;

    let place = Place::new();
    let (old, used) = (closed(&place, "old", 16), closed(&place, "used", 16));
    let mut terminal = OnTerminal::sized(&place.command(&["sessions", "prune"]), 120, 24);
    terminal.wait_for("for good? (y/N) ");
    place.ok(&["demo", "-s", &used, "once more"]);
    place.ok(&["demo", "sessions", "close", "used"]);
    terminal.type_in("y\n");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    assert_eq!(listed(&place), [used], "{old} is deleted");
}
