//! Removes from an outcome what differs from run to run (ids, times, paths, process ids, sizes), and what differs in
//! every outcome for a documented reason ([`EVERYWHERE`]).

use regex_lite::Regex;
use serde_json::Value;

use super::scenarios::{Compared, Step};
use crate::acpx::{Done, Place, text};

/// Subjects of the npm acpx page that concern so many outcomes that their lines are left out of all.
pub(super) const EVERYWHERE: [&str; 3] = [
    "`[client] METHOD (running)` of `initialize`, `session/load` and the like",
    "`prompt --format json`",
    "what an agent is offered",
];

/// Members whose value is a number or text of this run alone.
const VOLATILE: [&str; 8] =
    ["pid", "wall_ms", "wallMs", "bytesFreed", "contentBytes", "durationMs", "uptime", "active_path"];

pub(super) struct Normalizer {
    /// Texts of this place and what stands for them, the longest first.
    paths: Vec<(String, &'static str)>,
    patterns: [(Regex, &'static str); 5],
    setup: Regex,
}

impl Normalizer {
    pub(super) fn new(place: &Place) -> Self {
        let agent = env!("CARGO_BIN_EXE_acpx");
        let mut paths = vec![
            (format!("{agent} demo-agent"), "<agent>"),
            (agent.to_owned(), "<program>"),
            (text(place.work()), "<cwd>"),
            (text(place.path_of("npm-home/.acpx")), "<home>"),
            (text(place.acpx_home()), "<home>"),
        ];
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let pattern = |pattern: &str| Regex::new(pattern).unwrap();
        Self {
            paths,
            patterns: [
                (pattern("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
                (pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
                (pattern(r"\b\d\d:\d\d:\d\d\b"), "<duration>"),
                (pattern(r"freed \d[\d.]* [A-Z]+"), "freed <size>"),
                (pattern(r"pid: \d+"), "pid: <pid>"),
            ],
            setup: pattern(r"\[client\] (initialize|session/(new|load|resume)) \(running\)\n\n?"),
        }
    }

    /// What a step did, as it is recorded and compared.
    pub(super) fn outcome(&self, step: &Step, done: &Done) -> String {
        let exit = done.code.map_or("by a signal".to_owned(), |code| code.to_string());
        let out = match step.compared {
            Compared::ExitAlone => String::new(),
            Compared::Output => {
                let out = self.setup.replace_all(&done.out, "");
                let mut ids = Vec::new();
                let lines = out.trim_start().lines().filter_map(|line| self.line(line, &mut ids));
                lines.collect::<Vec<_>>().join("\n")
            }
        };
        format!("exit {exit}\n{out}").trim_end().to_owned()
    }

    /// A line of JSON has its members sorted, so that their order does not count. The ids of JSON-RPC requests are
    /// numbered as they occur.
    fn line(&self, line: &str, ids: &mut Vec<Value>) -> Option<String> {
        let Ok(mut value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(line) else {
            return Some(self.text(line));
        };
        if value["action"] == "prompt_result" {
            return None;
        }
        // The recordings of npm acpx are of an agent that reported no usage.
        value.get_mut("result").and_then(Value::as_object_mut).map(|result| result.remove("usage"));
        self.value(&mut value);
        if value["jsonrpc"] == "2.0" && value["id"].is_number() {
            let id = value["id"].take();
            let known = ids.iter().position(|known| *known == id);
            value["id"] = known.unwrap_or_else(|| (ids.push(id), ids.len() - 1).1).into();
        }
        if value["method"] == "initialize" {
            value["params"]["clientCapabilities"] = "<capabilities>".into();
            value["params"]["clientInfo"]["version"] = "<version>".into();
        }
        Some(value.to_string())
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(string) => *string = self.text(string),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                members.sort_keys();
                for (name, member) in members.iter_mut() {
                    if VOLATILE.contains(&name.as_str()) && !member.is_null() {
                        *member = Value::from(0);
                    } else {
                        self.value(member);
                    }
                }
            }
            _ => {}
        }
    }

    fn text(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (path, name) in &self.paths {
            line = line.replace(path, name);
        }
        for (pattern, name) in &self.patterns {
            line = pattern.replace_all(&line, *name).into_owned();
        }
        line
    }
}
