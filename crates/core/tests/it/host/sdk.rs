//! The official SDK as an ordinary client on the socket, and as the agent: a second reading of the protocol on both
//! sides of the host.

use std::sync::{Arc, Mutex};

use acpx_core::home::published;
use acpx_testkit::sdk::v1::{connect, prompt, text};
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ListSessionsRequest, LoadSessionRequest, NewSessionRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, ByteStreams, Error};
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::{Bench, environment};
use crate::examples;

/// The received updates and permission requests, each with its session and as one line of text.
#[derive(Clone, Default)]
pub(super) struct Received(Arc<Mutex<Vec<(String, String)>>>);

impl Received {
    /// The lines since the last call, all of one session.
    pub(super) fn take(&self, session: &SessionId) -> Vec<String> {
        let received = std::mem::take(&mut *self.0.lock().unwrap());
        let of_session = |(about, line): (String, String)| {
            assert_eq!(about, session.to_string());
            line
        };
        received.into_iter().map(of_session).collect()
    }

    fn push(&self, session: &SessionId, line: String) {
        self.0.lock().unwrap().push((session.to_string(), line));
    }
}

/// How the client answers permission requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answering {
    Choosing(&'static str),
    Never,
}

/// One client.
pub(super) struct SdkClient {
    pub(super) connection: ConnectionTo<Agent>,
    pub(super) received: Received,
    /// Signals each received line.
    pub(super) news: mpsc::Receiver<()>,
}

fn line(update: &SessionUpdate) -> String {
    match update {
        SessionUpdate::UserMessageChunk(chunk) => format!("user: {}", text(&chunk.content)),
        SessionUpdate::AgentMessageChunk(chunk) => format!("agent: {}", text(&chunk.content)),
        other => format!("{other:?}"),
    }
}

/// Runs a conversation as an ordinary client of the home's running host.
pub(super) async fn as_client<T>(
    bench: &Bench,
    answering: Answering,
    conversation: impl AsyncFnOnce(SdkClient) -> Result<T, Error>,
) -> T {
    let stream = UnixStream::connect(published(&bench.paths).unwrap().socket).await.unwrap();
    let (source, target) = stream.into_split();
    let received = Received::default();
    let (arrived, news) = mpsc::channel(64);
    let (updates, update_arrived) = (received.clone(), arrived.clone());
    let on_update = move |notification: SessionNotification| {
        updates.push(&notification.session_id, line(&notification.update));
        update_arrived.try_send(()).ok();
        Ok(())
    };
    // A responder that is dropped answers with an error.
    let mut unanswered: Vec<Responder<RequestPermissionResponse>> = Vec::new();
    let requests = received.clone();
    let on_permission = move |request: RequestPermissionRequest, responder: Responder<_>| {
        let options: Vec<_> = request.options.iter().map(|option| option.option_id.to_string()).collect();
        requests.push(&request.session_id, format!("may I: {}", options.join(" or ")));
        arrived.try_send(()).ok();
        match answering {
            Answering::Never => unanswered.push(responder),
            Answering::Choosing(option) => {
                let outcome = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option));
                responder.respond(RequestPermissionResponse::new(outcome))?;
            }
        }
        Ok(())
    };
    let transport = ByteStreams::new(target.compat_write(), source.compat());
    connect(transport, on_update, on_permission, async |connection| {
        conversation(SdkClient { connection, received, news }).await
    })
    .await
    .unwrap()
}

impl SdkClient {
    pub(super) async fn open(&self, bench: &Bench) -> Result<SessionId, Error> {
        let argv = [examples::program("sdk_agent"), bench.home.path().join("agent")];
        std::fs::create_dir_all(&argv[1]).unwrap();
        let acpx = json!({ "agent": { "argv": argv }, "environment": environment() });
        let request = NewSessionRequest::new(bench.home.path()).meta(meta(acpx));
        Ok(self.connection.send_request(request).block_task().await?.session_id)
    }

    async fn prompt(&self, session: &SessionId, text: &str) -> Result<StopReason, Error> {
        Ok(self.connection.send_request(prompt(session, text)).block_task().await?.stop_reason)
    }
}

pub(super) fn meta(acpx: Value) -> Map<String, Value> {
    [("acpx".to_owned(), acpx)].into_iter().collect()
}

