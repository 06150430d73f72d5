//! The architecture as a test: which layer may know which, and what only one layer may name.

use std::collections::{BTreeMap, BTreeSet};

use super::shape::folder_arrows;
use super::workspace::sources;

/// Names, each with those that it may use.
type Arrows = &'static [(&'static str, &'static [&'static str])];

/// Each layer of the library and the layers it may use.
const LAYERS: Arrows = &[
    ("model", &[]),
    ("machine", &["model"]),
    ("wire", &[]),
    ("store", &["model"]),
    ("acp", &["model", "wire"]),
    ("tools", &["model"]),
    ("transcripts", &["model", "store"]),
    ("index", &["model", "store", "acp", "transcripts"]),
    ("engine", &["model", "machine", "wire", "store", "acp", "tools"]),
    ("protocol", &["model", "machine", "wire", "store", "acp", "tools", "engine"]),
    ("home", &["model", "store", "tools", "engine", "protocol"]),
    (
        "host",
        &[
            "model",
            "machine",
            "wire",
            "store",
            "acp",
            "tools",
            "transcripts",
            "index",
            "engine",
            "protocol",
            "home",
        ],
    ),
    ("client", &["model", "wire", "acp", "tools", "engine", "protocol", "home"]),
];

/// The sub-folders of three large layers, each with those that it uses. An arrow may be removed, never added.
const FOLDERS: &[(&str, Arrows)] = &[
    (
        "core/acp",
        &[
            ("agent", &["content", "translate"]),
            ("client", &["agent", "content", "translate"]),
            ("content", &[]),
            ("render", &["agent", "client", "content", "translate"]),
            ("translate", &[]),
        ],
    ),
    (
        "core/engine",
        &[
            ("agent", &["api", "permissions", "tools"]),
            ("api", &[]),
            ("ops", &["agent", "api", "permissions", "session"]),
            ("permissions", &["tools"]),
            ("restore", &[]),
            ("session", &["agent", "api", "permissions", "restore", "stream", "tools"]),
            ("stream", &["api"]),
            ("tools", &["permissions"]),
        ],
    ),
    (
        "core/host",
        &[
            ("attach", &["permissions"]),
            ("connection", &["attach", "permissions"]),
            ("permissions", &["attach"]),
            ("process", &["connection"]),
            ("service", &["connection", "permissions", "session"]),
            ("session", &["attach", "connection", "permissions"]),
        ],
    ),
];

/// The layers of the program, lowest first: each may use those before it.
const PROGRAM: &[&str] = &[
    "version",
    "private_file",
    "home_file",
    "agents",
    "log",
    "http",
    "web",
    "mcp",
    "demo_agent",
    "cli",
    "config",
    "notify",
    "prompt_input",
    "error",
    "output",
    "terminal",
    "session",
    "commands",
];

/// Words that only these places of the whole program may name.
const OWNED: Arrows = &[
    ("agent_client_protocol_schema", &["crates/core/src/acp/"]),
    ("rusqlite", &["crates/core/src/store/", "crates/core/src/index/", "crates/core/src/transcripts/"]),
    ("unsafe", &["crates/core/src/tools/parent_death.rs"]),
    ("io::stdout", &["crates/acpx/src/output/"]),
    ("io::stderr", &["crates/acpx/src/output/"]),
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

/// The source files of the program, with what stands in each before its tests.
fn program(under: &str) -> Vec<(String, String)> {
    let before_tests = |(path, text): (String, String)| {
        let end = text.find("#[cfg(test)]\nmod tests").or_else(|| text.find("#[cfg(all(test,"));
        (path, text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned())
    };
    sources(under).into_iter().map(before_tests).collect()
}

/// Lines of code, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn every_layer_uses_only_the_layers_below_it() {
    let mut wrong = Vec::new();
    for (layer, allowed) in LAYERS {
        for (file, text) in program(&format!("crates/core/src/{layer}")) {
            for (other, _) in LAYERS.iter().filter(|(other, _)| other != layer && !allowed.contains(other)) {
                let module = format!("crate::{other}");
                let names = |line: &&str| line.contains(&module) || line.contains("use crate::{");
                wrong.extend(code(&text).filter(names).map(|line| format!("{file}: {line}")));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_folder_of_a_layer_uses_only_the_folders_it_names() {
    for (layer, folders) in FOLDERS {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let expected: BTreeMap<_, _> =
            folders.iter().map(|(folder, used)| ((*folder).to_owned(), names(used))).collect();
        assert_eq!(folder_arrows(layer), expected, "{layer}");
    }
}

#[test]
fn every_layer_of_the_program_uses_only_the_layers_below_it() {
    let mut wrong = Vec::new();
    for (at, layer) in PROGRAM.iter().enumerate() {
        let files = program("crates/acpx/src").into_iter();
        let of_layer = |(file, _): &(String, String)| {
            let path = file.trim_start_matches("crates/acpx/src/").trim_end_matches(".rs");
            path.split('/').next() == Some(layer)
        };
        for (file, text) in files.filter(of_layer) {
            for above in &PROGRAM[at + 1..] {
                let module = format!("crate::{above}");
                let names = |line: &&str| line.contains(&module) || line.contains("use crate::{");
                wrong.extend(code(&text).filter(names).map(|line| format!("{file}: {line}")));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn names_of_one_layer_occur_in_no_other() {
    let program = [program("crates/core/src"), program("crates/acpx/src")].concat();
    let mut wrong = Vec::new();
    for (word, owners) in OWNED {
        let is_owned = |file: &str| owners.iter().any(|owner| file.starts_with(owner));
        for (file, text) in program.iter().filter(|(file, _)| !is_owned(file)) {
            // The protocol on stdout is the demo agent's own, and so are its logs.
            if word.starts_with("io::std") && file.starts_with("crates/acpx/src/demo_agent/") {
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
        for (file, text) in program(&format!("crates/core/src/{layer}")) {
            for word in IMPURE {
                wrong.extend(
                    code(&text).filter(|line| line.contains(word)).map(|line| format!("{file}: {line}")),
                );
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
