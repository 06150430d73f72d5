//! What a command shows on a terminal, and only there: what is awaited, colour, and a turn in sentences.
#![cfg(target_os = "linux")]

use crate::acpx::Place;
use crate::terminal::OnTerminal;

/// A place with a session.
fn place() -> Place {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place
}

#[test]
fn spinner_appears_while_the_agent_is_awaited_and_leaves_no_trace() {
    let place = place();
    let mut terminal = OnTerminal::start(&place.command(&["demo", "wait 3000"]));
    let rows = terminal.wait_until("the spinner", |rows| {
        rows.last().is_some_and(|row| row.contains(" waiting for demo · "))
    });
    assert!(rows.iter().any(|row| row == "Waiting 3000 ms."), "{rows:#?}");
    assert_eq!(terminal.done(), Some(0), "{}", terminal.seen);
    let rows = terminal.rows();
    assert!(!rows.concat().contains("waiting for"), "{rows:#?}");
    assert!(rows.last().unwrap().starts_with("done in "), "{rows:#?}");
}

#[test]
fn spinner_fits_a_narrow_terminal() {
    let place = place();
    let mut terminal = OnTerminal::sized(&place.command(&["demo", "wait"]), 20, 12);
    terminal.wait_until("the spinner", |rows| rows.last().is_some_and(|row| row.contains(" waiting for d")));
    terminal.type_in("\u{3}");
    assert_eq!(terminal.done(), Some(130), "{}", terminal.seen);
    let rows = terminal.rows();
    assert!(rows.iter().all(|row| !row.contains("⠋") && !row.contains("waiting for")), "{rows:#?}");
}

#[test]
fn denied_permission_request_is_shown_once_and_is_no_error() {
    let place = place();
    let mut terminal = OnTerminal::start(&place.command(&["demo", "permission"]));
    terminal.wait_for("Allow Edit notes.txt [edit]? (y/N) ");
    terminal.type_in("n\n");
    assert_eq!(terminal.done(), Some(5), "{}", terminal.seen);
    let rows = terminal.rows();
    let asked = rows.iter().filter(|row| row.contains("Allow Edit notes.txt")).count();
    assert_eq!(asked, 1, "{rows:#?}");
    assert!(!rows.concat().contains("error"), "{rows:#?}");
    assert!(rows.last().unwrap().starts_with("done in "), "{rows:#?}");
}

#[test]
fn error_on_a_terminal_is_on_stderr_in_one_format() {
    let place = place();
    let mut terminal = OnTerminal::shell(r#""$0" demo fail 2>err"#, &place.command(&[]));
    assert_eq!(terminal.done(), Some(1), "{}", terminal.seen);
    assert!(!terminal.seen.contains("error"), "{}", terminal.seen);
    let err = std::fs::read_to_string(place.work().join("err")).unwrap();
    assert!(err.lines().any(|line| line.starts_with("error: ")), "{err}");
    let mut terminal = OnTerminal::start(&place.command(&["demo", "-s", "nothing", "hello"]));
    assert_eq!(terminal.done(), Some(4), "{}", terminal.seen);
    assert!(terminal.rows()[0].starts_with("error: "), "{}", terminal.seen);
    // A long message is broken between words, and the command in a hint is not broken.
    let line = ["demo", "exec", "--policy", r#"{"autoDeny":7}"#, "hi"];
    let mut terminal = OnTerminal::sized(&place.command(&line), 60, 24);
    assert_eq!(terminal.done(), Some(2), "{}", terminal.seen);
    let expected = [
        "error: the JSON of --permission-policy is not a policy:",
        "       autoDeny must be an array of strings; found a number",
    ];
    assert_eq!(terminal.rows()[..2], expected);
    assert!(terminal.seen.contains("acpx prompt --help lists its members"), "{}", terminal.seen);
}

#[test]
fn color_in_a_pipe_needs_a_flag_or_a_variable() {
    let place = place();
    let out = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env_remove("NO_COLOR").envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let plain = "[thinking] Thinking about: think\nYou said: think\n\n[done] end_turn\n";
    assert_eq!(out(&[], &["demo", "think"]), plain);
    assert_eq!(out(&[("CLICOLOR_FORCE", "0")], &["demo", "think"]), plain);
    // In a pipe only the colour differs.
    let doctor =
        |variables: &[(&str, &str)], arguments: &[&str]| out(variables, arguments).contains("\u{1b}[32mok");
    assert!(!doctor(&[], &["doctor"]));
    assert!(doctor(&[], &["doctor", "--color", "always"]));
    assert!(doctor(&[("CLICOLOR_FORCE", "1")], &["doctor"]));
    assert!(!doctor(&[("CLICOLOR_FORCE", "1")], &["doctor", "--color=never"]));
    assert!(!out(&[], &["--format", "json", "doctor", "--color", "always"]).contains('\u{1b}'));
}
