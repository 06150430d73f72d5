//! The editor in version 2: a prompt is answered when it is taken in, its turn ends with a state, and `session/resume`
//! replays where that is asked for.

use std::path::Path;

use acpx_testkit::sdk::v2::{allow_once, connect, message_text, prompt, text};
use agent_client_protocol::Error;
use agent_client_protocol::v2::ConnectionTo;
use agent_client_protocol::v2::schema::{
    CancelSessionNotification, CloseSessionRequest, DeleteSessionRequest, ListSessionsRequest,
    NewSessionRequest, ReplayFrom, ResumeSessionRequest, SessionId, SessionUpdate, StateUpdate, StopReason,
    UpdateSessionNotification,
};
use serde_json::json;

use super::conversation::{ConversationLog, Message, Speaker};
use super::words::Exchange;
use super::{Agent, Editor};

/// An editor with its agent.
pub(crate) struct Second {
    connection: ConnectionTo<agent_client_protocol::Agent>,
    log: ConversationLog,
}

/// Runs `work` as an editor that allows every permission request.
pub(crate) async fn as_editor(
    agent: Agent,
    work: impl AsyncFnOnce(Second) -> Result<(), Error>,
) -> Result<(), Error> {
    let log = ConversationLog::default();
    let (updates, requests) = (log.clone(), log.clone());
    let on_update = move |notification: UpdateSessionNotification| {
        record(&updates, &notification.update);
        Ok(())
    };
    let on_permission = move |request, responder| {
        requests.count_permission_request();
        allow_once(request, responder)
    };
    connect(agent, on_update, on_permission, async |connection| work(Second { connection, log }).await).await
}

fn record(log: &ConversationLog, update: &SessionUpdate) {
    match update {
        SessionUpdate::UserMessage(message) => {
            log.whole(Speaker::User, message.message_id.to_string(), message_text(&message.content));
        }
        SessionUpdate::AgentMessage(message) => {
            log.whole(Speaker::Agent, message.message_id.to_string(), message_text(&message.content));
        }
        SessionUpdate::UserMessageChunk(chunk) => {
            log.piece(Speaker::User, Some(chunk.message_id.to_string()), &text(&chunk.content));
        }
        SessionUpdate::AgentMessageChunk(chunk) => {
            log.piece(Speaker::Agent, Some(chunk.message_id.to_string()), &text(&chunk.content));
        }
        SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) => {
            if let Some(reason) = &idle.stop_reason {
                log.stopped(in_words(reason));
            }
        }
        _ => {}
    }
}

fn in_words(reason: &StopReason) -> String {
    match reason {
        StopReason::EndTurn => "end_turn".to_owned(),
        StopReason::Cancelled => "cancelled".to_owned(),
        other => format!("{other:?}"),
    }
}

impl Second {
    async fn begin_turn(&self, session: &str, text: &str) -> Result<(), Error> {
        prompt(&self.connection, &SessionId::new(session), text).await.map(drop)
    }

    async fn end_turn(&self) -> (String, Vec<Message>) {
        let reason = self.log.until_stopped().await;
        (reason, self.log.take())
    }
}

impl Editor for Second {
    async fn begin(&self, cwd: &Path) -> Result<String, Error> {
        let answer = self.connection.send_request(NewSessionRequest::new(cwd)).block_task().await?;
        Ok(answer.session_id.to_string())
    }

    async fn prompt(&self, session: &str, text: &str) -> Result<(String, Vec<Message>), Error> {
        self.begin_turn(session, text).await?;
        Ok(self.end_turn().await)
    }

    async fn cancel(&self, session: &str, turn: &Exchange) -> Result<(String, Vec<Message>), Error> {
        self.begin_turn(session, turn.say).await?;
        self.log.until_message(turn.answers).await;
        self.connection.send_notification(CancelSessionNotification::new(SessionId::new(session)))?;
        Ok(self.end_turn().await)
    }

    fn permission_requests(&self) -> usize {
        self.log.permission_requests()
    }

    async fn replay(&self, session: &str, cwd: &Path) -> Result<Vec<Message>, Error> {
        let from = serde_json::from_value::<ReplayFrom>(json!({ "type": "start" }));
        let from = from.map_err(Error::into_internal_error)?;
        let resume = ResumeSessionRequest::new(SessionId::new(session), cwd).replay_from(from);
        self.connection.send_request(resume).block_task().await?;
        Ok(self.log.take())
    }

    async fn resume(&self, session: &str, cwd: &Path) -> Result<Vec<Message>, Error> {
        let resume = ResumeSessionRequest::new(SessionId::new(session), cwd);
        self.connection.send_request(resume).block_task().await?;
        Ok(self.log.take())
    }

    async fn close(&self, session: &str) -> Result<(), Error> {
        let close = CloseSessionRequest::new(SessionId::new(session));
        self.connection.send_request(close).block_task().await.map(drop)
    }

    async fn list(&self, cwd: &Path) -> Result<Vec<String>, Error> {
        let list = ListSessionsRequest::new().cwd(cwd.to_owned());
        let answer = self.connection.send_request(list).block_task().await?;
        Ok(answer.sessions.iter().map(|row| row.session_id.to_string()).collect())
    }

    async fn delete(&self, session: &str) -> Result<(), Error> {
        let delete = DeleteSessionRequest::new(SessionId::new(session));
        self.connection.send_request(delete).block_task().await.map(drop)
    }
}
