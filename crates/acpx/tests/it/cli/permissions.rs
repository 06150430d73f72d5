//! What an agent may do, and how a command ends by it: each turn by its own policy and its own count.

use acpx_testkit::Script;
use serde_json::json;

use crate::acpx::Place;

#[test]
fn exit_code_is_that_of_the_own_turn_not_an_earlier_one() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let table: [(&[&str], i32, &str); 8] = [
        (&["--approve-reads"], 5, "rejected"),
        (&["--approve-all"], 0, "made"),
        (&["--deny-all"], 5, "rejected"),
        (&[], 5, "rejected"),
        (&["--approve-all"], 0, "made"),
        (&[], 5, "rejected"),
        (&["--deny-all"], 5, "rejected"),
        (&["--approve-all"], 0, "made"),
    ];
    for (flags, code, outcome) in table {
        let done = place.acpx(&[flags, &["demo", "permission"]].concat());
        assert_eq!(done.code, Some(code), "{flags:?} {done:?}");
        assert!(done.out.contains(&format!("The edit was {outcome}.")), "{flags:?} {done:?}");
        assert_eq!(place.acpx(&["demo", "harmless"]).code, Some(0), "after {flags:?}");
    }
}

#[test]
fn permission_decisions_are_printed_in_every_format() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let text = place.acpx(&["demo", "permission"]);
    assert!(text.out.contains("[permission] Edit notes.txt: answered Reject\n"), "{}", text.out);
    let quiet = place.acpx(&["--format", "quiet", "demo", "permission"]).without_tokens();
    let message = "every permission that the agent asked for was denied: Edit notes.txt";
    let hint = "no client that could answer has allowed it: prompt on a terminal, or let it wait with --non-interactive-permissions wait and answer with acpx approve; --approve-all lets the agent do everything";
    let err = format!("[acpx] error: PERMISSION_DENIED {message}\n[acpx] hint: {hint}\n");
    assert_eq!((quiet.err, quiet.code), (err, Some(5)));
    let told = format!("[done] end_turn\n[error] PERMISSION_DENIED: {message}\nhint: {hint}\n");
    assert!(text.out.ends_with(&told), "{}", text.out);
    let denied = place.acpx(&["--format", "json", "demo", "permission"]);
    let result = denied.lines().pop().unwrap();
    assert_eq!((&result["permissions"], denied.code), (&json!({"approved": 0, "rejected": 1}), Some(5)));
    let seen =
        (&result["status"], &result["error"]["data"]["detailCode"], &result["error"]["data"]["acpxCode"]);
    assert_eq!(seen, (&json!("completed"), &json!("PERMISSION_DENIED"), &json!("PERMISSION_DENIED")));
    let approved = place.json(&["--approve-all", "demo", "permission"]);
    assert_eq!(approved["permissions"], json!({"approved": 1, "rejected": 0}));
    place.configure(r#"{"defaultPermissions":"approve-all"}"#);
    assert_eq!(place.acpx(&["demo", "permission"]).code, Some(0));
    let exec = place.acpx(&["--deny-all", "demo", "exec", "permission"]);
    let hint = "everything is denied, by --deny-all or by defaultPermissions in config.json: --approve-reads lets the agent read and search, --approve-all do everything";
    assert!(exec.out.ends_with(&format!("PERMISSION_DENIED: {message}\nhint: {hint}\n")), "{}", exec.out);
    assert_eq!(exec.code, Some(5));
    assert_eq!(place.acpx(&["demo", "exec", "permission"]).code, Some(0));
}

#[test]
fn reading_is_approved_where_reads_are_and_denied_where_everything_is() {
    let place = Place::new();
    let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
    let ask = json!({
        "sessionId": "{sessionId}",
        "toolCall": { "toolCallId": "c1", "title": "Read a file", "kind": "read" },
        "options": [option("yes", "allow_once"), option("no", "reject_once")],
    });
    let turn = Script::new().request("session/request_permission", ask).end("end_turn");
    place.scripted(&Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]));
    assert_eq!(place.acpx(&["scripted", "exec", "read"]).code, Some(0));
    assert_eq!(place.acpx(&["--deny-all", "scripted", "exec", "read"]).code, Some(5));
}
