//! Our client side against an agent that is made with the official SDK: a second reading of the protocol. What
//! we send must be what the SDK hears, and what it says must be what we read, as whole values.

use std::sync::Arc;

use acpx_core::acp::client::{
    AgentConnection, AgentResponse, ListPage, ListedSession, MessageContext, OutgoingLine, ParsedMessage,
    SessionWorkspace,
};
use acpx_core::acp::{Capabilities, PromptContent, update};
use acpx_core::engine::{Engine, EngineSettings, NewSession, Prompt, RestoreSession, Session};
use acpx_core::machine::{Rung, WakeOutcome};
use acpx_core::model::{
    AbsolutePath, AcpSessionId, Advertised, AgentError, AgentSessionId, AgentSpec, Entry, ErrorMeaning,
    HostId, McpServer, McpTransport, MessageKind, NamedValue, PermissionMode, Permit, ProtocolVersion,
    ReplayVerdict, Secrets, Seq, StopReason, ToolKind, Turn, TurnOutcome, TurnState, Update,
};
use acpx_core::store::MemoryStore;
use acpx_core::tools::Environment;
use acpx_core::wire::{self, WireLimits};
use acpx_testkit::TempHome;
use agent_client_protocol::ByteStreams;
use serde_json::{Value, json};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::examples;

#[path = "../../examples/sdk_agent/agent.rs"]
mod agent;

use agent::SdkAgent;

/// The agent has one session, in which prompts were answered.
const KNOWN: MessageContext<'_> = MessageContext { session: None };

/// A connection to an SDK agent in this process.
struct Pair {
    connection: AgentConnection,
    agent: SdkAgent,
    /// Answers to permissions, and what they were asked for.
    permit: Permit,
    asked: Vec<ToolKind>,
    home: TempHome,
}

impl Pair {
    async fn start() -> Self {
        let home = TempHome::new();
        let agent = SdkAgent::new(home.path().to_owned(), true);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (source, target) = tokio::io::split(theirs);
        tokio::spawn(agent::serve(agent.clone(), ByteStreams::new(target.compat_write(), source.compat())));
        let (source, target) = tokio::io::split(ours);
        let (peer, incoming) = wire::connect(source, target, WireLimits::default());
        let Ok(started) =
            AgentConnection::start("sdk", ProtocolVersion::V1, peer, incoming, Secrets::default(), None)
                .await
        else {
            panic!("the agent did not answer initialize")
        };
        let connection = started.connection;
        Self { connection, agent, permit: Permit::Reject, asked: Vec::new(), home }
    }

    /// Sends a call, and gives what the agent said before its answer, and the answer.
    async fn call(&mut self, outgoing: OutgoingLine) -> (Vec<Update>, AgentResponse) {
        outgoing.send().await.unwrap();
        self.until_answered().await
    }

    async fn until_answered(&mut self) -> (Vec<Update>, AgentResponse) {
        let mut before = Vec::new();
        loop {
            match self.connection.recv(KNOWN).await.expect("the agent is there").meaning {
                ParsedMessage::Update(update) => before.push(update),
                ParsedMessage::Answer(answer) => return (before, answer),
                ParsedMessage::Permission(ask, request) => {
                    self.asked.push(request.tool.kind());
                    let answer = self.connection.permit(&ask, &request, &self.permit);
                    answer.send().await.unwrap();
                }
                other => panic!("the agent said {other:?}"),
            }
        }
    }

    async fn open(&mut self) -> AcpSessionId {
        let cwd = cwd();
        let new = self.connection.new_session(place(&cwd, &[])).unwrap();
        let (before, answer) = self.call(new).await;
        let AgentResponse::Opened(Ok((session, inner))) = answer else { panic!("not opened: {answer:?}") };
        assert_eq!((before, inner), (vec![], AgentSessionId::from_agent(&format!("inner-{session}"))));
        self.agent.take_heard();
        session
    }

