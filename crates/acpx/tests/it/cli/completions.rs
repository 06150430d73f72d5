//! Completion on the command line: what `acpx complete` offers, and that the scripts work in real shells.

use std::path::Path;
use std::process::Command;

use acpx_testkit::Script;
use serde_json::json;

use crate::acpx::{Done, Place};

/// The values that are offered for the last of these words.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let lines = place.ok(&[&["complete", "--"], words].concat());
    lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

fn id(place: &Place, session: &str) -> String {
    place.json(&["demo", "sessions", "show", session])["acpxRecordId"].as_str().unwrap().to_owned()
}

/// A place with two sessions, one of them with a hostile name and title.
fn with_sessions() -> Place {
    let place = Place::new();
    place.ok(&["demo", "sessions", "new", "-s", "api"]);
    place.ok(&["demo", "-s", "api", "mend the roof"]);
    place.ok(&["demo", "sessions", "new", "-s", "$(touch pwned) `x`; 'y"]);
    place
}

#[test]
fn completion_offers_verbs_agents_sessions_and_values_of_settings() {
    let place = with_sessions();
    place.configure(r#"{"agents":{"demo":{"command":"x"},"dem2":{"argv":["x"]}}}"#);
    assert_eq!(offered(&place, &["dem"]), ["dem2", "demo", "demo-agent"]);
    assert_eq!(offered(&place, &["demo", "sta"]), ["status"]);
    assert_eq!(offered(&place, &["demo", "-s", "a"]), ["api"]);
    assert_eq!(offered(&place, &["demo", "-s", "@"]), ["@last"]);
    assert_eq!(offered(&place, &["--format=j"]), ["--format=json"]);
    assert_eq!(offered(&place, &["sessions", "prune", "--older"]), ["--older-than"]);
    assert_eq!(offered(&place, &["claude", "-f", ""]), [":files"]);
    assert_eq!(offered(&place, &["claude", "--", "x"]), [""; 0]);
    // A session with a name that a shell would expand is offered by its id.
    let hostile = id(&place, "$(touch pwned) `x`; 'y");
    let sessions = offered(&place, &["sessions", "show", ""]);
    assert!(sessions.contains(&"api".to_owned()), "{sessions:?}");
    assert!(sessions.iter().any(|value| hostile.starts_with(value.as_str())), "{sessions:?}");
    let all = place.ok(&["complete", "--", "sessions", "show", ""]);
    assert!(
        !all.chars().any(|character| character.is_control() && character != '\n' && character != '\t'),
        "{all:?}"
    );
}

#[test]
fn completion_offers_the_models_and_modes_that_the_session_has() {
    let place = Place::new();
    let models = json!([{"value": "big", "name": "Big"}, {"value": "small/fast", "name": "Small"}, {"value": "a b", "name": "x"}]);
    let offered_modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]});
    let options = json!([
        {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "big", "options": models},
        {"id": "web", "name": "Web", "type": "boolean", "currentValue": false},
    ]);
    let session = json!({"sessionId": "s1", "modes": offered_modes, "configOptions": options});
    let script = Script::new()
        .initialize(json!({"loadSession": true}))
        .serve([("session/new", Script::new().reply(session))]);
    place.scripted(&script);
    place.ok(&["scripted", "sessions", "new"]);
    // A value that a shell would break in two is not offered.
    assert_eq!(offered(&place, &["scripted", "--model", ""]), ["big", "small/fast"]);
    assert_eq!(offered(&place, &["scripted", "set", "model", "s"]), ["small/fast"]);
    assert_eq!(offered(&place, &["scripted", "set-mode", ""]), ["ask", "plan"]);
    assert_eq!(offered(&place, &["scripted", "set", ""]), ["model", "web"]);
}

