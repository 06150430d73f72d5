//! The lines our client side sends, byte for byte, to an agent at the other end of a pipe in memory.

use acpx_core::acp::client::{
    AgentConnection, AgentResponse, MessageContext, OutgoingLine, ParsedMessage, ReceivedMessage,
    SessionWorkspace,
};
use acpx_core::acp::read_error;
use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentError, ChunkContent, ErrorMeaning, McpServer, McpTransport, NamedValue,
    Profiles, ProtocolVersion, Secrets, ToolKind, Update,
};
use acpx_core::wire::{self, InboundMessage, InboundStream, Peer, RpcError, WireLimits};
use serde_json::{Value, json};

/// An agent's end: what reaches it.
struct FarEnd {
    incoming: InboundStream,
    peer: Peer,
}

impl FarEnd {
    async fn received(&mut self) -> String {
        self.incoming.recv().await.expect("a line arrives").message().line().to_string()
    }
}

/// A connection to an agent that advertises this.
async fn connected(capabilities: Value) -> (AgentConnection, FarEnd) {
    connected_in_confidence(capabilities, Secrets::default()).await
}

/// One to an agent that was given these secrets.
async fn connected_in_confidence(capabilities: Value, secrets: Secrets) -> (AgentConnection, FarEnd) {
    let ((peer, incoming), (far_peer, mut far_incoming)) = wire::memory(WireLimits::default());
    let answer = async {
        let Some(InboundMessage::Request { id, .. }) = far_incoming.recv().await else {
            panic!("no request")
        };
        let result = json!({"protocolVersion": 1, "agentCapabilities": capabilities}).to_string();
        far_peer.respond(&id, &result).await.unwrap();
    };
    let (started, ()) =
        tokio::join!(AgentConnection::start("a", ProtocolVersion::V1, peer, incoming, secrets, None), answer);
    let connection = started.unwrap().connection;
    (connection, FarEnd { incoming: far_incoming, peer: far_peer })
}

fn everything() -> Value {
    let marker = json!({});
    let sessions = json!({"resume": marker, "close": marker, "list": marker, "delete": marker});
    json!({"loadSession": true, "sessionCapabilities": sessions})
}

fn session() -> AcpSessionId {
    AcpSessionId::new("s").unwrap()
}