    async fn prompt(&mut self, session: &AcpSessionId, text: &str) -> (Vec<Update>, AgentResponse) {
        let prompt = self.connection.prompt(session, &blocks(text).to_string(), None);
        self.call(prompt.unwrap()).await
    }
}

fn cwd() -> AbsolutePath {
    AbsolutePath::new("/work").unwrap()
}

fn place<'a>(cwd: &'a AbsolutePath, mcp_servers: &'a [McpServer]) -> SessionWorkspace<'a> {
    SessionWorkspace { cwd, additional_directories: &[], mcp_servers, extra_params: None }
}

fn blocks(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn said(kind: &str, text: &str) -> Update {
    let content = json!({ "type": "text", "text": text });
    update(&json!({ "update": { "sessionUpdate": kind, "content": content } }).to_string())
}

fn ended(reason: &str) -> AgentResponse {
    let result = json!({ "stopReason": reason }).to_string();
    AgentResponse::Prompted(Ok(StopReason::new(reason).into()), Some(result.into()))
}

#[tokio::test]
async fn initialize_is_understood_both_ways() {
    let pair = Pair::start().await;
    let capabilities = json!({
        "fs": { "readTextFile": true, "writeTextFile": true },
        "terminal": true,
        "session": { "configOptions": { "boolean": {} }, "compaction": {}, "notices": {} },
        "auth": { "terminal": true },
        "elicitation": { "form": {}, "url": {} },
        "_meta": { "acpx": { "errorData": true } },
    });
    let info = json!({ "name": "acpx", "version": env!("CARGO_PKG_VERSION") });
    let heard = json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info });
    assert_eq!(pair.agent.take_heard(), [heard]);
    let read = Capabilities {
        new: true,
        sessions: Advertised {
            load: true,
            replay: false,
            resume: true,
            list: true,
            close: true,
            delete: true,
        },
        fork: false,
        additional_directories: false,
        logout: false,
        mcp_stdio: true,
        mcp_http: false,
        mcp_sse: false,
        prompt: PromptContent::default(),
    };
    assert_eq!(pair.connection.capabilities(), &read);
}

#[tokio::test]
async fn a_new_session_carries_its_directory_and_its_servers() {
    let mut pair = Pair::start().await;
    pair.agent.take_heard();
    let server = McpServer::new(
        "notes",
        McpTransport::Stdio {
            command: AbsolutePath::new("/bin/notes").unwrap(),
            args: vec!["--all".to_owned()],
            env: vec![NamedValue { name: "TOKEN".to_owned(), value: "s3cret".to_owned() }],
        },
    );
    let cwd = cwd();
    let new = pair.connection.new_session(place(&cwd, std::slice::from_ref(&server))).unwrap();
    pair.call(new).await;
    let env = json!([{ "name": "TOKEN", "value": "s3cret" }]);
    let servers = json!([{ "name": "notes", "command": "/bin/notes", "args": ["--all"], "env": env }]);
    assert_eq!(pair.agent.take_heard(), [json!({ "cwd": "/work", "mcpServers": servers })]);
}

#[tokio::test]
async fn prompt_turn_is_streamed_and_answered() {
    let mut pair = Pair::start().await;
    let session = pair.open().await;
    let turn = pair.prompt(&session, "one").await;
    assert_eq!(turn, (vec![said("agent_message_chunk", "You said: one")], ended("end_turn")));
    assert_eq!(pair.agent.take_heard(), [json!({ "sessionId": session, "prompt": blocks("one") })]);
}

#[tokio::test]
async fn a_permission_is_read_and_each_answer_is_understood() {
    let mut pair = Pair::start().await;
    let session = pair.open().await;
    let table = [
        (Permit::Approve, "selected yes"),
        (Permit::Reject, "selected no"),
        (Permit::Cancelled, "Cancelled"),
    ];
    for (permit, reply) in table {
        pair.permit = permit.clone();
        let turn = pair.prompt(&session, "permission").await;
        assert_eq!(turn, (vec![said("agent_message_chunk", reply)], ended("end_turn")), "{permit:?}");
    }
    assert_eq!(pair.asked, [ToolKind::Other; 3]);
}

