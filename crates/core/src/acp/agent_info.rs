//! The name and version that an agent reports in its reply to `initialize`. Both may be missing.

use serde_json::Value;

/// An agent's name and version, as it reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentInfo {
    /// Its programmatic name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

impl AgentInfo {
    /// Reads the result of `initialize`, of either protocol version.
    pub fn of_answer(answer: &str) -> Self {
        let result: Value = serde_json::from_str(answer).unwrap_or_default();
        let info = ["agentInfo", "info"].iter().find_map(|name| result.get(name)?.as_object());
        let text =
            |name: &str| Some(info?.get(name)?.as_str()?.trim().to_owned()).filter(|text| !text.is_empty());
        Self { name: text("name"), version: text("version") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_info_is_read_in_both_versions_and_may_be_missing() {
        let read = |answer: &str| {
            let AgentInfo { name, version } = AgentInfo::of_answer(answer);
            (name.unwrap_or_default(), version.unwrap_or_default())
        };
        let expected = ("a".to_owned(), "1.2".to_owned());
        assert_eq!(read(r#"{"agentInfo":{"name":" a ","version":"1.2"}}"#), expected);
        assert_eq!(read(r#"{"protocolVersion":2,"info":{"name":"a","version":"1.2"}}"#), expected);
        for nothing in ["", "null", r#"{"agentInfo":null}"#, r#"{"agentInfo":{"name":7,"version":""}}"#] {
            assert_eq!(AgentInfo::of_answer(nothing), AgentInfo::default(), "{nothing}");
        }
    }
}
