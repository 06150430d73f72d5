//! Checks `cli.md`, `configuration.md` and `json.md` of `docs/reference/` against the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::acpx::{Place, eventually};
use crate::contract::validate;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text between a heading and the next one of any level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n#").next().unwrap_or_default()
}

/// The first cells of all table rows that are in backticks.
fn members(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0)).collect()
}

/// The first fenced block of this language.
fn fenced<'a>(text: &'a str, language: &str) -> Option<&'a str> {
    text.split_once(&format!("```{language}\n"))?.1.split_once("\n```").map(|(block, _)| block)
}

/// The strings of all constant arrays of a source file whose names end like this.
fn constants(source: &str, suffix: &str) -> BTreeSet<String> {
    let arrays = source.split("const ").skip(1).filter_map(|rest| rest.split_once(": [&str; "));
    let named = arrays.filter(|(name, _)| name.ends_with(suffix));
    let strings =
        named.flat_map(|(_, rest)| rest.split("];").next().unwrap_or_default().split('"').skip(1).step_by(2));
    strings.map(str::to_owned).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn cli_page_has_every_flag_and_no_other() {
    let page = read("docs/reference/cli.md");
    let rows = section(&page, "## Flags").lines().filter_map(|line| line.strip_prefix("| `-"));
    let cells = rows.map(|row| format!("-{}", row.split(" | ").next().unwrap_or_default()));
    let flag = |text: &str| text.trim_matches('`').split([' ', '`']).next().map(str::to_owned);
    let documented: BTreeSet<String> =
        cells.flat_map(|cell| cell.split(", ").filter_map(flag).collect::<Vec<_>>()).collect();
    let source = read("crates/acpx/src/cli/flags.rs");
    let source = source.split("];").next().unwrap_or_default();
    let known = source.split("(\"-").skip(1).filter_map(|rest| Some(format!("-{}", rest.split_once('"')?.0)));
    assert_eq!(documented, known.collect());
}

#[test]
fn configuration_page_has_every_key_and_no_other() {
    let page = read("docs/reference/configuration.md");
    let config = read("crates/acpx/src/config/mod.rs");
    let agents = read("crates/acpx/src/config/agents.rs");
    let profile = read("crates/core/src/model/profile/parse.rs");
    assert_eq!(set(&members(section(&page, "## Keys"))), constants(&config, ""));
    let of_agents: Vec<&str> =
        members(section(&page, "## Agents")).into_iter().filter(|cell| !cell.starts_with('{')).collect();
    assert_eq!(set(&of_agents), constants(&agents, ""));
    let rows = ["code", "words", "reading"].map(str::to_owned);
    let of_profile: BTreeSet<String> =
        constants(&profile, "MEMBERS").into_iter().filter(|name| !rows.contains(name)).collect();
    assert_eq!(set(&members(section(&page, "### Profile"))), of_profile);
}

#[test]
fn configuration_example_is_accepted_and_has_only_known_keys() {
    let place = Place::new();
    let page = read("docs/reference/configuration.md");
    let example = fenced(&page, "json").expect("an example");
    let value: Value = serde_json::from_str(example).unwrap();
    let keys = members(section(&page, "## Keys"));
    assert!(value.as_object().unwrap().keys().all(|key| keys.contains(&key.as_str())));
    let of_agents = members(section(&page, "## Agents"));
    let mut entries =
        value["agents"].as_object().unwrap().values().flat_map(|entry| entry.as_object().unwrap());
    assert!(entries.all(|(member, _)| of_agents.contains(&member.as_str())));
    place.configure(example);
    for agent in ["mine", "build", "claude"] {
        let made = place.acpx(&["--format", "json", agent, "sessions", "show"]);
        assert_eq!(made.failure().0, "NO_SESSION", "{made:?}");
    }
}

/// The objects that the page describes.
fn objects(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("### ")).collect()
}

#[test]
fn json_page_examples_have_the_members_of_their_tables() {
    let page = read("docs/reference/json.md");
    for name in objects(&page) {
        let example = fenced(section(&page, &format!("### {name}")), "json").expect("an example");
        let example: Value = serde_json::from_str(example).unwrap();
        assert_eq!(example["action"].as_str().unwrap_or(name), name);
        validate(name, &example);
    }
}

#[test]
fn json_page_names_every_action_of_the_output() {
    let page = read("docs/reference/json.md");
    let objects = objects(&page);
    let mut waiting = vec![root().join("crates/acpx/src/output")];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for action in text.split("action: \"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)) {
            assert!(objects.contains(&action), "{action} of {}", path.display());
        }
    }
}

// `json_lines` validates every line against the schemas, which are made from the page.
#[test]
fn json_output_of_commands_matches_the_page() {
    let place = Place::new();
    let lines: [&[&str]; 26] = [
        &["demo", "status"],
        &["demo", "sessions", "new"],
        &["demo", "sessions", "ensure"],
        &["demo", "hello"],
        &["demo", "status"],
        &["demo", "set-mode", "code"],
        &["demo", "set-mode", "--forget"],
        &["demo", "sessions", "list"],
        &["demo", "sessions", "show"],
        &["demo", "sessions", "history"],
        &["demo", "sessions", "replay"],
        &["demo", "sessions", "reset"],
        &["demo", "--no-wait", "recall"],
        &["demo", "cancel"],
        &["pending"],
        &["demo", "auth"],
        &["demo", "exec", "hello"],
        &["token", "new", "--name", "laptop"],
        &["token", "list"],
        &["web", "--no-open"],
        &["web", "status"],
        &["web", "stop"],
        &["host", "status"],
        &["host", "log"],
        &["demo", "sessions", "close"],
        &["host", "stop"],
    ];
    for line in lines {
        place.json_lines(line);
    }
}

#[test]
fn json_output_about_requests_lineage_and_tokens_matches_the_page() {
    let place = Place::new();
    let run = |line: &[&str]| place.json(line);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let first = text(&run(&["demo", "sessions", "new"])["acpxSessionId"]);
    run(&["--non-interactive-permissions", "wait", "demo", "--no-wait", "permission"]);
    let questions = || run(&["pending"])["questions"].clone();
    eventually("a request is pending", || questions()[0].is_object());
    run(&["demo", "status"]);
    run(&["approve", &text(&questions()[0]["questionId"])]);
    eventually("the turn is over", || run(&["demo", "status"])["turn"].is_null());
    run(&["demo", "sessions", "reset"]);
    run(&["demo", "sessions", "restore", "--to", &first]);
    let token = text(&run(&["token", "new"])["tokenId"]);
    run(&["token", "revoke", &token]);
    run(&["host", "restart"]);
    run(&["demo", "sessions", "delete"]);
}
