//! `acpx acp` against the official SDK as an editor of version 2, over the demo agent in either version.

use acpx_testkit::sdk::v2::{Updates, allow_once, connect, message_text, prompt, text};
use agent_client_protocol::v2::schema::{
    CancelSessionNotification, CloseSessionRequest, DeleteSessionRequest, ListSessionsRequest,
    NewSessionRequest, ReplayFrom, RequestPermissionRequest, ResumeSessionRequest, SessionConfigOptionValue,
    SessionUpdate, SetSessionConfigOptionRequest, StateUpdate, UpdateSessionNotification,
};
use agent_client_protocol::v2::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, ByteStreams, Error};
use serde_json::json;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::acpx::Place;
use crate::demo_process::DemoProcess;

fn line(update: &SessionUpdate) -> Option<String> {
    match update {
        SessionUpdate::UserMessage(message) => {
            Some(format!("user {} = {}", message.message_id, message_text(&message.content).trim_end()))
        }
        SessionUpdate::AgentMessage(message) => {
            Some(format!("agent: {}", message_text(&message.content).trim_end()))
        }
        SessionUpdate::AgentMessageChunk(chunk) => {
            Some(format!("agent: {}", text(&chunk.content).trim_end()))
        }
        SessionUpdate::StateUpdate(StateUpdate::Running(_)) => Some("running".into()),
        SessionUpdate::StateUpdate(StateUpdate::RequiresAction(_)) => Some("requires action".into()),
        SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) => match &idle.stop_reason {
            None => Some("idle".into()),
            Some(reason) => Some(format!("idle: {reason:?}")),
        },
        _ => None,
    }
}

/// Runs a conversation as an editor that approves everything.
async fn as_editor<T>(
    place: &Place,
    arguments: &[&str],
    conversation: impl AsyncFnOnce(ConnectionTo<Agent>, Updates) -> Result<T, Error>,
) -> T {
    let (_process, sender, receiver) = DemoProcess::of(place.command(arguments));
    let (mut push, updates) = Updates::new();
    let on_update =
        move |notification: UpdateSessionNotification| line(&notification.update).map_or(Ok(()), &mut push);
    let on_permission = |request: RequestPermissionRequest, responder: Responder<_>| {
        assert_eq!(request.title, "Edit notes.txt");
        allow_once(request, responder)
    };
    let transport = ByteStreams::new(sender.compat_write(), receiver.compat());
    connect(transport, on_update, on_permission, async |connection| conversation(connection, updates).await)
        .await
        .unwrap()
}

async fn run_session(arguments: &[&str]) {
    let place = Place::new();
    let cwd = place.work();
    let session = as_editor(&place, arguments, async |connection, mut updates| {
        let new = connection.send_request(NewSessionRequest::new(&cwd)).block_task().await?;
        let session = new.session_id;
        let message = prompt(&connection, &session, "hello").await?;
        let lines = updates.until("idle: EndTurn").await;
        assert!(lines.contains(&format!("user {message} = hello")), "{lines:?}");
        assert!(
            lines.contains(&"running".to_owned()) && lines.contains(&"agent: You said: hello".to_owned())
        );

        prompt(&connection, &session, "permission").await?;
        let lines = updates.until("idle: EndTurn").await;
        assert!(lines.contains(&"agent: The edit was made.".to_owned()), "{lines:?}");

        prompt(&connection, &session, "wait").await?;
        updates.until("agent: Waiting until cancelled.").await;
        connection.send_notification(CancelSessionNotification::new(session.clone()))?;
        updates.until("idle: Cancelled").await;

        let option = new.config_options[0].config_id.clone();
        let value = SessionConfigOptionValue::Id { value: "code".into() };
        let set = SetSessionConfigOptionRequest::new(session.clone(), option, value);
        let options = connection.send_request(set).block_task().await?.config_options;
        assert_eq!(serde_json::to_value(&options[0]).unwrap()["currentValue"], "code");
        Ok(session)
    })
    .await;
    as_editor(&place, arguments, async |connection, mut updates| {
        let from = serde_json::from_value::<ReplayFrom>(json!({ "type": "start" })).unwrap();
        let resume = || ResumeSessionRequest::new(session.clone(), &cwd);
        let answer = connection.send_request(resume().replay_from(from)).block_task().await?;
        let lines = updates.take();
        let expected = [
            format!("user {session}:turn:1 = hello"),
            "agent: You said: hello".to_owned(),
            format!("user {session}:turn:2 = permission"),
            "agent: The edit was made.\nYou said: permission".to_owned(),
            format!("user {session}:turn:3 = wait"),
            "agent: Waiting until cancelled.".to_owned(),
            "idle".to_owned(),
        ];
        assert_eq!(lines, expected);
        assert_eq!(serde_json::to_value(&answer.config_options[0]).unwrap()["currentValue"], "code");

        let listed = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(listed.sessions.iter().map(|row| &row.session_id).collect::<Vec<_>>(), [&session]);
        prompt(&connection, &session, "wait").await?;
        updates.until("agent: Waiting until cancelled.").await;
        connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        assert_eq!(updates.take(), ["idle: Cancelled"]);
        connection.send_request(resume()).block_task().await?;
        // An agent of version 2 that is restored says so itself, too.
        let lines = updates.take();
        assert!(!lines.is_empty() && lines.iter().all(|words| words == "idle"), "{lines:?}");
        connection.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
        let gone = connection.send_request(resume()).block_task().await.unwrap_err();
        assert_eq!(i32::from(gone.code), -32002);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn official_v2_client_uses_every_session_method_with_a_v1_agent() {
    run_session(&["demo", "acp"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn official_v2_client_uses_every_session_method_with_a_v2_agent() {
    run_session(&["--protocol", "2", "demo", "acp"]).await;
}
