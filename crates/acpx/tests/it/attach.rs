//! The interactive client on terminals of several sizes, with the demo agent.
#![cfg(target_os = "linux")]

use acpx_testkit::{Script, received_lines};
use serde_json::{Value, json};

use crate::acpx::{Place, kill_hard};
use crate::terminal::OnTerminal;

fn place() -> Place {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place
}

/// The client, once it is ready.
fn attach(place: &Place, columns: u16, rows: u16) -> OnTerminal {
    let mut terminal = OnTerminal::sized(&place.command(&["demo", "attach"]), columns, rows);
    terminal.wait_until("it is ready", |rows| has(rows, "? keys"));
    terminal
}

fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

#[test]
fn prompt_is_answered_and_detaching_leaves_the_conversation_on_screen() {
    let place = place();
    let mut terminal = attach(&place, 80, 24);
    terminal.type_in("My name is Ada\r");
    terminal.wait_until("it answers", |rows| has(rows, "You said: My name is Ada"));
    terminal.type_in("\u{4}");
    assert_eq!(terminal.done(), Some(0));
    let rows = terminal.rows();
    assert_eq!(rows[..3], ["> My name is Ada", "", "You said: My name is Ada"]);
    let id = rows[3].strip_prefix("Detached. The session goes on; to return: acpx attach ");
    assert_eq!(id.map(str::len), Some(10), "two characters more than are needed now: {rows:#?}");
    place.ok(&["sessions", "show", id.unwrap()]);
    assert_eq!(place.ok(&["demo", "sessions", "history", "--format", "quiet"]).lines().count(), 2);
}

#[test]
fn prompt_sent_right_before_detaching_is_not_lost() {
    let place = place();
    let mut terminal = attach(&place, 80, 24);
    terminal.type_in("hello\r\u{4}");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    place.ok(&["demo", "sessions", "wait"]);
    assert!(place.ok(&["demo", "sessions", "history"]).contains("You said: hello"));
}

#[test]
fn parked_session_shows_its_mode_once_its_agent_runs() {
    let place = place();
    for _ in 0..3 {
        place.ok(&["demo", "hello"]);
    }
    place.ok(&["host", "stop"]);
    let mut terminal = attach(&place, 80, 24);
    assert!(!has(&terminal.rows(), "earlier turns"), "{:#?}", terminal.rows());
    terminal.type_in("again\r");
    terminal
        .wait_until("it answers", |rows| has(rows, "You said: again") && has(rows, "demo · Ask · ? keys"));
}

#[test]
fn failed_restore_is_shown_whole_with_its_hint_in_the_conversation() {
    let place = place();
    place.ok(&["demo", "hello"]);
    place.ok(&["host", "stop"]);
    place.demo_with(&["--load-fails", "internal", "--resume-fails", "internal"]);
    let id = place.json(&["demo", "sessions", "show"])["acpxRecordId"].as_str().unwrap().to_owned();
    let mut terminal = attach(&place, 80, 24);
    terminal.type_in("again\r");
    let rows = terminal.wait_until("it fails", |rows| {
        has(rows, "> again") && rows.last().is_some_and(|row| row == "the prompt was not sent")
    });
    let shown = rows.join(" ");
    assert!(shown.contains("error: the agent \"demo\" did not restore the session "), "{rows:#?}");
    assert!(shown.contains("session/load failed: Internal error (-32603) hint: try again"), "{rows:#?}");
    assert!(shown.contains(&format!("acpx sessions reset {id}")), "{rows:#?}");
}

#[test]
fn permission_request_is_a_menu_and_a_number_answers_it() {
    let place = place();
    let mut terminal = attach(&place, 80, 24);
    terminal.type_in("permission\r");
    let asked =
        terminal.wait_until("it asks", |rows| has(rows, "permission request") && has(rows, "2   Reject"));
    let diffs = |rows: &[String]| rows.iter().filter(|row| row.contains("@@ -1,1 +1,2 @@")).count();
    assert_eq!(diffs(&asked), 1, "{asked:#?}");
    terminal.type_in("2");
    let rows = terminal.wait_until("it is answered", |rows| {
        has(rows, "Edit notes.txt: answered Reject") && has(rows, "The edit was rejected.")
    });
    assert!(!has(&rows, "permission request"), "{rows:#?}");
    assert_eq!(diffs(&rows), 1, "{rows:#?}");
}

