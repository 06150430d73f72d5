//! A replay for a client that wants no long output: what is longer is left out of the line that would tell it, and the
//! tool call or the terminal names what it lacks.
//!
//! The line is looked at as it goes out, after its translation: what a terminal shows is part of a tool call there for
//! some clients and not for others, and the bound holds for all of them.

use std::collections::{HashMap, HashSet};

use super::fields::Fields;
use super::line::{UpdateKind, UpdateLine, text_of};
use super::survey::EntityKey;
use super::tool::OUTPUT;
use crate::model::{Fact, LineageIndex};
use crate::wire::encode::json_string;
use crate::wire::splice::{PathStep, Splice, locate, range_in};

/// The member that tells what a terminal shows, whole.
const SHOWN: &str = "output";

/// How much terminals show at most, by all that is told of them.
#[derive(Debug, Default)]
pub(super) struct TerminalSizes(HashMap<EntityKey, Size>);

/// How many bytes a terminal shows, and the most it has shown.
#[derive(Debug, Default)]
struct Size {
    now: usize,
    most: usize,
}

impl TerminalSizes {
    /// Takes a fact; those of a terminal of ours count.
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

    /// Takes an update of a terminal of an agent's own.
    pub(super) fn update(&mut self, (row, terminal): &EntityKey, update: &str) {
        let data = |path: &[PathStep<'_>]| Some(decoded(update.get(locate(update, path)?)?));
        let whole = locate(update, &[PathStep::Key(SHOWN)])
            .map(|_| data(&[PathStep::Key(SHOWN), PathStep::Key("data")]).unwrap_or_default());
        self.shows(*row, terminal, data(&[PathStep::Key("data")]), whole);
    }

    /// The most that a terminal has shown.
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

/// How many bytes a string of base 64 stands for. It is JSON, in its quotes.
fn decoded(json: &str) -> usize {
    json.len().saturating_sub(2) / 4 * 3
}

/// The lines of a replay with what is too long left out of them.
#[derive(Debug)]
pub(super) struct OutputTrimmer {
    most: usize,
    /// The terminals that have named what they lack.
    named: HashSet<EntityKey>,
}

impl OutputTrimmer {
    /// Lines with no output that is longer than this.
    pub(super) fn to(most: usize) -> Self {
        Self { most, named: HashSet::new() }
    }

    /// A line that tells an event of this lineage row, as it goes out; `None` if nothing is left of it.
    pub(super) fn line(&mut self, line: String, row: LineageIndex, sizes: &TerminalSizes) -> Option<String> {
        let Some(read) = UpdateLine::read(&line) else { return Some(line) };
        let update = match read.head.kind {
            UpdateKind::Tool | UpdateKind::ToolContent => self.tool(read.update),
            UpdateKind::Terminal => {
                let terminal = read.head.terminal.and_then(text_of).map(|id| (row, Box::from(&*id)));
                match terminal.filter(|terminal| sizes.most(terminal) > self.most) {
                    Some(terminal) => Some(self.terminal(read.update, terminal)?),
                    None => None,
                }
            }
            _ => None,
        };
        let Some(update) = update else { return Some(line) };
        let mut splice = Splice::new(&line);
        // The update lies in the line, and nothing else is replaced.
        drop(splice.replace(range_in(&line, read.update), &update));
        Some(splice.finish())
    }

    /// A tool call without what is too long of it; `None` if nothing is.
    fn tool(&self, update: &str) -> Option<String> {
        let mut fields = Fields::read(update)?;
        let is_long = |name: &&str| fields.get(name).is_some_and(|value| value.len() > self.most);
        let long: Vec<&str> = OUTPUT.into_iter().filter(is_long).collect();
        if long.is_empty() {
            return None;
        }
        fields.leave_out(&long);
        Some(fields.to_json())
    }

    /// What is told of a terminal that shows too much: all but that. Of what it shows alone nothing is left, but the
    /// first time that it lacks it.
    fn terminal(&mut self, update: &str, terminal: EntityKey) -> Option<String> {
        let mut fields = Fields::read(update).unwrap_or_default();
        let is_output = fields.get("data").is_some();
        let id = json_string(&terminal.1);
        if !self.named.insert(terminal) && is_output {
            return None;
        }
        if is_output {
            fields = Fields::default();
            fields.set_json("sessionUpdate", r#""terminal_update""#);
            fields.set_json("terminalId", &id);
        }
        fields.leave_out(&[SHOWN]);
        Some(fields.to_json())
    }
}
