//! Our client side against an agent that is made with the official SDK in version 2 of the protocol. The whole life of
//! a session with it is lived in `sdk_agent.rs`.

use acpx_core::acp::client::{
    AgentConnection, AgentResponse, InitializedAgent, MessageContext, OutgoingLine, ParsedMessage,
    SessionWorkspace,
};
use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentState, ChunkContent, MessageKind, ProtocolVersion, Secrets, StopReason,
    TurnStop, Update,
};
use acpx_core::wire::{self, WireLimits};
use acpx_testkit::TempHome;
use agent_client_protocol::ByteStreams;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

#[path = "../../examples/sdk_agent/version_2.rs"]
mod agent;

use agent::SdkAgent;

/// A connection to an agent that keeps its sessions here.
async fn start(home: &TempHome) -> AgentConnection {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (source, target) = tokio::io::split(theirs);
    let streams = ByteStreams::new(target.compat_write(), source.compat());
    tokio::spawn(agent::serve(SdkAgent::new(home.path().to_owned()), streams));
    let (source, target) = tokio::io::split(ours);
    let (peer, incoming) = wire::connect(source, target, WireLimits::default());
    match AgentConnection::start("sdk", ProtocolVersion::V2, peer, incoming, Secrets::default(), None).await {
        Ok(InitializedAgent { connection, .. }) => connection,
        Err(failure) => panic!("the agent did not answer initialize: {failure:?}"),
    }
}

/// Sends a call and gives what the agent says until `is_last`.
async fn heard(
    connection: &mut AgentConnection,
    call: OutgoingLine,
    is_last: impl Fn(&ParsedMessage) -> bool,
) -> Vec<ParsedMessage> {
    call.send().await.unwrap();
    let mut said = Vec::new();
    while !said.last().is_some_and(&is_last) {
        said.push(connection.recv(MessageContext::default()).await.expect("the agent is there").meaning);
    }
    said
}

fn is_answer(meaning: &ParsedMessage) -> bool {
    matches!(meaning, ParsedMessage::Answer(_))
}

fn updates<'a>(said: &'a [ParsedMessage]) -> Vec<&'a Update> {
    let update = |meaning: &'a ParsedMessage| {
        if let ParsedMessage::Update(update) = meaning { Some(update) } else { None }
    };
    said.iter().filter_map(update).collect()
}

fn states<'a>(said: &'a [ParsedMessage]) -> Vec<&'a AgentState> {
    let state = |meaning: &'a ParsedMessage| {
        if let ParsedMessage::State(state, _) = meaning { Some(state) } else { None }
    };
    said.iter().filter_map(state).collect()
}

fn texts<'a>(updates: &[&'a Update]) -> Vec<(MessageKind, &'a [ChunkContent])> {
    let whole = |update: &&'a Update| match update {
        Update::Message { kind, content: Some(content), .. } => Some((*kind, content.as_slice())),
        _ => None,
    };
    updates.iter().filter_map(whole).collect()
}

async fn opened(connection: &mut AgentConnection, place: SessionWorkspace<'_>) -> AcpSessionId {
    let call = connection.new_session(place).unwrap();
    match heard(connection, call, is_answer).await.pop() {
        Some(ParsedMessage::Answer(AgentResponse::Opened(Ok((session, None))))) => session,
        other => panic!("not opened: {other:?}"),
    }
}

#[tokio::test]
async fn a_prompt_is_inserted_worked_on_and_replayed_with_the_same_ids() {
    let home = TempHome::new();
    let cwd = AbsolutePath::new("/work").unwrap();
    let place =
        SessionWorkspace { cwd: &cwd, additional_directories: &[], mcp_servers: &[], extra_params: None };
    let mut connection = start(&home).await;
    assert_eq!(connection.version(), ProtocolVersion::V2);
    let session = opened(&mut connection, place).await;
    let prompt = connection.prompt(&session, r#"[{"type":"text","text":"one"}]"#, None).unwrap();
    let is_done =
        |meaning: &ParsedMessage| matches!(meaning, ParsedMessage::State(AgentState::Idle(Some(_)), _));
    let live = heard(&mut connection, prompt, is_done).await;
    assert!(
        live.iter().any(|meaning| matches!(meaning, ParsedMessage::Answer(AgentResponse::Inserted(_)))),
        "{live:?}"
    );
    let ended = AgentState::Idle(Some(Ok(TurnStop::from(StopReason::new("end_turn")))));
    // The first is that of the session that was ready.
    assert_eq!(states(&live), [&AgentState::Idle(None), &AgentState::Working, &ended]);
    let text = |text: &str| vec![ChunkContent::Text(text.into())];
    let (said, answered) = (text("one"), text("You said: one"));
    let expected = [(MessageKind::User, said.as_slice()), (MessageKind::Agent, answered.as_slice())];
    assert_eq!(texts(&updates(&live)), expected);

    let mut again = start(&home).await;
    let call = again.replay().unwrap().request(&session, place).unwrap();
    let replayed = heard(&mut again, call, is_answer).await;
    assert_eq!(texts(&updates(&replayed)), expected);
    let whole: Vec<_> =
        updates(&live).into_iter().filter(|update| matches!(update, Update::Message { .. })).collect();
    assert_eq!(updates(&replayed), whole);
    assert_eq!(states(&replayed), [&AgentState::Idle(None)]);
    assert!(matches!(replayed.last(), Some(ParsedMessage::Answer(AgentResponse::Restored(Ok(None))))));

    let call = again.resume().unwrap().request(&session, place).unwrap();
    let resumed = heard(&mut again, call, is_answer).await;
    assert_eq!((updates(&resumed).len(), states(&resumed)), (0, vec![&AgentState::Idle(None)]));
}
