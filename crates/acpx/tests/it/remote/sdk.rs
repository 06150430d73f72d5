//! The official SDK as a remote client, over a WebSocket and over HTTP.

use std::sync::{Arc, Mutex};

use acpx_testkit::sdk::v1::{allow_once, connect, prompt, text};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CloseSessionRequest, DeleteSessionRequest, ListSessionsRequest, LoadSessionRequest, NewSessionRequest,
    SessionNotification, SessionUpdate, StopReason,
};
use agent_client_protocol_http::HttpClient;

use super::Served;
use crate::acpx::Place;

fn line(update: &SessionUpdate) -> Option<String> {
    match update {
        SessionUpdate::UserMessageChunk(chunk) => Some(format!("user: {}", text(&chunk.content).trim_end())),
        SessionUpdate::AgentMessageChunk(chunk) => {
            Some(format!("agent: {}", text(&chunk.content).trim_end()))
        }
        _ => None,
    }
}

/// Runs a whole session at a URL.
async fn run_session(place: &Place, url: &str) -> Result<(), Error> {
    let updates: Arc<Mutex<Vec<String>>> = Arc::default();
    let received = Arc::clone(&updates);
    let on_update = move |notification: SessionNotification| {
        received.lock().unwrap().extend(line(&notification.update));
        Ok(())
    };
    let work = place.work();
    connect(HttpClient::with_endpoint(url).unwrap(), on_update, allow_once, async |connection| {
        let take = || std::mem::take(&mut *updates.lock().unwrap());
        let session = connection.send_request(NewSessionRequest::new(&work)).block_task().await?.session_id;
        let answer = connection.send_request(prompt(&session, "permission")).block_task().await?;
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
async fn official_client_runs_a_session_over_http_and_websocket() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    for url in [&served.url, &served.websocket] {
        run_session(&place, url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    }
}
