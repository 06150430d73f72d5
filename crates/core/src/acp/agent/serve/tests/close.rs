//! Requests that restore and that close a session, sent without waiting for each other's replies.

use tokio::sync::Semaphore;

use super::*;

/// Records its calls. Turns end, and the session `slow` is loaded, only through the gate.
struct Ledger {
    entries: Mutex<Vec<String>>,
    gate: Semaphore,
}

impl Ledger {
    fn new() -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), gate: Semaphore::new(0) })
    }

    fn write(&self, entry: impl Into<String>) {
        self.entries.lock().unwrap().push(entry.into());
    }

    fn read(&self) -> Vec<String> {
        self.entries.lock().unwrap().clone()
    }

    fn open_gate(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    async fn pass_gate(&self) {
        self.gate.acquire().await.unwrap().forget();
    }
}

impl AgentService for Ledger {
    async fn new_session(&self, _: NewCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        Ok(SessionSetup::new(session("s1")))
    }

    async fn load_session(&self, call: RestoreCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        if call.session.as_str() == "slow" {
            self.pass_gate().await;
        }
        self.write(format!("load {}", call.session));
        Ok(SessionSetup::new(call.session))
    }

    async fn resume_session(&self, call: RestoreCall, _: ClientLink) -> Result<SessionSetup, CallError> {
        self.write(format!("resume {}", call.session));
        Ok(SessionSetup::new(call.session))
    }

    async fn close_session(&self, session: AcpSessionId) -> Result<(), CallError> {
        self.write(format!("close {session}"));
        assert_ne!(session.as_str(), "torn", "a close may fail in ways nobody thought of");
        Ok(())
    }

    async fn delete_session(&self, session: AcpSessionId, _: CallExtras) -> Result<Meta, CallError> {
        self.write(format!("delete {session}"));
        Ok(Meta::new())
    }

    async fn set(&self, call: SetCall, _: ClientLink) -> Result<String, CallError> {
        self.pass_gate().await;
        let SetChoice::Mode(mode) = call.choice else { panic!("{:?}", call.choice) };
        self.write(format!("mode {mode}"));
        Ok("{}".to_owned())
    }

    async fn prompt(
        &self,
        call: PromptCall,
        mut cancellation: Cancellation,
        _: TurnLink,
    ) -> Result<PromptReply, CallError> {
        self.write(format!("{} begins", call.text));
        cancellation.requested().await;
        self.pass_gate().await;
        self.write(format!("{} ends", call.text));
        Ok(StopReason::cancelled().into())
    }
}

impl Client {
    async fn with_ledger() -> (Self, Arc<Ledger>) {
        let ledger = Ledger::new();
        let mut client = Self::of(Arc::clone(&ledger));
        client.call("initialize", json!({ "protocolVersion": 1 })).await;
        client.call("session/new", json!({ "cwd": "/w", "mcpServers": [] })).await;
        (client, ledger)
    }

    async fn about(&self, method: &str, session: &str) -> RpcId {
        self.send(method, json!({ "sessionId": session, "cwd": "/w", "mcpServers": [] })).await
    }

    /// Asserts that everything sent so far has been read and has no reply.
    async fn nothing_yet(&mut self) {
        let page = self.call("session/list", json!({})).await;
        assert_eq!(page, json!({ "result": { "sessions": [] } }));
    }
}

fn cancelled(id: &RpcId) -> Value {
    result(id, json!({ "stopReason": "cancelled" }))
}

#[tokio::test]
async fn session_restore_waits_for_an_earlier_close_or_delete() {
    let ways = [("session/close", "close s1"), ("session/delete", "delete s1")];
    let returns = [("session/resume", "resume s1"), ("session/load", "load s1")];
    for (ending, ended) in ways {
        for (restoring, restored) in returns {
            let (mut client, ledger) = Client::with_ledger().await;
            let first = client.prompt("s1", "first").await;
            let end = client.about(ending, "s1").await;
            let restore = client.about(restoring, "s1").await;
            let early = client.prompt("s1", "early").await;
            assert_eq!(client.next().await, not_found(&early, "s1"));
            client.nothing_yet().await;
            ledger.open_gate();
            assert_eq!(client.next().await, cancelled(&first));
            assert_eq!(client.next().await, result(&end, json!({})));
            assert_eq!(client.next().await, result(&restore, json!({})));
            let second = client.prompt("s1", "second").await;
            client.notify("session/cancel", json!({ "sessionId": "s1" })).await;
            assert_eq!(client.next().await, cancelled(&second));
            let expected = ["first begins", "first ends", ended, restored, "second begins", "second ends"];
            assert_eq!(ledger.read(), expected);
        }
    }
}

