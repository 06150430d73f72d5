//! The comparison of several agents: the table and the JSON of npm acpx, and a narrower table for a terminal.

use std::io::{self, Write};
use std::time::Duration;

use acpx_core::model::{ErrorClass, ErrorCode};
use serde::Serialize;
use serde_json::Value;

use super::elapsed::elapsed;
use super::sanitize::on_one_line;
use super::style::Style;
use super::table::{Align, Cell, Column, Fit, Table, width_of};
use super::turn::{PromptResult, TurnStatus};
use super::{Console, columns, json_line};
use crate::cli::Format;
use crate::error::{CliError, CliExit};

/// The longest text of a row, in characters.
const LONGEST: usize = 200;
/// The columns of a forced terminal layout in a pipe.
const USUAL_COLUMNS: usize = 80;

/// How an agent did. The members are those of npm acpx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CompareRow {
    agent: String,
    pub(crate) status: CompareStatus,
    stop_reason: Option<String>,
    wall_ms: u64,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    final_message: String,
    error: Option<String>,
    permission_requests: u32,
    permission_denied: u32,
    /// Whether a signal ended the command.
    #[serde(skip)]
    pub(crate) is_interrupted: bool,
}

/// The outcome of an agent's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CompareStatus {
    Ok,
    Cancelled,
    Error,
    PermissionDenied,
}

impl CompareStatus {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
            Self::PermissionDenied => "permission_denied",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Ok => Style::Good,
            Self::Cancelled | Self::PermissionDenied => Style::Warning,
            Self::Error => Style::Bad,
        }
    }
}

impl CompareRow {
    fn new(agent: &str, status: CompareStatus, error: Option<&str>) -> Self {
        Self {
            agent: agent.to_owned(),
            status,
            stop_reason: None,
            wall_ms: 0,
            input_tokens: None,
            output_tokens: None,
            total_tokens: None,
            final_message: String::new(),
            error: error.map(brief),
            permission_requests: 0,
            permission_denied: 0,
            is_interrupted: false,
        }
    }

    fn interrupted(agent: &str) -> Self {
        Self { is_interrupted: true, ..Self::new(agent, CompareStatus::Cancelled, Some("Interrupted")) }
    }

    /// The row of a turn.
    pub(crate) fn of_result(agent: &str, result: &PromptResult, exit: CliExit) -> Self {
        let row = match (&result.error, result.status) {
            _ if exit == CliExit::Interrupted => Self::interrupted(agent),
            (Some(error), _) if error.code == ErrorCode::PermissionDenied => {
                Self::new(agent, CompareStatus::PermissionDenied, None)
            }
            (Some(error), _) => Self::new(agent, status_of(error.class), Some(&error.message)),
            (None, TurnStatus::Completed) => Self::new(agent, CompareStatus::Ok, None),
            (None, TurnStatus::Cancelled) => Self::new(agent, CompareStatus::Cancelled, None),
            (None, TurnStatus::Failed | TurnStatus::Interrupted) => {
                Self::new(agent, CompareStatus::Error, None)
            }
        };
        let usage: Value = result
            .usage
            .as_ref()
            .and_then(|usage| serde_json::from_str(usage.get()).ok())
            .unwrap_or_default();
        let tokens = |key: &str| usage.get(key).and_then(Value::as_u64);
        let (approved, rejected) = (result.permissions.approved, result.permissions.rejected);
        Self {
            stop_reason: result.stop_reason.clone(),
            input_tokens: tokens("inputTokens"),
            output_tokens: tokens("outputTokens"),
            total_tokens: tokens("totalTokens"),
            permission_requests: approved + rejected,
            permission_denied: rejected,
            ..row
        }
    }

    /// The row of an agent whose turn did not begin.
    pub(crate) fn of_error(agent: &str, error: &CliError) -> Self {
        match error.class() {
            ErrorClass::Interrupted => Self::interrupted(agent),
            class => Self::new(agent, status_of(class), Some(&error.message())),
        }
    }

