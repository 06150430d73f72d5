//! Terminals that acpx runs for a version 1 agent. A version 2 client receives them as terminals. A version 1 client
//! receives their output as text in the tool calls that refer to them, because it does not own these terminal ids.

use serde_json::Value;

use super::line::UpdateLine;
use super::live::{RecordRenderer, update_meta};
use super::outgoing::{LineRewrite, UpdateMeta, notification};
use crate::acp::translate::terminal_update;
use crate::model::{Event, Fact, ProtocolVersion};
use crate::wire::json;

/// How many tool calls with terminals of the agent are tracked.
const MAX_AGENTS_TERMINALS: usize = 4096;
/// The longest id of such a tool call, in bytes of JSON.
const MAX_CALL_ID: usize = 256;

/// Whether an update carries output of a terminal that the agent runs, as agents send it to clients with the
/// capability `_meta.terminal_output`.
pub(super) fn has_terminal_meta(update: &str) -> bool {
    const NAMES: [&str; 4] = ["terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit"];
    memchr::memmem::find(update.as_bytes(), b"\"terminal_").is_some()
        && NAMES.iter().any(|name| json::get(update, &["_meta", name]).is_some())
}

impl RecordRenderer {
    /// Takes an event of an acpx terminal. A version 1 client receives it with the tool calls that refer to the
    /// terminal.
    pub(super) fn terminal(&mut self, event: &Event, fact: &Fact, with_seq: bool) -> Vec<String> {
        let Some(update) = terminal_update(fact) else { return Vec::new() };
        if let Fact::TerminalStarted { terminal_id, .. } = fact {
            self.to_v2.note_terminal(terminal_id);
        }
        match self.client.protocol {
            ProtocolVersion::V1 => {
                self.has_terminals = true;
                drop(self.to_v1.update(&update));
                Vec::new()
            }
            ProtocolVersion::V2 => vec![notification(&self.session, &update, &update_meta(event, with_seq))],
        }
    }

    /// A version 1 tool call with the output of its terminals, for a version 1 client; `None` if it has none. An
    /// update without content can only be affected if the client has received terminal output.
    pub(super) fn with_terminals(
        &mut self,
        agent_version: ProtocolVersion,
        update: &str,
    ) -> Option<Box<str>> {
        if [agent_version, self.client.protocol] != [ProtocolVersion::V1; 2] {
            return None;
        }
        if !self.client.terminal_output {
            self.take_terminal_meta(update);
        } else if self.has_agents_terminal(update) {
            return None;
        }
        let has = |word: &str| memchr::memmem::find(update.as_bytes(), word.as_bytes()).is_some();
        let may_have = self.has_terminals && has("tool_call") || has("terminalId");
        if may_have { self.to_v1.with_terminals(update) } else { None }
    }

    /// Whether a tool call has a terminal that the agent runs, by this update or an earlier one.
    fn has_agents_terminal(&mut self, update: &str) -> bool {
        let Some(id) = json::get(update, &["toolCallId"]) else {
            return false;
        };
        let is_known_soon = self.agents_terminals.len() < MAX_AGENTS_TERMINALS && id.len() <= MAX_CALL_ID;
        if has_terminal_meta(update) && is_known_soon {
            self.agents_terminals.insert(id.into());
        }
        self.agents_terminals.contains(id)
    }

    /// Takes the terminal output in an update's `_meta`, for a client without the capability to read it there. The
    /// client receives it like the output of an acpx terminal.
    fn take_terminal_meta(&mut self, update: &str) {
        if !has_terminal_meta(update) {
            return;
        }
        let Ok(call) = serde_json::from_str::<Value>(update) else { return };
        let part = |name: &str| call["_meta"].get(name);
        let id = |part: &Value| part["terminal_id"].as_str().map(str::to_owned);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let started = part("terminal_info").and_then(id).map(|terminal_id| Fact::TerminalStarted {
            terminal_id,
            command: text(&call["title"]).unwrap_or_default(),
        });
        let output = part("terminal_output").or_else(|| part("terminal_output_delta"));
        let output = output.and_then(|output| {
            Some(Fact::TerminalOutput { terminal_id: id(output)?, output: text(&output["data"])? })
        });
        let ended = part("terminal_exit").and_then(|exit| {
            let exit_code = exit["exit_code"].as_u64().and_then(|code| u32::try_from(code).ok());
            Some(Fact::TerminalEnded {
                terminal_id: id(exit)?,
                exit_code,
                signal: text(&exit["signal"]),
                output: None,
            })
        });
        for fact in [started, output, ended].into_iter().flatten() {
            self.has_terminals = true;
            drop(terminal_update(&fact).map(|update| self.to_v1.update(&update)));
        }
    }

    /// The agent's line with another update in it.
    pub(super) fn pass_on_as(&self, line: &UpdateLine<'_>, update: &str, meta: &UpdateMeta<'_>) -> String {
        let mut passed = LineRewrite::new(line, &self.session);
        passed.put(line.update, update);
        passed.write(line, meta);
        passed.finish()
    }
}
