//! The demo agent against the official SDK as its client: a second reading of the protocol.

use std::sync::{Arc, Mutex};

use acpx_testkit::TempHome;
use acpx_testkit::sdk::v1::{allow_once, connect, prompt, text};
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, DeleteSessionRequest, ListSessionsRequest, LoadSessionRequest,
    NewSessionRequest, ResumeSessionRequest, SessionNotification, SessionUpdate, StopReason,
};
use agent_client_protocol::{Agent, ByteStreams, Error};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::demo_process::DemoProcess;
use crate::demo_restore::not_found;

/// The received updates, each as one line of text.
#[derive(Clone, Default)]
struct Updates(Arc<Mutex<Vec<String>>>);

impl Updates {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn line(update: &SessionUpdate) -> String {
    match update {
        SessionUpdate::UserMessageChunk(chunk) => format!("user: {}", text(&chunk.content)),
        SessionUpdate::AgentMessageChunk(chunk) => format!("agent: {}", text(&chunk.content)),
        SessionUpdate::AgentThoughtChunk(chunk) => format!("thought: {}", text(&chunk.content)),
        SessionUpdate::ToolCall(call) => format!("tool {}: {:?}", call.tool_call_id, call.status),
        SessionUpdate::ToolCallUpdate(update) => {
            format!("tool {}: {:?}", update.tool_call_id, update.fields.status.unwrap_or_default())
        }
        SessionUpdate::Plan(plan) => format!("plan of {}", plan.entries.len()),
        other => format!("{other:?}"),
    }
}

/// Runs a conversation with a new demo agent. Permissions are approved; the channel signals each update.
async fn with_demo<T>(
    home: &TempHome,
    conversation: impl AsyncFnOnce(ConnectionTo<Agent>, Updates, mpsc::Receiver<()>) -> Result<T, Error>,
) -> T {
    let (_process, sender, receiver) = DemoProcess::start(home, &[]);
    let updates = Updates::default();
    let log = updates.clone();
    let (arrived, arrivals) = mpsc::channel(64);
    let on_update = move |notification: SessionNotification| {
        log.0.lock().unwrap().push(line(&notification.update));
        arrived.try_send(()).ok();
        Ok(())
    };
    let transport = ByteStreams::new(sender.compat_write(), receiver.compat());
    connect(transport, on_update, allow_once, async |connection| {
        conversation(connection, updates, arrivals).await
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn official_client_runs_a_session_with_the_demo_agent() {
    let home = TempHome::new();
    let session = with_demo(&home, async |connection, updates, mut arrivals| {
        let session =
            connection.send_request(NewSessionRequest::new("/project")).block_task().await?.session_id;

        let answer = connection.send_request(prompt(&session, "think plan tool")).block_task().await?;
        assert_eq!(answer.stop_reason, StopReason::EndTurn);
        let expected = [
            "thought: Thinking about: think plan tool",
            "plan of 2",
            "plan of 2",
            "tool call-1-1: Pending",
            "tool call-1-1: InProgress",
            "tool call-1-1: Completed",
            "agent: You said: think plan tool",
        ];
        assert_eq!(updates.take(), expected);

        connection.send_request(prompt(&session, "permission")).block_task().await?;
        let expected = [
            "tool call-2-1: Pending",
            "tool call-2-1: InProgress",
            "tool call-2-1: Completed",
            "agent: The edit was made.\n",
            "agent: You said: permission",
        ];
        assert_eq!(updates.take(), expected);

        while arrivals.try_recv().is_ok() {}
        let waiting = connection.send_request(prompt(&session, "wait"));
        arrivals.recv().await;
        connection.send_notification(CancelNotification::new(session.clone()))?;
        assert_eq!(waiting.block_task().await?.stop_reason, StopReason::Cancelled);
        assert_eq!(updates.take(), ["agent: Waiting until cancelled.\n"]);

        connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        Ok(session)
    })
    .await;

    with_demo(&home, async |connection, updates, _| {
        let list = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        let rows: Vec<_> =
            list.sessions.iter().map(|row| (row.session_id.clone(), row.title.clone())).collect();
        assert_eq!(rows, [(session.clone(), Some("think plan tool".to_owned()))]);

        connection.send_request(ResumeSessionRequest::new(session.clone(), "/project")).block_task().await?;
        assert_eq!(updates.take(), Vec::<String>::new());

        connection.send_request(LoadSessionRequest::new(session.clone(), "/project")).block_task().await?;
        let replayed = updates.take();
        assert_eq!(replayed.len(), 16);
        assert_eq!(replayed.first().unwrap(), "user: think plan tool");
        assert_eq!(replayed.last().unwrap(), "agent: Waiting until cancelled.\n");

        connection.send_request(prompt(&session, "recall")).block_task().await?;
        let expected = ["agent: You said before:\n1. think plan tool\n2. permission\n3. wait"];
        assert_eq!(updates.take(), expected);

        connection.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
        let list = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(list.sessions, []);
        let gone =
            connection.send_request(LoadSessionRequest::new(session.clone(), "/project")).block_task().await;
        let unknown = serde_json::to_value(gone.unwrap_err()).unwrap();
        let data = not_found(&session.to_string());
        assert_eq!(unknown, json!({ "code": -32002, "message": "Resource not found", "data": data }));
        Ok(())
    })
    .await;
}
