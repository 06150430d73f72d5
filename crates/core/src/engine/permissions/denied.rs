//! What an agent is told that may not have a file or a command, and how whoever reads what was exchanged knows it again:
//! by a code in the error's data, whatever its words are.

use serde::Deserialize;
use serde_json::json;

use crate::wire::RpcError;

/// The stable code of a denial.
const CODE: &str = "PERMISSION_DENIED";

/// The error for a request that is not allowed; where a rule wanted it asked and nobody could be, with the rule. Its
/// words stand also where agents look for them.
pub(crate) fn denied(method: &str, rule: Option<&str>) -> RpcError {
    let why = rule.map(|rule| format!(": the rule {rule:?} has it asked, and nobody can be"));
    let words = format!("Permission denied for {method}{}", why.unwrap_or_default());
    let data = json!({ "details": words, "acpx": { "code": CODE } });
    RpcError::internal(words).with_data(&data.to_string())
}

/// Whether an error that an agent was told is a denial.
pub fn is_denial(error: &RpcError) -> bool {
    #[derive(Deserialize)]
    struct Data {
        acpx: Code,
    }
    #[derive(Deserialize)]
    struct Code {
        code: String,
    }
    let data = error.data.as_deref().and_then(|data| serde_json::from_str::<Data>(data.get()).ok());
    data.is_some_and(|data| data.acpx.code == CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_known_by_its_code_and_by_nothing_else() {
        let plain = denied("terminal/create", None);
        assert_eq!(plain.message, "Permission denied for terminal/create");
        let ruled = denied("terminal/create", Some("execute"));
        let words =
            r#"Permission denied for terminal/create: the rule "execute" has it asked, and nobody can be"#;
        assert_eq!(ruled.message, words);
        assert!(is_denial(&plain) && is_denial(&ruled));
        // A client that has the file may say the same words, and has not been denied anything.
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
