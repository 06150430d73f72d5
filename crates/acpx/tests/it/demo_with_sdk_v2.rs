//! The demo agent against the official SDK as its client of version 2: a second reading of the draft.

use acpx_testkit::TempHome;
use agent_client_protocol::schema::{MaybeUndefined, ProtocolVersion};
use agent_client_protocol::v2::ConnectionTo;
use agent_client_protocol::v2::schema::{
    CancelSessionNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest, Implementation,
    InitializeRequest, ListSessionsRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    ReplayFrom, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionConfigOptionValue, SessionId, SessionInfo,
    SessionUpdate, SetSessionConfigOptionRequest, StateUpdate, StopReason, TextContent,
    UpdateSessionNotification,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::demo_process::DemoProcess;
use crate::demo_restore::not_found;

/// More updates than any test here hears before it listens.
const UPDATES: usize = 256;

/// What the client is told, in words.
struct Heard(mpsc::Receiver<String>);

impl Heard {
    /// Everything up to the update that is in these words, which comes last.
    async fn until(&mut self, last: &str) -> Vec<String> {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|words| words != last) {
            heard.push(self.0.recv().await.expect("the agent says it"));
        }
        heard
    }

    /// What has been heard already.
    fn take(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

fn text(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        other => format!("{other:?}"),
    }
}

fn whole(content: &MaybeUndefined<Vec<ContentBlock>>) -> String {
    match content {
        MaybeUndefined::Value(blocks) => blocks.iter().map(text).collect(),
        other => format!("{other:?}"),
    }
}

fn in_words(update: &SessionUpdate) -> String {
    match update {
        SessionUpdate::UserMessage(message) => {
            format!("{} = {}", message.message_id, whole(&message.content))
        }
        SessionUpdate::AgentMessage(message) => {
            format!("{} = {}", message.message_id, whole(&message.content))
        }
        SessionUpdate::AgentThought(message) => {
            format!("{} = {}", message.message_id, whole(&message.content))
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

/// Runs `talk` as a client of a demo agent of its own. Permissions are allowed.
async fn with_demo<T>(
    home: &TempHome,
    talk: impl AsyncFnOnce(ConnectionTo<Agent>, Heard) -> Result<T, Error>,
) -> T {
    let (_process, sender, receiver) = DemoProcess::start(home, &[]);
    let (told, heard) = mpsc::channel(UPDATES);
    Client
        .v2()
        .on_receive_notification(
            async move |notification: UpdateSessionNotification, _| {
                told.try_send(in_words(&notification.update)).map_err(Error::into_internal_error)
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                assert_eq!(request.title, "Edit notes.txt");
                let allow =
                    request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
                let selected = SelectedPermissionOutcome::new(allow.unwrap().option_id.clone());
                responder
                    .respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(selected)))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(ByteStreams::new(sender.compat_write(), receiver.compat()), async move |connection| {
            initialized(&connection).await?;
            talk(connection, Heard(heard)).await
        })
        .await
        .unwrap()
}

async fn initialized(connection: &ConnectionTo<Agent>) -> Result<(), Error> {
    let request = InitializeRequest::new(ProtocolVersion::V2, Implementation::new("sdk", "5"));
    let answer = connection.send_request(request).block_task().await?;
    assert_eq!(answer.protocol_version, ProtocolVersion::V2);
    assert!(answer.capabilities.session.is_some_and(|session| session.delete.is_some()));
    Ok(())
}

fn prompt(session: &SessionId, text: &str) -> PromptRequest {
    PromptRequest::new(session.clone(), vec![ContentBlock::Text(TextContent::new(text))])
}

async fn inserted(connection: &ConnectionTo<Agent>, prompt: PromptRequest) -> Result<String, Error> {
    Ok(connection.send_request(prompt).block_task().await?.message_id.to_string())
}

#[tokio::test]
async fn the_official_client_of_version_2_prompts_permits_cancels_sets_and_closes() {
    let home = TempHome::new();
    with_demo(&home, async |connection, mut heard| {
        let new = connection.send_request(NewSessionRequest::new("/work")).block_task().await?;
        let session = new.session_id;

        assert_eq!(inserted(&connection, prompt(&session, "think permission")).await?, "user-1");
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
        assert_eq!(heard.until("idle: EndTurn").await, expected);

        assert_eq!(inserted(&connection, prompt(&session, "fail")).await?, "user-2");
        let failed = "idle: error -32603";
        assert_eq!(heard.until(failed).await, ["user-2 = fail", "running", failed]);

        inserted(&connection, prompt(&session, "wait")).await?;
        heard.until("agent-3-1 + Waiting until cancelled.\n").await;
        connection.send_notification(CancelSessionNotification::new(session.clone()))?;
        assert_eq!(heard.until("idle: Cancelled").await, ["idle: Cancelled"]);

        let option = new.config_options[0].config_id.clone();
        let value = SessionConfigOptionValue::Id { value: "code".into() };
        let set = SetSessionConfigOptionRequest::new(session.clone(), option, value);
        let options = connection.send_request(set).block_task().await?.config_options;
        assert_eq!(serde_json::to_value(&options[0]).unwrap()["currentValue"], "code");

        inserted(&connection, prompt(&session, "wait")).await?;
        heard.until("agent-4-1 + Waiting until cancelled.\n").await;
        connection.send_request(CloseSessionRequest::new(session)).block_task().await?;
        assert_eq!(heard.take(), ["idle: Cancelled"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_official_client_of_version_2_lists_resumes_replays_and_deletes() {
    let home = TempHome::new();
    let session = with_demo(&home, async |connection, mut heard| {
        let session = connection.send_request(NewSessionRequest::new("/work")).block_task().await?.session_id;
        inserted(&connection, prompt(&session, "think tool mode code")).await?;
        heard.until("idle: EndTurn").await;
        Ok(session)
    })
    .await;

    with_demo(&home, async |connection, mut heard| {
        let list = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        let row = |row: &SessionInfo| (row.session_id.clone(), row.title.clone());
        let rows: Vec<_> = list.sessions.iter().map(row).collect();
        assert_eq!(rows, [(session.clone(), Some("think tool mode code".to_owned()))]);

        let resume = || ResumeSessionRequest::new(session.clone(), "/work");
        let silent = connection.send_request(resume()).block_task().await?;
        assert_eq!(heard.take(), ["idle"]);
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
        assert_eq!(heard.take(), expected);

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
