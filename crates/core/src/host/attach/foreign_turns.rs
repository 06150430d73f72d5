//! Reports turns of other clients to a version 1 client that asks for them. Version 1 has no message for such turns, so
//! an update outside the client's own turns could belong to any of them. A remote host needs to know: it stores the
//! conversation as turns, and its prompts wait for a running turn.

use crate::acp::acpx_peer::STATE;
use crate::acp::agent::ClientFacts;
use crate::acp::render::{SessionState, turn_state};
use crate::model::{Event, EventKind, Fact, ProtocolVersion, RecordId};
use crate::wire::encode::{self, json_string};

use crate::protocol::acpx_meta::read_meta;
use crate::protocol::meta::GreetingMeta;

/// Whether the client asked for reports of other turns.
pub(crate) fn wants_states(client: &ClientFacts) -> bool {
    let greeting_meta = || read_meta::<GreetingMeta>(client.meta.as_deref());
    client.protocol == ProtocolVersion::V1 && greeting_meta().is_ok_and(|greeting| greeting.states)
}

/// Tracks the running turn of a record, and renders its start and end.
pub(crate) struct ForeignTurns {
    record: RecordId,
    /// The running turn, and the request id of its prompt.
    running: Option<(u64, String)>,
}

impl ForeignTurns {
    /// Starts without a running turn.
    pub(crate) fn new(record: &RecordId) -> Self {
        Self { record: record.clone(), running: None }
    }

    /// Sets the running turn from the session's state.
    pub(crate) fn set_running(&mut self, state: &SessionState) {
        self.running = state.running_turn().map(|(turn, request)| (turn, request.to_owned()));
    }

    /// The line that reports the running turn, if there is one.
    pub(crate) fn running_turn_line(record: &RecordId, state: &SessionState) -> Option<String> {
        let (turn, request) = state.running_turn()?;
        let started = Fact::TurnStarted { turn, request_id: request.to_owned(), client: None };
        line(record, &started, request)
    }

    /// Takes the next event, and returns a line if it starts or ends a turn that is not the client's own.
    pub(crate) fn on_event(&mut self, event: &Event, is_own: impl Fn(&str) -> bool) -> Option<String> {
        let fact = if event.kind == EventKind::Fact { Fact::from_body(&event.body)? } else { return None };
        let request = match &fact {
            Fact::TurnStarted { turn, request_id, .. } => {
                self.running = Some((*turn, request_id.clone()));
                request_id.clone()
            }
            // The end of a turn that never started is not reported.
            Fact::TurnEnded { turn, .. } => self.running.take_if(|(running, _)| running == turn)?.1,
            _ => return None,
        };
        if is_own(&request) { None } else { line(&self.record, &fact, &request) }
    }
}

fn line(record: &RecordId, fact: &Fact, request: &str) -> Option<String> {
    let (session, request_id) = (json_string(record.as_str()), json_string(request));
    let update = turn_state(fact, request)?;
    let meta = format!(r#"{{"acpx":{{"requestId":{request_id}}}}}"#);
    let params = format!(r#"{{"sessionId":{session},"update":{update},"_meta":{meta}}}"#);
    Some(encode::notification(STATE, &params))
}
