//! The same agent in version 2 of the protocol: it answers a prompt when it has taken it in, says by its state when it
//! is done, and replays when it is asked to.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v2::schema::{
    AbsolutePath, AgentCapabilities, AgentMessage, CancelSessionNotification, CloseSessionRequest,
    CloseSessionResponse, ContentBlock, ContentChunk, DeleteSessionRequest, DeleteSessionResponse,
    Error as SchemaError, IdleStateUpdate, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, ListSessionsResponse, NewSessionRequest, NewSessionResponse, PermissionOption,
    PermissionOptionKind, PromptRequest, PromptResponse, ReplayFrom, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionSubject, RequiresActionStateUpdate, ResumeSessionRequest,
    ResumeSessionResponse, RunningStateUpdate, SessionCapabilities, SessionDeleteCapabilities, SessionId,
    SessionInfo, SessionUpdate, StateUpdate, StopReason, ToolCallPermissionSubject, ToolCallUpdate, ToolKind,
    UpdateSessionNotification, UserMessage,
};
use agent_client_protocol::v2::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, ConnectTo, Error, on_receive_notification, on_receive_request};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// An agent that echoes. Any number of values are the same agent.
#[derive(Clone)]
pub(crate) struct SdkAgent(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    cancels: watch::Sender<u64>,
}

/// One session as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    cwd: AbsolutePath,
    /// The ids and the texts of a prompt and its reply.
    exchanges: Vec<[String; 4]>,
}

impl SdkAgent {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(Arc::new(Inner { directory, cancels: watch::Sender::new(0) }))
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        self.0.directory.join(format!("{session}.json"))
    }

    fn read(&self, session: &SessionId) -> Result<Kept, Error> {
        let unknown = |_| SchemaError::session_not_found(session.clone());
        let text = fs::read_to_string(self.path(session)).map_err(unknown)?;
        serde_json::from_str(&text).map_err(Error::into_internal_error)
    }

    fn write(&self, session: &SessionId, kept: &Kept) -> Result<(), Error> {
        let text = serde_json::to_string(kept).map_err(Error::into_internal_error)?;
        fs::write(self.path(session), text).map_err(Error::into_internal_error)
    }

    fn new_session(&self, request: NewSessionRequest) -> Result<NewSessionResponse, Error> {
        let session = SessionId::new(uuid::Uuid::now_v7().to_string());
        self.write(&session, &Kept { cwd: request.cwd, exchanges: Vec::new() })?;
        Ok(NewSessionResponse::new(session))
    }

    /// Replays if it is asked to, says that it is idle, and only then lets the request be answered.
    fn resume(
        &self,
        request: &ResumeSessionRequest,
        client: &ConnectionTo<Client>,
    ) -> Result<ResumeSessionResponse, Error> {
        let session = &request.session_id;
        let kept = self.read(session)?;
        if kept.cwd != request.cwd {
            return Err(Error::invalid_params().data("the session has another working directory"));
        }
        let replayed = match &request.replay_from {
            None => Vec::new(),
            Some(ReplayFrom::Start(_)) => kept.exchanges,
            Some(_) => return Err(Error::invalid_params().data("unsupported replay cursor")),
        };
        for [user, prompt, agent, reply] in replayed {
            tell(client, session, user_message(user, prompt))?;
            tell(client, session, agent_message(agent, reply))?;
        }
        tell(client, session, idle(None))?;
        Ok(ResumeSessionResponse::new())
    }

    fn list(&self) -> Result<ListSessionsResponse, Error> {
        let mut sessions = Vec::new();
        for entry in fs::read_dir(&self.0.directory).map_err(Error::into_internal_error)? {
            let path = entry.map_err(Error::into_internal_error)?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            let session = SessionId::new(name.to_owned());
            let kept = self.read(&session)?;
            sessions.push(SessionInfo::new(session, kept.cwd));
        }
        Ok(ListSessionsResponse::new(sessions))
    }

    fn delete(&self, session: &SessionId) -> Result<DeleteSessionResponse, Error> {
        fs::remove_file(self.path(session)).map_err(Error::into_internal_error)?;
        Ok(DeleteSessionResponse::new())
    }

    /// The work that a prompt makes, after it was answered.
    async fn work(
        self,
        request: PromptRequest,
        user: String,
        client: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let session = &request.session_id;
        let mut cancels = self.0.cancels.subscribe();
        let text: String = request.prompt.iter().filter_map(text_of).collect();
        tell(&client, session, user_message(user.clone(), text.clone()))?;
        tell(&client, session, SessionUpdate::StateUpdate(StateUpdate::Running(RunningStateUpdate::new())))?;
        let mut kept = self.read(session)?;
        let (reply, reason) = match text.as_str() {
            "permission" => (ask(session, &client).await?, StopReason::EndTurn),
            "wait" => ("waiting".to_owned(), StopReason::Cancelled),
            "recall" => {
                let prompts: Vec<_> = kept.exchanges.iter().map(|[_, prompt, ..]| prompt.as_str()).collect();
                (prompts.join(", "), StopReason::EndTurn)
            }
            text => (format!("You said: {text}"), StopReason::EndTurn),
        };
        let agent = uuid::Uuid::now_v7().to_string();
        // Once in pieces, and then whole: the second takes the place of the first.
        let chunk = ContentChunk::new(reply.clone().into(), agent.clone());
        tell(&client, session, SessionUpdate::AgentMessageChunk(chunk))?;
        tell(&client, session, agent_message(agent.clone(), reply.clone()))?;
        if reason == StopReason::Cancelled {
            cancels.changed().await.map_err(Error::into_internal_error)?;
        }
        kept.exchanges.push([user, text, agent, reply]);
        self.write(session, &kept)?;
        tell(&client, session, idle(Some(reason)))
    }
}

