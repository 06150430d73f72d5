//! What a sink gets of an event, as JSON and as words.
//!
//! Without `bodies` it has no text of the conversation: neither of a prompt, a message or a request, nor the title that
//! the agent gave the session.

use acpx_core::model::{
    NotificationEvent, NotificationKind, QueuedNotification, Record, SessionIdentity, Timestamp,
};
use serde::Serialize;

/// An event of a session for a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotificationPayload {
    /// The kind of event, or `test`.
    pub(crate) event: &'static str,
    /// The same for every delivery of the event.
    pub(crate) event_id: String,
    at: Timestamp,
    summary: String,
    #[serde(flatten)]
    session: Option<NotifiedSession>,
    #[serde(flatten)]
    details: EventDetails,
    /// The session's page, if a web server has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Text of the conversation, if the sink is to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

/// The session that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NotifiedSession {
    acpx_record_id: String,
    acpx_session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_session_id: Option<String>,
    agent_name: String,
    cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

/// What belongs to one kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct EventDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question_id: Option<String>,
    /// The command line that answers a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl NotificationPayload {
    /// The payload of a queued event. `text` is text of the conversation for a sink that gets it, and `page` the URL of
    /// the home's web server.
    pub(crate) fn new(
        queued: &QueuedNotification,
        record: &Record,
        has_bodies: bool,
        text: Option<String>,
        page: Option<&str>,
    ) -> Self {
        let agent_name = record.agent.label().into_owned();
        let cwd = record.cwd.to_string();
        let name = record.scope.as_ref().and_then(|scope| scope.name.as_ref()).map(ToString::to_string);
        // The agent's title often repeats the prompt.
        let title = if has_bodies { record.info.title() } else { record.info.user_title.as_deref() };
        let directory = record.cwd.as_path().file_name().unwrap_or(record.cwd.as_path().as_os_str());
        let place = directory.to_string_lossy().replace(char::is_control, " ");
        let subject = match &name {
            Some(name) => format!("{agent_name} ({name}) in {place}"),
            None => format!("{agent_name} in {place}"),
        };
        let SessionIdentity { record: id, session, agent_session } = record.identity();
        Self {
            event: queued.event.kind().as_str(),
            event_id: queued.id.clone(),
            at: queued.at,
            summary: format!("{subject} {}", predicate(&queued.event)),
            session: Some(NotifiedSession {
                acpx_record_id: id.to_string(),
                acpx_session_id: session.to_string(),
                agent_session_id: agent_session.map(|id| id.to_string()),
                agent_name,
                cwd,
                name,
                title: title.map(str::to_owned),
            }),
            details: EventDetails::of(&queued.event),
            url: page.map(|page| format!("{}/#/s/{}", page.trim_end_matches('/'), record.id)),
            text: text.filter(|_| has_bodies),
        }
    }

    /// The payload by which a user tries a sink.
    pub(crate) fn test(event_id: String, at: Timestamp, page: Option<&str>) -> Self {
        Self {
            event: "test",
            event_id,
            at,
            summary: "acpx reaches this sink".to_owned(),
            session: None,
            details: EventDetails::default(),
            url: page.map(str::to_owned),
            text: None,
        }
    }

    /// The payload as JSON.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a payload has only strings and numbers")
    }

    /// The summary and the text below it, if there is one.
    pub(crate) fn words(&self) -> String {
        let below = self.text.as_ref().map(|text| format!("\n{text}")).unwrap_or_default();
        format!("{}{below}", self.summary)
    }

    /// The page that opens the event.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Whether the user is likely to want to act.
    pub(crate) fn is_urgent(&self) -> bool {
        self.event == NotificationKind::Waiting.as_str()
    }
}

fn predicate(event: &NotificationEvent) -> String {
    match event {
        NotificationEvent::Waiting { is_form: true, .. } => "asks you to fill in a form".to_owned(),
        NotificationEvent::Waiting { is_form: false, .. } => "waits for your permission".to_owned(),
        NotificationEvent::TurnEnded { stop_reason, .. } if stop_reason == "end_turn" => {
            "has finished".to_owned()
        }
        NotificationEvent::TurnEnded { stop_reason, .. } => format!("has stopped: {stop_reason}"),
        NotificationEvent::Failed { code, .. } => format!("has failed: {}", code.as_str()),
        NotificationEvent::Reset { reason, .. } => {
            format!("continues in a fresh session and does not remember the earlier one: {reason}")
        }
        NotificationEvent::HostLost { .. } => "was cut off: the host died during the turn".to_owned(),
    }
}

impl EventDetails {
    fn of(event: &NotificationEvent) -> Self {
        let base = Self { turn: event.turn().map(|turn| turn.0), ..Self::default() };
        match event {
            NotificationEvent::Waiting { question_id, .. } => Self {
                question_id: Some(question_id.clone()),
                command: Some(format!("acpx approve {question_id}")),
                ..base
            },
            NotificationEvent::TurnEnded { stop_reason, .. } => {
                Self { stop_reason: Some(stop_reason.clone()), ..base }
            }
            NotificationEvent::Failed { code, .. } => {
                Self { error_code: Some(code.as_str().to_owned()), ..base }
            }
            NotificationEvent::Reset { reason, .. } => Self { reason: Some(reason.clone()), ..base },
            NotificationEvent::HostLost { .. } => base,
        }
    }
}

