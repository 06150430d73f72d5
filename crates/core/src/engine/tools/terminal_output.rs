//! Selects what is stored of a terminal: new output, and how its command ended. While the command runs, only whole
//! lines are stored, and nothing that may be the beginning of a secret.

use crate::acp::client::{AgentConnection, ExitStatus};
use crate::model::Fact;
use crate::tools::{ProcessExit, TerminalDelta};

use super::run::TerminalState;

impl TerminalState {
    /// The facts to store now. With `all` nothing more will come, and everything is stored.
    pub(crate) fn facts(&mut self, id: &str, connection: &AgentConnection, all: bool) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.is_over {
            return facts;
        }
        let TerminalDelta { output, exit } = self.terminal.take_new_output(all);
        let terminal_id = id.to_owned();
        self.held.push_str(&output);
        let mut output = connection.take_settled(&mut self.held);
        // Held text is no secret if nothing more comes, unless the rest of it was cut off.
        let is_whole = exit.as_ref().is_none_or(|(_, screen)| screen.is_none());
        if (all || exit.is_some()) && is_whole {
            output.push_str(&std::mem::take(&mut self.held));
        }
        if !output.is_empty() {
            facts.push(Fact::TerminalOutput { terminal_id: terminal_id.clone(), output });
        }
        if let Some((exit, screen)) = exit {
            self.is_over = true;
            let ExitStatus { code: exit_code, signal } = status(&exit);
            let output = screen.map(|screen| connection.without_torn_secrets(&screen));
            facts.push(Fact::TerminalEnded { terminal_id, exit_code, signal, output });
        }
        facts
    }
}

/// How a command exited, in the protocol's form.
pub(crate) fn status(exit: &ProcessExit) -> ExitStatus {
    let code = exit.code.and_then(|code| u32::try_from(code).ok());
    ExitStatus { code, signal: exit.signal.map(signal_name) }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        other => return format!("signal {other}"),
    };
    format!("SIG{name}")
}
