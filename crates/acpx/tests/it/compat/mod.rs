//! Compatibility with npm acpx 0.19.1: the same command lines on both programs, against the same agent.
//!
//! `npm.txt` has the outcomes of npm acpx, recorded by `./compat`. The test runs our program and compares exit code and
//! stdout after normalizing. A step that differs on purpose names the subject of its row in
//! `docs/guide/npm-acpx.md`; its outcome here is recorded in `acpx.txt`, so that no second difference hides behind
//! the first.

mod normalize;
mod scenarios;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::acpx::{Done, Place, text};
use crate::cli::import_npm::end_npm_owners;
use crate::npm_sdk::installed;
use normalize::{EVERYWHERE, Normalizer};
use scenarios::{SCENARIOS, Scenario, Step};

/// Outcomes by the title of their step.
type Outcomes = BTreeMap<String, String>;

/// Set by `./compat`: run npm acpx too, and write what both programs did.
const RECORD: &str = "ACPX_RECORD_COMPAT";

#[test]
fn commands_behave_as_npm_acpx_or_differ_as_documented() {
    let recording = std::env::var_os(RECORD).is_some();
    let npm = if recording { run_all(npm_command) } else { read("npm.txt") };
    let ours = run_all(acpx_command);
    let different: Outcomes = ours
        .iter()
        .filter(|(title, _)| is_intended(title))
        .map(|(title, ours)| (title.clone(), ours.clone()))
        .collect();
    if recording {
        write("npm.txt", &npm);
        write("acpx.txt", &different);
    }
    let mut problems = problems(&npm, &ours);
    if !recording {
        problems += &changes(&read("acpx.txt"), &different);
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn every_difference_names_a_row_of_the_npm_acpx_page() {
    let page = fs::read_to_string(project().join("docs/guide/npm-acpx.md")).unwrap();
    let subjects: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    let of_steps = SCENARIOS.iter().flat_map(|scenario| scenario.steps).flat_map(|step| step.differs);
    for subject in of_steps.chain(&EVERYWHERE) {
        assert!(subjects.contains(subject), "the page has no row {subject:?}");
    }
}

/// Steps that differ without being documented, and documented differences that are none.
fn problems(npm: &Outcomes, ours: &Outcomes) -> String {
    let mut problems = String::new();
    for (title, ours) in ours {
        let Some(npm) = npm.get(title) else {
            writeln!(problems, "{title}\nis not recorded: run ./compat\n").unwrap();
            continue;
        };
        match (npm == ours, is_intended(title)) {
            (false, false) => writeln!(problems, "{title}\nnpm acpx: {npm}\nacpx: {ours}\n").unwrap(),
            (true, true) => writeln!(problems, "{title}\nis listed as different and is the same\n").unwrap(),
            _ => {}
        }
    }
    problems
}

/// Intended differences that are no longer as they were recorded.
fn changes(recorded: &Outcomes, now: &Outcomes) -> String {
    let mut changes = String::new();
    for (title, now) in now {
        let recorded = recorded.get(title).map_or("", String::as_str);
        if recorded != now {
            writeln!(changes, "{title}\nrecorded: {recorded}\nnow: {now}\nrun ./compat if that is right\n")
                .unwrap();
        }
    }
    changes
}

/// Whether the step of this title differs on purpose.
fn is_intended(title: &str) -> bool {
    SCENARIOS.iter().any(|scenario| {
        scenario
            .steps
            .iter()
            .enumerate()
            .any(|(index, step)| step.title(scenario, index) == title && !step.differs.is_empty())
    })
}

/// Runs every scenario, each in a home of its own.
fn run_all(command: fn(&Place, &[String]) -> Command) -> Outcomes {
    let run = |scenario: &'static Scenario| {
        let place = Place::new();
        prepare(&place, scenario);
        let normalizer = Normalizer::new(&place);
        let outcome = |(index, step): (usize, &Step)| {
            let done = run_step(&place, step, command);
            (step.title(scenario, index), normalizer.outcome(step, &done))
        };
        let outcomes: Vec<_> = scenario.steps.iter().enumerate().map(outcome).collect();
        end_npm_owners(&place.path_of("npm-home/.acpx"));
        outcomes
    };
    SCENARIOS.iter().flat_map(run).collect()
}

/// Writes the configuration of both programs and the files that the steps name.
fn prepare(place: &Place, scenario: &Scenario) {
    let mut configuration = json!({
        "ttl": 60,
        "agents": { "mock": { "argv": [env!("CARGO_BIN_EXE_acpx"), "demo-agent"] } },
    });
    for (key, value) in scenario.configuration {
        configuration[key] = serde_json::from_str(value).unwrap();
    }
    place.configure(&configuration.to_string());
    let npm_home = place.path_of("npm-home/.acpx");
    fs::create_dir_all(&npm_home).unwrap();
    fs::copy(place.acpx_home().join("config.json"), npm_home.join("config.json")).unwrap();
    // Both programs stop at the repository's root when they look for a session.
    fs::create_dir(place.work().join(".git")).unwrap();
}

fn run_step(place: &Place, step: &Step, command: fn(&Place, &[String]) -> Command) -> Done {
    let mut command = command(place, &words(step.line));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that fails early does not read its stdin.
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), step.stdin.as_bytes()).ok();
    child.wait_with_output().unwrap().into()
}

fn acpx_command(place: &Place, arguments: &[String]) -> Command {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    place.command(&arguments)
}

fn npm_command(place: &Place, arguments: &[String]) -> Command {
    let programs = installed().join("node_modules/.bin");
    let mut command = Command::new(programs.join("node"));
    command
        .arg(programs.join("acpx"))
        .args(arguments)
        .current_dir(place.work())
        .env("HOME", place.path_of("npm-home"))
        .env("NO_COLOR", "1");
    command
}

/// The words of a command line, with single quotes as in a shell.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    let mut pending = false;
    for character in line.chars() {
        match character {
            '\'' => (quoted, pending) = (!quoted, true),
            ' ' if !quoted => {
                if pending {
                    words.push(String::new());
                }
                pending = false;
            }
            _ => {
                words.last_mut().unwrap().push(character);
                pending = true;
            }
        }
    }
    words
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/compat")
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Separates the steps of a recording.
const MARK: &str = "\n## ";

fn read(name: &str) -> Outcomes {
    let recording = fs::read_to_string(directory().join(name)).unwrap_or_default();
    let step = |step: &str| {
        let (title, outcome) = step.split_once('\n').unwrap();
        (title.to_owned(), outcome.trim_end().to_owned())
    };
    format!("\n{recording}").split(MARK).skip(1).map(step).collect()
}

fn write(name: &str, outcomes: &Outcomes) {
    let mut recording = String::new();
    for (title, outcome) in outcomes {
        writeln!(recording, "## {title}\n{outcome}\n").unwrap();
    }
    fs::write(directory().join(name), recording).unwrap();
}

impl Step {
    /// The name of the step in a recording.
    fn title(&self, scenario: &Scenario, index: usize) -> String {
        format!("{} {:02}: {}", scenario.name, index + 1, text(self.line))
    }
}
