//! What is kept of a terminal: what it has shown since this was last asked, and how its command has ended. Of a command
//! that runs it is whole lines, and nothing that may be the beginning of a secret.

use crate::acp::client::{AgentConnection, ExitStatus};
use crate::model::Fact;
use crate::tools::{ProcessExit, TerminalDelta};

use super::run::TerminalState;

impl TerminalState {
    /// What is to be kept by now. With `all` nothing more will come, and all of it is.
    pub(crate) fn facts(&mut self, id: &str, connection: &AgentConnection, all: bool) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.is_over {
            return facts;
        }
        let TerminalDelta { output, exit } = self.terminal.take_news(all);
        let terminal_id = id.to_owned();
        self.held.push_str(&output);
        let mut output = connection.take_settled(&mut self.held);
        // What is held is no secret if nothing more comes, unless there was no room for the rest of it.
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

/// How a command exited, as the protocol says it.
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
