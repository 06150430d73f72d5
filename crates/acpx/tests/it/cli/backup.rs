//! `backup` and `verify`: a backup of sessions in use is whole, and the documented way restores it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::acpx::{Done, Place, text};

fn id(made: &Value) -> String {
    made["acpxRecordId"].as_str().unwrap().to_owned()
}

fn history(place: &Place, session: &str) -> Value {
    place.json(&["demo", "sessions", "history", session])["entries"].clone()
}

#[test]
fn backup_has_every_session_and_replaces_a_file_only_by_force() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "-s", "api"]);
    place.ok(&["demo", "-s", "api", "mend the roof"]);
    let file = place.path_of("copy.db");
    let backed = place.json(&["backup", &text(&file)]);
    let facts = fs::metadata(&file).unwrap();
    let expected = json!({
        "action": "store_backed_up", "path": file, "bytes": facts.len(), "sessions": 1, "events": backed["events"],
    });
    assert_eq!(backed, expected);
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    let verified = place.json(&["verify", &text(&file)]);
    let expected = json!({
        "action": "store_verified", "path": file, "ok": true, "bytes": facts.len(), "format": verified["format"],
        "sessions": 1, "deleted": 0, "events": backed["events"], "turns": 1, "problems": [],
    });
    assert_eq!(verified, expected);
    assert_eq!(place.ok(&["--format", "quiet", "verify"]), "ok\n");
    let (code, hint, exit) = place.acpx(&["--format", "json", "backup", &text(&file)]).failure();
    assert_eq!((code.as_str(), hint.as_str(), exit), ("USAGE", "add --force to replace it", Some(2)));
    place.ok(&["backup", "--force", &text(&file)]);
    for own in ["acpx.db", "acpx.db-wal"] {
        let store = place.acpx_home().join(own);
        let refused = place.acpx(&["--format", "json", "backup", "--force", &text(&store)]);
        assert_eq!(refused.failure().2, Some(2), "{own}");
    }
    for arguments in [&["backup"][..], &["backup", "--force"]] {
        let directory = text(place.work());
        let refused = place.acpx(&[&["--format", "json"], arguments, &[&directory]].concat());
        assert_eq!(
            refused.json()["error"]["message"],
            format!("cannot write the backup {directory}: Is a directory")
        );
    }
    // Neither the copy nor the check has left another file.
    let left: Vec<_> =
        fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("acpx-backup")), "{left:?}");
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("copy.db-")), "{left:?}");
    assert_eq!(place.json(&["sessions", "list"])[0]["acpxRecordId"], made["acpxRecordId"]);
}

/// The lines of the guide that restore a backup, run as they stand there.
#[test]
fn backup_is_restored_by_the_steps_of_the_guide() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "-s", "api"]);
    place.ok(&["demo", "-s", "api", "before the backup"]);
    let said = history(&place, "api");
    let file = place.path_of("acpx-2026-11-18.db");
    place.ok(&["backup", &text(&file)]);
    place.ok(&["demo", "-s", "api", "after the backup"]);
    place.ok(&["demo", "sessions", "new", "-s", "later"]);
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/backup.md");
    let guide = fs::read_to_string(guide).unwrap();
    let restore = guide.split("## Restore a backup").nth(1).unwrap();
    let lines = restore.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let lines = lines.replace("~/backups/", &format!("{}/", file.parent().unwrap().display()));
    let mut shell = Command::new("sh");
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_acpx")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    shell.args(["-euc", &lines, "sh"]);
    let mut shell = place.by(shell, &[]);
    let done = Done::of(shell.env("PATH", path));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.lines().last().unwrap().starts_with("ok: "), "{done:?}");
    let rows = place.json(&["sessions", "list"]);
    assert_eq!((rows.as_array().unwrap().len(), id(&rows[0])), (1, id(&made)));
    assert_eq!(history(&place, "api"), said);
    place.ok(&["demo", "-s", "api", "and on it goes"]);
    assert_eq!(place.json(&["verify"])["ok"], true);
}

