//! `acpx` alone on a terminal: the session picker.
#![cfg(target_os = "linux")]

use crate::acpx::Place;
use crate::terminal::OnTerminal;

fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

/// A place with two sessions of the default agent.
fn place() -> Place {
    let place = Place::new();
    place.configure(r#"{"defaultAgent":"demo"}"#);
    for (name, words) in [("api", "add a route"), ("roof", "mend the roof")] {
        place.ok(&["demo", "sessions", "new", "--name", name]);
        place.ok(&["demo", "-s", name, words]);
    }
    place
}

fn picker(place: &Place, columns: u16, rows: u16) -> OnTerminal {
    let mut terminal = OnTerminal::sized(&place.command(&[]), columns, rows);
    terminal.wait_until("it is shown", |rows| has(rows, "+ new session"));
    terminal
}

#[test]
fn picker_filters_and_enter_opens_the_session() {
    let place = place();
    let mut terminal = picker(&place, 80, 24);
    let rows = terminal.rows();
    assert!(rows[0].ends_with("2 of 2 sessions"), "{rows:#?}");
    assert!(
        rows[2].starts_with("› idle   demo   roof") && rows[3].starts_with("  idle   demo   api"),
        "{rows:#?}"
    );
    assert_eq!(rows[4], "  + new session with demo in this directory");
    terminal.type_in("ap");
    terminal.wait_until("it is filtered", |rows| has(rows, "1 of 2 sessions") && !has(rows, "roof"));
    terminal.type_in("\r");
    let rows =
        terminal.wait_until("the client is ready", |rows| has(rows, "> add a route") && has(rows, "? keys"));
    assert!(!has(&rows, "+ new session"), "the picker is gone: {rows:#?}");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(0));
}

#[test]
fn picker_leaves_nothing_behind_and_survives_resizing_to_20_columns() {
    let place = place();
    for key in ["\u{1b}", "\u{3}"] {
        let mut terminal = picker(&place, 80, 24);
        terminal.resize(20, 8);
        terminal.type_in("roof");
        terminal.wait_until("it is filtered", |rows| {
            has(rows, "> roof") && rows.iter().all(|row| row.chars().count() <= 20)
        });
        terminal.type_in(key);
        assert_eq!(terminal.done(), Some(0));
        assert!(!has(&terminal.rows(), "new session"), "{:#?}", terminal.rows());
    }
}

#[test]
fn picker_begins_a_new_session_with_the_default_agent() {
    let place = Place::new();
    place.configure(r#"{"defaultAgent":"demo"}"#);
    let mut terminal = picker(&place, 80, 24);
    assert!(terminal.rows()[0].ends_with("0 of 0 sessions"), "{:#?}", terminal.rows());
    terminal.type_in("\u{e}");
    terminal.wait_until("the client is ready", |rows| has(rows, "? keys"));
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(0));
    let listed = place.json(&["sessions", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn new_session_of_the_picker_closes_another_after_a_second_enter() {
    let place = Place::new();
    place.configure(r#"{"defaultAgent":"demo"}"#);
    place.ok(&["demo", "sessions", "new"]);
    let old = place.json(&["demo", "sessions", "show"])["acpxRecordId"].as_str().unwrap().to_owned();
    let mut terminal = picker(&place, 80, 24);
    let closes = format!("+ new session with demo in this directory (closes {})", &old[..8]);
    assert!(has(&terminal.rows(), &closes), "{:#?}", terminal.rows());
    terminal.type_in("zz\r");
    let rows = terminal.wait_until("nothing matches", |rows| has(rows, "nothing matches"));
    assert!(!has(&rows, "›"), "{rows:#?}");
    terminal.type_in("\u{15}\u{1b}[A\r");
    terminal.wait_until("it asks", |rows| has(rows, "Enter closes") && has(rows, &format!("› {closes}")));
    terminal.type_in("\r");
    terminal.wait_until("the client is ready", |rows| has(rows, "? keys"));
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(0));
    let new = place.json(&["demo", "sessions", "show"])["acpxRecordId"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
}
