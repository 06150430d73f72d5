//! The agent itself, over any transport. It remembers every request as the SDK understood it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use acpx_core::sync::Lock;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, CloseSessionRequest, CloseSessionResponse, ContentBlock,
    ContentChunk, DeleteSessionRequest, DeleteSessionResponse, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest,
    PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, ResumeSessionRequest,
    ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities,
    SessionId, SessionInfo, SessionListCapabilities, SessionNotification, SessionResumeCapabilities,
    SessionUpdate, StopReason, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, ConnectTo, Error, on_receive_notification, on_receive_request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

/// An agent that echoes. Any number of values are the same agent.
#[derive(Clone)]
pub(crate) struct SdkAgent(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    resumes: bool,
    heard: Lock<Vec<Value>>,
    cancels: watch::Sender<u64>,
}

/// One session as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    cwd: PathBuf,
    exchanges: Vec<(String, String)>,
}

impl SdkAgent {
    pub(crate) fn new(directory: PathBuf, resumes: bool) -> Self {
        let (heard, cancels) = (Lock::default(), watch::Sender::new(0));
        Self(Arc::new(Inner { directory, resumes, heard, cancels }))
    }

    /// The requests heard since this was last asked.
    #[cfg(test)]
    pub(crate) fn take_heard(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.heard.lock())
    }

    fn hear(&self, request: &impl Serialize) -> Result<(), Error> {
        let request = serde_json::to_value(request).map_err(Error::into_internal_error)?;
        self.0.heard.lock().push(request);
        Ok(())
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        self.0.directory.join(format!("{session}.json"))
    }

    fn read(&self, session: &SessionId) -> Result<Kept, Error> {
        let unknown = |_| Error::new(-32002, "Resource not found").data(json!({ "uri": session }));
        let text = fs::read_to_string(self.path(session)).map_err(unknown)?;
        serde_json::from_str(&text).map_err(Error::into_internal_error)
    }

    fn write(&self, session: &SessionId, kept: &Kept) -> Result<(), Error> {
        let text = serde_json::to_string(kept).map_err(Error::into_internal_error)?;
        fs::write(self.path(session), text).map_err(Error::into_internal_error)
    }

    fn initialize(&self) -> InitializeResponse {
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .delete(SessionDeleteCapabilities::new())
            .close(SessionCloseCapabilities::new())
            .resume(self.0.resumes.then(SessionResumeCapabilities::new));
        let capabilities = AgentCapabilities::new().load_session(true).session_capabilities(sessions);
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(Implementation::new("sdk-agent", "1"))
    }

    fn new_session(&self, request: NewSessionRequest) -> Result<NewSessionResponse, Error> {
        let session = SessionId::new(uuid::Uuid::now_v7().to_string());
        self.write(&session, &Kept { cwd: request.cwd, exchanges: Vec::new() })?;
        let meta = [("agentSessionId".to_owned(), json!(format!("inner-{session}")))];
        Ok(NewSessionResponse::new(session).meta(meta.into_iter().collect::<serde_json::Map<_, _>>()))
    }

    /// Replays, and only then lets the request be answered.
    fn load(&self, session: &SessionId, client: &ConnectionTo<Client>) -> Result<LoadSessionResponse, Error> {
        for (prompt, reply) in self.read(session)?.exchanges {
            say(client, session, SessionUpdate::UserMessageChunk, prompt)?;
            say(client, session, SessionUpdate::AgentMessageChunk, reply)?;
        }
        Ok(LoadSessionResponse::new())
    }

    fn list(&self) -> Result<ListSessionsResponse, Error> {
        let mut sessions = Vec::new();
        for entry in fs::read_dir(&self.0.directory).map_err(Error::into_internal_error)? {
            let path = entry.map_err(Error::into_internal_error)?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            let session = SessionId::new(name);
            let title = self.read(&session)?.exchanges.first().map(|(prompt, _)| prompt.clone());
            sessions.push(SessionInfo::new(session.clone(), self.read(&session)?.cwd).title(title));
        }
        Ok(ListSessionsResponse::new(sessions))
    }

    fn delete(&self, session: &SessionId) -> Result<DeleteSessionResponse, Error> {
        fs::remove_file(self.path(session)).map_err(Error::into_internal_error)?;
        Ok(DeleteSessionResponse::new())
    }

    async fn prompt(
        self,
        request: PromptRequest,
        client: ConnectionTo<Client>,
    ) -> Result<PromptResponse, Error> {
        let session = &request.session_id;
        let mut kept = self.read(session)?;
        let mut cancels = self.0.cancels.subscribe();
        let text: String = request.prompt.iter().filter_map(text_of).collect();
        let (reply, reason) = match text.as_str() {
            "permission" => (ask(session, &client).await?, StopReason::EndTurn),
            "wait" => ("waiting".to_owned(), StopReason::Cancelled),
            "recall" => {
                let prompts: Vec<_> = kept.exchanges.iter().map(|(prompt, _)| prompt.as_str()).collect();
                (prompts.join(", "), StopReason::EndTurn)
            }
            text => (format!("You said: {text}"), StopReason::EndTurn),
        };
        say(&client, session, SessionUpdate::AgentMessageChunk, reply.clone())?;
        if reason == StopReason::Cancelled {
            cancels.changed().await.map_err(Error::into_internal_error)?;
        }
        kept.exchanges.push((text, reply));
        self.write(session, &kept)?;
        Ok(PromptResponse::new(reason))
    }
}

