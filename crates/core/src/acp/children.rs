//! Child sessions: sub-agents whose updates and requests arrive on the connection of their parent, under their own
//! session ids. Only a child that its parent or another child announced counts; other ids are unknown.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;

/// Maximum number of children per session, and maximum length of their ids.
const MAX_CHILDREN: usize = 1024;
const MAX_ID: usize = 256;

/// The ids of the announced children.
#[derive(Debug, Default)]
pub(super) struct ChildSessions(HashSet<Box<str>>);

/// An update that announces a child, in the protocol's draft or in the older form of one client.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Announcement<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    subagent_session_id: Option<Cow<'a, str>>,
}

impl ChildSessions {
    /// Reads an update of the session or of one of its children; `update` is JSON.
    pub(super) fn learn(&mut self, update: &str) {
        // A cheap search: few updates are about a child, and the others need not be parsed.
        if memchr::memmem::find(update.as_bytes(), b"subagent_").is_none() || self.0.len() >= MAX_CHILDREN {
            return;
        }
        let Ok(announcement) = serde_json::from_str::<Announcement<'_>>(update) else { return };
        let id = match &*announcement.session_update {
            "subagent_update" => announcement.session_id,
            "subagent_spawned" => announcement.subagent_session_id,
            _ => None,
        };
        self.0.extend(id.filter(|id| id.len() <= MAX_ID).map(Into::into));
    }

    pub(super) fn contains(&self, session: &str) -> bool {
        self.0.contains(session)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_session_is_known_once_an_update_announces_it() {
        let mut children = ChildSessions::default();
        for update in [
            r#"{"sessionUpdate":"agent_message_chunk","sessionId":"a","content":"subagent_update"}"#,
            r#"{"sessionUpdate":"subagent_update"}"#,
            r#"{"sessionUpdate":"subagent_update","sessionId":7}"#,
            "subagent_",
            &format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{}"}}"#, "x".repeat(MAX_ID + 1)),
        ] {
            children.learn(update);
        }
        assert!(children.is_empty());
        children.learn(r#"{"sessionUpdate":"subagent_update","sessionId":"c1","state":{"state":"running"}}"#);
        children.learn(r#"{"sessionUpdate":"subagent_spawned","subagentSessionId":"c2","name":"n"}"#);
        assert!(children.contains("c1") && children.contains("c2") && !children.contains("a"));
        for number in 0..2 * MAX_CHILDREN {
            children.learn(&format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"n{number}"}}"#));
        }
        assert_eq!(children.0.len(), MAX_CHILDREN);
    }
}
