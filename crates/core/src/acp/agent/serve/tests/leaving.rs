//! An agent that takes no more requests while its client is still there.

use tokio::sync::watch;

use super::*;

/// Answers each of its methods when it is told to, and leaves when it is told to.
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
        _: ClientLink,
    ) -> Result<PromptAnswer, CallError> {
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
async fn an_agent_that_leaves_answers_what_it_can_reads_nothing_more_and_ends_the_connection() {
    let leaver = Arc::new(Leaver { left: watch::Sender::new(false), done: watch::Sender::new(false) });
    let mut client = Client::of(Arc::clone(&leaver));
    client.call("initialize", json!({ "protocolVersion": 1 })).await;
    client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
    let turn = client.prompt("s1", "go").await;
    client.send("_leaver/open", json!({})).await;
    // Both are under way before it leaves.
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
