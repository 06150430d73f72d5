//! The cursor of `session/list`. It contains the whole state of a listing, so that a client can continue it after a
//! reconnect or a restart of the host.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::{AcpSessionId, DirectoryNameKind, RecordId};

/// Where a page begins. For clients the text is opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListCursor {
    /// The newest record when the listing began; `None` if there was none.
    pub(super) began: Option<RecordId>,
    /// The record after which the page begins, while there are more records.
    pub(super) after: Option<RecordId>,
    /// Where the agent's own sessions continue after our last record, unless all were listed.
    pub(super) agent_list: Option<AgentListCursor>,
}

/// Where a page of the agent's own sessions begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AgentListCursor {
    /// Which name of the directory is sent to the agent.
    pub(super) named: DirectoryNameKind,
    /// The agent's own cursor; `None` for its first page.
    pub(super) cursor: Option<String>,
    /// The sessions on the previous pages.
    pub(super) listed_before: SentSessionHashes,
}

/// How many listed sessions are remembered. An agent with offset cursors repeats as many recent rows as there are new
/// sessions since its last page.
pub(super) const REMEMBERED: usize = 256;

/// The agent's sessions that were listed last, each as eight bytes of its hash.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SentSessionHashes(VecDeque<u64>);

impl SentSessionHashes {
    /// Adds a session, and returns whether it is new.
    pub(super) fn add(&mut self, session: &AcpSessionId) -> bool {
        if self.contains(session) {
            return false;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(mark(session));
        true
    }

    /// Whether a session was listed, among those that are remembered.
    pub(super) fn contains(&self, session: &AcpSessionId) -> bool {
        self.0.contains(&mark(session))
    }

    /// Whether sessions may have been listed that are not remembered any more.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() == REMEMBERED
    }

    fn text(&self) -> Option<String> {
        let marks: Vec<String> = self.0.iter().map(|mark| format!("{mark:016x}")).collect();
        (!marks.is_empty()).then(|| marks.concat())
    }

    fn read(text: &str) -> Option<Self> {
        let marks = text.as_bytes().chunks(16);
        let mark = |mark| u64::from_str_radix(std::str::from_utf8(mark).ok()?, 16).ok();
        (text.len() <= 16 * REMEMBERED).then(|| marks.map(mark).collect::<Option<_>>().map(Self))?
    }
}

/// Eight bytes of the hash of a session's id.
fn mark(session: &AcpSessionId) -> u64 {
    let hash: [u8; 32] = Sha256::digest(session.as_str().as_bytes()).into();
    u64::from_be_bytes(*hash.first_chunk().expect("a hash has more than eight bytes"))
}

/// The serialized form of a cursor.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Text {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<String>,
    /// The record after which the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// Which name of the directory is sent to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    listed_before: Option<String>,
}

impl ListCursor {
    pub(super) fn text(self) -> String {
        let id = |record: RecordId| record.to_string();
        let (directory_name, cursor, listed_before) = match self.agent_list {
            Some(AgentListCursor { named, cursor, listed_before }) => {
                (Some(word(named).to_owned()), cursor, listed_before.text())
            }
            None => (None, None, None),
        };
        let text = Text {
            began: self.began.map(id),
            after: self.after.map(id),
            directory_name,
            cursor,
            listed_before,
        };
        serde_json::to_string(&text).expect("a cursor has only text")
    }

    /// Parses a cursor; `None` if it is not one of ours.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Text { began, after, directory_name, cursor, listed_before } = serde_json::from_str(text).ok()?;
        let began = began.map(RecordId::new).transpose().ok()?;
        let after = after.map(RecordId::new).transpose().ok()?;
        let agent_list = match directory_name {
            Some(directory_name) => {
                let listed_before = listed_before
                    .as_deref()
                    .map_or(Some(SentSessionHashes::default()), SentSessionHashes::read)?;
                Some(AgentListCursor { named: named(&directory_name)?, cursor, listed_before })
            }
            None if cursor.is_some() || listed_before.is_some() => return None,
            None => None,
        };
        (after.is_some() || agent_list.is_some()).then_some(Self { began, after, agent_list })
    }
}

/// The serialized word for a directory name.
fn word(named: DirectoryNameKind) -> &'static str {
    match named {
        DirectoryNameKind::Really => "really",
        DirectoryNameKind::AsWritten => "written",
    }
}

fn named(text: &str) -> Option<DirectoryNameKind> {
    [DirectoryNameKind::Really, DirectoryNameKind::AsWritten].into_iter().find(|named| word(*named) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> AcpSessionId {
        AcpSessionId::new(name).unwrap()
    }

    #[test]
    fn a_list_cursor_is_read_back_and_other_text_is_refused() {
        let record = |id: &str| RecordId::new(id).unwrap();
        let mut listed = SentSessionHashes::default();
        assert!(listed.add(&session("s1")) && listed.add(&session("s2")));
        let agent_list = |named, cursor: Option<&str>, listed: &SentSessionHashes| {
            Some(AgentListCursor { named, cursor: cursor.map(str::to_owned), listed_before: listed.clone() })
        };
        for (after, agent_list) in [
            (Some("a:b"), None),
            (Some("a"), Some(AgentListCursor::default())),
            (Some("a"), agent_list(DirectoryNameKind::AsWritten, Some("2"), &listed)),
            (None, Some(AgentListCursor::default())),
            (None, agent_list(DirectoryNameKind::AsWritten, None, &listed)),
            (None, agent_list(DirectoryNameKind::Really, Some(""), &listed)),
            (
                None,
                agent_list(DirectoryNameKind::AsWritten, Some("x:\u{1f}\"\\"), &SentSessionHashes::default()),
            ),
        ] {
            for began in [None, Some(record("a\"b"))] {
                let cursor = ListCursor { began, after: after.map(record), agent_list: agent_list.clone() };
                assert_eq!(ListCursor::read(&cursor.clone().text()), Some(cursor));
            }
        }
        for text in [
            "",
            "directoryName",
            "{}",
            "null",
            r#"{"began":"a"}"#,
            r#"{"after":""}"#,
            r#"{"after":"a","cursor":"2"}"#,
            r#"{"directoryName":"Really"}"#,
            r#"{"directoryName":"really","listedBefore":"x"}"#,
            r#"{"directoryName":"really","more":1}"#,
        ] {
            assert_eq!(ListCursor::read(text), None, "{text}");
        }
    }

    #[test]
    fn recently_listed_sessions_are_skipped_and_a_list_cursor_is_bounded() {
        let (mut listed, names) =
            (SentSessionHashes::default(), || (0..2 * REMEMBERED).map(|number| number.to_string()));
        for name in names() {
            assert!(listed.add(&session(&name)), "{name}");
        }
        let mut read = SentSessionHashes::read(&listed.text().unwrap()).unwrap();
        assert_eq!(read, listed);
        for name in names().skip(REMEMBERED) {
            assert!(!read.add(&session(&name)), "{name}");
        }
        assert_eq!(read.text().unwrap().len(), 16 * REMEMBERED);
    }
}