#[cfg(test)]
mod tests {
    use acpx_core::model::{
        AbsolutePath, AcpSessionId, AgentMemory, AgentSpec, ErrorCode, Lifecycle, Lineage, RecordId,
        RecordSettings, Scope, SessionInfo, SessionName,
    };
    use serde_json::{Value, json};

    use super::*;

    fn at() -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000).unwrap()
    }

    fn record(name: Option<&str>) -> Record {
        let agent = AgentSpec::new("npx", ["agent"]).named("claude");
        let cwd = AbsolutePath::new("/home/ada/ho\nuse").unwrap();
        let name = name.map(|name| SessionName::new(name).unwrap());
        let info = SessionInfo {
            title: Some("private title".to_owned()),
            user_title: name.as_ref().map(|_| "mine".to_owned()),
            usage: None,
        };
        Record {
            id: RecordId::new("r1").unwrap(),
            scope: Some(Scope { agent: agent.key(), name }),
            agent,
            real_cwd: cwd.clone(),
            cwd,
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
            info,
            lifecycle: Lifecycle::Open,
            lineage: Lineage::begin(AcpSessionId::new("s").unwrap(), None, at()),
            agent_run: None,
            settings: RecordSettings::default(),
            memory: AgentMemory::default(),
            restore_error: None,
            created_at: at(),
            updated_at: at(),
            last_seq: None,
            last_turn: None,
            answered_turns: 0,
        }
    }

    fn payload(event: NotificationEvent, name: Option<&str>, has_bodies: bool) -> Value {
        let record = record(name);
        let queued = QueuedNotification {
            id: event.id(&record.id),
            sink: "phone".to_owned(),
            record: record.id.clone(),
            at: at(),
            event,
            attempts: 3,
            next_attempt_at: at(),
        };
        let text = Some("private text".to_owned());
        let payload = NotificationPayload::new(&queued, &record, has_bodies, text, Some("http://h:7/"));
        serde_json::from_str(&payload.to_json()).unwrap()
    }

    #[test]
    fn notification_payload_has_the_members_of_its_event() {
        let ended = |reason: &str| NotificationEvent::TurnEnded { turn: 2, stop_reason: reason.to_owned() };
        let waiting =
            |is_form| NotificationEvent::Waiting { question_id: "4f".to_owned(), is_form, text: None };
        let reset =
            NotificationEvent::Reset { reason: "agent-lost".to_owned(), acpx_session_id: "s2".to_owned() };
        let failed = NotificationEvent::Failed { turn: 2, code: ErrorCode::AgentDied };
        let answer = json!({ "questionId": "4f", "command": "acpx approve 4f" });
        let cases = [
            (waiting(false), "waits for your permission", answer.clone()),
            (waiting(true), "asks you to fill in a form", answer),
            (ended("end_turn"), "has finished", json!({ "turn": 2, "stopReason": "end_turn" })),
            (ended("refusal"), "has stopped: refusal", json!({ "turn": 2, "stopReason": "refusal" })),
            (failed, "has failed: AGENT_DIED", json!({ "turn": 2, "errorCode": "AGENT_DIED" })),
            (
                reset,
                "continues in a fresh session and does not remember the earlier one: agent-lost",
                json!({ "reason": "agent-lost" }),
            ),
            (
                NotificationEvent::HostLost { turn: 2 },
                "was cut off: the host died during the turn",
                json!({ "turn": 2 }),
            ),
        ];
        for (event, predicate, members) in cases {
            let mut expected = json!({
                "event": event.kind().as_str(),
                "eventId": event.id(&record(None).id),
                "at": at(),
                "summary": format!("claude in ho use {predicate}"),
                "acpxRecordId": "r1",
                "acpxSessionId": "s",
                "agentName": "claude",
                "cwd": "/home/ada/ho\nuse",
                "url": "http://h:7/#/s/r1",
            });
            expected.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            assert_eq!(payload(event, None, false), expected);
        }
    }

    #[test]
    fn text_and_title_of_the_conversation_are_only_for_sinks_with_bodies() {
        let lost = || NotificationEvent::HostLost { turn: 1 };
        let members = |payload: &Value| (payload.get("title").cloned(), payload.get("text").cloned());
        assert_eq!(members(&payload(lost(), None, false)), (None, None));
        assert_eq!(members(&payload(lost(), Some("api"), false)), (Some(json!("mine")), None));
        let with_bodies = payload(lost(), None, true);
        assert_eq!(members(&with_bodies), (Some(json!("private title")), Some(json!("private text"))));
        let summary = &payload(lost(), Some("api"), false)["summary"];
        assert_eq!(summary, "claude (api) in ho use was cut off: the host died during the turn");
    }
}
