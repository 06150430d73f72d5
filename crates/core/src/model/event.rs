//! The stored events of a session: one line exchanged with the agent, or one fact of ours.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ErrorCode, LineageIndex, ReplayVerdict, RestoreError, Seq, SettingValue, Timestamp, TurnId};

/// One stored line or fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number within the record.
    pub seq: Seq,
    /// When it was stored.
    pub at: Timestamp,
    /// The turn it belongs to, if any.
    pub turn: Option<TurnId>,
    /// The ACP session it belongs to.
    pub lineage: LineageIndex,
    /// The protocol version of its line.
    pub protocol: u16,
    /// Who sent it.
    pub direction: Direction,
    /// What sort of line it is.
    pub kind: EventKind,
    /// The line as exchanged, secret values replaced; or the fact, as JSON.
    pub body: Arc<str>,
}

/// Who sent an event's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The agent, to acpx.
    FromAgent,
    /// Acpx, to the agent.
    ToAgent,
    /// A fact of ours; it was not sent.
    Ours,
}

stable_names! {
    Direction:
    FromAgent = "from_agent",
    ToAgent = "to_agent",
    Ours = "ours",
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

stable_names! {
    EventKind:
    Update = "update",
    Notification = "notification",
    Request = "request",
    Response = "response",
    Fact = "fact",
}

/// A fact of ours about the session, stored among its lines. Readers of the raw stream see its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Fact {
    /// A prompt is about to be sent to the agent.
    TurnStarted {
        /// Which turn.
        turn: u64,
        /// The client's name for it.
        request_id: String,
        /// The client that sent it. Unknown for a prompt that outlived its host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ClientName>,
    },
    /// A turn has ended: either `stop_reason` or `error` is set.
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
    /// The agent has restored the session.
    Restored {
        /// The protocol method that restored it.
        by: String,
        /// How the replay compares with the stored conversation; absent when the agent replayed nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay: Option<ReplayVerdict>,
    },
    /// The rest of a replay has arrived after the agent had answered the restore request.
    ReplayedLate {
        /// The verdict on the whole replay, which differs from the one stored with the restore.
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
        /// The harness's own id of it, if the agent sent one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_session_id: Option<String>,
        /// Whether to report it to the user: not when there was nothing to forget.
        announced: bool,
        /// How much of the earlier conversation its first prompt carries; absent if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Option<HistoryExtent>,
        /// The failed restore that led to it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RestoreError>,
    },
    /// The record is back in an earlier ACP session: the agent remembers only that session's conversation.
    SessionReturned {
        /// The session left behind.
        from_acpx_session_id: String,
        /// The session in force now.
        acpx_session_id: String,
        /// The harness's own id of it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_session_id: Option<String>,
    },
    /// The agent refused a prompt, and the prompt is sent once more: its process no longer had the session, or the
    /// user asked for retries.
    PromptResent {
        /// Which turn.
        turn: u64,
        /// The retry; absent if the session was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<PromptRetry>,
    },
    /// A limit of a turn cannot be enforced with this agent.
    LimitNotEnforced {
        /// Which turn.
        turn: u64,
        /// `cost` or `tokens`.
        limit: String,
        /// The reason, as text.
        reason: String,
    },
    /// The agent cannot load the session yet; acpx loads it at the given time.
    LoadDelayed {
        /// When.
        until: Timestamp,
    },
    /// The record's path has changed: its project has moved, or its path led to another directory and was replaced by
    /// the real path.
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
    /// A chosen setting could not be restored; the session continues without it.
    SettingNotRestored {
        /// The option's id; absent for the mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
        /// The chosen value.
        value: SettingValue,
        /// The reason, as text.
        reason: String,
    },
    /// The agent sent lines in a turn that exceed the length limit: they are lost.
    LinesDropped {
        /// How many.
        lines: u64,
        /// How many bytes a line may have.
        limit: u64,
    },
    /// The agent sent lines in a turn that are not messages: they are lost.
    LinesUnread {
        /// How many.
        lines: u64,
    },
    /// A client is asked whether the agent may have the file or the command that it requested. The response to the
    /// agent's request ends this.
    PermissionAsked {
        /// The id of the agent's request, as JSON.
        request: String,
    },
    /// A command that the agent requested has started.
    TerminalStarted {
        /// The terminal it runs in.
        terminal_id: String,
        /// The command line.
        command: String,
    },
    /// A command has written more output.
    TerminalOutput {
        /// The terminal it runs in.
        terminal_id: String,
        /// The new output.
        output: String,
    },
    /// A command has ended.
    TerminalEnded {
        /// The terminal it ran in.
        terminal_id: String,
        /// Its exit code, if it exited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u32>,
        /// The name of the signal that ended it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// The end of its whole output, if that was more than is stored as it arrives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
    },
    /// The agent's process has ended, requested or not.
    AgentEnded {
        /// How it ended, as text.
        how: String,
    },
    /// The connection to an agent on another machine is lost; acpx reconnects.
    AgentAway {},
    /// The connection is restored.
    AgentBack {},
    /// Processes that an agent had started outside its process group were ended with it.
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
    /// The short name it had given itself.
    pub name: String,
    /// Its process id, which may have been reused since.
    pub pid: u32,
}

/// A prompt that the agent refused with an internal error, and that is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptRetry {
    /// Which attempt follows, counted from 1.
    pub attempt: u32,
    /// How many there may be.
    pub of: u32,
    /// How long it waits for that.
    pub delay_ms: u64,
    /// The agent's message.
    pub reason: String,
}

/// An error inside a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactError {
    /// The stable code.
    pub code: ErrorCode,
    /// What happened, to what.
    pub message: String,
}

impl Event {
    /// Whether the user or the agent has done something, so that the record counts as used. An agent that was parked
    /// or ended with its host does not count.
    pub(crate) fn is_use(&self) -> bool {
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

/// How much of a conversation a fresh session receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryExtent {
    /// All of it.
    Whole,
    /// The last part, because the whole is too long.
    LastPart,
}

/// A client's own name and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientName {
    /// The program.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

impl ClientName {
    /// The name of acpx's own commands.
    pub const SHELL: &str = "acpx";

    /// The name, unless it is that of acpx's own commands.
    pub fn unless_shell(&self) -> Option<&str> {
        Some(&*self.name).filter(|name| *name != Self::SHELL)
    }
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
    fn directions_and_kinds_are_read_as_they_are_written() {
        for direction in Direction::ALL {
            assert_eq!(Direction::parse(direction.as_str()), Some(direction));
        }
        for kind in EventKind::ALL {
            assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!((Direction::parse("update"), EventKind::parse("ours")), (None, None));
    }

    #[test]
    fn facts_round_trip_and_omit_unknown_members() {
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
