//! The official SDK as an ordinary client on the socket, with an agent that is made with it too: a second
//! reading of the protocol on both sides of the host.

use std::sync::{Arc, Mutex};

use acpx_core::home::published;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, InitializeRequest, ListSessionsRequest,
    LoadSessionRequest, NewSessionRequest, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, ResumeSessionRequest, SelectedPermissionOutcome, SessionId,
    SessionNotification, SessionUpdate, StopReason, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, ByteStreams, Client, Error};
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::{Bench, environment};
use crate::examples;

/// What the client has been told, in words, and whom.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Vec<(String, String)>>>);

impl Heard {
    /// What was said since this was last asked, about one session.
    pub(super) fn take(&self, session: &SessionId) -> Vec<String> {
        let heard = std::mem::take(&mut *self.0.lock().unwrap());
        let of_session = |(about, words): (String, String)| {
            assert_eq!(about, session.to_string());
            words
        };
        heard.into_iter().map(of_session).collect()
    }

    fn hear(&self, session: &SessionId, words: String) {
        self.0.lock().unwrap().push((session.to_string(), words));
    }
}

/// How the client answers what the agent asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answering {
    Choosing(&'static str),
    Never,
}

/// One client.
pub(super) struct Talk {
    pub(super) connection: ConnectionTo<Agent>,
    pub(super) heard: Heard,
    /// Something was heard.
    pub(super) news: mpsc::Receiver<()>,
}

fn in_words(update: &SessionUpdate) -> String {
    let text = |content: &ContentBlock| match content {
        ContentBlock::Text(text) => text.text.clone(),
        other => format!("{other:?}"),
    };
    match update {
        SessionUpdate::UserMessageChunk(chunk) => format!("user: {}", text(&chunk.content)),
        SessionUpdate::AgentMessageChunk(chunk) => format!("agent: {}", text(&chunk.content)),
        other => format!("{other:?}"),
    }
}

/// Runs `talk` as an ordinary client of the home's host, which is running.
pub(super) async fn as_client<T>(
    bench: &Bench,
    answering: Answering,
    talk: impl AsyncFnOnce(Talk) -> Result<T, Error>,
) -> T {
    let stream = UnixStream::connect(published(&bench.place).unwrap().socket).await.unwrap();
    let (source, target) = stream.into_split();
    let heard = Heard::default();
    let (told, news) = mpsc::channel(64);
    let (hear_update, hear_question) = (heard.clone(), heard.clone());
    let (tell_update, tell_question) = (told.clone(), told);
    // A question that is dropped would be answered with an error.
    let open: Arc<Mutex<Vec<Responder<RequestPermissionResponse>>>> = Arc::default();
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                hear_update.hear(&notification.session_id, in_words(&notification.update));
                tell_update.try_send(()).ok();
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let options: Vec<_> =
                    request.options.iter().map(|option| option.option_id.to_string()).collect();
                hear_question.hear(&request.session_id, format!("may I: {}", options.join(" or ")));
                tell_question.try_send(()).ok();
                match answering {
                    Answering::Never => open.lock().unwrap().push(responder),
                    Answering::Choosing(option) => {
                        let chosen = SelectedPermissionOutcome::new(option);
                        let outcome = RequestPermissionOutcome::Selected(chosen);
                        responder.respond(RequestPermissionResponse::new(outcome))?;
                    }
                }
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(ByteStreams::new(target.compat_write(), source.compat()), async move |connection| {
            let answer =
                connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            assert_eq!(answer.protocol_version, ProtocolVersion::V1);
            talk(Talk { connection, heard, news }).await
        })
        .await
        .unwrap()
}

