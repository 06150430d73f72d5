//! What a session is called: the same in every list and in every face, whatever became of its agent.

use serde_json::{Value, json};

use crate::acpx::Place;
use crate::editor::Editor;

/// What the only session of `demo` is called, by everybody who says it.
fn titles(place: &Place) -> Vec<Value> {
    let listed = Editor::new(place).call("session/list", json!({}));
    let record = place.json(&["demo", "sessions", "show"]);
    let text = place.ok(&["demo", "sessions", "list"]);
    let column = text.lines().next().and_then(|line| line.split('\t').next_back()).unwrap();
    let shown = place.ok(&["demo", "sessions", "show"]);
    let line = shown.lines().find_map(|line| line.strip_prefix("title: ")).unwrap();
    vec![
        listed["result"]["sessions"][0]["title"].clone(),
        record["title"].clone(),
        place.json(&["demo", "sessions", "list"])[0]["title"].clone(),
        json!(column),
        json!(line),
        place.json(&["demo", "usage", "--by", "session"])["rows"][0]["title"].clone(),
        place.json(&["demo", "sessions", "export", "--as", "json"])["title"].clone(),
    ]
}

#[test]
fn session_title_is_the_same_everywhere_and_after_a_lost_agent() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "first words\nand more"]);
    assert_eq!(titles(&place), vec!["first words"; 7]);
    // The agent forgets everything, and then comes back with the session it has begun since.
    place.ok(&["host", "stop"]);
    std::fs::remove_dir_all(place.acpx_home().join("demo")).unwrap();
    place.ok(&["demo", "other words"]);
    place.ok(&["host", "stop"]);
    place.ok(&["demo", "last words"]);
    assert_eq!(titles(&place), vec!["first words"; 7]);
}

#[test]
fn editor_session_is_distinguished_by_its_title() {
    let place = Place::new();
    let mut editor = Editor::new(&place);
    let session = editor.open(&place);
    editor.prompt(&session, "mend the roof");
    editor.leave();
    let listed = place.ok(&["demo", "sessions", "list"]);
    let columns: Vec<&str> = listed.trim_end().split('\t').collect();
    assert_eq!(
        (columns[0], columns[1], columns[4], columns[5]),
        (&*session, "[by id]", "demo", "mend the roof")
    );
}
