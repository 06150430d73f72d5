//! What an agent's error means for the session it was asked to restore.
//!
//! There is no common error for "unknown session": sixteen agents were seen to use five codes and a dozen
//! texts. This is the one table that reads them. "Busy elsewhere" and "login needed" come first, because
//! taking them for "lost" would throw a conversation away.

use crate::model::Reading;
use crate::wire::RpcError;

/// One row: a code, or any, and words to be found in the error's message or data.
struct Row {
    code: Option<i64>,
    words: &'static [&'static str],
    reading: Reading,
}

const fn row(code: Option<i64>, words: &'static [&'static str], reading: Reading) -> Row {
    Row { code, words, reading }
}

/// Read from the top; the first row that fits decides. A row without words fits by its code alone.
const TABLE: &[Row] = &[
    row(Some(-32000), &[], Reading::LoginNeeded),
    row(None, &["authentication required"], Reading::LoginNeeded),
    row(None, &["not logged in"], Reading::LoginNeeded),
    row(None, &["api key is missing"], Reading::LoginNeeded),
    row(None, &["missing provider"], Reading::LoginNeeded),
    row(None, &["thread_active_writer"], Reading::BusyElsewhere),
    row(None, &["active writer"], Reading::BusyElsewhere),
    row(None, &["session", "already open"], Reading::BusyElsewhere),
    row(None, &["session", "already loaded"], Reading::BusyElsewhere),
    row(None, &["session is active"], Reading::BusyElsewhere),
    row(None, &["open in another process"], Reading::BusyElsewhere),
    row(Some(-32002), &[], Reading::Lost),
    row(Some(-32001), &[], Reading::Lost),
    row(None, &["session not found"], Reading::Lost),
    row(None, &["resource not found"], Reading::Lost),
    row(None, &["no rollout found"], Reading::Lost),
    row(None, &["no previous sessions found"], Reading::Lost),
    row(None, &["invalid session identifier"], Reading::Lost),
    row(None, &["unknown session"], Reading::Lost),
    row(None, &["no such session"], Reading::Lost),
    row(None, &["session", "does not exist"], Reading::Lost),
];

/// Reads the error of a restore. Where nothing was ever said in a session, most agents have not written it
/// down, and whatever they answer means just that.
pub fn read(error: &RpcError, remembers: bool) -> Reading {
    let data = error.data.as_deref().map_or("", |data| data.get());
    let text = format!("{} {data}", error.message).to_lowercase();
    let fits = |row: &&Row| {
        row.code.is_none_or(|code| code == error.code) && row.words.iter().all(|word| text.contains(word))
    };
    match TABLE.iter().find(fits).map_or(Reading::Broken, |row| row.reading) {
        Reading::Lost | Reading::Broken if !remembers => Reading::NeverMaterialised,
        reading => reading,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> RpcError {
        RpcError::read(text)
    }

    #[test]
    fn the_errors_of_real_agents_are_read_as_what_they_mean() {
        let cases = [
            (r#"{"code":-32002,"message":"Resource not found","data":{"sessionId":"x"}}"#, Reading::Lost),
            (r#"{"code":-32002,"message":"Resource not found"}"#, Reading::Lost),
            (r#"{"code":-32002,"message":"Resource not found","data":{"uri":"x"}}"#, Reading::Lost),
            (r#"{"code":-32002,"message":"x","data":"Session not found"}"#, Reading::Lost),
            (r#"{"code":-32002,"message":"Session not found: x"}"#, Reading::Lost),
            (
                r#"{"code":-32603,"message":"Internal error","data":{"details":"no rollout found for thread id x"}}"#,
                Reading::Lost,
            ),
            (
                r#"{"code":-32603,"message":"Internal error","data":{"details":"Session not found"}}"#,
                Reading::Lost,
            ),
            (
                r#"{"code":-32603,"message":"x","data":{"details":"No previous sessions found for this project."}}"#,
                Reading::Lost,
            ),
            (
                r#"{"code":-32603,"message":"x","data":{"details":"Invalid session identifier \"x\""}}"#,
                Reading::Lost,
            ),
            (r#"{"code":-32603,"message":"OpenCode service failure"}"#, Reading::Broken),
            (r#"{"code":-32602,"message":"Invalid params"}"#, Reading::Broken),
            (
                r#"{"code":-32600,"message":"Invalid request","data":{"reason":"thread_active_writer"}}"#,
                Reading::BusyElsewhere,
            ),
            (r#"{"code":-31002,"message":"Session is already open"}"#, Reading::BusyElsewhere),
            (r#"{"code":-32003,"message":"Session is active"}"#, Reading::BusyElsewhere),
            (r#"{"code":-32602,"message":"Session x is already loaded"}"#, Reading::BusyElsewhere),
            (r#"{"code":-32000,"message":"Authentication required"}"#, Reading::LoginNeeded),
            (r#"{"code":-32000,"message":"x","data":{"authMethods":[]}}"#, Reading::LoginNeeded),
            (r#"{"code":-32603,"message":"Internal error","data":"Missing provider"}"#, Reading::LoginNeeded),
            (
                r#"{"code":-32603,"message":"Gemini API key is missing or not configured."}"#,
                Reading::LoginNeeded,
            ),
            (r#"{"code":400,"message":"bad"}"#, Reading::Broken),
        ];
        for (text, reading) in cases {
            assert_eq!(read(&error(text), true), reading, "{text}");
        }
    }

    #[test]
    fn a_session_nothing_was_said_in_was_never_materialised_but_may_be_busy() {
        let cases = [
            (
                r#"{"code":-32603,"message":"x","data":{"details":"no rollout found"}}"#,
                Reading::NeverMaterialised,
            ),
            (r#"{"code":-32602,"message":"Invalid params"}"#, Reading::NeverMaterialised),
            (r#"{"code":-32003,"message":"Session is active"}"#, Reading::BusyElsewhere),
            (r#"{"code":-32000,"message":"x"}"#, Reading::LoginNeeded),
        ];
        for (text, reading) in cases {
            assert_eq!(read(&error(text), false), reading, "{text}");
        }
    }
}
