//! The lines our client side sends, byte for byte, to an agent at the other end of a pipe in memory.

use acpx_core::acp::client::{AgentConnection, Outgoing, SessionPlace};
use acpx_core::acp::read_error;
use acpx_core::model::{
    AbsolutePath, AcpSessionId, AgentError, McpServer, McpTransport, NamedValue, Reading,
};
use acpx_core::wire::{self, Inbound, Incoming, Limits, Peer, RpcError};
use serde_json::{Value, json};

/// An agent's end: what reaches it.
struct FarEnd {
    incoming: Incoming,
    _peer: Peer,
}

impl FarEnd {
    async fn received(&mut self) -> Value {
        let inbound = self.incoming.recv().await.expect("a line arrives");
        let mut message: Value = serde_json::from_str(inbound.message().line()).unwrap();
        let fields = message.as_object_mut().unwrap();
        assert_eq!(fields.remove("jsonrpc"), Some(json!("2.0")));
        fields.remove("id");
        message
    }
}

/// A connection to an agent that advertises this.
async fn connected(capabilities: Value) -> (AgentConnection, FarEnd) {
    let ((peer, incoming), (far_peer, mut far_incoming)) = wire::memory(Limits::default());
    let answer = async {
        let Some(Inbound::Request { id, .. }) = far_incoming.recv().await else { panic!("no request") };
        let result = json!({"protocolVersion": 1, "agentCapabilities": capabilities}).to_string();
        far_peer.respond(&id, &result).await.unwrap();
    };
    let (started, ()) = tokio::join!(AgentConnection::start("a", peer, incoming), answer);
    let connection = started.unwrap().connection;
    (connection, FarEnd { incoming: far_incoming, _peer: far_peer })
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
async fn a_call_carries_what_the_protocol_asks_for_and_nothing_else() {
    let (connection, mut agent) = connected(everything()).await;
    let (session, cwd) = (session(), AbsolutePath::new("/w").unwrap());
    let place = SessionPlace { cwd: &cwd, mcp_servers: &[] };
    let workspace = json!({"sessionId": "s", "cwd": "/w", "mcpServers": []});
    let only_session = json!({"sessionId": "s"});
    let blocks = r#"[{"type":"text","text":"hi"}]"#;
    let table: Vec<(Outgoing, &str, Value)> = vec![
        (connection.new_session(place).unwrap(), "session/new", json!({"cwd": "/w", "mcpServers": []})),
        (connection.load().unwrap().request(&session, place).unwrap(), "session/load", workspace.clone()),
        (connection.resume().unwrap().request(&session, place).unwrap(), "session/resume", workspace),
        (
            connection.prompt(&session, blocks),
            "session/prompt",
            json!({"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}),
        ),
        (connection.cancel(&session), "session/cancel", only_session.clone()),
        (connection.close().unwrap().request(&session), "session/close", only_session.clone()),
        (connection.delete().unwrap().request(&session), "session/delete", only_session),
        (connection.list().unwrap().request(&cwd, None), "session/list", json!({"cwd": "/w"})),
    ];
    for (outgoing, method, params) in table {
        connection.send(outgoing).await.unwrap();
        assert_eq!(agent.received().await, json!({"method": method, "params": params}));
    }
}

#[tokio::test]
async fn what_is_not_advertised_cannot_be_called() {
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
    (McpServer { name: "m".into(), transport }, on_the_wire)
}

#[tokio::test]
async fn each_transport_goes_out_only_where_it_may() {
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
            let call = connection.new_session(SessionPlace { cwd: &cwd, mcp_servers: &[given] });
            if allowed.contains(&kind) {
                connection.send(call.unwrap()).await.unwrap();
                assert_eq!(agent.received().await["params"]["mcpServers"], json!([on_the_wire]));
            } else {
                let Err(AgentError::McpUnsupported { server, capability, .. }) = call else {
                    panic!("{kind}")
                };
                assert_eq!((&*server, capability), ("m", kind));
            }
        }
    }
}

#[test]
fn the_older_code_of_an_unknown_session_is_read_as_lost() {
    assert_eq!(read_error(&RpcError::new(-32001, "x"), true), Reading::Lost);
}