#[tokio::test]
async fn concurrent_closes_and_deletes_are_answered_in_order() {
    let table = [
        ("session/close", "session/close", vec!["close s1"]),
        ("session/close", "session/delete", vec!["close s1", "delete s1"]),
        ("session/delete", "session/close", vec!["delete s1"]),
        ("session/delete", "session/delete", vec!["delete s1", "delete s1"]),
    ];
    for (one, other, done) in table {
        let (mut client, ledger) = Client::with_ledger().await;
        let turn = client.prompt("s1", "turn").await;
        let one = client.about(one, "s1").await;
        let other = client.about(other, "s1").await;
        client.nothing_yet().await;
        ledger.open_gate();
        assert_eq!(client.next().await, cancelled(&turn));
        assert_eq!(client.next().await, result(&one, json!({})));
        assert_eq!(client.next().await, result(&other, json!({})));
        assert_eq!(ledger.read(), [vec!["turn begins", "turn ends"], done].concat());
    }
}

#[tokio::test]
async fn close_waits_for_an_earlier_load() {
    let (mut client, ledger) = Client::with_ledger().await;
    let load = client.about("session/load", "slow").await;
    let close = client.about("session/close", "slow").await;
    client.nothing_yet().await;
    ledger.open_gate();
    assert_eq!(client.next().await, result(&load, json!({})));
    assert_eq!(client.next().await, result(&close, json!({})));
    let late = client.prompt("slow", "late").await;
    assert_eq!(client.next().await, not_found(&late, "slow"));
    assert_eq!(ledger.read(), ["load slow", "close slow"]);
}

#[tokio::test]
async fn a_close_waits_for_the_mode_that_was_asked_for_before_it() {
    let (mut client, ledger) = Client::with_ledger().await;
    let mode = client.send("session/set_mode", json!({ "sessionId": "s1", "modeId": "ask" })).await;
    let close = client.about("session/close", "s1").await;
    client.nothing_yet().await;
    ledger.open_gate();
    assert_eq!(client.next().await, result(&mode, json!({})));
    assert_eq!(client.next().await, result(&close, json!({})));
    assert_eq!(ledger.read(), ["mode ask", "close s1"]);
}

#[tokio::test]
async fn a_resume_that_waits_for_a_close_can_be_withdrawn() {
    let (mut client, ledger) = Client::with_ledger().await;
    let turn = client.prompt("s1", "turn").await;
    let close = client.about("session/close", "s1").await;
    let resume = client.about("session/resume", "s1").await;
    client.nothing_yet().await;
    client.peer.cancel(&resume);
    let answer = client.next().await;
    let error = json!({ "code": -32800, "message": "request cancelled" });
    assert_eq!((answer["id"].to_string(), &answer["error"]), (resume.as_str().to_owned(), &error));
    // The close precedes all later requests.
    let again = client.about("session/resume", "s1").await;
    client.nothing_yet().await;
    ledger.open_gate();
    assert_eq!(client.next().await, cancelled(&turn));
    assert_eq!(client.next().await, result(&close, json!({})));
    assert_eq!(client.next().await, result(&again, json!({})));
    assert_eq!(ledger.read(), ["turn begins", "turn ends", "close s1", "resume s1"]);
}

#[tokio::test]
async fn other_sessions_do_not_wait_for_a_close() {
    let (mut client, ledger) = Client::with_ledger().await;
    let turn = client.prompt("s1", "turn").await;
    let close = client.about("session/close", "s1").await;
    for method in ["session/resume", "session/load", "session/close", "session/delete"] {
        let other = client.about(method, "s2").await;
        assert_eq!(client.next().await, result(&other, json!({})));
    }
    ledger.open_gate();
    assert_eq!(client.next().await, cancelled(&turn));
    assert_eq!(client.next().await, result(&close, json!({})));
    let expected = ["turn begins", "resume s2", "load s2", "close s2", "delete s2", "turn ends", "close s1"];
    assert_eq!(ledger.read(), expected);
}

#[tokio::test]
async fn close_that_panics_is_answered_and_unblocks_later_requests() {
    let (mut client, ledger) = Client::with_ledger().await;
    let params = json!({ "sessionId": "torn", "cwd": "/w" });
    assert_eq!(client.call("session/resume", params).await, json!({ "result": {} }));
    let close = client.about("session/close", "torn").await;
    let resume = client.about("session/resume", "torn").await;
    let details = json!({ "details": "the handler of session/close has failed" });
    assert_eq!(client.next().await, failure(&close, -32603, "Internal error", details));
    assert_eq!(client.next().await, result(&resume, json!({})));
    assert_eq!(ledger.read(), ["resume torn", "close torn", "resume torn"]);
}
