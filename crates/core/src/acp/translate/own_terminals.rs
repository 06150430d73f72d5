//! Renders terminals that acpx runs for a version 1 agent as version 2 agent terminals: towards a version 2 client,
//! acpx is the agent.

use agent_client_protocol_schema::v2;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::Fact;

/// The version 2 update object for a terminal fact; `None` for any other fact.
pub fn terminal_update(fact: &Fact) -> Option<Box<str>> {
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
    fn what_happens_on_a_terminal_is_told_as_version_2_tells_it() {
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
