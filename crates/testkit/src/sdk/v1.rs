//! The SDK's client of protocol version 1.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionId,
    SessionNotification, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, ConnectTo, Error};

/// Runs a conversation over a transport, after `initialize`.
pub async fn connect<T>(
    transport: impl ConnectTo<Client> + 'static,
    mut on_update: impl FnMut(SessionNotification) -> Result<(), Error> + Send,
    mut on_permission: impl FnMut(
        RequestPermissionRequest,
        Responder<RequestPermissionResponse>,
    ) -> Result<(), Error>
    + Send,
    conversation: impl AsyncFnOnce(ConnectionTo<Agent>) -> Result<T, Error>,
) -> Result<T, Error> {
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| on_update(notification),
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| on_permission(request, responder),
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(transport, async move |connection| {
            let initialize = InitializeRequest::new(ProtocolVersion::V1);
            let response = connection.send_request(initialize).block_task().await?;
            assert_eq!(response.protocol_version, ProtocolVersion::V1);
            assert!(response.agent_capabilities.load_session);
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

/// A prompt of one text block.
#[must_use]
pub fn prompt(session: &SessionId, text: &str) -> PromptRequest {
    PromptRequest::new(session.clone(), vec![ContentBlock::Text(TextContent::new(text))])
}

/// The text of a block; other kinds in their debug form.
#[must_use]
pub fn text(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        other => format!("{other:?}"),
    }
}
