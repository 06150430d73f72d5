//! Shows a session that is followed or replayed: every turn, with its prompt.
//!
//! Text is for people, JSON is every event in the form of a watch with the ids of its session, quiet is the agent's
//! words alone.

use std::io::{self, Write};

use acpx_core::acp;
use acpx_core::model::{
    AcpSessionId, AgentSessionId, ChunkContent, ClientName, Direction, Fact, MessageKind, SessionIdentity,
    Turn, TurnId, Update,
};
use acpx_core::wire::RpcMessage;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::suppressed_reads::ReadSuppressor;
use super::text::TextView;
use super::{MessageKey, MessageTracker, UpdateReader};
use crate::cli::Format;
use crate::output::error::ErrorObject;
use crate::output::{Console, OutputMode, WatchedEvent, json_line};

/// Shows a session.
#[derive(Debug)]
pub(crate) struct FollowView {
    session: SessionIdentity,
    view: FollowRenderer,
    /// The turn that began last, and its client if known. A shell does not name itself.
    begun: Option<(TurnId, Option<ClientName>)>,
    /// The turn whose prompt was shown last.
    prompted: Option<TurnId>,
    reads: ReadSuppressor,
}

#[derive(Debug)]
enum FollowRenderer {
    Text(Box<TextView>),
    Json,
    Quiet(Quiet),
}

#[derive(Debug, Default)]
struct Quiet {
    updates: UpdateReader,
    message: MessageTracker,
    /// Whether the output ends with words whose line has not ended.
    is_open: bool,
}

/// An event, with the ids of its session.
#[derive(Serialize)]
struct EventLine<'a> {
    action: &'static str,
    #[serde(flatten)]
    session: &'a SessionIdentity,
    seq: u64,
    /// For `sessions watch --cursor`: the position after this event.
    cursor: String,
    at: String,
    direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    aside: bool,
    message: &'a RawValue,
}

impl FollowView {
    /// An empty view.
    pub(crate) fn new(mode: OutputMode, session: SessionIdentity) -> Self {
        let view = match mode.format {
            Format::Text => FollowRenderer::Text(TextView::new(mode).into()),
            Format::Json => FollowRenderer::Json,
            Format::Quiet => FollowRenderer::Quiet(Quiet::default()),
        };
        Self { session, view, begun: None, prompted: None, reads: ReadSuppressor::new(mode.reads) }
    }

    /// Shows the next event. The caller flushes the console when no more events are queued.
    pub(crate) fn event(&mut self, event: &WatchedEvent, console: &mut Console<'_>) -> io::Result<()> {
        let fact = match event.direction {
            Direction::Ours => Fact::from_body(event.message.get()),
            Direction::FromAgent | Direction::ToAgent => None,
        };
        if let Some(
            Fact::SessionReset { acpx_session_id, agent_session_id, .. }
            | Fact::SessionReturned { acpx_session_id, agent_session_id, .. },
        ) = &fact
            && let Ok(session) = AcpSessionId::new(acpx_session_id.as_str())
        {
            self.session.session = session;
            self.session.agent_session = agent_session_id.as_deref().and_then(AgentSessionId::from_agent);
        }
        if let Some(Fact::TurnStarted { turn, client, .. }) = &fact {
            self.begun = Some((TurnId(*turn), client.clone()));
        }
        let event = &*self.reads.apply(event);
        let message = RpcMessage::parse(event.message.get()).ok();
        match &mut self.view {
            FollowRenderer::Json => {
                let with_error = fact.as_ref().and_then(with_error_object);
                json_line(&EventLine::new(&self.session, event, with_error.as_deref()), &mut console.out)
            }
            FollowRenderer::Text(view) => match message.as_ref().and_then(|message| prompt(event, message)) {
                Some(words) => {
                    self.prompted = event.turn;
                    let client = event.turn.and_then(|turn| client_of(self.begun.as_ref(), turn));
                    view.prompt(event.turn, client, &words, &mut console.out)
                }
                None => text(view, event, message.as_ref(), fact.as_ref(), console),
            },
            FollowRenderer::Quiet(view) => {
                view.event(event, message.as_ref(), fact.as_ref(), &mut console.out)
            }
        }
    }

    /// The turn that ends with this event, if its prompt is still to be shown; and whether its begin was seen.
    pub(crate) fn ends_without_prompt(&self, event: &WatchedEvent) -> Option<(TurnId, bool)> {
        let is_shown = matches!(self.view, FollowRenderer::Text(_)) && event.direction == Direction::Ours;
        let fact = is_shown.then(|| Fact::from_body(event.message.get())).flatten();
        match fact {
            Some(Fact::TurnEnded { turn, .. }) if self.prompted != Some(TurnId(turn)) => {
                let begun = self.begun.as_ref().map(|(turn, _)| *turn);
                Some((TurnId(turn), begun == Some(TurnId(turn))))
            }
            _ => None,
        }
    }

