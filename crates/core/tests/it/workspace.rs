//! The project's own files as text, for tests that keep documents and layers true.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory that has everything.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// A file of the workspace, as text.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file under a directory with this extension: its path from the root, and its text.
pub(crate) fn files(under: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![root().join(under)];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).expect("a directory of the workspace can be read") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|is| is == extension) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The sources of the product, without the files that hold only tests.
pub(crate) fn sources(under: &str) -> Vec<(String, String)> {
    let is_test = |path: &str| path.ends_with("/tests.rs") || path.contains("/tests/");
    files(under, "rs").into_iter().filter(|(path, _)| !is_test(path)).collect()
}

/// The documents at the root and under `docs/`.
pub(crate) fn documents() -> Vec<(String, String)> {
    let at_the_root = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let is_document = |path: &PathBuf| path.extension().is_some_and(|is| is == "md");
    let named = |path: PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    at_the_root.filter(is_document).map(named).chain(files("docs", "md")).collect()
}

/// What stands between backticks in a Markdown text, fenced blocks left out.
pub(crate) fn quoted(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut spans = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(line.split('`').skip(1).step_by(2));
        }
    }
    spans
}

/// The names of all tests: functions under a test attribute, and those a suite runs over every store.
pub(crate) fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in files("crates", "rs") {
        let mut attributed = false;
        let mut suite = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                attributed = true;
            } else if line == "promises! {" {
                suite = true;
            } else if suite {
                suite = line != "}";
                names.extend(line.strip_suffix(',').map(str::to_owned));
            } else if let Some(name) = function_name(line).filter(|_| attributed) {
                names.insert(name.to_owned());
                attributed = false;
            }
        }
    }
    names
}

/// The name of the function that a line begins.
fn function_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split_once('(').map(|(name, _)| name)
}
