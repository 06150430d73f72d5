//! The tour, as a visitor sees it.

use std::process::Command;

use acpx_testkit::TempHome;

#[cfg(target_os = "linux")]
use crate::terminal::OnTerminal;

fn tour(arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_acpx")).arg("tour").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn the_tour_shows_the_whole_life_of_a_session() {
    let (shown, complaints, code) = tour(&[]);
    assert_eq!((complaints.as_str(), code), ("", Some(0)), "{shown}");
    let stations = [
        "1. A new session",
        "\n   $ acpx demo sessions new\n",
        "\n   acpxSessionId: ",
        "\n   agentSessionId: inner-",
        "\n   [tool] Read notes.txt (completed)\n",
        "\n3. The agent is killed.",
        "\n   1. My name is Ada.\n",
        "\n4. The conversation, replayed from our store",
        "\tuser\tMy name is Ada.\n",
        "\n   acpx: the agent \"demo\" did not restore the session",
        "\n   [acpx] the agent could not restore the session (agent-lost: session/",
        "\n   You said nothing before.\n",
        "\n   acpxRecordId: ",
        "\n     created  ",
        "\n     agent-lost  ",
        "\n6. Closed.",
        " [closed]\t-\t",
    ];
    let mut rest = shown.as_str();
    for station in stations {
        let (_, after) =
            rest.split_once(station).unwrap_or_else(|| panic!("{station:?} is missing in\n{shown}"));
        rest = after;
    }
}

#[test]
fn tour_keeps_its_files_only_on_request() {
    let home = TempHome::new();
    let kept = home.join("kept");
    let (_, _, code) = tour(&["--home", kept.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(kept.join("acpx.db").exists());

    let (_, complaints, code) = tour(&["--home", kept.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    let expected = format!(
        "acpx: cannot make {}: File exists\nhint: name a directory that does not exist yet\n",
        kept.display()
    );
    assert_eq!(complaints, expected);
}

/// The tour on a terminal, with a directory for temporary files of its own.
#[cfg(target_os = "linux")]
fn on_terminal(files: &TempHome) -> OnTerminal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acpx"));
    command.arg("tour").env("TMPDIR", files.join("")).current_dir(files.join(""));
    OnTerminal::start(&command)
}

#[cfg(target_os = "linux")]
#[test]
fn tour_steps_with_one_key_on_a_terminal_and_removes_its_files() {
    let files = TempHome::new();
    let left = || {
        let entries = std::fs::read_dir(files.join("")).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_string_lossy().starts_with(".tmp")).count()
    };
    let mut terminal = on_terminal(&files);
    for step in 1..=5 {
        terminal.wait_for(&format!("{step}. "));
        terminal.wait_for("Enter shows the next step, q ends the tour: ");
        terminal.type_in(if step == 2 { "x " } else { "\r" });
    }
    terminal.wait_for("That was everything");
    assert!(terminal.seen.contains("\n   You said nothing before.\n"), "{}", terminal.seen);
    assert_eq!((terminal.done(), left()), (Some(0), 0), "{}", terminal.seen);
    for (typed, code) in [("q", 0), ("\u{1b}", 0), ("\u{4}", 0), ("\u{3}", 130)] {
        let mut terminal = on_terminal(&files);
        terminal.wait_for("q ends the tour: ");
        terminal.type_in(typed);
        assert_eq!((terminal.done(), left()), (Some(code), 0), "{typed:?}: {}", terminal.seen);
        assert!(!terminal.seen.contains("2. Two prompts"), "{}", terminal.seen);
    }
}
