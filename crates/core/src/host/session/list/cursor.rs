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
    pub(super) theirs: Option<AgentListCursor>,
}

/// Where a page of the agent's own sessions begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AgentListCursor {
    /// Which name of the directory is sent to the agent.
    pub(super) named: DirectoryNameKind,
    /// The agent's own cursor; `None` for its first page.
    pub(super) cursor: Option<String>,
    /// The sessions on the previous pages.
    pub(super) told: SentSessionHashes,
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
        let hash: [u8; 32] = Sha256::digest(session.as_str().as_bytes()).into();
        let mark = u64::from_be_bytes(*hash.first_chunk().expect("a hash has more than eight bytes"));
        if self.0.contains(&mark) {
            return false;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(mark);
        true
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
    theirs: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<String>,
}

impl ListCursor {
    pub(super) fn text(self) -> String {
        let id = |record: RecordId| record.to_string();
        let (theirs, cursor, told) = match self.theirs {
            Some(AgentListCursor { named, cursor, told }) => {
                (Some(word(named).to_owned()), cursor, told.text())
            }
            None => (None, None, None),
        };
        let text = Text { began: self.began.map(id), after: self.after.map(id), theirs, cursor, told };
        serde_json::to_string(&text).expect("a cursor has only text")
    }

    /// Parses a cursor; `None` if it is not one of ours.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Text { began, after, theirs, cursor, told } = serde_json::from_str(text).ok()?;
        let began = began.map(RecordId::new).transpose().ok()?;
        let after = after.map(RecordId::new).transpose().ok()?;
        let theirs = match theirs {
            Some(theirs) => {
                let told =
                    told.as_deref().map_or(Some(SentSessionHashes::default()), SentSessionHashes::read)?;
                Some(AgentListCursor { named: named(&theirs)?, cursor, told })
            }
            None if cursor.is_some() || told.is_some() => return None,
            None => None,
        };
        (after.is_some() || theirs.is_some()).then_some(Self { began, after, theirs })
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
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        let record = |id: &str| RecordId::new(id).unwrap();
        let mut told = SentSessionHashes::default();
        assert!(told.add(&session("s1")) && told.add(&session("s2")));
        let theirs = |named, cursor: Option<&str>, told: &SentSessionHashes| {
            Some(AgentListCursor { named, cursor: cursor.map(str::to_owned), told: told.clone() })
        };
        for (after, theirs) in [
            (Some("a:b"), None),
            (Some("a"), Some(AgentListCursor::default())),
            (Some("a"), theirs(DirectoryNameKind::AsWritten, Some("2"), &told)),
            (None, Some(AgentListCursor::default())),
            (None, theirs(DirectoryNameKind::AsWritten, None, &told)),
            (None, theirs(DirectoryNameKind::Really, Some(""), &told)),
            (None, theirs(DirectoryNameKind::AsWritten, Some("x:\u{1f}\"\\"), &SentSessionHashes::default())),
        ] {
            for began in [None, Some(record("a\"b"))] {
                let cursor = ListCursor { began, after: after.map(record), theirs: theirs.clone() };
                assert_eq!(ListCursor::read(&cursor.clone().text()), Some(cursor));
            }
        }
        for text in [
            "",
            "theirs",
            "{}",
            "null",
            r#"{"began":"a"}"#,
            r#"{"after":""}"#,
            r#"{"after":"a","cursor":"2"}"#,
            r#"{"theirs":"Really"}"#,
            r#"{"theirs":"really","told":"x"}"#,
            r#"{"theirs":"really","more":1}"#,
        ] {
            assert_eq!(ListCursor::read(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_told_last_is_not_told_again_and_a_cursor_does_not_grow() {
        let (mut told, names) =
            (SentSessionHashes::default(), || (0..2 * REMEMBERED).map(|number| number.to_string()));
        for name in names() {
            assert!(told.add(&session(&name)), "{name}");
        }
        let mut read = SentSessionHashes::read(&told.text().unwrap()).unwrap();
        assert_eq!(read, told);
        for name in names().skip(REMEMBERED) {
            assert!(!read.add(&session(&name)), "{name}");
        }
        assert_eq!(read.text().unwrap().len(), 16 * REMEMBERED);
    }
}
