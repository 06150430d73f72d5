//! State of a remote agent that is an acpx host. Such a host numbers its updates and knows our prompts by their request
//! ids. So when the session is restored, missed updates are received, our own prompts are not duplicated, and turns
//! that were cancelled here are cancelled there.

use std::collections::HashSet;
use std::sync::Arc;

use crate::acp::acpx_peer;
use crate::acp::client::{RedactedLine, RemoteLinkState};
use crate::machine::OnResume;
use crate::model::{
    AgentState, Content, Direction, ErrorCode, Event, Fact, LineageIndex, MessageKind, RecordId, Seq,
    StopReason, Update,
};
use crate::wire::RpcMessage;

/// What is known of the remote host.
#[derive(Debug)]
pub(crate) struct RemoteHostState {
    /// The current lineage. Another one has its own numbers.
    lineage: LineageIndex,
    /// The last sequence number received from it.
    last: Option<u64>,
    /// Request ids of the prompts that were sent from here.
    sent_prompts: HashSet<Box<str>>,
    /// The prompt of ours that the remote host reported as running. During a rebuild from the journal: until a turn
    /// starts with it.
    works_on: Option<Box<str>>,
    /// The prompt of the last turn here: its own, or one sent before the connection was lost.
    current: Option<Box<str>>,
    /// The prompt that was last cancelled here.
    stopped: Option<Box<str>>,
    /// It works on a prompt that was cancelled here.
    is_unwanted: bool,
    /// The connection is lost and being re-established.
    is_away: bool,
}

impl RemoteHostState {
    pub(crate) fn new(lineage: LineageIndex) -> Self {
        Self {
            lineage,
            last: None,
            sent_prompts: HashSet::new(),
            works_on: None,
            current: None,
            stopped: None,
            is_unwanted: false,
            is_away: false,
        }
    }

    /// Applies an event of the record.
    pub(crate) fn apply_event(&mut self, record: &RecordId, event: &Event, content: &Content) {
        if event.lineage != self.lineage {
            return;
        }
        self.last = self.last.max(acpx_peer::seq_of(event));
        match content {
            Content::Fact(Fact::TurnStarted { request_id, .. }) => {
                let own: Box<str> = request_id.as_str().into();
                self.sent_prompts.insert(own.clone());
                self.current = Some(self.works_on.take().unwrap_or(own));
            }
            Content::Fact(Fact::TurnEnded { stop_reason, error, .. }) => {
                let is_cancelled = stop_reason.as_deref() == Some(StopReason::cancelled().as_str());
                let is_overdue = error
                    .as_ref()
                    .is_some_and(|error| matches!(error.code, ErrorCode::Timeout | ErrorCode::IdleTimeout));
                if is_cancelled || is_overdue {
                    self.stopped.clone_from(&self.current);
                }
            }
            // The state update that starts a turn is stored before the turn.
            _ if is_state_update(event) => self.works_on = own_prompt(record, &event.body),
            _ => {}
        }
    }

    /// Whether an update echoes a prompt that was sent from here.
    pub(crate) fn is_own_prompt(&self, record: &RecordId, update: &Update, line: &RedactedLine) -> bool {
        let is_users = matches!(
            update,
            Update::Chunk { kind: MessageKind::User, .. } | Update::Message { kind: MessageKind::User, .. }
        );
        is_users && own_prompt(record, line.body()).is_some_and(|prompt| self.sent_prompts.contains(&prompt))
    }

    /// Notes that the connection was lost or re-established; the fact to store, if that is new.
    pub(crate) fn set_link(&mut self, link: RemoteLinkState) -> Option<Fact> {
        let is_away = link == RemoteLinkState::Gone;
        let is_new = std::mem::replace(&mut self.is_away, is_away) != is_away;
        is_new.then_some(if is_away { Fact::AgentAway {} } else { Fact::AgentBack {} })
    }

    /// Notes which prompt of ours the remote host works on, and whether that was cancelled here.
    pub(crate) fn note_state(&mut self, record: &RecordId, state: &AgentState, line: &RedactedLine) {
        let is_at_work = *state == AgentState::Working;
        self.works_on = own_prompt(record, line.body()).filter(|_| is_at_work);
        self.is_unwanted = self.works_on.is_some() && self.works_on == self.stopped;
    }

    /// Whether the running prompt was cancelled here and has to be cancelled there. Reported once.
    pub(crate) fn take_unwanted(&mut self) -> bool {
        std::mem::take(&mut self.is_unwanted)
    }

    /// What the remote host replays when the session is resumed.
    pub(crate) fn on_resume(&self) -> OnResume {
        if self.last.is_some() { OnResume::Missed } else { OnResume::Nothing }
    }

    /// Whether the connection is lost and being re-established.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away
    }

    /// The running prompt that was sent before the connection was lost. A cancel applies to it alone.
    pub(crate) fn left(&self) -> Option<&str> {
        self.works_on.as_deref()
    }

    /// The first missed event.
    pub(crate) fn missed(&self) -> Option<Seq> {
        self.last.map(|last| Seq(last.saturating_add(1)))
    }
}

