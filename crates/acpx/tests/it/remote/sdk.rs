//! The official client as a client from elsewhere, over a WebSocket and over HTTP.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CloseSessionRequest, ContentBlock, DeleteSessionRequest, InitializeRequest, ListSessionsRequest,
    LoadSessionRequest, NewSessionRequest, PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification,
    SessionUpdate, StopReason, TextContent,
};
use agent_client_protocol::{Client, Error};
use agent_client_protocol_http::HttpClient;

use super::Served;
use crate::acpx::Place;

fn said(update: &SessionUpdate) -> Option<String> {
    let text = |content: &ContentBlock| match content {
        ContentBlock::Text(text) => text.text.trim_end().to_owned(),
        other => format!("{other:?}"),
    };
    match update {
        SessionUpdate::UserMessageChunk(chunk) => Some(format!("user: {}", text(&chunk.content))),
        SessionUpdate::AgentMessageChunk(chunk) => Some(format!("agent: {}", text(&chunk.content))),
        _ => None,
    }
}

/// Lives a whole session at a URL.
async fn lives_a_session(place: &Place, url: &str) -> Result<(), Error> {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let listening = Arc::clone(&heard);
    let work = place.work();
    let client = HttpClient::with_endpoint(url).unwrap();
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                listening.lock().unwrap().extend(said(&notification.update));
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
        .connect_with(client, async move |connection| {
            let take = || std::mem::take(&mut *heard.lock().unwrap());
            connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let session =
                connection.send_request(NewSessionRequest::new(&work)).block_task().await?.session_id;
            let prompt = |text: &str| {
                let text = vec![ContentBlock::Text(TextContent::new(text))];
                connection.send_request(PromptRequest::new(session.clone(), text)).block_task()
            };
            let answer = prompt("permission").await?;
            assert_eq!(answer.stop_reason, StopReason::EndTurn);
            assert_eq!(take(), ["agent: The edit was made.", "agent: You said: permission"]);
            let list = connection.send_request(ListSessionsRequest::new()).block_task().await?;
            assert_eq!(list.sessions.iter().filter(|row| row.session_id == session).count(), 1);
            let load = LoadSessionRequest::new(session.clone(), &work);
            connection.send_request(load).block_task().await?;
            assert_eq!(take().first().map(String::as_str), Some("user: permission"));
            connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
            connection.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_client_lives_a_session_over_http_and_over_a_websocket() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    for url in [&served.url, &served.websocket] {
        lives_a_session(&place, url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    }
}
