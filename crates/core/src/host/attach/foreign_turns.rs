//! Turns that a client has not asked for, told to one of version 1 that wants to know of them. Its protocol has no word
//! for them: an update that comes outside of its own turns may be of anybody's. A host on another machine needs to know,
//! since it keeps the conversation as turns, and prompts are to wait for what still runs.

use crate::acp::agent::ClientFacts;
use crate::acp::far_host::STATE;
use crate::acp::render::{SessionState, turn_state};
use crate::model::{Event, EventKind, Fact, ProtocolVersion, RecordId};
use crate::wire::encode::{self, json_string};

use crate::protocol::acpx_meta::read_meta;
use crate::protocol::meta::GreetingMeta;

/// Whether a client is told of turns in this way.
pub(crate) fn wants_states(client: &ClientFacts) -> bool {
    let greeting = || read_meta::<GreetingMeta>(client.meta.as_deref());
    client.protocol == ProtocolVersion::V1 && greeting().is_ok_and(|greeting| greeting.states)
}

/// The turns of a record, as they are told.
pub(crate) struct OthersTurns {
    record: RecordId,
    /// The one that runs, and the name of its prompt.
    running: Option<(u64, String)>,
}

impl OthersTurns {
    /// None runs.
    pub(crate) fn new(record: &RecordId) -> Self {
        Self { record: record.clone(), running: None }
    }

    /// Takes in how the session stands.
    pub(crate) fn stand(&mut self, state: &SessionState) {
        self.running = state.running_turn().map(|(turn, request)| (turn, request.to_owned()));
    }

    /// The line that tells that a turn runs, if one does.
    pub(crate) fn standing(record: &RecordId, state: &SessionState) -> Option<String> {
        let (turn, request) = state.running_turn()?;
        let begun = Fact::TurnStarted { turn, request_id: request.to_owned(), client: None };
        line(record, &begun, request)
    }

    /// Takes the next event; the line that tells the turn which begins or ends by it, unless its client has asked for it.
    pub(crate) fn take(&mut self, event: &Event, is_own: impl Fn(&str) -> bool) -> Option<String> {
        let fact = if event.kind == EventKind::Fact { Fact::from_body(&event.body)? } else { return None };
        let request = match &fact {
            Fact::TurnStarted { turn, request_id, .. } => {
                self.running = Some((*turn, request_id.clone()));
                request_id.clone()
            }
            // One that never began is told to nobody.
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