#[test]
fn damaged_session_is_left_out_of_lists_and_deleted_by_its_id() {
    let place = Place::new();
    let whole = id(&place.json(&["demo", "sessions", "new", "-s", "whole"]));
    let damaged = id(&place.json(&["demo", "sessions", "new", "-s", "damaged"]));
    place.ok(&["host", "stop"]);
    let store = rusqlite::Connection::open(place.acpx_home().join("acpx.db")).unwrap();
    store.execute("UPDATE records SET title = 'other' WHERE id = ?1", [&damaged]).unwrap();
    drop(store);
    let notice = format!(
        "[acpx] the session {damaged} is damaged and left out; acpx verify has the damage, and to delete it: acpx sessions \
         delete {damaged}\n"
    );
    let listed = place.acpx(&["--format", "json", "sessions", "list"]);
    assert_eq!((listed.json()[0]["acpxRecordId"].as_str(), listed.err), (Some(&*whole), notice.clone()));
    let pruned = place.acpx(&["--format", "json", "sessions", "prune", "--dry-run", "--include-open"]);
    assert_eq!((&pruned.json()["pruned"], pruned.err), (&json!([whole]), notice));
    let file = text(place.path_of("copy.db"));
    let (code, hint, exit) = place.acpx(&["--format", "json", "backup", &file]).failure();
    let delete = "acpx sessions delete with a session's whole id removes a damaged session";
    assert_eq!((code.as_str(), hint.contains(delete), exit), ("STORE_CORRUPT", true, Some(1)));
    let mut deleted = place.json(&["sessions", "delete", &damaged]);
    let kept = deleted.as_object_mut().unwrap().remove("keptByAgent").unwrap();
    assert!(kept.as_str().unwrap().contains(" is damaged: "), "{kept}");
    assert_eq!(deleted, json!({ "action": "damaged_session_deleted", "acpxRecordId": damaged }));
    assert_eq!(place.acpx(&["sessions", "list"]).err, "");
    assert_eq!(place.json(&["verify"])["ok"], true);
}

#[test]
fn verify_names_the_damaged_session_and_exits_with_1() {
    let place = Place::new();
    let made = place.json(&["demo", "sessions", "new", "-s", "api"]);
    place.ok(&["demo", "-s", "api", "mend the roof"]);
    let file = place.path_of("copy.db");
    place.ok(&["backup", &text(&file)]);
    let damage = |statement: &str| {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection
            .execute_batch(&format!("PRAGMA journal_mode=DELETE; PRAGMA foreign_keys=OFF; {statement}"))
            .unwrap();
    };
    damage("UPDATE events SET body = replace(body, 'roof', 'door') WHERE body LIKE '%roof%'");
    let done = place.acpx(&["--format", "json", "verify", &text(&file)]);
    let found = done.json();
    assert_eq!((done.code, &found["ok"]), (Some(1), &json!(false)), "{done:?}");
    assert_eq!(found["problems"][0]["acpxRecordId"], id(&made));
    damage("DELETE FROM turns WHERE turn = 1");
    let done = place.acpx(&["verify", &text(&file)]);
    assert!(done.out.contains("events belong to a turn that is missing"), "{done:?}");
    damage("DELETE FROM records");
    let done = place.acpx(&["verify", &text(&file)]);
    assert_eq!(done.code, Some(1));
    assert!(done.out.contains("rows of events belong to no session"), "{done:?}");
    assert_eq!(place.acpx(&["--format", "json", "backup", "/no/such/directory/x"]).code, Some(1));
}

#[test]
fn verify_names_a_file_that_is_missing_or_no_store() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let (words, other) = (place.path_of("words.txt"), place.path_of("other.db"));
    fs::write(&words, "no database at all, but long enough to be read").unwrap();
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let unopened =
        "name a backup that acpx backup wrote; without a file, acpx verify reads your stored sessions";
    let damaged = "if acpx backup wrote this file, it is damaged: use another backup";
    let directory = text(place.work());
    for (file, code, reason, hint) in [
        ("no-such-file", "STORE_NOT_OPENED", "No such file or directory", unopened),
        (&directory, "STORE_NOT_OPENED", "is a directory", unopened),
        (&text(&words), "STORE_CORRUPT", "file is not a database", damaged),
        (&text(&other), "STORE_CORRUPT", "it is not a store of acpx", damaged),
    ] {
        let done = place.acpx(&["--format", "json", "verify", file]);
        assert_eq!(done.failure(), (code.to_owned(), hint.to_owned(), Some(1)), "{file}");
        assert_eq!(done.json()["error"]["message"], json!(format!("cannot verify {file}: {reason}")));
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells what an agent has started")]
fn programs_started_by_an_agent_back_up_nothing() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let (tried, copy) = (place.path_of("tried"), place.path_of("copy.db"));
    let (program, said) = (env!("CARGO_BIN_EXE_acpx"), tried.display());
    let inside = format!(
        r#""{program}" --format json backup "{}" >"{said}.part"; mv "{said}.part" "{said}"; exec "{program}" demo-agent"#,
        copy.display()
    );
    place.configure(&json!({ "agents": { "inside": { "argv": ["sh", "-c", inside] } } }).to_string());
    place.ok(&["inside", "sessions", "new"]);
    let refused = Done { out: fs::read_to_string(&tried).unwrap(), err: String::new(), code: Some(1) };
    assert_eq!((refused.failure().0.as_str(), copy.exists()), ("NOT_ALLOWED", false));
}
