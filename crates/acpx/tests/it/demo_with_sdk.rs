//! The demo agent against the official SDK as its client: a second reading of the protocol.

use std::sync::{Arc, Mutex};

use acpx_testkit::TempHome;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest, InitializeRequest,
    ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason, TextContent,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::demo_process::DemoProcess;
use crate::demo_restore::not_found;

/// What the client has been told, in words.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn in_words(update: &SessionUpdate) -> String {
    let text = |content: &ContentBlock| match content {
        ContentBlock::Text(text) => text.text.clone(),
        other => format!("{other:?}"),
    };
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

/// Runs `talk` as a client of a demo agent of its own. Permissions are allowed; every update is heard, and its
/// arrival is told on the channel.
async fn with_demo<T>(
    home: &TempHome,
    talk: impl AsyncFnOnce(ConnectionTo<Agent>, Heard, mpsc::Receiver<()>) -> Result<T, Error>,
) -> T {
    let (_process, sender, receiver) = DemoProcess::start(home, &[]);
    let heard = Heard::default();
    let listening = heard.clone();
    let (arrived, arrivals) = mpsc::channel(64);
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                listening.0.lock().unwrap().push(in_words(&notification.update));
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
            talk(connection, heard, arrivals).await
        })
        .await
        .unwrap()
}

fn prompt(session: &SessionId, text: &str) -> PromptRequest {
    PromptRequest::new(session.clone(), vec![ContentBlock::Text(TextContent::new(text))])
}

async fn initialized(connection: &ConnectionTo<Agent>) -> Result<(), Error> {
    let answer = connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
    assert_eq!(answer.protocol_version, ProtocolVersion::V1);
    assert!(answer.agent_capabilities.load_session);
    Ok(())
}

#[tokio::test]
async fn the_official_client_lives_a_whole_session_with_it() {
    let home = TempHome::new();
    let session = with_demo(&home, async |connection, heard, mut arrivals| {
        initialized(&connection).await?;
        let session = connection.send_request(NewSessionRequest::new("/work")).block_task().await?.session_id;

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
        assert_eq!(heard.take(), expected);

        connection.send_request(prompt(&session, "permission")).block_task().await?;
        let expected = [
            "tool call-2-1: Pending",
            "tool call-2-1: InProgress",
            "tool call-2-1: Completed",
            "agent: The edit was made.\n",
            "agent: You said: permission",
        ];
        assert_eq!(heard.take(), expected);

        while arrivals.try_recv().is_ok() {}
        let waiting = connection.send_request(prompt(&session, "wait"));
        arrivals.recv().await;
        connection.send_notification(CancelNotification::new(session.clone()))?;
        assert_eq!(waiting.block_task().await?.stop_reason, StopReason::Cancelled);
        assert_eq!(heard.take(), ["agent: Waiting until cancelled.\n"]);

        connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        Ok(session)
    })
    .await;

    with_demo(&home, async |connection, heard, _| {
        initialized(&connection).await?;
        let list = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        let rows: Vec<_> =
            list.sessions.iter().map(|row| (row.session_id.clone(), row.title.clone())).collect();
        assert_eq!(rows, [(session.clone(), Some("think plan tool".to_owned()))]);

        connection.send_request(ResumeSessionRequest::new(session.clone(), "/work")).block_task().await?;
        assert_eq!(heard.take(), Vec::<String>::new());

        connection.send_request(LoadSessionRequest::new(session.clone(), "/work")).block_task().await?;
        let replayed = heard.take();
        assert_eq!(replayed.len(), 16);
        assert_eq!(replayed.first().unwrap(), "user: think plan tool");
        assert_eq!(replayed.last().unwrap(), "agent: Waiting until cancelled.\n");

        connection.send_request(prompt(&session, "recall")).block_task().await?;
        let expected = ["agent: You said before:\n1. think plan tool\n2. permission\n3. wait"];
        assert_eq!(heard.take(), expected);

        connection.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
        let list = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(list.sessions, []);
        let gone =
            connection.send_request(LoadSessionRequest::new(session.clone(), "/work")).block_task().await;
        let unknown = serde_json::to_value(gone.unwrap_err()).unwrap();
        let data = not_found(&session.to_string());
        assert_eq!(unknown, json!({ "code": -32002, "message": "Resource not found", "data": data }));
        Ok(())
    })
    .await;
}