impl Talk {
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

pub(super) fn prompt(session: &SessionId, text: &str) -> PromptRequest {
    PromptRequest::new(session.clone(), vec![ContentBlock::Text(TextContent::new(text))])
}

pub(super) fn meta(acpx: Value) -> Map<String, Value> {
    [("acpx".to_owned(), acpx)].into_iter().collect()
}

#[tokio::test]
async fn an_ordinary_client_lives_a_whole_session_with_the_host() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    let session = as_client(&bench, Answering::Choosing("yes"), async |talk| {
        let session = talk.open(&bench).await?;
        assert_eq!(talk.prompt(&session, "one").await?, StopReason::EndTurn);
        assert_eq!(talk.heard.take(&session), ["agent: You said: one"]);
        assert_eq!(talk.prompt(&session, "permission").await?, StopReason::EndTurn);
        assert_eq!(talk.heard.take(&session), ["may I: yes or no", "agent: selected yes"]);

        let list = talk.connection.send_request(ListSessionsRequest::new()).block_task().await?;
        let rows: Vec<_> = list.sessions.iter().map(|row| (&row.session_id, row.cwd.as_path())).collect();
        assert_eq!(rows, [(&session, bench.home.path())]);
        talk.connection.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        let closed = talk.prompt(&session, "two").await.unwrap_err();
        assert_eq!(i32::from(closed.code), -32002);
        Ok(session)
    })
    .await;

    as_client(&bench, Answering::Choosing("no"), async |talk| {
        let resume = ResumeSessionRequest::new(session.clone(), bench.home.path());
        talk.connection.send_request(resume).block_task().await?;
        assert_eq!(talk.prompt(&session, "recall").await?, StopReason::EndTurn);
        assert_eq!(talk.heard.take(&session), ["agent: one, permission"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn cancel_answers_pending_requests_with_cancelled_and_ends_the_turn() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    as_client(&bench, Answering::Never, async |mut talk| {
        let session = talk.open(&bench).await?;
        let turn = talk.connection.send_request(prompt(&session, "permission"));
        talk.news.recv().await;
        talk.connection.send_notification(CancelNotification::new(session.clone()))?;
        // This agent ends its turn as if nothing had happened, and says what it was answered.
        turn.block_task().await?;
        assert_eq!(talk.heard.take(&session), ["may I: yes or no", "agent: Cancelled"]);

        let turn = talk.connection.send_request(prompt(&session, "wait"));
        talk.news.recv().await;
        talk.news.recv().await;
        talk.connection.send_notification(CancelNotification::new(session.clone()))?;
        assert_eq!(turn.block_task().await?.stop_reason, StopReason::Cancelled);
        assert_eq!(talk.heard.take(&session), ["agent: waiting"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_load_replays_the_conversation_in_order_before_it_answers() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    let session = as_client(&bench, Answering::Choosing("no"), async |talk| {
        let session = talk.open(&bench).await?;
        for text in ["one", "permission", "two"] {
            talk.prompt(&session, text).await?;
        }
        Ok(session)
    })
    .await;
    as_client(&bench, Answering::Never, async |talk| {
        let load = LoadSessionRequest::new(session.clone(), bench.home.path());
        talk.connection.send_request(load).block_task().await?;
        let replay = [
            "user: one",
            "agent: You said: one",
            "user: permission",
            "agent: selected no",
            "user: two",
            "agent: You said: two",
        ];
        assert_eq!(talk.heard.take(&session), replay);
        talk.prompt(&session, "three").await?;
        assert_eq!(talk.heard.take(&session), ["agent: You said: three"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn unknown_session_is_named_in_the_error_of_every_method() {
    let bench = Bench::new();
    let _keeps_the_host = bench.client().await;
    as_client(&bench, Answering::Never, async |talk| {
        let unknown = SessionId::new("nobody");
        let (connection, cwd) = (&talk.connection, bench.home.path());
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
    as_client(&bench, Answering::Never, async |talk| {
        let new = NewSessionRequest::new(bench.home.path());
        let error = talk.connection.send_request(new).block_task().await.unwrap_err();
        let (field, problem) = ("_meta.acpx.agent", "must name the agent to start");
        let details = format!("Invalid params: {field} {problem}");
        let data = json!({ "field": field, "problem": problem, "details": details });
        assert_eq!((i32::from(error.code), error.data), (-32602, Some(data)));
        Ok(())
    })
    .await;
}