    /// Shows the prompt of a turn that was never sent to an agent.
    pub(crate) fn unsent(&mut self, turn: &Turn, console: &mut Console<'_>) -> io::Result<()> {
        let FollowRenderer::Text(view) = &mut self.view else { return Ok(()) };
        let words = acp::prompt_words(&turn.prompt);
        if words.trim().is_empty() {
            return Ok(());
        }
        view.prompt(Some(turn.id), client_of(self.begun.as_ref(), turn.id), &words, &mut console.out)
    }

    /// Ends the output.
    pub(crate) fn finish(self, console: &mut Console<'_>) -> io::Result<()> {
        match self.view {
            FollowRenderer::Text(mut view) => view.end_line(&mut console.out)?,
            FollowRenderer::Quiet(Quiet { is_open: true, .. }) => writeln!(console.out)?,
            FollowRenderer::Json | FollowRenderer::Quiet(_) => {}
        }
        console.flush()
    }
}

impl<'a> EventLine<'a> {
    /// The line of an event, with another message if one is given.
    fn new(session: &'a SessionIdentity, event: &'a WatchedEvent, message: Option<&'a RawValue>) -> Self {
        Self {
            action: "event",
            session,
            seq: event.seq.0,
            cursor: format!("seq:{}", event.seq.next()),
            at: event.at.to_string(),
            direction: event.direction.as_str(),
            turn: event.turn.map(|turn| turn.0),
            aside: event.is_outside_conversation,
            message: message.unwrap_or(&event.message),
        }
    }
}

/// A fact whose stored error is replaced by the error object that all output has; `None` if it has no error.
fn with_error_object(fact: &Fact) -> Option<Box<RawValue>> {
    let error = match fact {
        Fact::TurnEnded { error: Some(error), .. } => ErrorObject::from(error),
        Fact::SessionReset { error: Some(error), .. } => ErrorObject::from(error),
        _ => return None,
    };
    let mut shown = serde_json::to_value(fact).ok()?;
    *shown.get_mut("error")? = serde_json::to_value(error).ok()?;
    to_raw_value(&shown).ok()
}

fn text(
    view: &mut TextView,
    event: &WatchedEvent,
    message: Option<&RpcMessage>,
    fact: Option<&Fact>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    if let Some(fact) = fact {
        view.fact(fact);
    }
    match fact {
        Some(Fact::TurnEnded { stop_reason, error, .. }) => {
            return view.turn_ended(stop_reason.as_deref(), error.as_ref(), &mut console.out);
        }
        Some(Fact::SessionReset { reason, announced: true, carried, error, .. }) => {
            let why = error.as_ref().map_or_else(|| reason.clone(), |error| format!("{reason}: {error}"));
            return view.reset(&why, *carried, &mut console.out);
        }
        Some(Fact::SessionReturned { acpx_session_id, .. }) => {
            return view.returned(acpx_session_id, &mut console.out);
        }
        Some(
            fact @ (Fact::AgentEnded { .. }
            | Fact::AgentAway {}
            | Fact::AgentBack {}
            | Fact::ProcessesEnded { .. }
            | Fact::LinesDropped { .. }
            | Fact::LinesUnread { .. }),
        ) => {
            return super::detail(fact).iter().try_for_each(|words| view.agent(words, &mut console.out));
        }
        _ => {}
    }
    message.map_or(Ok(()), |message| view.message(event, message, console))
}

/// The client of a turn, if it is the one that began last.
fn client_of(begun: Option<&(TurnId, Option<ClientName>)>, turn: TurnId) -> Option<&ClientName> {
    begun.filter(|(begun, _)| *begun == turn)?.1.as_ref()
}

impl Quiet {
    fn event(
        &mut self,
        event: &WatchedEvent,
        message: Option<&RpcMessage>,
        fact: Option<&Fact>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if let Some(Fact::TurnEnded { .. }) = fact {
            return if std::mem::take(&mut self.is_open) { writeln!(out) } else { Ok(()) };
        }
        for update in message.into_iter().flat_map(|message| self.updates.read(event, message)) {
            let Update::Chunk { kind, message_id, content: ChunkContent::Text(text) } = update else {
                continue;
            };
            if text.is_empty() {
                continue;
            }
            let begins = self.message.begins(MessageKey { kind, turn: event.turn, id: message_id });
            if kind != MessageKind::Agent {
                continue;
            }
            if begins && self.is_open {
                writeln!(out)?;
            }
            self.is_open = !text.ends_with('\n');
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

/// The user's prompt in an event, if it is one.
pub(crate) fn prompt(event: &WatchedEvent, message: &RpcMessage) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        prompt: &'a RawValue,
    }
    if event.direction != Direction::ToAgent {
        return None;
    }
    let params: Params<'_> = match message.method() {
        Some("session/prompt") => serde_json::from_str(message.params()?).ok()?,
        _ => return None,
    };
    Some(acp::prompt_words(params.prompt.get()))
}

#[cfg(test)]
mod tests;
