//! `sessions reset` and `sessions restore`, and a restore that fails: what the user sees of each.

use serde_json::json;

use crate::acpx::Place;

#[test]
fn a_reset_session_returns_to_the_earlier_acp_session() {
    let place = Place::new();
    let new = place.json(&["demo", "sessions", "new"]);
    place.ok(&["demo", "My name is Ada."]);
    let reset = place.json(&["demo", "sessions", "reset"]);
    let expected = json!({
        "action": "session_reset", "acpxRecordId": new["acpxRecordId"], "acpxSessionId": reset["acpxSessionId"],
        "fromAcpxSessionId": new["acpxSessionId"], "reason": "reset",
    });
    assert_eq!(reset, expected);
    assert!(place.ok(&["demo", "recall"]).contains("You said nothing before."));
    let to = new["acpxSessionId"].as_str().unwrap();
    let returned = place.json(&["demo", "sessions", "restore", "--to", to]);
    let expected = json!({
        "action": "session_returned", "acpxRecordId": new["acpxRecordId"], "acpxSessionId": to,
        "fromAcpxSessionId": reset["acpxSessionId"], "reason": "returned",
    });
    assert_eq!(returned, expected);
    assert!(place.ok(&["demo", "recall"]).contains("My name is Ada."));
    let shown = place.json(&["demo", "sessions", "show"]);
    let reasons: Vec<&str> =
        shown["lineage"].as_array().unwrap().iter().map(|row| row["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["created", "reset", "returned"]);
    let refused = place.acpx(&["--format", "json", "demo", "sessions", "restore", "--to", "never"]);
    assert_eq!(refused.failure().0, "NOT_IN_LINEAGE");
}

#[test]
fn failed_load_reports_its_cause_everywhere_and_keeps_the_session() {
    let place = Place::new();
    let new = place.json(&["demo", "sessions", "new"]);
    place.ok(&["demo", "My name is Ada."]);
    place.ok(&["host", "stop"]);
    place.demo_with(&["--load-fails", "service-failure", "--resume-fails", "service-failure"]);
    let failed = place.acpx(&["demo", "recall"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let words = "session/load failed: OpenCode service failure (-32603)";
    assert!(failed.err.contains(words), "{failed:?}");
    for command in [&["demo", "status"][..], &["demo", "sessions", "show"]] {
        let text = place.ok(command);
        assert!(text.contains(&format!("lastRestoreError: {words} at ")), "{text}");
    }
    let doctor = place.acpx(&["demo", "doctor"]);
    assert!(doctor.out.contains(words), "{doctor:?}");
    // The agent is well again: nothing was lost.
    place.demo_with(&[]);
    assert!(place.ok(&["demo", "recall"]).contains("My name is Ada."));
    let status = place.json(&["demo", "status"]);
    assert_eq!((&status["acpxSessionId"], status.get("lastRestoreError")), (&new["acpxSessionId"], None));
}