    /// Adds the answer and the time that the turn took.
    pub(crate) fn with_answer(self, answer: &str, wall_ms: u64) -> Self {
        Self { final_message: brief(answer), wall_ms, ..self }
    }

    /// The cells of npm acpx's table.
    fn cells(&self) -> [String; 10] {
        let or_dash = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or("-".to_owned());
        let count = |count: Option<u64>| or_dash(count.map(|count| count.to_string()));
        [
            self.agent.clone(),
            self.status.word().to_owned(),
            self.wall_ms.to_string(),
            count(self.input_tokens),
            count(self.output_tokens),
            count(self.total_tokens),
            format!("{}/{}", self.permission_denied, self.permission_requests),
            or_dash(self.stop_reason.clone()),
            or_dash(Some(self.final_message.clone())),
            or_dash(self.error.clone()),
        ]
        .map(|cell| on_one_line(&cell))
    }
}

/// A turn that took too long counts as cancelled, as in npm acpx.
fn status_of(class: ErrorClass) -> CompareStatus {
    if class == ErrorClass::Timeout { CompareStatus::Cancelled } else { CompareStatus::Error }
}

/// A text on one line, cut at the limit.
fn brief(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 3).chain("...".chars()).collect()
}

const TITLES: [&str; 10] = [
    "agent",
    "status",
    "wall_ms",
    "input",
    "output",
    "total",
    "permissions",
    "stop_reason",
    "final_message",
    "error",
];

/// Writes the comparison.
pub(crate) fn compared(rows: &[CompareRow], console: &mut Console<'_>) -> io::Result<()> {
    let is_terminal = console.mode.is_text_on_terminal();
    match console.mode.format {
        Format::Json => json_line(&rows, &mut console.out)?,
        Format::Quiet => {
            for row in rows {
                writeln!(console.out, "{}\t{}", on_one_line(&row.agent), row.status.word())?;
            }
        }
        Format::Text if is_terminal => {
            terminal_table(rows).write(columns().unwrap_or(USUAL_COLUMNS), &mut console.out)?;
        }
        Format::Text => table(rows, &mut console.out)?,
    }
    console.flush()
}

