//! Trims a replay for a client that limits output: longer output is left out, and the tool call or terminal lists the
//! omitted members.
//!
//! It works on the translated line, because some clients receive terminal output inside tool calls and others do not.
//! The bound holds for both.

use std::collections::{HashMap, HashSet};

use super::line::{UpdateKind, UpdateLine};
use super::replay_index::EntityKey;
use super::tool::{OUTPUT, leave_out};
use crate::model::{Fact, LineageIndex};
use crate::wire::encode::json_string;
use crate::wire::json::{self, RawObject};

/// The member with the whole output of a terminal.
const SHOWN: &str = "output";

/// The largest output of each terminal, over all its updates.
#[derive(Debug, Default)]
pub(super) struct TerminalSizes(HashMap<EntityKey, Size>);

/// The current and the largest output size of a terminal, in bytes.
#[derive(Debug, Default)]
struct Size {
    now: usize,
    most: usize,
}

impl TerminalSizes {
    /// Takes a fact; only those of acpx terminals count.
    pub(super) fn fact(&mut self, row: LineageIndex, fact: &Fact) {
        match fact {
            Fact::TerminalOutput { terminal_id, output } => {
                self.shows(row, terminal_id, Some(output.len()), None);
            }
            Fact::TerminalEnded { terminal_id, output: Some(output), .. } => {
                self.shows(row, terminal_id, None, Some(output.len()));
            }
            _ => {}
        }
    }

    /// Takes an update of a terminal that the agent runs.
    pub(super) fn update(&mut self, (row, terminal): &EntityKey, update: &str) {
        let data = |path: &[&str]| Some(decoded(json::get(update, path)?));
        let whole = json::get(update, &[SHOWN]).map(|_| data(&[SHOWN, "data"]).unwrap_or_default());
        self.shows(*row, terminal, data(&["data"]), whole);
    }

    /// The largest output size of a terminal.
    pub(super) fn most(&self, terminal: &EntityKey) -> usize {
        self.0.get(terminal).map_or(0, |size| size.most)
    }

    fn shows(&mut self, row: LineageIndex, terminal: &str, more: Option<usize>, whole: Option<usize>) {
        if more.is_none() && whole.is_none() {
            return;
        }
        let size = self.0.entry((row, terminal.into())).or_default();
        size.now = whole.unwrap_or(size.now) + more.unwrap_or(0);
        size.most = size.most.max(size.now);
    }
}

/// The decoded size of a base64 string, given as JSON with its quotes.
fn decoded(json: &str) -> usize {
    json.len().saturating_sub(2) / 4 * 3
}

/// Leaves long output out of the lines of a replay.
#[derive(Debug)]
pub(super) struct OutputTrimmer {
    most: usize,
    /// The terminals whose omission was already reported.
    named: HashSet<EntityKey>,
}

impl OutputTrimmer {
    /// Allows at most this many bytes of output.
    pub(super) fn to(most: usize) -> Self {
        Self { most, named: HashSet::new() }
    }

    /// Trims a line that renders an event of this lineage row; `None` if nothing is left of it.
    pub(super) fn line(&mut self, line: String, row: LineageIndex, sizes: &TerminalSizes) -> Option<String> {
        let Some(read) = UpdateLine::read(&line) else { return Some(line) };
        let update = match read.head.kind {
            UpdateKind::Tool | UpdateKind::ToolContent => self.tool(read.update),
            UpdateKind::Terminal => {
                let terminal = read.head.terminal.and_then(json::string).map(|id| (row, Box::from(id)));
                match terminal.filter(|terminal| sizes.most(terminal) > self.most) {
                    Some(terminal) => Some(self.terminal(read.update, terminal)?),
                    None => None,
                }
            }
            _ => None,
        };
        let Some(update) = update else { return Some(line) };
        Some(json::replace(&line, read.update, &update))
    }

    /// A tool call without its long output; `None` if it has none.
    fn tool(&self, update: &str) -> Option<String> {
        let mut fields = RawObject::parse(update)?;
        let is_long = |name: &&str| fields.get(name).is_some_and(|value| value.len() > self.most);
        let long: Vec<&str> = OUTPUT.into_iter().filter(is_long).collect();
        if long.is_empty() {
            return None;
        }
        leave_out(&mut fields, &long);
        Some(fields.to_string())
    }

    /// The update of a terminal with too much output, without that output. An update with output alone is dropped,
    /// except that the first one reports the omission.
    fn terminal(&mut self, update: &str, terminal: EntityKey) -> Option<String> {
        let mut fields = RawObject::parse(update).unwrap_or_default();
        let is_output = fields.get("data").is_some();
        let id = json_string(&terminal.1);
        if !self.named.insert(terminal) && is_output {
            return None;
        }
        if is_output {
            fields = RawObject::new();
            fields.set("sessionUpdate", r#""terminal_update""#);
            fields.set("terminalId", id);
        }
        leave_out(&mut fields, &[SHOWN]);
        Some(fields.to_string())
    }
}