/// Serves one client until the transport ends.
pub(crate) async fn serve(agent: SdkAgent, transport: impl ConnectTo<Agent> + 'static) -> Result<(), Error> {
    let agent = || agent.clone();
    let (on_new, on_prompt, on_cancel) = (agent(), agent(), agent());
    let (on_resume, on_list, on_delete) = (agent(), agent(), agent());
    Agent
        .v2()
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                let sessions = SessionCapabilities::new().delete(SessionDeleteCapabilities::new());
                let info = Implementation::new("sdk-agent", "2");
                let answer = InitializeResponse::new(request.protocol_version, info);
                responder.respond(answer.capabilities(AgentCapabilities::new().session(sessions)))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder: Responder<NewSessionResponse>, client| {
                let opened = on_new.new_session(request)?;
                let session = opened.session_id.clone();
                responder.respond(opened)?;
                // It may arrive when the client has sent its first prompt already.
                tell(&client, &session, idle(None))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder: Responder<PromptResponse>, client| {
                if let Err(error) = on_prompt.read(&request.session_id) {
                    return responder.respond_with_error(error);
                }
                let user = uuid::Uuid::now_v7().to_string();
                responder.respond(PromptResponse::new(user.clone()))?;
                client.spawn(on_prompt.clone().work(request, user, ConnectionTo::clone(&client)))
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: CancelSessionNotification, _| {
                on_cancel.0.cancels.send_modify(|count| *count += 1);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, client| {
                responder.respond_with_result(on_resume.resume(&request, &client))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: ListSessionsRequest, responder, _| responder.respond_with_result(on_list.list()),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: CloseSessionRequest, responder, _| responder.respond(CloseSessionResponse::new()),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: DeleteSessionRequest, responder, _| {
                responder.respond_with_result(on_delete.delete(&request.session_id))
            },
            on_receive_request!(),
        )
        .connect_to(transport)
        .await
}

async fn ask(session: &SessionId, client: &ConnectionTo<Client>) -> Result<String, Error> {
    let waits = StateUpdate::RequiresAction(RequiresActionStateUpdate::new());
    tell(client, session, SessionUpdate::StateUpdate(waits))?;
    let call = ToolCallUpdate::new("call-1").title("Edit notes.txt".to_owned()).kind(ToolKind::Edit);
    let options = vec![
        PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce),
        PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
    ];
    let subject = RequestPermissionSubject::ToolCall(Box::new(ToolCallPermissionSubject::new(call)));
    let request = RequestPermissionRequest::new(session.clone(), "Edit notes.txt", options).subject(subject);
    let answer = client.send_request(request).block_task().await?;
    tell(client, session, SessionUpdate::StateUpdate(StateUpdate::Running(RunningStateUpdate::new())))?;
    Ok(match answer.outcome {
        RequestPermissionOutcome::Selected(selected) => format!("selected {}", selected.option_id),
        other => format!("{other:?}"),
    })
}

fn idle(reason: Option<StopReason>) -> SessionUpdate {
    SessionUpdate::StateUpdate(StateUpdate::Idle(IdleStateUpdate::new().stop_reason(reason)))
}

fn user_message(id: String, text: String) -> SessionUpdate {
    SessionUpdate::UserMessage(UserMessage::new(id).content(vec![ContentBlock::from(text)]))
}

fn agent_message(id: String, text: String) -> SessionUpdate {
    SessionUpdate::AgentMessage(AgentMessage::new(id).content(vec![ContentBlock::from(text)]))
}

fn tell(client: &ConnectionTo<Client>, session: &SessionId, update: SessionUpdate) -> Result<(), Error> {
    client.send_notification(UpdateSessionNotification::new(session.clone(), update))
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    if let ContentBlock::Text(text) = block { Some(&text.text) } else { None }
}