/// Serves one client until the transport ends.
#[expect(clippy::too_many_lines, reason = "a table: one handler for each method")]
pub(crate) async fn serve(agent: SdkAgent, transport: impl ConnectTo<Agent> + 'static) -> Result<(), Error> {
    let agent = || agent.clone();
    let (on_initialize, on_new, on_prompt, on_cancel) = (agent(), agent(), agent(), agent());
    let (on_load, on_resume, on_list, on_close, on_delete) = (agent(), agent(), agent(), agent(), agent());
    Agent
        .v1()
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                on_initialize.hear(&request)?;
                responder.respond(on_initialize.initialize())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, _| {
                on_new.hear(&request)?;
                responder.respond_with_result(on_new.new_session(request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder: Responder<PromptResponse>, client| {
                on_prompt.hear(&request)?;
                let turn = on_prompt.clone().prompt(request, ConnectionTo::clone(&client));
                // A turn must not keep the connection from hearing that it is cancelled.
                client.spawn(async move { responder.respond_with_result(turn.await) })
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |request: CancelNotification, _| {
                on_cancel.hear(&request)?;
                on_cancel.0.cancels.send_modify(|count| *count += 1);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, client| {
                on_load.hear(&request)?;
                responder.respond_with_result(on_load.load(&request.session_id, &client))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, _| {
                on_resume.hear(&request)?;
                let known = on_resume.read(&request.session_id);
                responder.respond_with_result(known.map(|_| ResumeSessionResponse::new()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, responder, _| {
                on_list.hear(&request)?;
                responder.respond_with_result(on_list.list())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder, _| {
                on_close.hear(&request)?;
                responder.respond(CloseSessionResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: DeleteSessionRequest, responder, _| {
                on_delete.hear(&request)?;
                responder.respond_with_result(on_delete.delete(&request.session_id))
            },
            on_receive_request!(),
        )
        .connect_to(transport)
        .await
}

async fn ask(session: &SessionId, client: &ConnectionTo<Client>) -> Result<String, Error> {
    let fields = ToolCallUpdateFields::new().title("Edit notes.txt".to_owned()).kind(ToolKind::Edit);
    let options = vec![
        PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce),
        PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
    ];
    let request =
        RequestPermissionRequest::new(session.clone(), ToolCallUpdate::new("call-1", fields), options);
    let answer = client.send_request(request).block_task().await?;
    Ok(match answer.outcome {
        RequestPermissionOutcome::Selected(selected) => format!("selected {}", selected.option_id),
        other => format!("{other:?}"),
    })
}

fn say(
    client: &ConnectionTo<Client>,
    session: &SessionId,
    kind: fn(ContentChunk) -> SessionUpdate,
    text: String,
) -> Result<(), Error> {
    let chunk = ContentChunk::new(ContentBlock::from(text));
    client.send_notification(SessionNotification::new(session.clone(), kind(chunk)))
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    if let ContentBlock::Text(text) = block { Some(&text.text) } else { None }
}