#[test]
fn prompt_typed_during_a_turn_is_queued_and_can_be_taken_back() {
    let place = place();
    let mut terminal = attach(&place, 80, 24);
    terminal.type_in("wait 60000\r");
    terminal.wait_until("it works", |rows| has(rows, "working"));
    terminal.type_in("second\r");
    terminal.wait_until("it is queued", |rows| has(rows, "queued: second") && has(rows, "1 queued"));
    // Alt-Up.
    terminal.type_in("\u{1b}[1;3A");
    terminal.wait_until("it is back", |rows| {
        has(rows, "> second") && !has(rows, "queued") && has(rows, "working") && !has(rows, "cancelled")
    });
    terminal.type_in("\u{3}");
    terminal.wait_until("the turn is cancelled", |rows| has(rows, "cancelled") && !has(rows, "working"));
}

#[test]
fn two_terminals_show_the_same_conversation() {
    let place = place();
    let mut terminals = [attach(&place, 80, 24), attach(&place, 60, 20)];
    terminals[0].type_in("from the first\r");
    for terminal in &mut terminals {
        terminal.wait_until("it is shown", |rows| has(rows, "You said: from the first"));
    }
    for terminal in &mut terminals {
        terminal.wait_until("it knows the other", |rows| has(rows, "1 other client"));
    }
    terminals[0].type_in("wait 60000\r");
    terminals[1].wait_until("it works", |rows| has(rows, "working"));
    terminals[0].type_in("next from the first\r");
    for (terminal, label) in terminals.iter_mut().zip(["queued", "queued by another client"]) {
        let line = format!("{label}: next from the first");
        terminal.wait_until("it is queued", |rows| has(rows, &line) && has(rows, "1 queued"));
    }
    terminals[1].type_in("\u{3}");
    for terminal in &mut terminals {
        terminal.wait_until("the turn is cancelled and the queued prompt runs", |rows| {
            has(rows, "cancelled") && has(rows, "You said: next from the first") && !has(rows, "queued")
        });
    }
    terminals[1].type_in("from the second\r");
    for terminal in &mut terminals {
        terminal.wait_until("it is shown", |rows| {
            has(rows, "> from the second") && has(rows, "You said: from the second")
        });
    }
}

#[test]
fn client_survives_the_death_of_the_host_in_mid_turn() {
    let place = place();
    let mut terminal = attach(&place, 80, 24);
    terminal.type_in("wait 60000\r");
    terminal.wait_until("it works", |rows| has(rows, "working"));
    terminal.type_in("queued before it\r");
    terminal.wait_until("it is queued", |rows| has(rows, "queued: queued before it"));
    kill_hard(place.host_pid());
    terminal.wait_until("the turn is over and the queued prompt runs", |rows| {
        has(rows, "error: its host went away")
            && has(rows, "You said: queued before it")
            && has(rows, "? keys")
    });
    terminal.type_in("and now\r");
    terminal.wait_until("it answers", |rows| has(rows, "You said: and now"));
}

#[test]
fn client_works_on_twenty_columns_and_after_a_resize() {
    let place = place();
    let mut terminal = attach(&place, 20, 10);
    terminal.type_in("one two three four five six seven\r");
    terminal.wait_until("it answers", |rows| has(rows, "You said: one two"));
    terminal.resize(50, 16);
    terminal.wait_until("it is redrawn", |rows| has(rows, "? keys"));
    terminal.type_in("wide enough for this line\r");
    let rows = terminal.wait_until("it answers", |rows| {
        has(rows, "You said: wide enough for this line") && has(rows, "? keys")
    });
    assert_eq!(rows.iter().filter(|row| row.starts_with("demo ")).count(), 1, "{rows:#?}");
}

