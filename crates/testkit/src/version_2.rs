//! Script builder methods for agents that speak version 2 of the protocol. Steps that are the same in both versions use
//! the methods of version 1.

use serde_json::{Value, json};

use crate::Script;

impl Script {
    /// Replies to `initialize` with version 2 and this `capabilities.session`.
    #[must_use]
    pub fn initialize_v2(self, session: Value) -> Self {
        let info = json!({ "name": "scripted", "version": "2" });
        let capabilities = Value::from_iter([("session", session)]);
        let answer = json!({ "protocolVersion": 2, "info": info, "capabilities": capabilities });
        self.expect("initialize").reply(answer)
    }

    /// Sends a `state_update` with this state.
    #[must_use]
    pub fn state(self, state: &str) -> Self {
        self.update(json!({ "sessionUpdate": "state_update", "state": state }))
    }

    /// Sends an idle `state_update` with this stop reason.
    #[must_use]
    pub fn idle(self, stop_reason: &str) -> Self {
        self.update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": stop_reason }))
    }

    /// Accepts the last captured prompt: replies with its message id, sends the user message and the running state.
    #[must_use]
    pub fn insert(self, text: &str) -> Self {
        let user = whole("user_message", "user-{id}", text);
        self.reply(json!({ "messageId": "user-{id}" })).update(user).state("running")
    }

    /// Sends a chunk of this agent message.
    #[must_use]
    pub fn say_in(self, message: &str, text: &str) -> Self {
        let content = json!({ "type": "text", "text": text });
        self.update(
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content }),
        )
    }

    /// Sends a complete user message and a complete agent message, as a replay does.
    #[must_use]
    pub fn replay_exchange(self, number: u64, prompt: &str, answer: &str) -> Self {
        self.update(whole("user_message", &format!("user-{number}"), prompt)).update(whole(
            "agent_message",
            &format!("agent-{number}"),
            answer,
        ))
    }

    /// Requests permission for an edit, with the options `yes` and `no`, and waits for the reply.
    #[must_use]
    pub fn ask_permission_v2(self, tool_call: &str) -> Self {
        let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
        let tool_call = json!({ "toolCallId": tool_call, "title": "Edit a file", "kind": "edit" });
        let params = json!({
            "sessionId": "{sessionId}",
            "title": "Edit a file",
            "subject": { "type": "tool_call", "toolCall": tool_call },
            "options": [option("yes", "allow_once"), option("no", "reject_once")],
        });
        self.state("requires_action").request("session/request_permission", params).state("running")
    }

    /// Serves one session until stdin ends. Every prompt is reported as `prompt` and answered with `answer`, and a
    /// replay sends the same exchange.
    #[must_use]
    pub fn serve_v2(self, prompt: &str, answer: &str) -> Self {
        let turn = Self::new().insert(prompt).say_in("agent-{id}", answer).idle("end_turn");
        let resume = Self::new().when("replayFrom", |replay| replay.replay_exchange(1, prompt, answer));
        let row = json!({ "sessionId": "s1", "cwd": "/", "title": prompt });
        self.serve([
            ("session/new", Self::new().reply(json!({ "sessionId": "s1" }))),
            ("session/resume", resume.state("idle").reply(json!({}))),
            ("session/prompt", turn),
            ("session/cancel", Self::new().idle("cancelled")),
            ("session/list", Self::new().reply(json!({ "sessions": [row] }))),
            ("session/close", Self::new().reply(json!({}))),
            ("session/delete", Self::new().reply(json!({}))),
        ])
    }
}

fn whole(kind: &str, message: &str, text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    json!({ "sessionUpdate": kind, "messageId": message, "content": content })
}
