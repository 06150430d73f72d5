//! The report: one table of what was measured beside its budgets, one of the floors, and whether all is well.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::budgets::{BUDGETS, Budget, Limit, Measure};
use crate::samples::{Race, Samples};

/// What was found about one work.
pub(crate) struct Row {
    budget: &'static Budget,
    npm: Option<String>,
    ours: String,
    found: Vec<(Measure, f64)>,
}

impl Row {
    pub(crate) fn new(
        budget: &'static Budget,
        npm: Option<String>,
        ours: String,
        found: Vec<(Measure, f64)>,
    ) -> Self {
        Self { budget, npm, ours, found }
    }

    /// A work that both programs did; `found` is what there is to say of it.
    pub(crate) fn of_race(budget: &'static Budget, race: &Race, found: &[(Measure, Option<f64>)]) -> Self {
        let found = found.iter().filter_map(|(measure, value)| Some((*measure, (*value)?))).collect();
        Self::new(budget, race.npm.as_ref().map(ToString::to_string), race.ours.to_string(), found)
    }

    /// Whether the budget is met, as far as it was measured; `None` if nothing of it was.
    fn is_met(&self) -> Option<bool> {
        let met = self.budget.limits.iter().filter_map(|limit| {
            let (Limit::AtLeast(_, measure) | Limit::AtMost(_, measure)) = limit;
            let (_, value) = self.found.iter().find(|(found, _)| found == measure)?;
            Some(match limit {
                Limit::AtLeast(least, _) => value >= least,
                Limit::AtMost(most, _) => value <= most,
            })
        });
        met.reduce(|all, one| all && one)
    }

    fn cells(&self) -> [String; 6] {
        let found: Vec<String> =
            self.found.iter().map(|(measure, value)| format!("{}{measure}", figure(*value))).collect();
        let met = self.is_met().map_or("–", |met| if met { "yes" } else { "no" });
        [
            self.budget.work.to_owned(),
            self.npm.clone().unwrap_or_else(|| "–".to_owned()),
            self.ours.clone(),
            found.join("; "),
            self.budget.to_string(),
            met.to_owned(),
        ]
    }
}

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    floors: Vec<[String; 2]>,
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn add_floor(&mut self, what: &str, samples: &Samples) {
        self.floors.push([what.to_owned(), samples.to_string()]);
    }

    /// The works whose budgets were missed.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        self.rows.iter().filter(|row| row.is_met() == Some(false)).map(|row| row.budget.work).collect()
    }

    fn row(&self, budget: &Budget) -> Option<&Row> {
        self.rows.iter().find(|row| row.budget.work == budget.work)
    }

    /// The tables as Markdown.
    pub(crate) fn text(&self, machine: &str) -> String {
        let heads = ["work", "npm acpx 0.19.1", "ours", "measured", "budget", "met"].map(str::to_owned);
        let cells = |budget| self.row(budget).map_or_else(|| not_measured(budget), Row::cells);
        let rows: Vec<_> = BUDGETS.into_iter().map(cells).collect();
        let floors = ["floor", "time"].map(str::to_owned);
        format!("{machine}\n\n{}\n{}", table(&heads, &rows), table(&floors, &self.floors))
    }
}

fn not_measured(budget: &Budget) -> [String; 6] {
    [budget.work, "–", "–", "–", &budget.to_string(), "–"].map(str::to_owned)
}

fn table<const N: usize>(heads: &[String; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().chain([heads]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    let mut line = |cells: &[String; N]| {
        for (cell, width) in cells.iter().zip(widths) {
            write!(text, "| {cell:<width$} ").expect("text can always be written to");
        }
        text.push_str("|\n");
    };
    line(heads);
    line(&widths.map(|width| "-".repeat(width)));
    rows.iter().for_each(line);
    text
}

/// A figure with as many places as mean something, and its thousands apart.
fn figure(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => {
            let digits = format!("{value:.0}");
            let groups: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
            groups.join(",")
        }
    }
}

const BEGIN: &str = "<!-- what ./bench --write measured -->\n";
const END: &str = "<!-- end -->\n";

/// Puts what was measured in its place in a document.
pub(crate) fn write(document: &Path, text: &str) {
    let old = fs::read_to_string(document).expect("the document is there");
    let (before, rest) = old.split_once(BEGIN).expect("the document has a place for the tables");
    let (_, after) = rest.split_once(END).expect("the place for the tables has an end");
    fs::write(document, format!("{before}{BEGIN}{text}{END}{after}")).expect("the document can be written");
}
