//! An agent that accepts no more requests while its client is still connected.

use tokio::sync::watch;

use super::*;
use crate::acp::agent::ClientFacts;

/// Replies to each of its methods, and leaves, when the test signals it.
struct Leaver {
    left: watch::Sender<bool>,
    done: watch::Sender<bool>,
}

async fn told(word: &watch::Sender<bool>) {
    word.subscribe().wait_for(|told| *told).await.unwrap();
}

impl AgentService for Leaver {
    async fn new_session(&self, _: NewCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        Ok(SessionSetup::new(session("s1")))
    }

    async fn prompt(
        &self,
        _: PromptCall,
        cancellation: Cancellation,
        _: TurnLink,
    ) -> Result<PromptReply, CallError> {
        told(&self.done).await;
        assert_eq!(cancellation.cause(), None, "the client is there, and has not asked");
        Ok(StopReason::new("end_turn").into())
    }

    async fn extension(&self, _: ExtensionCall, _: ClientLink) -> Result<String, CallError> {
        told(&self.done).await;
        Err(CallError::Unanswered)
    }

    async fn leaving(&self) {
        told(&self.left).await;
    }
}

#[tokio::test]
async fn shutdown_answers_open_requests_and_ends_the_connection() {
    let leaver = Arc::new(Leaver { left: watch::Sender::new(false), done: watch::Sender::new(false) });
    let mut client = Client::of(Arc::clone(&leaver));
    client.call("initialize", json!({ "protocolVersion": 1 })).await;
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let turn = client.prompt("s1", "go").await;
    client.send("_leaver/open", json!({})).await;
    // Both requests run before it leaves.
    while leaver.done.receiver_count() < 2 {
        tokio::task::yield_now().await;
    }
    leaver.left.send_replace(true);
    tokio::task::yield_now().await;
    client.send("session/list", json!({})).await;
    leaver.done.send_replace(true);
    assert_eq!(client.next().await, result(&turn, json!({ "stopReason": "end_turn" })));
    assert!(client.incoming.recv().await.is_none());
    client.served.await.unwrap();
}

/// Reports when a client has received a session's reply, and when it never will.
#[derive(Clone)]
struct Teller(watch::Sender<Vec<&'static str>>);

struct Untold(Option<Teller>);

impl Drop for Untold {
    fn drop(&mut self) {
        if let Some(Teller(words)) = &self.0 {
            words.send_modify(|words| words.push("untold"));
        }
    }
}

impl AgentService for Teller {
    async fn new_session(&self, call: NewCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        if call.cwd.as_str() == "/late" {
            self.0.subscribe().wait_for(|words| words.contains(&"go")).await.unwrap();
        }
        let mut setup = SessionSetup::new(session("s1"));
        let mut untold = Untold(Some(self.clone()));
        setup.on_delivered = Some(Box::new(move || {
            if let Some(Teller(words)) = untold.0.take() {
                words.send_modify(|words| words.push("told"));
            }
        }));
        Ok(setup)
    }

    async fn prompt(&self, _: PromptCall, _: Cancellation, _: TurnLink) -> Result<PromptReply, CallError> {
        Ok(StopReason::new("end_turn").into())
    }
}

#[tokio::test]
async fn an_agent_learns_whether_its_client_ever_knew_of_a_session() {
    let teller = Teller(watch::Sender::default());
    let mut client = Client::of(Arc::new(teller.clone()));
    client.call("initialize", json!({ "protocolVersion": 1 })).await;
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    teller.0.subscribe().wait_for(|words| *words == ["told"]).await.unwrap();

    client.send("session/new", json!({ "cwd": "/late", "mcpServers": [] })).await;
    let Client { peer, incoming, served } = client;
    while teller.0.receiver_count() < 1 {
        tokio::task::yield_now().await;
    }
    peer.abort();
    drop((peer, incoming));
    teller.0.send_modify(|words| words.push("go"));
    served.await.unwrap();
    assert_eq!(*teller.0.borrow(), ["told", "go", "untold"]);
}

/// Leaves every prompt unanswered once it is cancelled.
struct Quitter;

impl AgentService for Quitter {
    async fn new_session(&self, _: NewCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        Ok(SessionSetup::new(session("s1")))
    }

    async fn prompt(
        &self,
        _: PromptCall,
        mut cancellation: Cancellation,
        _: TurnLink,
    ) -> Result<PromptReply, CallError> {
        cancellation.requested().await;
        Err(CallError::Unanswered)
    }
}

#[tokio::test]
async fn a_prompt_that_is_left_undone_is_never_answered_as_cancelled() {
    let mut client = Client::of(Arc::new(Quitter));
    client.call("initialize", json!({ "protocolVersion": 1 })).await;
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    client.prompt("s1", "go").await;
    client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
    client.peer.close().await.unwrap();
    client.served.await.unwrap();
    assert!(client.incoming.recv().await.is_none());
}

/// Never returns its offer.
struct Mute;

impl AgentService for Mute {
    async fn offer(&self, _: &ClientFacts, _: Offer) -> Result<Offer, CallError> {
        std::future::pending().await
    }

    async fn new_session(&self, _: NewCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        Ok(SessionSetup::new(session("s1")))
    }

    async fn prompt(&self, _: PromptCall, _: Cancellation, _: TurnLink) -> Result<PromptReply, CallError> {
        Ok(StopReason::new("end_turn").into())
    }
}

#[tokio::test]
async fn client_that_disconnects_before_initialize_is_not_waited_for() {
    let ((peer, incoming), (agent, requests)) = memory(WireLimits::default());
    peer.request("initialize", r#"{"protocolVersion":1}"#).await.unwrap();
    peer.close().await.unwrap();
    serve(agent, requests, Arc::new(Mute), offer(), Duration::from_millis(1)).await;
    drop(incoming);
}
