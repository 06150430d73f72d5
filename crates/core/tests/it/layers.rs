//! The architecture as a test: which layer may know which, and what only one layer may name.

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer of the library and the layers it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("machine", &["model"]),
    ("wire", &[]),
    ("store", &["model"]),
    ("acp", &["model", "machine", "wire"]),
    ("tools", &["model"]),
    ("engine", &["model", "machine", "wire", "store", "acp", "tools"]),
];

/// Words that only one layer of the whole program may name.
const OWNED: &[(&str, &str)] = &[
    ("agent_client_protocol_schema", "crates/core/src/acp/"),
    ("rusqlite", "crates/core/src/store/"),
    ("io::stdout", "crates/acpx/src/output/"),
    ("io::stderr", "crates/acpx/src/output/"),
];

/// What would make a pure layer impure.
const IMPURE: &[&str] = &[
    "tokio",
    "async ",
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "SystemTime",
    "Instant",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The source files of the program below a directory, tests left out, with what stands in them before tests.
fn sources(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            let name = path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned();
            found.push((name, program));
        }
    }
    found
}

/// Lines of code, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn every_layer_uses_only_the_layers_below_it() {
    let mut wrong = Vec::new();
    for (layer, allowed) in LAYERS {
        for (file, text) in sources(&workspace().join("crates/core/src").join(layer)) {
            for (other, _) in LAYERS.iter().filter(|(other, _)| other != layer && !allowed.contains(other)) {
                let named = format!("crate::{other}");
                wrong.extend(
                    code(&text).filter(|line| line.contains(&named)).map(|line| format!("{file}: {line}")),
                );
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_belongs_to_one_layer_is_named_nowhere_else() {
    let program =
        [sources(&workspace().join("crates/core/src")), sources(&workspace().join("crates/acpx/src"))]
            .concat();
    let mut wrong = Vec::new();
    for (word, owner) in OWNED {
        for (file, text) in program.iter().filter(|(file, _)| !file.starts_with(owner)) {
            // The protocol on stdout is the demo agent's own.
            if file.starts_with("crates/acpx/src/demo_agent/") {
                continue;
            }
            wrong.extend(code(text).filter(|line| line.contains(word)).map(|line| format!("{file}: {line}")));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_model_and_the_machine_do_no_io_and_have_no_clock() {
    let mut wrong = Vec::new();
    for layer in ["model", "machine"] {
        for (file, text) in sources(&workspace().join("crates/core/src").join(layer)) {
            for word in IMPURE {
                wrong.extend(
                    code(&text).filter(|line| line.contains(word)).map(|line| format!("{file}: {line}")),
                );
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