#[tokio::test]
async fn call_carries_the_members_of_the_protocol_and_no_others() {
    let (connection, mut agent) = connected(everything()).await;
    let (session, cwd) = (session(), AbsolutePath::new("/w").unwrap());
    let place =
        SessionWorkspace { cwd: &cwd, additional_directories: &[], mcp_servers: &[], extra_params: None };
    let blocks = r#"[{"type":"text","text":"hi"}]"#;
    let request = |id: u64, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    let setup = r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#;
    let prompt = format!(r#"{{"sessionId":"s","prompt":{blocks}}}"#);
    let only_session = r#"{"sessionId":"s"}"#;
    let cancel = format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{only_session}}}"#);
    let table: Vec<(OutgoingLine, String)> = vec![
        (
            connection.new_session(place).unwrap(),
            request(1, "session/new", r#"{"cwd":"/w","mcpServers":[]}"#),
        ),
        (connection.load().unwrap().request(&session, place).unwrap(), request(2, "session/load", setup)),
        (connection.resume().unwrap().request(&session, place).unwrap(), request(3, "session/resume", setup)),
        (connection.prompt(&session, blocks, None).unwrap(), request(4, "session/prompt", &prompt)),
        (connection.cancel(&session, None), cancel),
        (connection.close().unwrap().request(&session), request(5, "session/close", only_session)),
        (connection.delete().unwrap().request(&session, None), request(6, "session/delete", only_session)),
        (connection.list().unwrap().request(Some(&cwd), None), request(7, "session/list", r#"{"cwd":"/w"}"#)),
    ];
    for (outgoing, line) in table {
        outgoing.send().await.unwrap();
        assert_eq!(agent.received().await, line);
    }
}

#[tokio::test]
async fn nothing_is_sent_before_initialize_is_answered() {
    let ((peer, incoming), (far_peer, mut far_incoming)) = wire::memory(WireLimits::default());
    let mut starting =
        Box::pin(AgentConnection::start("a", ProtocolVersion::V1, peer, incoming, Secrets::default(), None));
    let first = tokio::select! {
        _ = &mut starting => panic!("there is a connection before initialize was answered"),
        inbound = far_incoming.recv() => inbound.expect("a line arrives"),
    };
    let InboundMessage::Request { id, message } = first else { panic!("not a request: {first:?}") };
    assert_eq!(message.method(), Some("initialize"));
    assert!(far_incoming.try_recv().is_none());
    far_peer.respond(&id, r#"{"protocolVersion":1}"#).await.unwrap();
    let connection = starting.await.unwrap().connection;
    assert!(far_incoming.try_recv().is_none());
    connection.cancel(&session(), None).send().await.unwrap();
    let next = far_incoming.recv().await.expect("a line arrives");
    assert_eq!(next.message().method(), Some("session/cancel"));
}

#[tokio::test]
async fn content_is_sent_only_where_its_type_is_advertised() {
    let kinds = [
        ("image", "image", "promptCapabilities.image"),
        ("audio", "audio", "promptCapabilities.audio"),
        ("resource", "embeddedContext", "promptCapabilities.embeddedContext"),
    ];
    for (kind, capability, named) in kinds {
        let blocks = format!(r#"[{{"type":"text","text":"x"}},{{"type":"{kind}"}}]"#);
        let (without, _) = connected(json!({})).await;
        let expected = AgentError::ContentUnsupported {
            agent: "a".into(),
            index: 1,
            kind: kind.into(),
            capability: named,
        };
        assert_eq!(without.prompt(&session(), &blocks, None).err(), Some(expected));
        let (with, _) = connected(json!({"promptCapabilities": {capability: true}})).await;
        assert!(with.prompt(&session(), &blocks, None).is_ok());
    }
    let (plain, _) = connected(json!({})).await;
    assert!(
        plain.prompt(&session(), r#"[{"type":"resource_link"},{"type":"from_the_future"}]"#, None).is_ok()
    );
    assert_eq!(
        plain.prompt(&session(), "[;", None).err().map(|error| error.code()),
        Some("BAD_PROMPT".into())
    );
}

#[tokio::test]
async fn tool_call_without_the_read_kind_is_not_treated_as_a_read() {
    let (mut connection, agent) = connected(json!({})).await;
    let update = |update: Value| json!({"sessionId": "s", "update": update}).to_string();
    let call = |kind: Option<&str>| json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": kind});
    let ask = json!({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []}).to_string();
    let mut kinds = Vec::new();
    for told in [Some("read"), None] {
        agent.peer.notify("session/update", &update(call(told))).await.unwrap();
        agent.peer.request("session/request_permission", &ask).await.unwrap();
        connection.recv(MessageContext::default()).await.unwrap();
        let Some(ReceivedMessage { meaning: ParsedMessage::Permission(_, request), .. }) =
            connection.recv(MessageContext::default()).await
        else {
            panic!("not a permission request")
        };
        kinds.push(request.tool.kind());
    }
    assert_eq!(kinds, [ToolKind::Reads, ToolKind::Other]);
}

#[tokio::test]
async fn response_that_repeats_our_secrets_is_stored_without_them() {
    let secrets = Secrets::new(["s3cret-value", "s3cret-argument"]);
    let (mut connection, mut agent) = connected_in_confidence(everything(), secrets).await;
    let cwd = AbsolutePath::new("/w").unwrap();
    let env = vec![NamedValue { name: "TOKEN".into(), value: "s3cret-value".into() }];
    let command = AbsolutePath::new("/bin/x").unwrap();
    let args = vec!["--key=s3cret-argument".to_owned()];
    let server = McpServer::new("m", McpTransport::Stdio { command, args, env });
    let place = SessionWorkspace {
        cwd: &cwd,
        additional_directories: &[],
        mcp_servers: &[server],
        extra_params: None,
    };
    let outgoing = connection.new_session(place).unwrap();
    let kept = r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"m"}]}}"#;
    assert_eq!(&**outgoing.redacted().body(), kept);
    outgoing.send().await.unwrap();
    let Some(InboundMessage::Request { id, message }) = agent.incoming.recv().await else {
        panic!("no request")
    };
    let data = format!(r#"{{"json":{}}}"#, message.params().unwrap());
    agent.peer.respond_error(&id, &RpcError::invalid_params("bad").with_data(&data)).await.unwrap();
    let said = connection.recv(MessageContext::default()).await.unwrap();
    assert!(!said.line.body().contains("s3cret"), "{}", said.line.body());
    assert!(!format!("{:?}", said.meaning).contains("s3cret"), "{:?}", said.meaning);
}

#[tokio::test]
async fn agent_that_fails_to_start_does_not_leak_its_environment() {
    let ((peer, incoming), (far_peer, mut far_incoming)) = wire::memory(WireLimits::default());
    let refuse = async {
        let Some(InboundMessage::Request { id, .. }) = far_incoming.recv().await else {
            panic!("no request")
        };
        let refusal = RpcError::new(-32000, "the key s3cret-value is not valid");
        far_peer.respond_error(&id, &refusal).await.unwrap();
    };
    let start = AgentConnection::start(
        "a",
        ProtocolVersion::V1,
        peer,
        incoming,
        Secrets::new(["s3cret-value"]),
        None,
    );
    let (started, ()) = tokio::join!(start, refuse);
    let Err(failure) = started else { panic!("it started") };
    let told = failure.error.as_ref().map(ToString::to_string).unwrap();
    assert!(told.contains("the key [secret] is not valid"), "{told}");
    assert!(!format!("{failure:?}").contains("s3cret"), "{failure:?}");
}

#[tokio::test]
async fn secret_that_is_a_protocol_word_leaves_messages_readable() {
    let secrets = Secrets::new(["session-1", "sessionUpdate", "agent_message_chunk"]);
    let (mut connection, mut agent) = connected_in_confidence(everything(), secrets).await;
    let cwd = AbsolutePath::new("/w").unwrap();
    let place =
        SessionWorkspace { cwd: &cwd, additional_directories: &[], mcp_servers: &[], extra_params: None };
    connection.new_session(place).unwrap().send().await.unwrap();
    let Some(InboundMessage::Request { id, .. }) = agent.incoming.recv().await else { panic!("no request") };
    agent.peer.respond(&id, r#"{"sessionId":"session-1"}"#).await.unwrap();
    let update = r#"{"sessionId":"session-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"the session-1"}}}"#;
    agent.peer.notify("session/update", update).await.unwrap();

    let opened = connection.recv(MessageContext::default()).await.unwrap();
    let session = AcpSessionId::new("session-1").unwrap();
    let ParsedMessage::Answer(AgentResponse::Opened(Ok(made))) = opened.meaning else { panic!("{opened:?}") };
    assert_eq!(made, (session.clone(), None));
    let said = connection.recv(MessageContext { session: Some(&session) }).await.unwrap();
    let ParsedMessage::Update(Update::Chunk { content, .. }) = said.meaning else { panic!("{said:?}") };
    assert_eq!(content, ChunkContent::Text("the [secret]".into()));
    let kept = update.replace("the session-1", "the [secret]");
    assert_eq!(
        &**said.line.body(),
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{kept}}}"#)
    );
}

#[tokio::test]
async fn unadvertised_method_cannot_be_called() {
    let ways = |connection: &AgentConnection| {
        [
            connection.load().is_some(),
            connection.resume().is_some(),
            connection.close().is_some(),
            connection.delete().is_some(),
            connection.list().is_some(),
        ]
    };
    let nulls = json!({"resume": null, "close": null, "delete": null, "list": null});
    let falses = json!({"resume": false, "close": false, "delete": false, "list": false});
    let table = [
        (everything(), [true; 5]),
        (json!({}), [false; 5]),
        (json!({"loadSession": null, "sessionCapabilities": nulls}), [false; 5]),
        (json!({"loadSession": false, "sessionCapabilities": falses}), [false; 5]),
        (json!({"sessionCapabilities": {"resume": {}}}), [false, true, false, false, false]),
    ];
    for (capabilities, expected) in table {
        let (connection, _agent) = connected(capabilities.clone()).await;
        assert_eq!(ways(&connection), expected, "{capabilities}");
    }
}

fn server(kind: &str) -> (McpServer, Value) {
    let pair = || vec![NamedValue { name: "n".into(), value: "v".into() }];
    let url = || "http://127.0.0.1/mcp".to_owned();
    let remote = json!({"type": kind, "name": "m", "url": url(), "headers": [{"name": "n", "value": "v"}]});
    let (transport, on_the_wire) = match kind {
        "http" => (McpTransport::Http { url: url(), headers: pair() }, remote),
        "sse" => (McpTransport::Sse { url: url(), headers: pair() }, remote),
        _ => {
            let command = AbsolutePath::new("/bin/m").unwrap();
            let env = json!([{"name": "n", "value": "v"}]);
            let stdio = json!({"name": "m", "command": "/bin/m", "args": [], "env": env});
            (McpTransport::Stdio { command, args: Vec::new(), env: pair() }, stdio)
        }
    };
    (McpServer::new("m", transport), on_the_wire)
}

#[tokio::test]
async fn each_mcp_transport_is_sent_only_where_it_is_advertised() {
    let cwd = AbsolutePath::new("/w").unwrap();
    let table: [(Value, &[&str]); 4] = [
        (json!(null), &["stdio"]),
        (json!({"http": true, "sse": false}), &["stdio", "http"]),
        (json!({"http": false, "sse": true}), &["stdio", "sse"]),
        (json!({"http": true, "sse": true}), &["stdio", "http", "sse"]),
    ];
    for (advertised, allowed) in table {
        let (connection, mut agent) = connected(json!({"mcpCapabilities": advertised})).await;
        for kind in ["stdio", "http", "sse"] {
            let (given, on_the_wire) = server(kind);
            let call = connection.new_session(SessionWorkspace {
                cwd: &cwd,
                additional_directories: &[],
                mcp_servers: &[given],
                extra_params: None,
            });
            if allowed.contains(&kind) {
                call.unwrap().send().await.unwrap();
                let sent: Value = serde_json::from_str(&agent.received().await).unwrap();
                assert_eq!(sent["params"]["mcpServers"], json!([on_the_wire]));
            } else {
                let (agent, server, index) = ("a".to_owned(), "m".to_owned(), 0);
                let capability = if kind == "http" { "mcpCapabilities.http" } else { "mcpCapabilities.sse" };
                let expected =
                    AgentError::McpUnsupported { agent, index, server, capability: capability.into() };
                assert_eq!(call.err(), Some(expected), "{kind}");
            }
        }
    }
}

#[test]
fn the_older_code_of_an_unknown_session_is_read_as_lost() {
    assert_eq!(read_error(Profiles::built_in().any(), &RpcError::new(-32001, "x")), ErrorMeaning::Lost);
}
