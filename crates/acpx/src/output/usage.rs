//! What turns have used: a table with bars on a terminal, lines in a pipe, and JSON. A figure that no agent reported is
//! marked as unknown, never shown as zero.

use std::io::{self, Write as _};
use std::path::Path;

use acpx_core::model::{Money, RecordId, Timestamp, TurnTokens};
use acpx_core::store::UsageSum;
use serde::{Serialize, Serializer};

use super::banner::below_home;
use super::record::in_a_column;
use super::style::Style;
use super::table::{Align, Cell, Column, Fit, Table, cut_end};
use super::turn::money;
use super::{Console, json_line, on_one_line};
use crate::cli::{Format, UsageBy};

/// What turns have used.
pub(crate) struct UsageReport {
    pub(crate) by: UsageBy,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) rows: Vec<UsageRow>,
    /// How many rows are not among them.
    pub(crate) left_out: usize,
    pub(crate) total: UsageSum,
}

/// A row of a report.
pub(crate) struct UsageRow {
    pub(crate) label: UsageLabel,
    pub(crate) sum: UsageSum,
}

/// What a row stands for.
pub(crate) enum UsageLabel {
    /// A day, as a date.
    Day(String),
    Agent(String),
    /// A directory.
    Project(String),
    Session {
        record: RecordId,
        short_id: String,
        agent: String,
        name: Option<String>,
        title: Option<String>,
    },
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FigureSource {
    /// The agent reported it.
    Reported,
    /// acpx derived it from what the agent reported.
    Derived,
    /// The agent reported nothing.
    Unknown,
}

impl FigureSource {
    fn word(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Derived => "derived",
            Self::Unknown => "unknown",
        }
    }
}

impl Serialize for FigureSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[derive(Serialize)]
#[serde(tag = "action", rename = "usage", rename_all = "camelCase")]
struct UsageObject<'a> {
    by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    rows: Vec<UsageRowObject<'a>>,
    total: FiguresObject,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct UsageRowObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(rename = "acpxRecordId", skip_serializing_if = "Option::is_none")]
    record: Option<&'a RecordId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(flatten)]
    figures: FiguresObject,
}

#[derive(Serialize, Default)]
struct FiguresObject {
    turns: u64,
    tokens: TokenSumObject,
    cost: CostObject,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenSumObject {
    source: FigureSource,
    unknown_turns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_write: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<u64>,
}

impl Default for TokenSumObject {
    fn default() -> Self {
        Self::of(&UsageSum::default())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CostObject {
    source: FigureSource,
    unknown_turns: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    amounts: Vec<Money>,
}

impl Default for CostObject {
    fn default() -> Self {
        Self::of(&UsageSum::default())
    }
}

impl TokenSumObject {
    fn of(sum: &UsageSum) -> Self {
        let TurnTokens { input, output, cached_read, cached_write, thought, .. } = sum.tokens;
        let source = match sum.turns_with_tokens {
            0 => FigureSource::Unknown,
            _ if sum.has_derived_total => FigureSource::Derived,
            _ => FigureSource::Reported,
        };
        Self {
            source,
            unknown_turns: sum.turns - sum.turns_with_tokens,
            total: (sum.turns_with_tokens > 0).then_some(sum.total),
            input,
            output,
            cached_read,
            cached_write,
            thought,
        }
    }

    /// The tokens that were read from the cache or written to it.
    fn cached(&self) -> Option<u64> {
        [self.cached_read, self.cached_write].into_iter().flatten().reduce(u64::saturating_add)
    }
}

impl CostObject {
    fn of(sum: &UsageSum) -> Self {
        let amounts: Vec<Money> = sum.costs.values().map(|(_, cost)| cost.clone()).collect();
        let source = if amounts.is_empty() { FigureSource::Unknown } else { FigureSource::Derived };
        Self { source, unknown_turns: sum.turns.saturating_sub(sum.turns_with_cost()), amounts }
    }
}

impl FiguresObject {
    fn of(sum: &UsageSum) -> Self {
        Self { turns: sum.turns, tokens: TokenSumObject::of(sum), cost: CostObject::of(sum) }
    }
}

/// Writes a report. `home` is the user's home directory, shown as `~` on a terminal.
pub(crate) fn show_usage(
    report: &UsageReport,
    home: Option<&Path>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    if console.mode.format == Format::Json {
        json_line(&object(report), &mut console.out)?;
    } else if console.mode.is_text_on_terminal() {
        on_terminal(report, home, super::terminal_size().0.into(), console)?;
    } else {
        for row in &report.rows {
            writeln!(console.out, "{}", line(row))?;
        }
    }
    console.flush()
}

fn object(report: &UsageReport) -> UsageObject<'_> {
    UsageObject {
        by: word(report.by),
        since: report.since,
        until: report.until,
        rows: report.rows.iter().map(row_object).collect(),
        total: FiguresObject::of(&report.total),
    }
}

fn row_object(row: &UsageRow) -> UsageRowObject<'_> {
    let object = UsageRowObject { figures: FiguresObject::of(&row.sum), ..UsageRowObject::default() };
    match &row.label {
        UsageLabel::Day(day) => UsageRowObject { day: Some(day), ..object },
        UsageLabel::Agent(agent) => UsageRowObject { agent: Some(agent), ..object },
        UsageLabel::Project(cwd) => UsageRowObject { cwd: Some(cwd), ..object },
        UsageLabel::Session { record, agent, name, title, .. } => UsageRowObject {
            record: Some(record),
            agent: Some(agent),
            name: name.as_deref(),
            title: title.as_deref(),
            ..object
        },
    }
}

fn word(by: UsageBy) -> &'static str {
    match by {
        UsageBy::Day => "day",
        UsageBy::Agent => "agent",
        UsageBy::Project => "project",
        UsageBy::Session => "session",
    }
}