/// The table of npm acpx.
fn table(rows: &[CompareRow], out: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<[String; 10]> = rows.iter().map(CompareRow::cells).collect();
    let widths: [usize; 10] = std::array::from_fn(|index| {
        let widest = cells.iter().map(|row| width_of(&row[index])).max().unwrap_or(0);
        widest.max(TITLES[index].len())
    });
    let titles = TITLES.map(str::to_owned);
    let rules = widths.map(|width| "-".repeat(width));
    for row in [&titles, &rules].into_iter().chain(&cells) {
        let padded = row.iter().zip(widths).map(|(cell, width)| {
            let padding = " ".repeat(width.saturating_sub(width_of(cell)));
            format!("{cell}{padding}")
        });
        writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn terminal_table(rows: &[CompareRow]) -> Table<6> {
    let column = |title, fit, rank| Column { title, fit, align: Align::Left, rank };
    let columns = [
        column("AGENT", Fit::CutEnd(8), 0),
        column("STATUS", Fit::Whole, 0),
        column("TIME", Fit::Whole, 0),
        column("TOKENS", Fit::Whole, 1),
        column("DENIED", Fit::Whole, 2),
        column("ANSWER", Fit::CutEnd(20), 0),
    ];
    let row = |row: &CompareRow| {
        let plain = |text: String| Cell { text, style: Style::Plain };
        let answer = row.error.as_ref().unwrap_or(&row.final_message);
        let denied = (row.permission_requests > 0)
            .then(|| format!("{} of {}", row.permission_denied, row.permission_requests));
        [
            Cell { text: on_one_line(&row.agent), style: Style::Accent },
            Cell { text: row.status.word().replace('_', " "), style: row.status.style() },
            plain(elapsed(Duration::from_millis(row.wall_ms))),
            plain(row.total_tokens.map(|tokens| tokens.to_string()).unwrap_or_default()),
            plain(denied.unwrap_or_default()),
            plain(on_one_line(answer)),
        ]
    };
    Table { columns, rows: rows.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{PermissionCount, RequestId};

    use super::*;
    use crate::error::ErrorReport;
    use crate::output::{OutputMode, ResultIds};

    fn rows() -> Vec<CompareRow> {
        let request = RequestId::new("r").unwrap();
        let result = |status| PromptResult::new(ResultIds::default(), request.clone(), status);
        let usage = r#"{"inputTokens":10,"outputTokens":5,"totalTokens":15}"#;
        let done = PromptResult {
            stop_reason: Some("end_turn".to_owned()),
            usage: serde_json::from_str(usage).ok(),
            ..result(TurnStatus::Completed)
        };
        let denied = PromptResult {
            permissions: PermissionCount { approved: 0, rejected: 2 },
            ..result(TurnStatus::Completed)
        };
        let late = PromptResult {
            error: Some(ErrorReport::of_turn(ErrorCode::Timeout, "it took too long".to_owned(), None)),
            ..result(TurnStatus::Failed)
        };
        let row = |agent, result: PromptResult, exit| CompareRow::of_result(agent, &result, exit);
        vec![
            row("claude", done, CliExit::Success).with_answer("All\n is  well.", 1520),
            row("codex", denied.with_denial(), CliExit::PermissionDenied).with_answer("I may not.", 20),
            row("gemini", late, CliExit::Timeout).with_answer(&"so far ".repeat(40), 300_000),
            CompareRow::of_error("mine", &CliError::Signalled).with_answer("", 7),
        ]
    }

    fn written(mode: OutputMode) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console::over(mode, &mut out, &mut err);
        compared(&rows(), &mut console).unwrap();
        drop(console);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn comparison_in_a_pipe_is_the_table_of_npm_acpx() {
        let text = written(OutputMode::default());
        let lines: Vec<String> = text.lines().map(|line| line.chars().take(95).collect()).collect();
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        agent   status             wall_ms  input  output  total  permissions  stop_reason  final_messa
        ------  -----------------  -------  -----  ------  -----  -----------  -----------  -----------
        claude  ok                 1520     10     5       15     0/0          end_turn     All is well
        codex   permission_denied  20       -      -       -      2/2          -            I may not.
        gemini  cancelled          300000   -      -       -      0/0          -            so far so f
        mine    cancelled          7        -      -       -      0/0          -            -
        ");
    }

    #[test]
    fn comparison_on_a_terminal_fits_its_width() {
        insta::assert_snapshot!(written(OutputMode { is_terminal: true, ..OutputMode::default() }), @r"
        AGENT   STATUS             TIME   TOKENS  DENIED  ANSWER
        claude  ok                 1 s    15              All is well.
        codex   permission denied  0 s            2 of 2  I may not.
        gemini  cancelled          5 min                  it took too long
        mine    cancelled          0 s                    Interrupted
        ");
    }

    #[test]
    fn comparison_in_json_has_the_members_of_npm_acpx() {
        let json = written(OutputMode { format: Format::Json, ..OutputMode::default() });
        let rows: Value = serde_json::from_str(&json).unwrap();
        let first = serde_json::json!({
            "agent": "claude", "status": "ok", "stop_reason": "end_turn", "wall_ms": 1520, "input_tokens": 10,
            "output_tokens": 5, "total_tokens": 15, "final_message": "All is well.", "error": null,
            "permission_requests": 0, "permission_denied": 0,
        });
        assert_eq!(rows[0], first);
        assert_eq!(rows[2]["final_message"].as_str().unwrap().len(), 200);
        let quiet = written(OutputMode { format: Format::Quiet, ..OutputMode::default() });
        assert_eq!(quiet, "claude\tok\ncodex\tpermission_denied\ngemini\tcancelled\nmine\tcancelled\n");
    }
}
