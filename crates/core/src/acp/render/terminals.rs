//! Terminals that we run for an agent of version 1: a client of version 2 has them as terminals, and one of version 1 has
//! what they show as text in the tool calls that refer to them, since the ids are none of its own.

use super::line::UpdateLine;
use super::live::{Rendering, beside};
use super::outgoing::{Beside, PassedOn, notification};
use crate::acp::translate::terminal_update;
use crate::model::{Event, Fact, ProtocolVersion};

impl Rendering {
    /// Takes what happened on a terminal of ours. Version 1 is told it with the tool calls that refer to the terminal.
    pub(super) fn terminal(&mut self, event: &Event, fact: &Fact, with_seq: bool) -> Vec<String> {
        let Some(update) = terminal_update(fact) else { return Vec::new() };
        if let Fact::TerminalStarted { terminal_id, .. } = fact {
            self.to_v2.told_terminal(terminal_id);
        }
        match self.client.protocol {
            ProtocolVersion::V1 => {
                self.has_terminals = true;
                drop(self.to_v1.update(&update));
                Vec::new()
            }
            ProtocolVersion::V2 => vec![notification(&self.session, &update, &beside(event, with_seq))],
        }
    }

    /// A tool call of version 1 with what its terminals show, for a client of that version; `None` if it has none. A
    /// client that was told no terminal has none that an update without content could be about.
    pub(super) fn with_terminals(&mut self, spoken: ProtocolVersion, update: &str) -> Option<Box<str>> {
        let has = |word: &str| memchr::memmem::find(update.as_bytes(), word.as_bytes()).is_some();
        let may_have = self.has_terminals && has("tool_call") || has("terminalId");
        let is_first = [spoken, self.client.protocol] == [ProtocolVersion::V1; 2];
        if is_first && may_have { self.to_v1.with_terminals(update) } else { None }
    }

    /// The agent's line with another update in it.
    pub(super) fn pass_on_as(&self, line: &UpdateLine<'_>, update: &str, beside: &Beside<'_>) -> String {
        let mut passed = PassedOn::new(line, &self.session);
        passed.put(line.update, update);
        passed.say(line, beside);
        passed.finish()
    }
}
