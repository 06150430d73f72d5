//! An agent that is a host of ours: it numbers what it tells and knows prompts by the names we gave them. So what was
//! said there while nobody here listened is told when the session is taken up again, what was asked here is not told
//! back, and what was stopped here is stopped there too.

use crate::acp::client::{FarWay, Line};
use crate::acp::far_host;
use crate::machine::{AgentState, Input, OnResume};
use crate::model::{Content, Event, Fact, LineageIndex, MessageKind, Seq, StopReason, Update};
use crate::wire::Message;

use super::task::SessionTask;

/// What is kept of such an agent.
#[derive(Debug)]
pub(super) struct Far {
    /// The session in force: another one has numbers of its own.
    lineage: LineageIndex,
    /// The last number that it has told.
    last: Option<u64>,
    /// The last prompt that it was sent, by its name, and whether it was stopped here.
    prompt: Option<(Box<str>, bool)>,
    /// It works on something that was stopped here.
    is_unwanted: bool,
    /// The way to it is gone, and looked for.
    is_away: bool,
}

impl Far {
    pub(super) fn new(lineage: LineageIndex) -> Self {
        Self { lineage, last: None, prompt: None, is_unwanted: false, is_away: false }
    }

    /// Takes an event that is kept.
    pub(super) fn hear(&mut self, event: &Event, content: &Content) {
        if event.lineage != self.lineage {
            return;
        }
        self.last = self.last.max(far_host::seq_of(event));
        match content {
            Content::Fact(Fact::TurnStarted { request_id, .. }) => {
                self.prompt = Some((request_id.as_str().into(), false));
            }
            Content::Fact(Fact::TurnEnded { stop_reason, error, .. }) => {
                if let Some((_, is_stopped)) = &mut self.prompt {
                    // Whoever was lost, here or there, has stopped nothing.
                    let is_lost = error.as_ref().map(|error| is_loss(&error.code));
                    let is_cancelled = stop_reason.as_deref() == Some(StopReason::cancelled().as_str());
                    *is_stopped = is_lost.map_or(is_cancelled, |is_lost| !is_lost);
                }
            }
            _ => {}
        }
    }

    /// What it tells when the session is resumed.
    pub(super) fn on_resume(&self) -> OnResume {
        if self.last.is_some() { OnResume::Missed } else { OnResume::Nothing }
    }

    /// Whether the way to it is gone, and looked for.
    pub(super) fn is_away(&self) -> bool {
        self.is_away
    }

    /// The first event that was missed.
    pub(super) fn missed(&self) -> Option<Seq> {
        self.last.map(|last| Seq(last.saturating_add(1)))
    }
}

/// Whether a turn that ended with this error goes on, for all that is known, where its agent is.
fn is_loss(code: &str) -> bool {
    ["AGENT_DIED", "INTERRUPTED", "REMOTE_LOST"].contains(&code)
}

impl SessionTask {
    /// Whether an update tells the words of a prompt that was asked here.
    pub(super) fn is_own_prompt(&self, update: &Update, line: &Line) -> bool {
        let is_users = matches!(
            update,
            Update::Chunk { kind: MessageKind::User, .. } | Update::Message { kind: MessageKind::User, .. }
        );
        self.far.is_some() && is_users && self.own_prompt(line).is_some()
    }

    /// Notes, and keeps, that the way to the agent is gone or there again.
    pub(super) fn take_way(&mut self, way: FarWay) {
        let fact = match way {
            FarWay::Gone => Fact::AgentAway {},
            FarWay::There => Fact::AgentBack {},
        };
        if let Some(far) = &mut self.far {
            far.is_away = way == FarWay::Gone;
        }
        self.keeper.keep_fact_in(self.now(), self.machine.current_turn(), &fact);
    }

    /// Notes whether what the agent works on is wanted any more.
    pub(super) fn note_far_state(&mut self, state: &AgentState, line: &Line) {
        let own = self.own_prompt(line);
        if let Some(far) = &mut self.far {
            let is_stopped = |own: &str| matches!(&far.prompt, Some((name, true)) if **name == *own);
            far.is_unwanted = *state == AgentState::Working && own.as_deref().is_some_and(is_stopped);
        }
    }

    /// Stops what the agent works on, once that is a turn here, if it is not wanted any more.
    pub(super) fn stop_unwanted(&mut self) {
        let turn = self.machine.current_turn();
        if let Some(far) = self.far.as_mut().filter(|far| far.is_unwanted && turn.is_some()) {
            far.is_unwanted = false;
            self.inputs.push_back(Input::Cancel(turn));
        }
    }

    /// The prompt of this record that a line is about, by its name here.
    fn own_prompt(&self, line: &Line) -> Option<String> {
        let message = Message::parse(line.body.clone()).ok()?;
        let name = far_host::prompt_of(message.params()?)?;
        far_host::request_of(self.keeper.record(), &name).map(str::to_owned)
    }
}
