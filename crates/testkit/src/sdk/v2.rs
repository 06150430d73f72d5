//! The SDK's client of protocol version 2.

use agent_client_protocol::schema::{MaybeUndefined, ProtocolVersion};
use agent_client_protocol::v2::schema::{
    ContentBlock, Implementation, InitializeRequest, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
    SessionId, TextContent, UpdateSessionNotification,
};
use agent_client_protocol::v2::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, ConnectTo, Error};
use tokio::sync::mpsc;

/// More updates than any test leaves unread.
const UPDATES: usize = 256;

/// Runs a conversation over a transport, after `initialize`.
pub async fn connect<T>(
    transport: impl ConnectTo<Client> + 'static,
    mut on_update: impl FnMut(UpdateSessionNotification) -> Result<(), Error> + Send,
    mut on_permission: impl FnMut(
        RequestPermissionRequest,
        Responder<RequestPermissionResponse>,
    ) -> Result<(), Error>
    + Send,
    conversation: impl AsyncFnOnce(ConnectionTo<Agent>) -> Result<T, Error>,
) -> Result<T, Error> {
    Client
        .v2()
        .on_receive_notification(
            async move |notification: UpdateSessionNotification, _| on_update(notification),
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| on_permission(request, responder),
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(transport, async move |connection| {
            let initialize = InitializeRequest::new(ProtocolVersion::V2, Implementation::new("sdk", "5"));
            let response = connection.send_request(initialize).block_task().await?;
            assert_eq!(response.protocol_version, ProtocolVersion::V2);
            assert!(response.capabilities.session.is_some_and(|session| session.delete.is_some()));
            conversation(connection).await
        })
        .await
}

/// Approves a permission request once.
pub fn allow_once(
    request: RequestPermissionRequest,
    responder: Responder<RequestPermissionResponse>,
) -> Result<(), Error> {
    let allow = request.options.into_iter().find(|option| option.kind == PermissionOptionKind::AllowOnce);
    let selected = SelectedPermissionOutcome::new(allow.ok_or_else(Error::internal_error)?.option_id);
    responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(selected)))
}

/// Sends a prompt of one text block and returns the id of its message.
pub async fn prompt(
    connection: &ConnectionTo<Agent>,
    session: &SessionId,
    text: &str,
) -> Result<String, Error> {
    let blocks = vec![ContentBlock::Text(TextContent::new(text))];
    let request = PromptRequest::new(session.clone(), blocks);
    Ok(connection.send_request(request).block_task().await?.message_id.to_string())
}

/// The text of a block; other kinds in their debug form.
#[must_use]
pub fn text(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        other => format!("{other:?}"),
    }
}

/// The text of a whole message.
#[must_use]
pub fn message_text(content: &MaybeUndefined<Vec<ContentBlock>>) -> String {
    match content {
        MaybeUndefined::Value(blocks) => blocks.iter().map(text).collect(),
        other => format!("{other:?}"),
    }
}

/// The received updates, each as one line of text.
pub struct Updates(mpsc::Receiver<String>);

impl Updates {
    /// A queue, and the function that adds an update to it.
    pub fn new() -> (impl FnMut(String) -> Result<(), Error> + Send, Self) {
        let (sender, receiver) = mpsc::channel(UPDATES);
        (move |line| sender.try_send(line).map_err(Error::into_internal_error), Self(receiver))
    }

    /// Waits for this update and returns everything up to it, or up to the end of the connection.
    pub async fn until(&mut self, last: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        while lines.last().is_none_or(|line| line != last) {
            let Some(line) = self.0.recv().await else { break };
            lines.push(line);
        }
        lines
    }

    /// The updates that have arrived.
    pub fn take(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}
