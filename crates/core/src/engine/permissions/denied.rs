//! The error an agent receives when it is denied a file or a command. Readers of the journal recognise it by a code in
//! the error's data, not by its message.

use serde::Deserialize;
use serde_json::json;

use crate::model::ErrorCode;
use crate::wire::RpcError;

/// The error for a denied request, with the rule if one required a decision that no client could make. The message is
/// repeated in `details`, where agents look for it.
pub(crate) fn denied(method: &str, rule: Option<&str>) -> RpcError {
    let why = rule.map(|rule| format!(": the rule {rule:?} has it asked, and nobody can be"));
    let words = format!("Permission denied for {method}{}", why.unwrap_or_default());
    let data = json!({ "details": words, "acpx": { "code": ErrorCode::PermissionDenied } });
    RpcError::internal(words).with_data(&data.to_string())
}

/// Whether an error that was sent to an agent is a denial.
pub fn is_denial(error: &RpcError) -> bool {
    #[derive(Deserialize)]
    struct Data {
        acpx: Code,
    }
    #[derive(Deserialize)]
    struct Code {
        code: ErrorCode,
    }
    let data = error.data.as_deref().and_then(|data| serde_json::from_str::<Data>(data.get()).ok());
    data.is_some_and(|data| data.acpx.code == ErrorCode::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_denial_is_recognised_by_its_code_alone() {
        let plain = denied("terminal/create", None);
        assert_eq!(plain.message, "Permission denied for terminal/create");
        let ruled = denied("terminal/create", Some("execute"));
        let words =
            r#"Permission denied for terminal/create: the rule "execute" has it asked, and nobody can be"#;
        assert_eq!(ruled.message, words);
        assert!(is_denial(&plain) && is_denial(&ruled));
        // A client may return the same message for a file it serves itself, which is no denial.
        let same_words = RpcError::internal(plain.message.clone());
        assert!(!is_denial(&same_words));
        for data in
            [r#"{"details":"Permission denied for x"}"#, r#"{"acpx":{"code":"STORE_FULL"}}"#, "7", "{}"]
        {
            assert!(!is_denial(&same_words.clone().with_data(data)), "{data}");
        }
        assert!(is_denial(&RpcError::new(1, "no").with_data(r#"{"acpx":{"code":"PERMISSION_DENIED"}}"#)));
    }
}
