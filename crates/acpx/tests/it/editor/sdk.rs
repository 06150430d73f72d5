//! `acpx acp` against the official SDK as the editor, over the demo agent in either version: a second reading of the
//! protocol.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest, InitializeRequest,
    ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason, TextContent,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error};
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::acpx::Place;
use crate::demo_process::DemoProcess;

/// What the editor has been told, in words.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn in_words(update: &SessionUpdate) -> Option<String> {
    let text = |content: &ContentBlock| match content {
        ContentBlock::Text(text) => text.text.trim_end().to_owned(),
        other => format!("{other:?}"),
    };
    match update {
        SessionUpdate::UserMessageChunk(chunk) => Some(format!("user: {}", text(&chunk.content))),
        SessionUpdate::AgentMessageChunk(chunk) => Some(format!("agent: {}", text(&chunk.content))),
        _ => None,
    }
}

/// Runs `talk` as an editor that allows everything. Every update is heard, and its arrival is told on the channel.
async fn as_editor<T>(
    place: &Place,
    agent: &[&str],
    talk: impl AsyncFnOnce(ConnectionTo<Agent>, Heard, mpsc::Receiver<()>) -> Result<T, Error>,
) -> T {
    let (_process, sender, receiver) = DemoProcess::of(place.command(agent));
    let heard = Heard::default();
    let listening = heard.clone();
    let (arrived, arrivals) = mpsc::channel(64);
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                listening.0.lock().unwrap().extend(in_words(&notification.update));
                arrived.try_send(()).ok();
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let allow =
                    request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
                let selected = SelectedPermissionOutcome::new(allow.unwrap().option_id.clone());
                responder
                    .respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(selected)))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(ByteStreams::new(sender.compat_write(), receiver.compat()), async move |connection| {
            connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            talk(connection, heard, arrivals).await
        })
        .await
        .unwrap()
}

fn prompt(session: &SessionId, text: &str) -> PromptRequest {
    PromptRequest::new(session.clone(), vec![ContentBlock::Text(TextContent::new(text))])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_does_everything_with_sessions_of_an_agent_of_version_1() {
    lives_a_whole_session(&["demo", "acp"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_does_everything_with_sessions_of_an_agent_of_version_2() {
    lives_a_whole_session(&["--protocol", "2", "demo", "acp"]).await;
}

async fn lives_a_whole_session(agent: &[&str]) {
    let place = Place::new();
    let cwd = place.work();
    let session = as_editor(&place, agent, async |connection, heard, mut arrivals| {
        let new = connection.send_request(NewSessionRequest::new(&cwd)).block_task().await?;
        let session = new.session_id;
        let answer = connection.send_request(prompt(&session, "hello")).block_task().await?;
        assert_eq!(answer.stop_reason, StopReason::EndTurn);
        assert_eq!(heard.take(), ["agent: You said: hello"]);
        connection.send_request(prompt(&session, "permission")).block_task().await?;
        heard.take();
        while arrivals.try_recv().is_ok() {}
        let turn = connection.send_request(prompt(&session, "wait"));
        arrivals.recv().await;
        connection.send_notification(CancelNotification::new(session.clone()))?;
        assert_eq!(turn.block_task().await?.stop_reason, StopReason::Cancelled);
        Ok(session)
    })
    .await;
    as_editor(&place, agent, async |connection, heard, _| {
        let load = LoadSessionRequest::new(session.clone(), &cwd);
        connection.send_request(load).block_task().await?;
        let told = heard.take();
        assert_eq!(told[..2], ["user: hello", "agent: You said: hello"], "{told:?}");
        let listed = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(listed.sessions.iter().map(|row| &row.session_id).collect::<Vec<_>>(), [&session]);
        connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        connection.send_request(ResumeSessionRequest::new(session.clone(), &cwd)).block_task().await?;
        assert_eq!(heard.take(), [""; 0]);
        connection.send_request(prompt(&session, "again")).block_task().await?;
        assert_eq!(heard.take(), ["agent: You said: again"]);
        connection.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
        let listed = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(listed.sessions, []);
        Ok(())
    })
    .await;
}
