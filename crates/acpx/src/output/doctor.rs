//! Writes the findings of `acpx doctor`, one line each as they are found: level, check, detail and hint.

use std::io::{self, Write};

use serde::Serialize;

use super::Console;
use super::sanitize::{line, on_one_line};
use super::style::Style;
use crate::cli::Format;

/// The level of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// No problem.
    Ok,
    /// It works, but a person should know something about it.
    Warn,
    /// A problem.
    Fail,
}

impl Level {
    fn style(self) -> Style {
        match self {
            Self::Ok => Style::Good,
            Self::Warn => Style::Warning,
            Self::Fail => Style::Bad,
        }
    }

    fn terminal_word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warning",
            Self::Fail => "error",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What a check is called on a terminal. JSON and pipes have the name that programs know.
fn terminal_check(check: &'static str) -> &'static str {
    match check {
        "known as" => "behaviour",
        "cleanup" => "processes",
        "approvals" => "permissions",
        other => other,
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Its level.
    pub(crate) level: Level,
    /// What was checked, in a word or two.
    pub(crate) check: &'static str,
    /// What was found.
    pub(crate) detail: String,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Finding {
    /// A check without a problem.
    pub(crate) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, detail: detail.into(), hint: None }
    }

    /// A check with a warning.
    pub(crate) fn warn(check: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { level: Level::Warn, check, detail: detail.into(), hint: Some(hint.into()) }
    }

    /// A failed check.
    pub(crate) fn fail(check: &'static str, detail: impl Into<String>, hint: Option<String>) -> Self {
        Self { level: Level::Fail, check, detail: detail.into(), hint }
    }
}

/// Writes one finding, at once: the next one may take a while.
pub(crate) fn finding(finding: &Finding, console: &mut Console<'_>) -> io::Result<()> {
    let Finding { level, check, detail, hint } = finding;
    if console.mode.format != Format::Text {
        return console.result("doctor_check", finding, None, None);
    }
    let (word, check, width) = if console.mode.is_terminal {
        (level.terminal_word(), terminal_check(check), 7)
    } else {
        (level.word(), *check, 4)
    };
    let out = &mut console.out;
    out.styled(level.style(), &format!("{word:<width$}"))?;
    out.styled(Style::Bold, &format!("  {check:<12}"))?;
    line(out, format_args!("  {detail}"))?;
    if let Some(hint) = hint {
        write!(out, "{:<width$}  {:<12}  ", "", "")?;
        out.styled(Style::Accent, &format!("-> {}\n", on_one_line(hint)))?;
    }
    console.flush()
}

/// How many findings of each level there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct DoctorSummary {
    ok: usize,
    warn: usize,
    fail: usize,
}

impl DoctorSummary {
    /// Counts a finding.
    pub(crate) fn count(&mut self, level: Level) {
        match level {
            Level::Ok => self.ok += 1,
            Level::Warn => self.warn += 1,
            Level::Fail => self.fail += 1,
        }
    }

    /// The worst level of all.
    pub(crate) fn worst(self) -> Level {
        match self {
            Self { fail: 1.., .. } => Level::Fail,
            Self { warn: 1.., .. } => Level::Warn,
            Self { .. } => Level::Ok,
        }
    }
}

#[derive(Serialize)]
struct Whole {
    status: Level,
    #[serde(flatten)]
    verdict: DoctorSummary,
}

/// Writes the summary.
pub(crate) fn verdict(verdict: DoctorSummary, console: &mut Console<'_>) -> io::Result<()> {
    let (status, DoctorSummary { ok, warn, fail }) = (verdict.worst(), verdict);
    if console.mode.format == Format::Text {
        let text = if console.mode.is_terminal {
            let s = |count: usize| if count == 1 { "" } else { "s" };
            format!("\n{ok} ok, {warn} warning{}, {fail} error{}\n", s(warn), s(fail))
        } else {
            format!("\n{ok} ok, {warn} warn, {fail} fail\n")
        };
        console.out.styled(Style::Dim, &text)?;
    }
    console.result("doctor", &Whole { status, verdict }, None, Some(status.word()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Format;
    use crate::output::OutputMode;

    fn written(format: Format) -> String {
        written_in(OutputMode { format, ..OutputMode::default() })
    }

    fn written_in(mode: OutputMode) -> String {
        let mut out = Vec::new();
        let mut console = Console::over(mode, &mut out, io::sink());
        let mut whole = DoctorSummary::default();
        let findings = [
            Finding::ok("home", "/h"),
            Finding::warn("agents", "none is installed", "install one"),
            Finding::fail("store", "/h/acpx.db is damaged", None),
        ];
        for found in &findings {
            whole.count(found.level);
            finding(found, &mut console).unwrap();
        }
        verdict(whole, &mut console).unwrap();
        drop(console);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doctor_finding_has_level_check_detail_and_hint() {
        let text = "\
ok    home          /h
warn  agents        none is installed
                    -> install one
fail  store         /h/acpx.db is damaged

1 ok, 1 warn, 1 fail
";
        assert_eq!(written(Format::Text), text);
        let json = r#"{"action":"doctor_check","level":"ok","check":"home","detail":"/h"}
{"action":"doctor_check","level":"warn","check":"agents","detail":"none is installed","hint":"install one"}
{"action":"doctor_check","level":"fail","check":"store","detail":"/h/acpx.db is damaged"}
{"action":"doctor","status":"fail","ok":1,"warn":1,"fail":1}
"#;
        assert_eq!(written(Format::Json), json);
        assert_eq!(written(Format::Quiet), "fail\n");
    }

    #[test]
    fn doctor_finding_on_a_terminal_has_plain_words() {
        let text = "\
ok       home          /h
warning  agents        none is installed
                       -> install one
error    store         /h/acpx.db is damaged

1 ok, 1 warning, 1 error
";
        assert_eq!(written_in(OutputMode { is_terminal: true, ..OutputMode::default() }), text);
    }
}
