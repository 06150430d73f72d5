//! What a newcomer types first, on a terminal and in a pipe.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::process::Stdio;

use crate::acpx::{Done, Place};
use crate::terminal::OnTerminal;

/// The lines on a terminal of a command that ends with this exit code.
fn shown(place: &Place, arguments: &[&str], code: i32) -> Vec<String> {
    let mut terminal = OnTerminal::sized(&place.command(arguments), 200, 24);
    assert_eq!(terminal.done(), Some(code), "{}", terminal.seen);
    terminal.rows()
}

/// The ids of all sessions.
fn sessions(place: &Place) -> Vec<String> {
    let rows = place.json(&["sessions", "list"]);
    rows.as_array().unwrap().iter().map(|row| row["acpxRecordId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn first_prompt_on_a_terminal_creates_the_session_of_the_directory() {
    let place = Place::new();
    let rows = shown(&place, &["demo", "My name is Ada."], 0);
    let ids = sessions(&place);
    let cwd = place.work().display().to_string();
    let created = format!("demo · {cwd} · session {} · new", &ids[0][..8]);
    assert_eq!((ids.len(), &rows[0]), (1, &created), "{rows:#?}");
    assert!(rows.contains(&"You said: My name is Ada.".to_owned()), "{rows:#?}");
    let rows = shown(&place, &["demo", "--format", "quiet", "recall"], 0);
    assert!(rows.iter().any(|row| row.contains("My name is Ada.")), "{rows:#?}");
    assert_eq!(sessions(&place), ids);
}

#[test]
fn closed_session_is_named_when_a_prompt_creates_another() {
    let place = Place::new();
    let closed = place.json(&["demo", "sessions", "new"])["acpxRecordId"].as_str().unwrap().to_owned();
    place.ok(&["demo", "sessions", "close"]);
    let rows = shown(&place, &["demo", "--format", "quiet", "hello"], 0);
    let instead = format!("; to continue the closed one: acpx demo -s {closed} …");
    let joined = rows.concat();
    assert!(joined.contains(&instead), "{rows:#?}");
    assert_eq!(sessions(&place).len(), 2);
}

#[test]
fn missing_session_name_is_not_created_and_the_nearest_is_suggested() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new", "-s", "backend"]);
    let other = place.path_of("other");
    std::fs::create_dir(&other).unwrap();
    let made = place.acpx_in(&other, &["demo", "sessions", "new", "-s", "frontend"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let hint = |name: &str| shown(&place, &["demo", "-s", name, "hello"], 4).concat();
    let create = |name: &str| format!("create one: acpx demo sessions new --name {name}, or add --create");
    let near = format!("hint: did you mean acpx demo -s backend …? {}", create("backed"));
    assert!(hint("backed").ends_with(&near), "{}", hint("backed"));
    let cwd = other.display();
    let far = format!("hint: did you mean acpx demo --cwd {cwd} -s frontend …? {}", create("frontend"));
    assert!(hint("frontend").ends_with(&far), "{}", hint("frontend"));
    assert!(hint("docs").ends_with(&format!("hint: {}", create("docs"))), "{}", hint("docs"));
    assert_eq!(sessions(&place).len(), 2);
}

#[test]
fn piped_or_json_prompt_creates_a_session_only_with_create() {
    let place = Place::new();
    let json = shown(&place, &["--format", "json", "demo", "hello"], 4);
    assert!(json.concat().contains(r#""acpxCode":"NO_SESSION""#), "{json:#?}");
    assert_eq!((place.acpx(&["demo", "hello"]).code, sessions(&place).len()), (Some(4), 0));
    std::fs::write(place.path_of("mcp.json"), r#"{"mcpServers":[]}"#).unwrap();
    let done = place.acpx(&["demo", "--create", "--mcp-config", "../mcp.json", "hello"]).without_tokens();
    let ids = sessions(&place);
    let created = format!("[acpx] created session ({}) of demo in {}\n", ids[0], place.work().display());
    assert_eq!((done.err.as_str(), done.code), (created.as_str(), Some(0)));
    let queued = place.acpx(&["--format", "json", "demo", "-s", "api", "--create", "--no-wait", "hello"]);
    let record = queued.json()["acpxRecordId"].as_str().unwrap().to_owned();
    let created = format!("[acpx] created session api ({record}) of demo in {}\n", place.work().display());
    assert_eq!((queued.err.as_str(), queued.code), (created.as_str(), Some(0)));
    assert_eq!(sessions(&place).len(), 2);
}

#[test]
fn attach_creates_the_session_of_the_directory() {
    let place = Place::new();
    let mut terminal = OnTerminal::start(&place.command(&["demo", "attach"]));
    terminal.wait_for(" · new\n");
    terminal.wait_until("it is ready", |rows| rows.last().is_some_and(|status| status.ends_with("? keys")));
    terminal.type_in("\u{4}");
    assert_eq!((terminal.done(), sessions(&place).len()), (Some(0), 1));
}

#[test]
fn mistyped_command_after_an_agent_is_asked_about_on_a_terminal() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let answer = |line: &[&str], typed: &str| {
        let mut terminal = OnTerminal::start(&place.command(line));
        terminal.wait_for("anything else ends: ");
        terminal.type_in(typed);
        let code = terminal.done();
        (terminal.rows(), code)
    };
    let (rows, code) = answer(&["demo", "seesions", "list"], "\n");
    let question = "acpx: \"seesions\" is not a command. Did you mean acpx demo sessions list?";
    assert_eq!((rows[0].as_str(), code), (question, Some(0)), "{rows:#?}");
    let (rows, code) = answer(&["demo", "statsu"], "p\n");
    assert!(rows.contains(&"You said: statsu".to_owned()) && code == Some(0), "{rows:#?}");
    let (rows, code) = answer(&["demo", "statsu"], "no\n");
    assert_eq!((rows.len(), code), (2, Some(2)), "{rows:#?}");
    let (rows, code) = answer(&["demo", "statsu"], "\u{4}");
    assert_eq!((rows.len(), code), (2, Some(2)), "{rows:#?}");
    let err = "acpx: \"statsu\" is not a command\n\
        hint: to run the command: acpx demo status; to send the word to the agent: acpx demo prompt statsu\n";
    let done = place.acpx(&["demo", "statsu"]);
    assert_eq!((done.out.as_str(), done.err.as_str(), done.code), ("", err, Some(2)));
    assert_eq!(
        shown(&place, &["--format", "json", "demo", "statsu"], 2).concat().matches("USAGE").count(),
        2
    );
    assert_eq!(place.ok(&["demo", "sessions", "history", "--format", "quiet"]).lines().count(), 2);
}

/// A command whose stdin is a pipe.
fn with_pipe(place: &Place, arguments: &[&str]) -> std::process::Child {
    let mut command = place.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn piped_stdin_is_appended_to_the_words() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let said = |done: Done| (done.out.lines().take(3).map(str::to_owned).collect::<Vec<_>>(), done.code);
    let both = ["You said: why?", "", "+ line"].map(str::to_owned).to_vec();
    assert_eq!(said(place.acpx_with_stdin("+ line\n", &["demo", "why?"])), (both.clone(), Some(0)));
    let quiet = place.acpx_with_stdin("+ line\n", &["--format", "quiet", "demo", "exec", "why?"]);
    assert_eq!(said(quiet), (both, Some(0)));
    // Programs use JSON, and often leave a stdin open that is not for the prompt.
    let json = place.acpx_with_stdin("+ line\n", &["--format", "json", "demo", "why?"]);
    assert!(json.code == Some(0) && !json.out.contains("+ line"), "{json:?}");
    std::fs::write(place.work().join("task"), "do it").unwrap();
    let file = place.acpx_with_stdin("+ line\n", &["demo", "--file", "task", "why?"]);
    assert!(file.code == Some(0) && !file.out.contains("+ line"), "{file:?}");
    let bytes = File::open(std::env::current_exe().unwrap()).unwrap();
    let binary = Done::of(place.command(&["demo", "why?"]).stdin(bytes));
    let err = "acpx: stdin is not UTF-8 text\nhint: attach it instead, with --image -, --audio - or --resource -; \
        </dev/null leaves stdin out\n";
    assert_eq!((binary.err.as_str(), binary.code), (err, Some(2)));
}

#[test]
fn silent_stdin_delays_a_prompt_by_a_second_and_is_reported() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    let mut child = with_pipe(&place, &["demo", "hello"]);
    // Open until the command has ended.
    let stdin = child.stdin.take();
    let done = Done::from(child.wait_with_output().unwrap());
    drop(stdin);
    let notice = "[acpx] nothing arrived on stdin within a second; the prompt goes without it\n";
    assert!(done.err.starts_with(notice) && done.out.starts_with("You said: hello\n"), "{done:?}");
    let mut child = with_pipe(&place, &["demo", "hello"]);
    drop(child.stdin.take());
    let done = Done::from(child.wait_with_output().unwrap());
    assert!(done.code == Some(0) && !done.err.contains("stdin"), "{done:?}");
    let mut child = with_pipe(&place, &["--format", "json", "demo", "hello"]);
    let stdin = child.stdin.take();
    let done = Done::from(child.wait_with_output().unwrap());
    drop(stdin);
    assert!(done.code == Some(0) && !done.err.contains("stdin"), "{done:?}");
}

#[test]
fn missing_agent_is_an_error_with_the_command_that_installs_it() {
    let place = Place::new();
    for (agent, program, install) in [
        ("gemini", "gemini", "install it: npm install -g @google/gemini-cli; then try again"),
        ("claude", "npx", "install Node.js, which brings npx: https://nodejs.org; then try again"),
    ] {
        let expected = format!("acpx: the agent command \"{program}\" was not found\nhint: {install}\n");
        for line in [&[agent, "exec", "hi"][..], &[agent, "--create", "hi"]] {
            let done = Done::of(place.command(line).env("PATH", "/nowhere"));
            assert_eq!((done.err.as_str(), done.code), (expected.as_str(), Some(1)), "{line:?}");
        }
    }
    assert!(sessions(&place).is_empty());
}

#[test]
fn agent_without_words_opens_the_interactive_client_on_a_terminal() {
    let place = Place::new();
    let mut terminal = OnTerminal::start(&place.command(&["demo"]));
    // Before it is ready: the terminal keeps the line for it.
    terminal.type_in("hello\r");
    terminal.wait_until("it answers", |rows| rows.contains(&"You said: hello".to_owned()));
    terminal.type_in("\u{4}");
    assert_eq!((terminal.done(), sessions(&place).len()), (Some(0), 1));
    // JSON is for programs, and a prompt that only queues has nothing to show.
    for line in [&["--format", "json", "demo"][..], &["demo", "--no-wait"]] {
        let rows = shown(&place, line, 2);
        assert!(rows.concat().contains("a prompt is required"), "{rows:#?}");
    }
    let done = place.acpx_with_stdin("from stdin", &["demo"]);
    assert!(done.code == Some(0) && done.out.starts_with("You said: from stdin\n"), "{done:?}");
    assert_eq!(place.acpx_with_stdin(" ", &["demo"]).code, Some(2));
}

#[test]
fn without_an_agent_a_terminal_finds_the_session_of_any_agent() {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new"]);
    place.ok(&["demo", "sessions", "new", "--name", "api"]);
    place.ok(&["demo", "hello"]);
    place.ok(&["demo", "--no-wait", "wait 60000"]);
    for (line, shown_text) in [
        (&["status"][..], "demo"),
        (&["sessions", "history"], "hello"),
        (&["sessions", "show", "api"], "api"),
        (&["cancel"], "cancel requested"),
    ] {
        let rows = shown(&place, line, 0);
        assert!(rows.concat().contains(shown_text), "{line:?}: {rows:#?}");
    }
    let mut terminal = OnTerminal::start(&place.command(&["attach", "api"]));
    terminal.wait_until("it is ready", |rows| rows.last().is_some_and(|status| status.ends_with("? keys")));
    terminal.type_in("\u{4}");
    assert_eq!((terminal.done(), sessions(&place).len()), (Some(0), 2));
    // A prompt without an agent is for the default one, and in a pipe it decides alone.
    assert_eq!(place.acpx(&["sessions", "history"]).code, Some(4));
    assert_eq!(place.acpx(&["prompt", "hello"]).code, Some(4));
}

#[test]
fn help_on_a_terminal_fits_it_and_is_complete_with_all() {
    let place = Place::new();
    let help = |line: &[&str], columns: u16| {
        let mut terminal = OnTerminal::sized(&place.command(line), columns, 24);
        assert_eq!(terminal.done(), Some(0));
        (terminal.seen.lines().map(str::to_owned).collect::<Vec<_>>(), terminal.rows())
    };
    let (lines, rows) = help(&["--help"], 80);
    assert!(lines.len() < 24 && rows == lines, "{lines:#?}");
    for part in ["acpx claude", "--approve-all", "--session", "--format", "--model", "sessions"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:#?}");
    }
    let (all, _) = help(&["--help", "--all"], 80);
    for agent in ["zeroclaw", "opencode", "--non-interactive-permissions"] {
        assert!(all.iter().any(|line| line.contains(agent)), "{agent}: {all:#?}");
    }
    // Every page is wrapped to the width.
    for (line, columns) in
        [(&["--help", "--all"][..], 80), (&["help", "prompt"], 60), (&["sessions", "-h"], 80)]
    {
        let (lines, _) = help(line, columns);
        let is_long =
            |line: &&String| line.chars().count() > usize::from(columns) && line.trim().contains(' ');
        // Lines to copy are not broken inside a word.
        let long: Vec<&String> = lines.iter().filter(is_long).collect();
        assert_eq!(long, [""; 0], "{line:?}");
    }
    let piped = place.ok(&["--help"]);
    assert!(piped.contains("zeroclaw") && piped.contains("--approve-all"), "{piped}");
    assert!(place.ok(&["claude", "--help"]).starts_with("claude: Claude Code by Anthropic"));
}