#[tokio::test]
async fn a_cancel_ends_the_turn_that_waits() {
    let mut pair = Pair::start().await;
    let session = pair.open().await;
    let prompt = pair.connection.prompt(&session, &blocks("wait").to_string(), None);
    prompt.unwrap().send().await.unwrap();
    let first = pair.connection.recv(KNOWN).await.unwrap().meaning;
    assert!(
        matches!(first, ParsedMessage::Update(update) if update == said("agent_message_chunk", "waiting"))
    );
    pair.connection.cancel(&session, None).send().await.unwrap();
    assert_eq!(pair.until_answered().await, (vec![], ended("cancelled")));
    let heard = [json!({ "sessionId": session, "prompt": blocks("wait") }), json!({ "sessionId": session })];
    assert_eq!(pair.agent.take_heard(), heard);
}

#[tokio::test]
async fn load_replays_before_it_answers_and_resume_does_not() {
    let mut pair = Pair::start().await;
    let session = pair.open().await;
    pair.prompt(&session, "one").await;
    pair.agent.take_heard();
    let cwd = cwd();
    let load = pair.connection.load().unwrap().request(&session, place(&cwd, &[])).unwrap();
    let replay = vec![said("user_message_chunk", "one"), said("agent_message_chunk", "You said: one")];
    assert_eq!(pair.call(load).await, (replay, AgentResponse::Restored(Ok(None))));
    let resume = pair.connection.resume().unwrap().request(&session, place(&cwd, &[])).unwrap();
    assert_eq!(pair.call(resume).await, (vec![], AgentResponse::Restored(Ok(None))));
    // The SDK leaves out an empty list where the protocol lets it.
    let load = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] });
    let resume = json!({ "sessionId": session, "cwd": "/work" });
    assert_eq!(pair.agent.take_heard(), [load, resume]);
}

