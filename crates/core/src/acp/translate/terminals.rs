//! Terminals of a version 2 agent. Version 1 has no terminals of the agent, so their text is shown in the tool calls
//! that refer to them. Terminals of acpx itself become version 2 updates.

use std::fmt::Write as _;

use agent_client_protocol_schema::v2;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::Fact;
use crate::wire::json::RawObject;

/// How many bytes of a terminal's output are kept: its end.
const MAX_OUTPUT_BYTES: usize = 32 << 10;

/// How many characters of a command are kept: its beginning.
const MAX_COMMAND_CHARS: usize = 1 << 10;

/// The last known state of a terminal.
#[derive(Debug, Default)]
pub(super) struct TerminalSnapshot {
    command: Option<Box<str>>,
    output: Vec<u8>,
    is_cut: bool,
    exit: Option<Box<str>>,
}

impl TerminalSnapshot {
    /// Takes a `terminal_update`: absent is unchanged, `null` clears.
    pub(super) fn update(&mut self, update: &RawObject<'_>) {
        if update.get("command").is_some() {
            let begin = |text: Box<str>| text.chars().take(MAX_COMMAND_CHARS).collect();
            self.command = update.text("command").map(begin);
        }
        if let Some(output) = update.get("output") {
            (self.output, self.is_cut) = (Vec::new(), false);
            let data = RawObject::parse(output).and_then(|output| output.text("data"));
            self.append(data.as_deref().unwrap_or_default());
        }
        if let Some(status) = update.get("exitStatus") {
            self.exit = RawObject::parse(status).map(|status| exit_text(&status).into());
        }
    }

    /// Appends output in base64. Invalid data is ignored.
    pub(super) fn append(&mut self, data: &str) {
        let Ok(bytes) = STANDARD.decode(data) else { return };
        self.output.extend_from_slice(&bytes);
        if let Some(over) = self.output.len().checked_sub(MAX_OUTPUT_BYTES).filter(|over| *over > 0) {
            self.output.drain(..over);
            self.is_cut = true;
        }
    }

    /// The terminal as text, as a person would see it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(command) = &self.command {
            // Writing to a text cannot fail.
            let _written = writeln!(text, "$ {command}");
        }
        if self.is_cut {
            text.push_str("[earlier output is left out]\n");
        }
        text.push_str(&String::from_utf8_lossy(&self.output));
        if let Some(exit) = &self.exit {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(exit);
        }
        text
    }
}

fn exit_text(status: &RawObject<'_>) -> String {
    let code = status.get_non_null("exitCode").filter(|code| code.parse::<i64>().is_ok());
    let signal = status.text("signal").map(|signal| signal.chars().take(64).collect::<String>());
    match (signal, code) {
        (Some(signal), _) => format!("[ended by {signal}]"),
        (None, Some(code)) => format!("[exit code {code}]"),
        (None, None) => "[ended]".to_owned(),
    }
}

/// The version 2 update object for a terminal fact; `None` for any other fact.
pub(crate) fn terminal_update(fact: &Fact) -> Option<Box<str>> {
    let update = match fact {
        Fact::TerminalStarted { terminal_id, command } => v2::SessionUpdate::TerminalUpdate(
            v2::TerminalUpdate::new(terminal_id.clone()).command(command.clone()),
        ),
        Fact::TerminalOutput { terminal_id, output } => v2::SessionUpdate::TerminalOutputChunk(
            v2::TerminalOutputChunk::new(terminal_id.clone(), STANDARD.encode(output)),
        ),
        Fact::TerminalEnded { terminal_id, exit_code, signal, output } => {
            let mut exit = v2::TerminalExitStatus::new();
            exit.exit_code = exit_code.map(Into::into);
            exit.signal.clone_from(signal);
            let update = v2::TerminalUpdate::new(terminal_id.clone()).exit_status(exit);
            v2::SessionUpdate::TerminalUpdate(match output {
                Some(output) => update.output(v2::TerminalOutput::new(STANDARD.encode(output))),
                None => update,
            })
        }
        _ => return None,
    };
    Some(serde_json::to_string(&update).expect("a terminal has only text and numbers").into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn terminal_facts_become_version_2_updates() {
        let translated =
            |fact: &Fact| serde_json::from_str::<serde_json::Value>(&terminal_update(fact).unwrap()).unwrap();
        let terminal_id = || "t".to_owned();
        let started = Fact::TerminalStarted { terminal_id: terminal_id(), command: "ls".into() };
        let output = Fact::TerminalOutput { terminal_id: terminal_id(), output: "a\n".into() };
        let ended = |output: Option<&str>| Fact::TerminalEnded {
            terminal_id: terminal_id(),
            exit_code: Some(3),
            signal: None,
            output: output.map(str::to_owned),
        };
        assert_eq!(
            [translated(&started), translated(&output)],
            [
                json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls"}),
                json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "YQo="}),
            ]
        );
        assert_eq!(translated(&ended(None))["exitStatus"]["exitCode"], 3);
        assert_eq!(translated(&ended(None)).get("output"), None);
        assert_eq!(translated(&ended(Some("a\n")))["output"]["data"], "YQo=");
        assert_eq!(terminal_update(&Fact::Closed {}), None);
    }
}