#[test]
fn conversation_is_shown_whole_on_the_alternate_screen() {
    let place = place();
    for number in 1..=30 {
        place.ok(&["demo", &format!("prompt number {number}")]);
    }
    let mut terminal = attach(&place, 80, 24);
    terminal.wait_until("the last turns are shown", |rows| {
        has(rows, "earlier turns: 27; Ctrl-T") && has(rows, "You said: prompt number 30")
    });
    terminal.type_in("\u{14}");
    terminal.wait_until("the pager is open", |rows| has(rows, "q closes"));
    terminal.type_in("g");
    terminal
        .wait_until("its top is shown", |rows| rows.first().is_some_and(|row| row == "> prompt number 1"));
    terminal.type_in("q");
    terminal.wait_until("it is closed", |rows| has(rows, "? keys") && !has(rows, "q closes"));
}

#[test]
fn request_that_arrives_while_the_user_types_waits_for_tab() {
    let place = place();
    let mut terminal = attach(&place, 80, 24);
    // The draft is there before the agent can ask.
    terminal.type_in("wait 300 permission\rthe next one, y");
    terminal.wait_until("it waits", |rows| has(rows, "demo waits for an answer; Tab shows the request"));
    terminal.type_in("es");
    terminal.wait_until("nothing is answered", |rows| has(rows, "> the next one, yes"));
    terminal.type_in("\t");
    terminal.wait_until("it is shown", |rows| has(rows, "permission request") && has(rows, "1 › Allow"));
    terminal.type_in("\r");
    terminal.wait_until("it is allowed", |rows| {
        has(rows, "The edit was made.") && has(rows, "> the next one, yes")
    });
}

#[test]
fn form_is_filled_in_and_its_problems_are_shown() {
    let schema = json!({
        "type": "object", "required": ["colour"],
        "properties": {
            "colour": { "type": "string", "title": "Colour", "enum": ["red", "blue"] },
            "token": { "type": "string", "title": "Token" },
        },
    });
    let params = json!({
        "sessionId": "{sessionId}", "mode": "form", "message": "How shall it look?", "requestedSchema": schema,
    });
    let turn = Script::new().request("elicitation/create", params).say("done").end("end_turn");
    let script = Script::new().initialize(json!({})).session_new("s1").serve([("session/prompt", turn)]);
    let place = Place::new();
    let agent = place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    let mut terminal = OnTerminal::sized(&place.command(&["scripted", "attach"]), 80, 24);
    terminal.wait_until("it is ready", |rows| has(rows, "? keys"));
    terminal.type_in("go\r");
    terminal.wait_until("it is shown", |rows| has(rows, "How shall it look?") && has(rows, "Colour"));
    terminal.type_in("3\r");
    terminal.wait_until("the problem is shown", |rows| has(rows, "type a number from 1 to 2"));
    terminal.type_in("2\r");
    terminal.wait_until("the next field is shown", |rows| has(rows, "Token"));
    terminal.type_in("s3cret-typed\r");
    let rows = terminal.wait_until("it is answered", |rows| has(rows, "done"));
    assert!(!has(&rows, "s3cret"), "{rows:#?}");
    let answers =
        received_lines(&agent).into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let answer = answers.into_iter().find(|line| line["id"] == "scripted-1").unwrap();
    let content = json!({ "colour": "blue", "token": "s3cret-typed" });
    assert_eq!(answer["result"], json!({ "action": "accept", "content": content }));
}

#[test]
fn editor_gets_the_keys_and_its_text_is_the_prompt() {
    let place = place();
    let mut command = place.command(&["demo", "attach"]);
    command.env("EDITOR", r#"sh -c 'printf "write:"; read line < /dev/tty; printf "%s" "$line" > "$1"' sh"#);
    let mut terminal = OnTerminal::sized(&command, 80, 24);
    terminal.wait_until("it is ready", |rows| has(rows, "? keys"));
    terminal.type_in("draft\u{7}");
    terminal.wait_until("the editor runs", |rows| has(rows, "write:"));
    terminal.type_in("from the editor\r");
    terminal.wait_until("its text is in the composer", |rows| has(rows, "> from the editor"));
    terminal.type_in("\r");
    terminal.wait_until("it answers", |rows| has(rows, "You said: from the editor"));
}

#[test]
fn attach_without_a_terminal_is_a_usage_error() {
    let place = place();
    let done = place.acpx(&["demo", "attach"]);
    let expected = "acpx: attach needs a terminal for its input and output\n\
        hint: acpx sessions watch follows a session without one\n";
    assert_eq!((done.err.as_str(), done.code), (expected, Some(2)));
}
