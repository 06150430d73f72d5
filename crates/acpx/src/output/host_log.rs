//! Lines of a host's log, with a colour for their level on a terminal.

use std::io::{self, Write};

use serde::Serialize;

use super::style::{Style, StyledText};
use super::{Console, json_line};
use crate::cli::Format;

/// A line of the log. One that acpx did not write as a line, such as a message of the system, has only its text.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct LogLineObject<'a> {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'a str>,
    text: &'a str,
}

/// Writes lines of a log, as they are, and flushes them.
pub(crate) fn log_lines(lines: &[String], console: &mut Console<'_>) -> io::Result<()> {
    for line in lines {
        let object = parsed(line);
        match (console.mode.format, object.at.zip(object.level)) {
            (Format::Json, _) => json_line(&object, &mut console.out)?,
            (_, Some((at, level))) => {
                let text = StyledText::default()
                    .with(Style::Dim, at)
                    .with(Style::Plain, " ")
                    .with(style(level), format!("{level:<5}"))
                    .with(Style::Plain, format!(" {}\n", object.text));
                console.out.text(&text)?;
            }
            (_, None) => writeln!(console.out, "{line}")?,
        }
    }
    console.flush()
}

fn parsed(line: &str) -> LogLineObject<'_> {
    let plain = LogLineObject { action: "host_log", at: None, level: None, text: line };
    let Some((at, rest)) = line.split_once(' ') else { return plain };
    let Some((level, text)) = rest.split_once(' ') else { return plain };
    let is_level = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].contains(&level);
    if is_level && acpx_core::model::Timestamp::parse(at).is_ok() {
        return LogLineObject { at: Some(at), level: Some(level), text: text.trim_start(), ..plain };
    }
    plain
}

fn style(level: &str) -> Style {
    match level {
        "ERROR" => Style::Bad,
        "WARN" => Style::Warning,
        "INFO" => Style::Good,
        _ => Style::Dim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ColorMode;
    use crate::output::OutputMode;

    fn printed(format: Format, color: ColorMode) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mode =
            OutputMode { format, color, is_terminal: color == ColorMode::Always, ..OutputMode::default() };
        let lines = [
            "2026-11-18T12:00:00.123Z INFO  host started version=0.1.0",
            "2026-11-18T12:00:01.000Z ERROR session ended by the store",
            "memory allocation of 9 bytes failed \u{1b}[2J",
        ];
        log_lines(&lines.map(str::to_owned), &mut Console::over(mode, &mut out, &mut err)).unwrap();
        assert_eq!(err, Vec::<u8>::new());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn log_lines_have_colour_on_a_terminal_and_members_in_json() {
        let terminal = printed(Format::Text, ColorMode::Always).replace('\u{1b}', "^");
        insta::assert_snapshot!(terminal, @r"
        ^[2m2026-11-18T12:00:00.123Z^[0m ^[32mINFO ^[0m host started version=0.1.0
        ^[2m2026-11-18T12:00:01.000Z^[0m ^[1m^[31mERROR^[0m session ended by the store
        memory allocation of 9 bytes failed [2J
        ");
        insta::assert_snapshot!(printed(Format::Json, ColorMode::Never), @r#"
        {"action":"host_log","at":"2026-11-18T12:00:00.123Z","level":"INFO","text":"host started version=0.1.0"}
        {"action":"host_log","at":"2026-11-18T12:00:01.000Z","level":"ERROR","text":"session ended by the store"}
        {"action":"host_log","text":"memory allocation of 9 bytes failed \u001b[2J"}
        "#);
    }
}