/// A row in a pipe: columns between tabs. The last two say where the tokens and the cost come from.
fn line(row: &UsageRow) -> String {
    let FiguresObject { turns, tokens, cost } = FiguresObject::of(&row.sum);
    let key = match &row.label {
        UsageLabel::Day(key) | UsageLabel::Agent(key) | UsageLabel::Project(key) => on_one_line(key),
        UsageLabel::Session { record, .. } => record.to_string(),
    };
    let figure = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let amounts: Vec<String> = cost.amounts.iter().map(|cost| on_one_line(&cost.to_string())).collect();
    [
        key,
        turns.to_string(),
        tokens.unknown_turns.to_string(),
        figure(tokens.input),
        figure(tokens.output),
        figure(tokens.cached()),
        figure(tokens.total),
        cost.unknown_turns.to_string(),
        if amounts.is_empty() { "-".to_owned() } else { amounts.join(", ") },
        tokens.source.word().to_owned(),
        cost.source.word().to_owned(),
    ]
    .join("\t")
}

const COLUMNS: usize = 9;
/// The column of the bars, the last one.
const BAR: usize = COLUMNS - 1;
/// The longest bar, and the shortest that shows anything.
const LONGEST_BAR: usize = 40;
const SHORTEST_BAR: usize = 4;

fn on_terminal(
    report: &UsageReport,
    home: Option<&Path>,
    width: usize,
    console: &mut Console<'_>,
) -> io::Result<()> {
    if report.rows.is_empty() {
        return writeln!(console.out, "No turns have ended in that time");
    }
    table(report, home, width).write(width, &mut console.out)?;
    for note in notes(report) {
        console.out.styled(Style::Dim, &format!("{}\n", cut_end(&note, width)))?;
    }
    Ok(())
}

fn table(report: &UsageReport, home: Option<&Path>, width: usize) -> Table<COLUMNS> {
    let column = |title, fit, rank| Column { title, fit, align: Align::Left, rank };
    let figure = |title, rank| Column { title, fit: Fit::Whole, align: Align::Right, rank };
    let title = match report.by {
        UsageBy::Day => "DAY",
        UsageBy::Agent => "AGENT",
        UsageBy::Project => "PROJECT",
        UsageBy::Session => "SESSION",
    };
    let columns = [
        column(title, if report.by == UsageBy::Project { Fit::CutMiddle(12) } else { Fit::CutEnd(10) }, 0),
        column("ID", Fit::Whole, 1),
        figure("TURNS", 2),
        figure("INPUT", 4),
        figure("OUTPUT", 5),
        figure("CACHED", 6),
        figure("TOKENS", 0),
        figure("COST", 0),
        column("", Fit::Whole, 7),
    ];
    let rows = report.rows.iter().map(|row| cells(&label(&row.label, home), &row.sum, Style::Plain));
    let total = cells(&("total".to_owned(), String::new()), &report.total, Style::Bold);
    let mut table = Table { columns, rows: rows.chain([total]).collect() };
    add_bars(report, width, &mut table);
    table
}

