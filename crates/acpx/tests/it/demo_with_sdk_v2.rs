//! The demo agent against the official SDK as its client of version 2: a second reading of the draft.

use acpx_testkit::TempHome;
use acpx_testkit::sdk::v2::{Updates, allow_once, connect, message_text, prompt, text};
use agent_client_protocol::schema::MaybeUndefined;
use agent_client_protocol::v2::schema::{
    CancelSessionNotification, CloseSessionRequest, DeleteSessionRequest, ListSessionsRequest,
    NewSessionRequest, ReplayFrom, RequestPermissionRequest, ResumeSessionRequest, SessionConfigOptionValue,
    SessionInfo, SessionUpdate, SetSessionConfigOptionRequest, StateUpdate, StopReason,
    UpdateSessionNotification,
};
use agent_client_protocol::v2::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, ByteStreams, Error};
use serde_json::json;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::demo_process::DemoProcess;
use crate::demo_restore::not_found;

fn line(update: &SessionUpdate) -> String {
    match update {
        SessionUpdate::UserMessage(message) => {
            format!("{} = {}", message.message_id, message_text(&message.content))
        }
        SessionUpdate::AgentMessage(message) => {
            format!("{} = {}", message.message_id, message_text(&message.content))
        }
        SessionUpdate::AgentThought(message) => {
            format!("{} = {}", message.message_id, message_text(&message.content))
        }
        SessionUpdate::UserMessageChunk(chunk)
        | SessionUpdate::AgentMessageChunk(chunk)
        | SessionUpdate::AgentThoughtChunk(chunk) => {
            format!("{} + {}", chunk.message_id, text(&chunk.content))
        }
        SessionUpdate::ToolCallUpdate(call) => match &call.status {
            MaybeUndefined::Value(status) => format!("{}: {status:?}", call.tool_call_id),
            _ => format!("{} begins", call.tool_call_id),
        },
        SessionUpdate::PlanUpdate(_) => "plan".into(),
        SessionUpdate::StateUpdate(StateUpdate::Running(_)) => "running".into(),
        SessionUpdate::StateUpdate(StateUpdate::RequiresAction(_)) => "requires action".into(),
        SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) => match &idle.stop_reason {
            None => "idle".into(),
            Some(StopReason::Error(error)) => {
                format!("idle: error {}", error.error.as_ref().map_or(0, |error| i32::from(error.code)))
            }
            Some(reason) => format!("idle: {reason:?}"),
        },
        other => format!("{other:?}"),
    }
}

/// Runs a conversation with a new demo agent. Permissions are approved.
async fn with_demo<T>(
    home: &TempHome,
    conversation: impl AsyncFnOnce(ConnectionTo<Agent>, Updates) -> Result<T, Error>,
) -> T {
    let (_process, sender, receiver) = DemoProcess::start(home, &[]);
    let (mut push, updates) = Updates::new();
    let on_update = move |notification: UpdateSessionNotification| push(line(&notification.update));
    let on_permission = |request: RequestPermissionRequest, responder: Responder<_>| {
        assert_eq!(request.title, "Edit notes.txt");
        allow_once(request, responder)
    };
    let transport = ByteStreams::new(sender.compat_write(), receiver.compat());
    connect(transport, on_update, on_permission, async |connection| conversation(connection, updates).await)
        .await
        .unwrap()
}

#[tokio::test]
async fn official_v2_client_prompts_permits_cancels_sets_and_closes() {
    let home = TempHome::new();
    with_demo(&home, async |connection, mut updates| {
        let new = connection.send_request(NewSessionRequest::new("/project")).block_task().await?;
        let session = new.session_id;

        assert_eq!(prompt(&connection, &session, "think permission").await?, "user-1");
        let expected = [
            "user-1 = think permission",
            "running",
            "agent-1-1 + Thinking about: think permission",
            "call-1-1 begins",
            "requires action",
            "running",
            "call-1-1: InProgress",
            "call-1-1: Completed",
            "agent-1-2 + The edit was made.\n",
            "agent-1-2 + You said: think permission",
            "idle: EndTurn",
        ];
        assert_eq!(updates.until("idle: EndTurn").await, expected);

        assert_eq!(prompt(&connection, &session, "fail").await?, "user-2");
        let failed = "idle: error -32603";
        assert_eq!(updates.until(failed).await, ["user-2 = fail", "running", failed]);

        prompt(&connection, &session, "wait").await?;
        updates.until("agent-3-1 + Waiting until cancelled.\n").await;
        connection.send_notification(CancelSessionNotification::new(session.clone()))?;
        assert_eq!(updates.until("idle: Cancelled").await, ["idle: Cancelled"]);

        let option = new.config_options[0].config_id.clone();
        let value = SessionConfigOptionValue::Id { value: "code".into() };
        let set = SetSessionConfigOptionRequest::new(session.clone(), option, value);
        let options = connection.send_request(set).block_task().await?.config_options;
        assert_eq!(serde_json::to_value(&options[0]).unwrap()["currentValue"], "code");

        prompt(&connection, &session, "wait").await?;
        updates.until("agent-4-1 + Waiting until cancelled.\n").await;
        connection.send_request(CloseSessionRequest::new(session)).block_task().await?;
        assert_eq!(updates.take(), ["idle: Cancelled"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn official_v2_client_lists_resumes_replays_and_deletes() {
    let home = TempHome::new();
    let session = with_demo(&home, async |connection, mut updates| {
        let session =
            connection.send_request(NewSessionRequest::new("/project")).block_task().await?.session_id;
        prompt(&connection, &session, "think tool mode code").await?;
        updates.until("idle: EndTurn").await;
        Ok(session)
    })
    .await;

    with_demo(&home, async |connection, mut updates| {
        let list = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        let row = |row: &SessionInfo| (row.session_id.clone(), row.title.clone());
        let rows: Vec<_> = list.sessions.iter().map(row).collect();
        assert_eq!(rows, [(session.clone(), Some("think tool mode code".to_owned()))]);

        let resume = || ResumeSessionRequest::new(session.clone(), "/project");
        let silent = connection.send_request(resume()).block_task().await?;
        assert_eq!(updates.take(), ["idle"]);
        assert_eq!(serde_json::to_value(&silent.config_options[0]).unwrap()["currentValue"], "code");

        let from = |kind: &str| serde_json::from_value::<ReplayFrom>(json!({ "type": kind })).unwrap();
        connection.send_request(resume().replay_from(from("start"))).block_task().await?;
        let expected = [
            "user-1 = ",
            "user-1 + think tool mode code",
            "agent-1-1 = ",
            "agent-1-1 + Thinking about: think tool mode code",
            "call-1-1 begins",
            "call-1-1: InProgress",
            "call-1-1: Completed",
            "agent-1-2 = ",
            "agent-1-2 + You said: think tool mode code",
            "idle",
        ];
        assert_eq!(updates.take(), expected);

        let refused = connection.send_request(resume().replay_from(from("_elsewhere"))).block_task().await;
        let refused = serde_json::to_value(refused.unwrap_err()).unwrap();
        assert_eq!((&refused["code"], &refused["data"]["field"]), (&json!(-32602), &json!("replayFrom")));

        connection.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
        let gone = connection.send_request(resume()).block_task().await;
        let unknown = serde_json::to_value(gone.unwrap_err()).unwrap();
        let data = not_found(&session.to_string());
        assert_eq!(unknown, json!({ "code": -32002, "message": "Resource not found", "data": data }));
        Ok(())
    })
    .await;
}