#[test]
fn completion_starts_no_host_and_works_without_a_home() {
    let place = Place::new();
    assert_eq!(offered(&place, &["sessions", "show", ""]), [""; 0]);
    assert_eq!(offered(&place, &["demo", "set", "model", ""]), [""; 0]);
    place.configure("{ broken");
    assert!(offered(&place, &[""]).contains(&"claude".to_owned()));
    let left: Vec<_> =
        std::fs::read_dir(place.acpx_home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["config.json"]);
}

/// Runs a program with `acpx` on its path and in the place's environment.
fn shell(place: &Place, program: &str, flags: &[&str], script: &str) -> Done {
    let mut command = Command::new(program);
    let programs = Path::new(env!("CARGO_BIN_EXE_acpx")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    command.args(flags).args(["-c", script, "shell"]);
    let mut command = place.by(command, &[]);
    Done::of(command.env("PATH", path).env("HOME", place.path_of("home")))
}

#[test]
fn bash_script_completes_a_line_and_executes_nothing() {
    let place = with_sessions();
    // The words as bash breaks them, with the cursor at the end of the line.
    let completed = |line: &str, words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "eval \"$(acpx completions bash)\"; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
             COMP_WORDS=({}); COMP_CWORD={}; _acpx acpx; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            quoted.join(" "),
            words.len() - 1
        );
        let done = shell(&place, "bash", &["--norc"], &script);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{line}: {done:?}");
        done.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("acpx demo sta", &["acpx", "demo", "sta"]), ["status"]);
    assert_eq!(completed("acpx demo -s a", &["acpx", "demo", "-s", "a"]), ["api"]);
    // Bash breaks the word at = and @. It keeps what is before =, and replaces @.
    assert_eq!(completed("acpx --format=j", &["acpx", "--format", "=", "j"]), ["json"]);
    assert_eq!(completed("acpx demo -s @l", &["acpx", "demo", "-s", "@", "l"]), ["@last"]);
    assert_eq!(completed("acpx --format=", &["acpx", "--format", "="]), ["text", "json", "quiet"]);
    assert_eq!(completed("acpx  demo   sessions wa", &["acpx", "demo", "sessions", "wa"]), ["watch", "wait"]);
    assert!(completed("acpx sessions show ", &["acpx", "sessions", "show", ""]).len() >= 2);
    assert!(!place.work().join("pwned").exists());
}

#[test]
fn zsh_and_fish_scripts_complete_a_line() {
    let place = with_sessions();
    let fish = "acpx completions fish | source; complete -C 'acpx demo -s a'; complete -C 'acpx completions '; complete -C 'acpx demo sessions wa'";
    let done = shell(&place, "fish", &["--no-config"], fish);
    let values: Vec<&str> = done.out.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(
        (values, done.code),
        (vec!["api", "bash", "fish", "zsh", "wait", "watch"], Some(0)),
        "{done:?}"
    );
    // A completion function runs only within zle, so what it would add is written here.
    let zsh = "compdef() { }; compadd() { print -rl -- $values }; _files() { print files }; eval \"$(acpx completions zsh)\"; \
               words=(acpx demo -s a); CURRENT=4; PREFIX=a; _acpx; words=(acpx demo -f ''); PREFIX=; _acpx";
    let done = shell(&place, "zsh", &["-f"], zsh);
    assert_eq!((done.out.trim_end(), done.err.as_str(), done.code), ("api\nfiles", "", Some(0)), "{done:?}");
    assert!(!place.work().join("pwned").exists());
}

#[test]
fn manual_page_is_formatted_without_warnings() {
    let place = Place::new();
    let page = place.ok(&["man"]);
    assert!(page.starts_with(".TH ACPX 1 "));
    for section in ["NAME", "SYNOPSIS", "COMMANDS", "SHARED FLAGS", "EXIT STATUS", "FILES"] {
        assert!(page.contains(&format!("\n.SH {section}\n")), "{section}");
    }
    assert!(page.contains("\n.SS acpx sessions prune\n"));
}