#[tokio::test]
async fn official_client_runs_a_session_with_the_host() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    let session = as_client(&bench, Answering::Choosing("yes"), async |client| {
        let session = client.open(&bench).await?;
        assert_eq!(client.prompt(&session, "one").await?, StopReason::EndTurn);
        assert_eq!(client.received.take(&session), ["agent: You said: one"]);
        assert_eq!(client.prompt(&session, "permission").await?, StopReason::EndTurn);
        assert_eq!(client.received.take(&session), ["may I: yes or no", "agent: selected yes"]);

        let list = client.connection.send_request(ListSessionsRequest::new()).block_task().await?;
        let rows: Vec<_> = list.sessions.iter().map(|row| (&row.session_id, row.cwd.as_path())).collect();
        assert_eq!(rows, [(&session, bench.home.path())]);
        client.connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        let closed = client.prompt(&session, "two").await.unwrap_err();
        assert_eq!(i32::from(closed.code), -32002);
        Ok(session)
    })
    .await;

    as_client(&bench, Answering::Choosing("no"), async |client| {
        let resume = ResumeSessionRequest::new(session.clone(), bench.home.path());
        client.connection.send_request(resume).block_task().await?;
        assert_eq!(client.prompt(&session, "recall").await?, StopReason::EndTurn);
        assert_eq!(client.received.take(&session), ["agent: one, permission"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn cancel_answers_pending_requests_with_cancelled_and_ends_the_turn() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    as_client(&bench, Answering::Never, async |mut client| {
        let session = client.open(&bench).await?;
        let turn = client.connection.send_request(prompt(&session, "permission"));
        client.news.recv().await;
        client.connection.send_notification(CancelNotification::new(session.clone()))?;
        // This agent ends its turn as if nothing had happened, and says what it was answered.
        turn.block_task().await?;
        assert_eq!(client.received.take(&session), ["may I: yes or no", "agent: Cancelled"]);

        let turn = client.connection.send_request(prompt(&session, "wait"));
        client.news.recv().await;
        client.news.recv().await;
        client.connection.send_notification(CancelNotification::new(session.clone()))?;
        assert_eq!(turn.block_task().await?.stop_reason, StopReason::Cancelled);
        assert_eq!(client.received.take(&session), ["agent: waiting"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_load_replays_the_conversation_in_order_before_it_answers() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    let session = as_client(&bench, Answering::Choosing("no"), async |client| {
        let session = client.open(&bench).await?;
        for text in ["one", "permission", "two"] {
            client.prompt(&session, text).await?;
        }
        Ok(session)
    })
    .await;
    as_client(&bench, Answering::Never, async |client| {
        let load = LoadSessionRequest::new(session.clone(), bench.home.path());
        client.connection.send_request(load).block_task().await?;
        let replay = [
            "user: one",
            "agent: You said: one",
            "user: permission",
            "agent: selected no",
            "user: two",
            "agent: You said: two",
        ];
        assert_eq!(client.received.take(&session), replay);
        client.prompt(&session, "three").await?;
        assert_eq!(client.received.take(&session), ["agent: You said: three"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn unknown_session_is_named_in_the_error_of_every_method() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    as_client(&bench, Answering::Never, async |client| {
        let unknown = SessionId::new("nobody");
        let (connection, cwd) = (&client.connection, bench.home.path());
        let errors = [
            connection.send_request(prompt(&unknown, "x")).block_task().await.unwrap_err(),
            connection
                .send_request(LoadSessionRequest::new(unknown.clone(), cwd))
                .block_task()
                .await
                .unwrap_err(),
            connection
                .send_request(ResumeSessionRequest::new(unknown.clone(), cwd))
                .block_task()
                .await
                .unwrap_err(),
        ];
        let details = "there is no session nobody; open one of the listed sessions, or begin a new one";
        let data = json!({ "sessionId": "nobody", "details": details });
        let expected = json!({ "code": -32002, "message": "Resource not found", "data": data });
        for error in errors {
            assert_eq!(serde_json::to_value(error).unwrap(), expected);
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_session_needs_an_agent_to_be_named() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    as_client(&bench, Answering::Never, async |client| {
        let new = NewSessionRequest::new(bench.home.path());
        let error = client.connection.send_request(new).block_task().await.unwrap_err();
        let (field, problem) = ("_meta.acpx.agent", "must name the agent to start");
        let details = format!("Invalid params: {field} {problem}");
        let data = json!({ "field": field, "problem": problem, "details": details });
        assert_eq!((i32::from(error.code), error.data), (-32602, Some(data)));
        Ok(())
    })
    .await;
}
