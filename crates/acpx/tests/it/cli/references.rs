//! Sessions by the beginning of their ids, and by their position in the list.

use serde_json::Value;

use crate::acpx::Place;

fn id(value: &Value) -> String {
    value["acpxRecordId"].as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// Sessions whose ids have nothing in common, as npm acpx named them.
fn with_imported(place: &Place, ids: &[&str]) {
    let sessions = place.acpx_home().join("sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    for (number, id) in (1..).zip(ids) {
        let at = format!("2026-05-0{number}T10:00:00.000Z");
        let record = serde_json::json!({
            "schema": "acpx.session.v1", "acpx_record_id": id, "acp_session_id": format!("acp-{id}"),
            "agent_command": if number % 2 == 0 { "even-agent" } else { "odd-agent" },
            "cwd": place.work(), "name": format!("n{number}"), "created_at": at, "last_used_at": at,
            "closed": false, "messages": [], "updated_at": at, "last_seq": 0,
            "event_log": { "active_path": "x", "segment_count": 1, "max_segment_bytes": 1, "max_segments": 1 },
            "cumulative_token_usage": {}, "request_token_usage": {},
        });
        std::fs::write(sessions.join(format!("{id}.json")), record.to_string()).unwrap();
    }
    place.ok(&["sessions", "migrate"]);
}

#[test]
fn session_is_found_by_a_unique_prefix_of_its_id_from_anywhere() {
    let place = Place::new();
    with_imported(&place, &["aabbcc-1111", "aabbcc-2222", "ddeeff-3333"]);
    let show = |reference: &str| place.acpx(&["--format", "json", "sessions", "show", reference]);
    assert_eq!(id(&show("ddeeff").json()), "ddeeff-3333");
    assert_eq!(id(&show("aabbcc-2").json()), "aabbcc-2222");
    assert_eq!(id(&show("aabbcc-1111").json()), "aabbcc-1111");
    assert_eq!(show("ddeef").failure().0, "NO_SESSION", "five characters are too few");
    assert_eq!(show("aabbcd").failure().0, "NO_SESSION");
    let ambiguous = show("aabbcc");
    assert_eq!(
        ambiguous.failure(),
        ("USAGE".to_owned(), "type more characters of the id".to_owned(), Some(2))
    );
    let work = place.work().display().to_string();
    assert_eq!(
        ambiguous.json()["error"]["message"],
        format!(
            "2 sessions have an id that begins with aabbcc: aabbcc-1 (odd-agent, n1, {work}); \
             aabbcc-2 (even-agent, n2, {work})"
        )
    );
}

#[test]
fn session_of_another_agent_is_not_prompted_by_a_prefix() {
    let place = Place::new();
    with_imported(&place, &["aabbcc-1111", "aabbcc-2222"]);
    // Only one of the two is this agent's.
    let own = place.acpx(&["--format", "json", "--agent", "even-agent", "sessions", "show", "aabbcc"]);
    assert_eq!(id(&own.json()), "aabbcc-2222");
    let other = place.acpx(&["--format", "json", "demo", "-s", "aabbcc-1", "hello"]);
    let hint = "type acpx --agent odd-agent in place of acpx demo, or leave the agent out".to_owned();
    assert_eq!(other.failure(), ("NO_SESSION".to_owned(), hint, Some(4)));
}

#[test]
fn positions_follow_the_order_of_the_list() {
    let place = Place::new();
    with_imported(&place, &["aabbcc-1111", "aabbcc-2222"]);
    let first = id(&place.json(&["demo", "sessions", "new"]));
    let second = id(&place.json(&["demo", "sessions", "new", "--name", "api"]));
    let listed: Vec<String> = place.json(&["sessions", "list"]).as_array().unwrap().iter().map(id).collect();
    assert_eq!(listed, [&*second, &first, "aabbcc-2222", "aabbcc-1111"]);
    let show = |words: &[&str]| place.acpx(&[&["--format", "json"], words].concat());
    for (reference, expected) in (1..).zip(&listed).map(|(number, id)| (format!("@{number}"), id)) {
        assert_eq!(id(&show(&["sessions", "show", &reference]).json()), *expected);
    }
    assert_eq!(id(&show(&["sessions", "show", "@last"]).json()), second);
    assert_eq!(id(&show(&["status", "-s", "@last"]).json()), second);
    // With an agent named, its own are counted.
    assert_eq!(id(&show(&["--agent", "odd-agent", "sessions", "show", "@last"]).json()), "aabbcc-1111");
    let beyond = show(&["sessions", "show", "@5"]);
    assert_eq!(beyond.json()["error"]["message"], "there is no session @5");
    let hint = "acpx sessions list shows the sessions there are".to_owned();
    assert_eq!(beyond.failure(), ("NO_SESSION".to_owned(), hint, Some(4)));
    assert_eq!(show(&["sessions", "show", "@0"]).failure().0, "NO_SESSION");
}

#[test]
fn positions_count_only_open_sessions() {
    let place = Place::new();
    let first = id(&place.json(&["demo", "sessions", "new"]));
    let other = id(&place.json(&["demo", "sessions", "new", "--name", "api"]));
    // It replaces the first one, which is closed after it was created.
    let second = id(&place.json(&["demo", "sessions", "new"]));
    let show = |reference: &str| place.acpx(&["--format", "json", "sessions", "show", reference]);
    assert_eq!([id(&show("@last").json()), id(&show("@2").json())], [second, other]);
    assert_eq!(show("@3").failure().0, "NO_SESSION");
    assert_eq!(id(&show(&first).json()), first);
}

#[test]
fn exact_session_name_wins_and_no_position_becomes_a_name() {
    let place = Place::new();
    with_imported(&place, &["aabbcc-1111"]);
    let named = id(&place.json(&["demo", "sessions", "new", "--name", "aabbcc"]));
    assert_eq!(id(&place.json(&["demo", "sessions", "show", "aabbcc"])), named);
    let refused = place.acpx(&["--format", "json", "demo", "sessions", "new", "--name", "@2"]);
    assert_eq!(refused.failure(), ("USAGE".to_owned(), "choose a name without @".to_owned(), Some(2)));
    let refused = place.acpx(&["--format", "json", "demo", "sessions", "ensure", "-s", "@last"]);
    assert_eq!(refused.failure().0, "USAGE");
}
