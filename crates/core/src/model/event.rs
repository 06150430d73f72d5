//! What is kept of a session: one line exchanged with the agent, or one fact of ours.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ClientName, LineageIndex, ReplayVerdict, RestoreError, Seq, SettingValue, Timestamp, TurnId};

/// One kept line or fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number within the record.
    pub seq: Seq,
    /// When it was kept.
    pub at: Timestamp,
    /// The turn it belongs to, if any.
    pub turn: Option<TurnId>,
    /// The ACP session it belongs to.
    pub lineage: LineageIndex,
    /// The protocol version its line was spoken in.
    pub protocol: u16,
    /// Who said it.
    pub direction: Direction,
    /// What sort of line it is.
    pub kind: EventKind,
    /// The line as exchanged, secret values replaced; or the fact, as JSON.
    pub body: Arc<str>,
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The agent, to us.
    FromAgent,
    /// We, to the agent.
    ToAgent,
    /// We, to ourselves.
    Ours,
}

impl Direction {
    /// The word for it, in the store's events as others see them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FromAgent => "from_agent",
            Self::ToAgent => "to_agent",
            Self::Ours => "ours",
        }
    }
}

/// What sort of line an event is; enough to find the ones a reader wants without parsing the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A `session/update` notification.
    Update,
    /// Any other notification.
    Notification,
    /// A request.
    Request,
    /// An answer to a request.
    Response,
    /// A fact of ours.
    Fact,
}

/// A fact of ours about the session, kept among its lines. Its JSON is what readers of the raw stream see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Fact {
    /// A prompt is on its way to the agent.
    TurnStarted {
        /// Which turn.
        turn: u64,
        /// The client's name for it.
        request_id: String,
        /// Who asked, where that is known: a prompt that outlived its host has forgotten it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ClientName>,
    },
    /// A turn is over: exactly one of the two is there.
    TurnEnded {
        /// Which turn.
        turn: u64,
        /// Why the agent stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// What went wrong: code and message.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<FactError>,
    },
    /// The agent has the session again.
    Restored {
        /// The protocol's method that did it.
        by: String,
        /// How what it replayed compares with what we keep; absent when it replayed nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay: Option<ReplayVerdict>,
    },
    /// All of what the agent replayed has come by now, after it had said that it has the session again.
    ReplayedLate {
        /// How it compares with what we keep, which is otherwise than it was said then.
        replay: ReplayVerdict,
    },
    /// A fresh ACP session took over: the agent does not remember what came before.
    SessionReset {
        /// The lineage reason.
        reason: String,
        /// The session left behind.
        from_acpx_session_id: String,
        /// The session in force now.
        acpx_session_id: String,
        /// The harness's own id of it, if told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_session_id: Option<String>,
        /// Whether a person must be told: not when there was nothing to forget.
        announced: bool,
        /// How much of what came before it is told with its first prompt; absent if that is nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Option<HistoryExtent>,
        /// The failed restore that led to it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RestoreError>,
    },
    /// The record is back in an earlier ACP session: the agent remembers what was said in that one.
    SessionReturned {
        /// The session left behind.
        from_acpx_session_id: String,
        /// The session in force now.
        acpx_session_id: String,
        /// The harness's own id of it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_session_id: Option<String>,
    },
    /// The agent refused a prompt because its process no longer had the session, and is sent the prompt once more.
    PromptResent {
        /// Which turn.
        turn: u64,
    },
    /// The agent cannot load the session yet: it is loaded then.
    LoadDelayed {
        /// When.
        until: Timestamp,
    },
    /// The record has another path from now on: its project has moved, or its path led elsewhere and the real path of its
    /// directory took its place.
    Moved {
        /// The one before, as it was given.
        from: String,
        /// The new one.
        to: String,
    },
    /// Servers the record had that could not be given to the agent again.
    McpServersLeftOut {
        /// Their names.
        names: Vec<String>,
        /// Why the file they come from could not be read, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A setting that was wished could not be restored; the session goes on without it.
    SettingNotRestored {
        /// The option's id; absent for the mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
        /// What was wished.
        value: SettingValue,
        /// Why not, in words.
        reason: String,
    },
    /// The agent said lines in a turn that were too long to be taken: they are lost.
    LinesDropped {
        /// How many.
        lines: u64,
        /// How many bytes a line may have.
        limit: u64,
    },
    /// The agent said lines in a turn that were no messages: they are lost.
    LinesUnread {
        /// How many.
        lines: u64,
    },
    /// Somebody is asked whether the agent may have the file or the command that it wants. The answer to its request
    /// is the end of that.
    PermissionAsked {
        /// The id of the agent's request, as JSON.
        request: String,
    },
    /// A command runs that the agent asked for.
    TerminalStarted {
        /// The terminal it runs in.
        terminal_id: String,
        /// The command, as a person would type it.
        command: String,
    },
    /// A command has written something, after what it had written before.
    TerminalOutput {
        /// The terminal it runs in.
        terminal_id: String,
        /// What it has written.
        output: String,
    },
    /// A command has ended.
    TerminalEnded {
        /// The terminal it ran in.
        terminal_id: String,
        /// The number it exited with, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u32>,
        /// The name of the signal that ended it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// The end of all that it wrote, if that was more than is kept as it comes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
    },
    /// The agent's process is gone, asked for or not.
    AgentEnded {
        /// How, in words.
        how: String,
    },
    /// The way to an agent on another machine is gone, and is looked for.
    AgentAway {},
    /// It is there again.
    AgentBack {},
    /// What an agent had started was ended with it, though it had left the agent's process group.
    ProcessesEnded {
        /// Which processes.
        processes: Vec<EndedProcess>,
    },
    /// The record was closed.
    Closed {},
}