#[tokio::test]
async fn a_session_it_does_not_know_is_lost() {
    let mut pair = Pair::start().await;
    let cwd = cwd();
    let unknown = AcpSessionId::new("unknown").unwrap();
    let load = pair.connection.load().unwrap().request(&unknown, place(&cwd, &[])).unwrap();
    let error = AgentError::Refused {
        agent: "sdk".to_owned(),
        method: "session/load".to_owned(),
        code: -32002,
        message: "Resource not found".to_owned(),
        field: None,
        acp: Arc::from(r#"{"code":-32002,"message":"Resource not found","data":{"uri":"unknown"}}"#),
        meaning: ErrorMeaning::Lost,
    };
    assert_eq!(pair.call(load).await, (vec![], AgentResponse::Restored(Err(error))));
}

#[tokio::test]
async fn sessions_are_listed_closed_and_deleted() {
    let mut pair = Pair::start().await;
    let session = pair.open().await;
    pair.prompt(&session, "one").await;
    pair.agent.take_heard();
    let row = ListedSession {
        session: session.clone(),
        updated_at: None,
        title: Some("one".to_owned()),
        cwd: Some(cwd().to_string()),
        row: json!({ "sessionId": session, "cwd": cwd(), "title": "one" }).to_string().into(),
    };
    let cwd = cwd();
    let list = |pair: &Pair| pair.connection.list().unwrap().request(Some(&cwd), None);
    let page = |sessions| (vec![], AgentResponse::Listed(Ok(ListPage { sessions, next: None })));
    let request = list(&pair);
    assert_eq!(pair.call(request).await, page(vec![row]));
    let close = pair.connection.close().unwrap().request(&session);
    assert_eq!(pair.call(close).await, (vec![], AgentResponse::Closed(Ok(()))));
    let delete = pair.connection.delete().unwrap().request(&session, None);
    assert_eq!(pair.call(delete).await, (vec![], AgentResponse::Deleted(Ok(()))));
    let request = list(&pair);
    assert_eq!(pair.call(request).await, page(vec![]));
    let (listed, named) = (json!({ "cwd": "/work" }), json!({ "sessionId": session }));
    assert_eq!(pair.agent.take_heard(), [listed.clone(), named.clone(), named, listed]);
    assert_eq!(std::fs::read_dir(pair.home.path()).unwrap().count(), 0);
}

async fn say(session: &Session, text: &str, policy: PermissionMode) -> Turn {
    let prompt = Prompt::text(text).unwrap().with_policy(policy);
    session.prompt(prompt).await.unwrap().finished().await.unwrap()
}

fn stop_reason(turn: &Turn) -> &str {
    match &turn.state {
        TurnState::Ended { outcome: TurnOutcome::Stopped(reason), .. } => reason.as_str(),
        other => panic!("the turn did not stop: {other:?}"),
    }
}

async fn kill(session: &Session) {
    let pid = i32::try_from(session.status().agent_pid.unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    session.wait_for(|status| status.agent_pid.is_none()).await;
}

async fn last_reply(engine: &Engine, session: &Session) -> String {
    let conversation = engine.conversation(session.record_id()).await.unwrap();
    let reply = |entry: &Entry| match entry {
        Entry::Message(message) if message.kind == MessageKind::Agent => Some(message.text.clone()),
        _ => None,
    };
    conversation.entries().iter().rev().find_map(reply).unwrap()
}

#[tokio::test]
async fn the_engine_lives_a_whole_session_with_it_through_a_kill() {
    let (first, second) = (ProtocolVersion::V1, ProtocolVersion::V2);
    let agents = [(None, first), (Some("--no-resume"), first), (Some("--v2"), second), (None, second)];
    for (flag, asked) in agents {
        let home = TempHome::new();
        let engine = Engine::new(
            Arc::new(MemoryStore::new()),
            HostId::new("host").unwrap(),
            EngineSettings::default(),
        );
        let args = [home.path().to_str().unwrap()].into_iter().chain(flag);
        let cwd = AbsolutePath::from_path(home.path()).unwrap();
        let agent = AgentSpec::new(examples::program("sdk_agent").to_str().unwrap(), args);
        let agent = agent.with_protocol(asked);
        let new = NewSession::new(agent, cwd, Environment::default());
        let session = engine.open(new).await.unwrap();
        let ids = session.identity();
        assert_eq!(stop_reason(&say(&session, "one", PermissionMode::DenyAll).await), "end_turn");
        say(&session, "permission", PermissionMode::ApproveAll).await;
        assert_eq!(last_reply(&engine, &session).await, "selected yes");
        let waiting = session.prompt(Prompt::text("wait").unwrap()).await.unwrap();
        let mut events = session.follow(Seq::FIRST);
        while !events.next().await.unwrap().unwrap().body.contains("waiting") {}
        session.cancel(None).await.unwrap();
        assert_eq!(stop_reason(&waiting.finished().await.unwrap()), "cancelled");
        kill(&session).await;

        let how = match flag {
            None | Some("--v2") => WakeOutcome::Restored { rung: Rung::Resume, replay: None },
            Some(_) => WakeOutcome::Restored { rung: Rung::Load, replay: Some(ReplayVerdict::Same) },
        };
        assert_eq!(session.wake(RestoreSession::new(Environment::default())).await.unwrap(), how);
        say(&session, "recall", PermissionMode::DenyAll).await;
        assert_eq!(last_reply(&engine, &session).await, "one, permission, wait");
        assert_eq!(session.identity(), ids);
        session.close().await.unwrap();
        let spoken = if flag == Some("--v2") { second } else { first };
        let mut events = engine.replay(session.record_id(), Seq::FIRST);
        assert_eq!(events.next().await.unwrap().unwrap().protocol, spoken.number());
    }
}