/// Whether a line is a state update of the agent.
fn is_state_update(event: &Event) -> bool {
    event.direction == Direction::FromAgent
        && memchr::memmem::find(event.body.as_bytes(), b"state_update").is_some()
}

/// The request id of the record's prompt that a line belongs to.
fn own_prompt(record: &RecordId, line: &Arc<str>) -> Option<Box<str>> {
    let message = RpcMessage::parse(line.clone()).ok()?;
    let name = acpx_peer::prompt_of(message.params()?)?;
    acpx_peer::request_of(record, &name).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp;
    use crate::model::{EventKind, FactError, Timestamp};

    fn record() -> RecordId {
        RecordId::new("r").unwrap()
    }

    fn host(events: &[(Direction, EventKind, String)]) -> RemoteHostState {
        let mut host = RemoteHostState::new(LineageIndex::FIRST);
        for (seq, (direction, kind, body)) in (1..).zip(events) {
            let event = Event {
                seq: Seq(seq),
                at: Timestamp::from_millis(0).unwrap(),
                turn: None,
                lineage: LineageIndex::FIRST,
                protocol: 1,
                direction: *direction,
                kind: *kind,
                body: body.as_str().into(),
            };
            host.apply_event(&record(), &event, &acp::content(&event));
        }
        host
    }

    fn fact(fact: &Fact) -> (Direction, EventKind, String) {
        (Direction::Ours, EventKind::Fact, fact.to_body().to_string())
    }

    fn begins(request: &str) -> (Direction, EventKind, String) {
        fact(&Fact::TurnStarted { turn: 1, request_id: request.to_owned(), client: None })
    }

    fn ends(stop_reason: Option<&str>, code: Option<&str>) -> (Direction, EventKind, String) {
        let error = code.map(|code| FactError { code: code.into(), message: String::new() });
        fact(&Fact::TurnEnded { turn: 1, stop_reason: stop_reason.map(str::to_owned), error })
    }

    fn runs(name: &str) -> (Direction, EventKind, String) {
        let update = r#"{"sessionUpdate":"state_update","state":"running"}"#;
        let meta = format!(r#"{{"acpx":{{"requestId":"{name}"}}}}"#);
        let params = format!(r#"{{"sessionId":"s","update":{update},"_meta":{meta}}}"#);
        (
            Direction::FromAgent,
            EventKind::Notification,
            format!(r#"{{"jsonrpc":"2.0","method":"_acpx/state","params":{params}}}"#),
        )
    }

    #[test]
    fn only_a_cancelled_or_timed_out_turn_marks_its_prompt_stopped() {
        let cancelled = || ends(Some("cancelled"), None);
        let cases = [
            (vec![begins("q1"), cancelled()], Some("q1")),
            (vec![begins("q1"), ends(None, Some("TIMEOUT"))], Some("q1")),
            (vec![begins("q1"), ends(None, Some("IDLE_TIMEOUT"))], Some("q1")),
            // A lost or refused turn was not cancelled.
            (vec![begins("q1"), ends(None, Some("AGENT_DIED"))], None),
            (vec![begins("q1"), ends(None, Some("INTERRUPTED"))], None),
            (vec![begins("q1"), ends(None, Some("AGENT_REFUSED"))], None),
            (vec![begins("q1"), ends(Some("end_turn"), None)], None),
            // The rest of a prompt is a separate turn with its own request id.
            (
                vec![begins("q1"), ends(None, Some("INTERRUPTED")), runs("r/q1"), begins("u"), cancelled()],
                Some("q1"),
            ),
            (vec![runs("another/q9"), begins("u"), cancelled()], Some("u")),
        ];
        for (events, expected) in cases {
            assert_eq!(host(&events).stopped.as_deref(), expected, "{events:?}");
        }
    }

    #[test]
    fn own_prompts_are_those_with_a_stored_request_id() {
        let host = host(&[begins("q1")]);
        assert_eq!(["q1", "q2"].map(|prompt| host.sent_prompts.contains(prompt)), [true, false]);
    }

    #[test]
    fn missed_cursor_follows_the_last_update_or_response() {
        let line = |kind, body: &str| (Direction::FromAgent, kind, body.to_owned());
        let update = |seq: u64| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{}},"_meta":{{"acpx":{{"seq":{seq}}}}}}}}}"#
            )
        };
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"acpx":{"seq":3}}}}"#;
        let events = [
            line(EventKind::Response, answer),
            line(EventKind::Update, &update(7)),
            line(EventKind::Notification, &update(90)),
        ];
        assert_eq!(host(&events).missed(), Some(Seq(8)));
        assert_eq!(host(&[begins("q1")]).missed(), None);
        assert_eq!(host(&[line(EventKind::Update, &update(u64::MAX))]).missed(), Some(Seq(u64::MAX)));
    }
}