/// A process that was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedProcess {
    /// Its short name, as it had chosen it itself.
    pub name: String,
    /// Its number, which may be another's by now.
    pub pid: u32,
}

/// An error inside a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactError {
    /// The stable code.
    pub code: String,
    /// What happened, to what.
    pub message: String,
}

impl Event {
    /// Whether the user or the agent has done something, so that the record was used. That an agent was parked, or ended
    /// with its host, is no use of the record.
    pub fn is_use(&self) -> bool {
        // Facts are rare. No other event is parsed here.
        let is_process_fact = |fact: Fact| {
            matches!(
                fact,
                Fact::ProcessesEnded { .. }
                    | Fact::AgentEnded { .. }
                    | Fact::AgentAway { .. }
                    | Fact::AgentBack { .. }
            )
        };
        self.kind != EventKind::Fact || !Fact::from_body(&self.body).is_some_and(is_process_fact)
    }
}

impl Fact {
    /// The fact as an event's body.
    pub fn to_body(&self) -> Arc<str> {
        serde_json::to_string(self).expect("a fact has only strings and numbers").into()
    }

    /// Reads a body back; `None` for a fact this version does not know.
    pub fn from_body(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }
}

/// How much of a conversation a fresh session is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryExtent {
    /// All of it.
    Whole,
    /// The last part of it: it is too long.
    LastPart,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_about_ended_processes_are_no_use_of_the_record() {
        let event = |kind, body: Arc<str>| Event {
            seq: Seq::FIRST,
            at: Timestamp::from_millis(1).unwrap(),
            turn: None,
            lineage: LineageIndex(0),
            protocol: 1,
            direction: Direction::Ours,
            kind,
            body,
        };
        let fact = |fact: &Fact| event(EventKind::Fact, fact.to_body()).is_use();
        let processes = vec![EndedProcess { name: "sleep".into(), pid: 7 }];
        let unused = [
            Fact::ProcessesEnded { processes },
            Fact::AgentEnded { how: "signal 9".into() },
            Fact::AgentAway {},
            Fact::AgentBack {},
        ];
        assert_eq!(unused.map(|unused| fact(&unused)), [false; 4]);
        let started = Fact::TurnStarted { turn: 1, request_id: "agent_ended".into(), client: None };
        assert_eq!([fact(&started), fact(&Fact::Closed {})], [true; 2]);
        assert!(event(EventKind::Notification, Fact::AgentAway {}.to_body()).is_use());
    }

    #[test]
    fn a_fact_is_read_as_it_was_written_and_leaves_out_what_is_unknown() {
        let fact = Fact::TurnEnded { turn: 3, stop_reason: Some("end_turn".into()), error: None };
        assert_eq!(&*fact.to_body(), r#"{"fact":"turn_ended","turn":3,"stopReason":"end_turn"}"#);
        assert_eq!(Fact::from_body(&fact.to_body()), Some(fact));
        let reset = Fact::SessionReset {
            reason: "agent-lost".into(),
            from_acpx_session_id: "a".into(),
            acpx_session_id: "b".into(),
            agent_session_id: None,
            announced: true,
            carried: None,
            error: None,
        };
        let text = r#"{"fact":"session_reset","reason":"agent-lost","fromAcpxSessionId":"a","acpxSessionId":"b","announced":true}"#;
        assert_eq!(&*reset.to_body(), text);
        assert_eq!(Fact::from_body(r#"{"fact":"from_the_future"}"#), None);
    }
}