/// The name of a row, and its id.
fn label(label: &UsageLabel, home: Option<&Path>) -> (String, String) {
    match label {
        UsageLabel::Day(day) => (day.clone(), String::new()),
        UsageLabel::Agent(agent) => (in_a_column(Some(agent)), String::new()),
        UsageLabel::Project(cwd) => {
            let below = below_home(Path::new(cwd), home).unwrap_or_else(|| cwd.clone());
            (on_one_line(&below), String::new())
        }
        UsageLabel::Session { short_id, agent, name, title, .. } => {
            let named = name.as_deref().or(title.as_deref()).unwrap_or(agent);
            (in_a_column(Some(named)), short_id.clone())
        }
    }
}

fn cells((name, id): &(String, String), sum: &UsageSum, style: Style) -> [Cell; COLUMNS] {
    let FiguresObject { turns, tokens, cost } = FiguresObject::of(sum);
    let figure = |count: Option<u64>| count.map(compact).unwrap_or_default();
    let known = |source, unknown_turns: u64, text: String| match (source, unknown_turns) {
        (FigureSource::Unknown, _) => "?".to_owned(),
        (FigureSource::Reported, 0) => text,
        (FigureSource::Reported, _) => format!("{text}+?"),
        (FigureSource::Derived, 0) => format!("~{text}"),
        (FigureSource::Derived, _) => format!("~{text}+?"),
    };
    let total = known(tokens.source, tokens.unknown_turns, figure(tokens.total));
    let amounts: Vec<String> = cost.amounts.iter().map(money).collect();
    let amounts = known(cost.source, cost.unknown_turns, amounts.join(" + "));
    let texts = [
        name.clone(),
        id.clone(),
        turns.to_string(),
        figure(tokens.input),
        figure(tokens.output),
        figure(tokens.cached()),
        total,
        amounts,
        String::new(),
    ];
    texts.map(|text| Cell { text, style })
}

/// A count with at most three digits: 950, 1.2k, 34k, 1.2M.
pub(super) fn compact(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut scaled = count as f64;
    for unit in ["", "k", "M", "G", "T"] {
        if unit.is_empty() && count < 1000 {
            return count.to_string();
        }
        if !unit.is_empty() && scaled < 9.95 {
            return format!("{scaled:.1}{unit}");
        }
        if !unit.is_empty() && scaled < 999.5 {
            return format!("{scaled:.0}{unit}");
        }
        scaled /= 1000.0;
    }
    format!("{scaled:.0}P")
}

/// Draws a bar in every row but the total, as far as there is room: of the cost if all of it is in one currency,
/// otherwise of the tokens.
fn add_bars(report: &UsageReport, width: usize, table: &mut Table<COLUMNS>) {
    let is_cost = report.total.costs.len() == 1;
    let measure = |sum: &UsageSum| match sum.costs.values().next() {
        Some((_, cost)) if is_cost => cost.nanos,
        _ if is_cost => 0,
        _ => sum.total,
    };
    let most = report.rows.iter().map(|row| measure(&row.sum)).max().unwrap_or(0);
    let taken: usize = table.widths(width).iter().flatten().map(|width| width + 2).sum();
    let room = width.saturating_sub(taken).min(LONGEST_BAR);
    if most == 0 || room < SHORTEST_BAR || report.rows.len() < 2 {
        return;
    }
    for (cells, row) in table.rows.iter_mut().zip(&report.rows) {
        cells[BAR] = Cell { text: bar(measure(&row.sum), most, room), style: Style::Accent };
    }
}

/// A bar of at most `room` characters, exact to an eighth of one.
fn bar(value: u64, most: u64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(value) * (room as u128 * 8) / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(room * 8).max(usize::from(value > 0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// What the marks in the table mean, if there are any.
fn notes(report: &UsageReport) -> Vec<String> {
    let FiguresObject { turns, tokens, cost } = FiguresObject::of(&report.total);
    let mut notes = Vec::new();
    if report.left_out > 0 {
        notes.push(format!("{} more rows are in the total: --limit N shows more", report.left_out));
    }
    if cost.source == FigureSource::Derived || tokens.source == FigureSource::Derived {
        notes.push("~ derived from what the agent reports for its session".to_owned());
    }
    if tokens.unknown_turns > 0 {
        notes.push(format!("? tokens of {} of {turns} turns are unknown", tokens.unknown_turns));
    }
    if cost.unknown_turns > 0 {
        notes.push(format!("? cost of {} of {turns} turns is unknown", cost.unknown_turns));
    }
    notes
}

#[cfg(test)]
mod tests;
