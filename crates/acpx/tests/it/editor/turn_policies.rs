//! What is typed before `acp`, and what is configured, holds for the turns of an editor that says nothing else.

use serde_json::{Value, json};

use super::Editor;
use crate::acpx::Place;

/// An editor that has begun to speak, behind these flags.
fn editor(place: &Place, flags: &[&str]) -> Editor {
    let mut editor = Editor::silent(place, &[flags, &["demo", "acp"]].concat());
    let answer = editor.call("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
    editor
}

/// Whether the editor is asked in a turn that wants a permission, and how many were given and not.
fn permissions(editor: &mut Editor, place: &Place, meta: &Value) -> (bool, Value, Value) {
    let session = editor.open(place);
    let prompt = json!([{ "type": "text", "text": "permission" }]);
    let params = json!({ "sessionId": session, "prompt": prompt, "_meta": { "acpx": meta } });
    let asked = editor.ask("session/prompt", params);
    let mut is_prompted = false;
    loop {
        let message = editor.hear();
        if message["method"] == "session/request_permission" {
            is_prompted = true;
            let outcome = json!({ "outcome": { "outcome": "cancelled" } });
            editor.say(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": outcome }).to_string());
        } else if message["id"] == asked {
            let told = &message["result"]["_meta"]["acpx"];
            return (is_prompted, told["approved"].clone(), told["rejected"].clone());
        }
    }
}

#[test]
fn policy_before_acp_applies_to_every_turn_without_its_own() {
    let place = Place::new();
    let (none, own) = (json!({}), json!({ "policy": "approve-all" }));
    let rules = r#"{"autoDeny":["execute","edit","other"]}"#;
    let cases = [
        (&[][..], &none, (true, 0, 0)),
        (&["--deny-all"], &none, (false, 0, 1)),
        (&["--approve-all"], &none, (false, 1, 0)),
        (&["--permission-policy", rules], &none, (false, 0, 1)),
        (&["--deny-all"], &own, (false, 1, 0)),
    ];
    for (flags, meta, (is_prompted, approved, rejected)) in cases {
        let seen = permissions(&mut editor(&place, flags), &place, meta);
        assert_eq!(seen, (is_prompted, json!(approved), json!(rejected)), "{flags:?} {meta}");
    }
}

#[test]
fn configured_policy_applies_to_editors_after_a_typed_one() {
    let place = Place::new();
    place.configure(r#"{"defaultPermissions":"deny-all"}"#);
    let none = json!({});
    assert_eq!(permissions(&mut editor(&place, &[]), &place, &none), (false, json!(0), json!(1)));
    let typed = permissions(&mut editor(&place, &["--approve-all"]), &place, &none);
    assert_eq!(typed, (false, json!(1), json!(0)));
    place.configure(r#"{"permissionPolicy":{"autoApprove":["*"]}}"#);
    assert_eq!(permissions(&mut editor(&place, &[]), &place, &none), (false, json!(1), json!(0)));
    let denying = permissions(&mut editor(&place, &["--deny-all"]), &place, &none);
    assert_eq!(denying, (false, json!(0), json!(1)));
}

#[test]
fn a_limit_before_acp_ends_an_editors_turn() {
    let place = Place::new();
    let mut editor = editor(&place, &["--timeout", "1"]);
    let session = editor.open(&place);
    let (_, answer) = editor.prompt(&session, "wait");
    let details =
        "the turn with the agent \"demo\" took longer than 1 s and was cancelled; give the turn more time";
    assert_eq!(answer["error"]["data"], json!({ "details": details }));
}
