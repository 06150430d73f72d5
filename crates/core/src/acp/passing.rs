//! Requests of an agent, passed on to a client: every byte as received but for the session id, which each side has its
//! own of.

use crate::wire::encode::json_string;
use crate::wire::splice::{Splice, Step, locate};

/// The params of a request about a session, for a client that calls it so; `None` if they name no session.
pub(crate) fn pass_on_params(params: &str, session: &str) -> Option<String> {
    let mut splice = Splice::new(params);
    splice.replace(locate(params, &[Step::Key("sessionId")])?, &json_string(session)).ok()?;
    Some(splice.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_passed_on_with_another_session_id_and_every_other_byte() {
        let params = r#"{"n":1.0e2, "sessionId" : "s","toolCall":{"sessionId":"s"} }"#;
        let expected = params.replacen(r#""sessionId" : "s""#, r#""sessionId" : "r\"""#, 1);
        assert_eq!(pass_on_params(params, "r\"").as_deref(), Some(expected.as_str()));
        assert_eq!(pass_on_params(r#"{"sessionId":7}"#, "r").as_deref(), Some(r#"{"sessionId":"r"}"#));
        assert_eq!(pass_on_params("{}", "r"), None);
        assert_eq!(pass_on_params("no JSON", "r"), None);
    }
}
