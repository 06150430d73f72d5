//! The editor in version 1: the answer to a prompt ends its turn, and `session/load` replays.

use std::path::Path;

use acpx_testkit::sdk::v1::{allow_once, connect, prompt, text};
use agent_client_protocol::Error;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentChunk, DeleteSessionRequest, ListSessionsRequest,
    LoadSessionRequest, NewSessionRequest, ResumeSessionRequest, SessionId, SessionNotification,
    SessionUpdate, StopReason,
};

use super::conversation::{ConversationLog, Message, Speaker};
use super::words::Exchange;
use super::{Agent, Editor};

/// An editor with its agent.
pub(crate) struct First {
    connection: ConnectionTo<agent_client_protocol::Agent>,
    log: ConversationLog,
}

/// Runs `work` as an editor that allows every permission request.
pub(crate) async fn as_editor(
    agent: Agent,
    work: impl AsyncFnOnce(First) -> Result<(), Error>,
) -> Result<(), Error> {
    let log = ConversationLog::default();
    let (updates, requests) = (log.clone(), log.clone());
    let on_update = move |notification: SessionNotification| {
        record(&updates, &notification.update);
        Ok(())
    };
    let on_permission = move |request, responder| {
        requests.count_permission_request();
        allow_once(request, responder)
    };
    connect(agent, on_update, on_permission, async |connection| work(First { connection, log }).await).await
}

fn record(log: &ConversationLog, update: &SessionUpdate) {
    let (speaker, ContentChunk { content, .. }) = match update {
        SessionUpdate::UserMessageChunk(chunk) => (Speaker::User, chunk),
        SessionUpdate::AgentMessageChunk(chunk) => (Speaker::Agent, chunk),
        _ => return,
    };
    log.piece(speaker, None, &text(content));
}

fn in_words(reason: StopReason) -> String {
    match reason {
        StopReason::EndTurn => "end_turn".to_owned(),
        StopReason::Cancelled => "cancelled".to_owned(),
        other => format!("{other:?}"),
    }
}

impl Editor for First {
    async fn begin(&self, cwd: &Path) -> Result<String, Error> {
        let answer = self.connection.send_request(NewSessionRequest::new(cwd)).block_task().await?;
        Ok(answer.session_id.to_string())
    }

    async fn prompt(&self, session: &str, text: &str) -> Result<(String, Vec<Message>), Error> {
        let answer =
            self.connection.send_request(prompt(&SessionId::new(session), text)).block_task().await?;
        Ok((in_words(answer.stop_reason), self.log.take()))
    }

    async fn cancel(&self, session: &str, turn: &Exchange) -> Result<(String, Vec<Message>), Error> {
        let running = self.connection.send_request(prompt(&SessionId::new(session), turn.say));
        self.log.until_message(turn.answers).await;
        self.connection.send_notification(CancelNotification::new(SessionId::new(session)))?;
        let answer = running.block_task().await?;
        Ok((in_words(answer.stop_reason), self.log.take()))
    }

    fn permission_requests(&self) -> usize {
        self.log.permission_requests()
    }

    async fn replay(&self, session: &str, cwd: &Path) -> Result<Vec<Message>, Error> {
        let load = LoadSessionRequest::new(SessionId::new(session), cwd);
        self.connection.send_request(load).block_task().await?;
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
