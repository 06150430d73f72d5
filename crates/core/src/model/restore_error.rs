//! Why an agent did not restore a session.

use serde::{Deserialize, Serialize};

use super::{AgentError, Timestamp};

/// A failed restore, with the agent's error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreError {
    /// The request that the agent refused; absent if another error ended the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The code of the agent's error; absent if there was no such answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// What happened, in one line.
    pub message: String,
    /// The parameter that the agent rejects, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl RestoreError {
    /// The failed attempt that ended with this error.
    pub fn new(error: &AgentError, at: Timestamp) -> Self {
        match error {
            AgentError::Refused { method, code, message, field, .. } => Self {
                method: Some(method.clone()),
                code: Some(*code),
                message: message.clone(),
                field: field.as_deref().map(str::to_owned),
                at,
            },
            AgentError::NotRestored { cause: Some(cause), .. } => Self { at, ..(**cause).clone() },
            other => Self { method: None, code: None, message: other.to_string(), field: None, at },
        }
    }
}

/// Part of a sentence: "session/load failed: cwd: /gone is not a directory (-32602)".
impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} failed: ")?;
        }
        f.write_str(&self.message)?;
        match self.code {
            Some(code) => write!(f, " ({code})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorMeaning;

    #[test]
    fn a_restore_error_names_method_code_message_and_field() {
        let at = Timestamp::from_millis(5).unwrap();
        let refused = AgentError::Refused {
            agent: "a".into(),
            method: "session/load".into(),
            code: -32602,
            message: "Invalid params: cwd: /gone is not a directory".into(),
            field: Some("cwd".into()),
            acp: "{}".into(),
            meaning: ErrorMeaning::Broken,
        };
        let error = RestoreError::new(&refused, at);
        let expected = "session/load failed: Invalid params: cwd: /gone is not a directory (-32602)";
        assert_eq!(error.to_string(), expected);
        let json = r#"{"method":"session/load","code":-32602,"message":"Invalid params: cwd: /gone is not a directory","field":"cwd","at":"1970-01-01T00:00:00.005Z"}"#;
        assert_eq!(serde_json::to_string(&error).unwrap(), json);
        assert_eq!(serde_json::from_str::<RestoreError>(json).unwrap(), error);
        let died = AgentError::Died { agent: "a".into(), how: "exit code 1".into(), said: Vec::new() };
        assert_eq!(RestoreError::new(&died, at).to_string(), r#"the agent "a" died (exit code 1)"#);
    }
}
