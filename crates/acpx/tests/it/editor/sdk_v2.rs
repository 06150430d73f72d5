//! `acpx acp` against the official SDK as an editor of version 2, over the demo agent in either version.

use agent_client_protocol::schema::{MaybeUndefined, ProtocolVersion};
use agent_client_protocol::v2::ConnectionTo;
use agent_client_protocol::v2::schema::{
    CancelSessionNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest, Implementation,
    InitializeRequest, ListSessionsRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    ReplayFrom, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionConfigOptionValue, SessionId, SessionUpdate,
    SetSessionConfigOptionRequest, StateUpdate, TextContent, UpdateSessionNotification,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::acpx::Place;
use crate::demo_process::DemoProcess;

/// More updates than any test here hears before it listens.
const UPDATES: usize = 256;

/// What the editor is told, in words. What of a message belongs together is one.
struct Heard(mpsc::Receiver<String>);

impl Heard {
    /// Everything up to the update that is in these words, which comes last.
    async fn until(&mut self, last: &str) -> Vec<String> {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|words| words != last) {
            heard.push(self.0.recv().await.expect("it is said"));
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
        ContentBlock::Text(text) => text.text.trim_end().to_owned(),
        other => format!("{other:?}"),
    }
}

fn whole(content: &MaybeUndefined<Vec<ContentBlock>>) -> String {
    match content {
        MaybeUndefined::Value(blocks) => blocks.iter().map(text).collect(),
        other => format!("{other:?}"),
    }
}

fn in_words(update: &SessionUpdate) -> Option<String> {
    match update {
        SessionUpdate::UserMessage(message) => {
            Some(format!("user {} = {}", message.message_id, whole(&message.content)))
        }
        SessionUpdate::AgentMessage(message) => Some(format!("agent: {}", whole(&message.content))),
        SessionUpdate::AgentMessageChunk(chunk) => Some(format!("agent: {}", text(&chunk.content))),
        SessionUpdate::StateUpdate(StateUpdate::Running(_)) => Some("running".into()),
        SessionUpdate::StateUpdate(StateUpdate::RequiresAction(_)) => Some("requires action".into()),
        SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) => match &idle.stop_reason {
            None => Some("idle".into()),
            Some(reason) => Some(format!("idle: {reason:?}")),
        },
        _ => None,
    }
}

/// Runs `talk` as an editor that allows everything.
async fn as_editor<T>(
    place: &Place,
    arguments: &[&str],
    talk: impl AsyncFnOnce(ConnectionTo<Agent>, Heard) -> Result<T, Error>,
) -> T {
    let (_process, sender, receiver) = DemoProcess::of(place.command(arguments));
    let (told, heard) = mpsc::channel(UPDATES);
    Client
        .v2()
        .on_receive_notification(
            async move |notification: UpdateSessionNotification, _| match in_words(&notification.update) {
                Some(words) => told.try_send(words).map_err(Error::into_internal_error),
                None => Ok(()),
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
            let request = InitializeRequest::new(ProtocolVersion::V2, Implementation::new("sdk", "5"));
            let answer = connection.send_request(request).block_task().await?;
            assert_eq!(answer.protocol_version, ProtocolVersion::V2);
            assert!(answer.capabilities.session.is_some_and(|session| session.delete.is_some()));
            talk(connection, Heard(heard)).await
        })
        .await
        .unwrap()
}

/// Prompts; the id of the message.
async fn prompt(connection: &ConnectionTo<Agent>, session: &SessionId, words: &str) -> Result<String, Error> {
    let blocks = vec![ContentBlock::Text(TextContent::new(words))];
    let request = PromptRequest::new(session.clone(), blocks);
    Ok(connection.send_request(request).block_task().await?.message_id.to_string())
}

async fn lives_a_whole_session(arguments: &[&str]) {
    let place = Place::new();
    let cwd = place.work();
    let session = as_editor(&place, arguments, async |connection, mut heard| {
        let new = connection.send_request(NewSessionRequest::new(&cwd)).block_task().await?;
        let session = new.session_id;
        let message = prompt(&connection, &session, "hello").await?;
        let told = heard.until("idle: EndTurn").await;
        assert!(told.contains(&format!("user {message} = hello")), "{told:?}");
        assert!(told.contains(&"running".to_owned()) && told.contains(&"agent: You said: hello".to_owned()));

        prompt(&connection, &session, "permission").await?;
        let told = heard.until("idle: EndTurn").await;
        assert!(told.contains(&"agent: The edit was made.".to_owned()), "{told:?}");

        prompt(&connection, &session, "wait").await?;
        heard.until("agent: Waiting until cancelled.").await;
        connection.send_notification(CancelSessionNotification::new(session.clone()))?;
        heard.until("idle: Cancelled").await;

        let option = new.config_options[0].config_id.clone();
        let value = SessionConfigOptionValue::Id { value: "code".into() };
        let set = SetSessionConfigOptionRequest::new(session.clone(), option, value);
        let options = connection.send_request(set).block_task().await?.config_options;
        assert_eq!(serde_json::to_value(&options[0]).unwrap()["currentValue"], "code");
        Ok(session)
    })
    .await;
    as_editor(&place, arguments, async |connection, mut heard| {
        let from = serde_json::from_value::<ReplayFrom>(json!({ "type": "start" })).unwrap();
        let resume = || ResumeSessionRequest::new(session.clone(), &cwd);
        let answer = connection.send_request(resume().replay_from(from)).block_task().await?;
        let told = heard.take();
        let expected = [
            format!("user {session}:turn:1 = hello"),
            "agent: You said: hello".to_owned(),
            format!("user {session}:turn:2 = permission"),
            "agent: The edit was made.\nYou said: permission".to_owned(),
            format!("user {session}:turn:3 = wait"),
            "agent: Waiting until cancelled.".to_owned(),
            "idle".to_owned(),
        ];
        assert_eq!(told, expected);
        assert_eq!(serde_json::to_value(&answer.config_options[0]).unwrap()["currentValue"], "code");

        let listed = connection.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(listed.sessions.iter().map(|row| &row.session_id).collect::<Vec<_>>(), [&session]);
        prompt(&connection, &session, "wait").await?;
        heard.until("agent: Waiting until cancelled.").await;
        connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        assert_eq!(heard.take(), ["idle: Cancelled"]);
        connection.send_request(resume()).block_task().await?;
        // An agent of version 2 that is restored says so itself, too.
        let told = heard.take();
        assert!(!told.is_empty() && told.iter().all(|words| words == "idle"), "{told:?}");
        connection.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
        let gone = connection.send_request(resume()).block_task().await.unwrap_err();
        assert_eq!(i32::from(gone.code), -32002);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn official_v2_client_uses_every_session_method_with_a_v1_agent() {
    lives_a_whole_session(&["demo", "acp"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn official_v2_client_uses_every_session_method_with_a_v2_agent() {
    lives_a_whole_session(&["--protocol", "2", "demo", "acp"]).await;
}
