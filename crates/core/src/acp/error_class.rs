//! Reads what an agent's error means for the session of the request.
//!
//! There is no common error for "unknown session": sixteen agents use five codes and a dozen texts. Agent profiles
//! define how to read them. They match "in use by another process" and "login needed" first, because reading those as
//! "lost" would discard a conversation.

use crate::model::{AgentProfile, ErrorMeaning};
use crate::wire::RpcError;

/// Reads an error about a session.
pub fn read(profile: &AgentProfile, error: &RpcError) -> ErrorMeaning {
    let data = error.data.as_deref().map_or("", |data| data.get());
    match profile.meaning_of(error.code, &format!("{} {data}", error.message)) {
        ErrorMeaning::Broken if error.code == RpcError::METHOD_NOT_FOUND => ErrorMeaning::Unsupported,
        reading => reading,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AgentSpec, Profiles};

    /// The meaning of an error from an agent with this name.
    fn meant(agent: &str, text: &str) -> ErrorMeaning {
        let agent = AgentSpec::new("agent", [""; 0]).named(agent);
        read(&Profiles::built_in().of(&agent, None), &RpcError::read(text))
    }

    #[test]
    fn the_errors_of_real_agents_are_read_as_what_they_mean() {
        let cases = [
            (
                r#"{"code":-32002,"message":"Resource not found","data":{"sessionId":"x"}}"#,
                ErrorMeaning::Lost,
            ),
            (r#"{"code":-32002,"message":"Resource not found"}"#, ErrorMeaning::Lost),
            (r#"{"code":-32002,"message":"Resource not found","data":{"uri":"x"}}"#, ErrorMeaning::Lost),
            (r#"{"code":-32002,"message":"x","data":"Session not found"}"#, ErrorMeaning::Lost),
            (r#"{"code":-32002,"message":"Session not found: x"}"#, ErrorMeaning::Lost),
            (
                r#"{"code":-32603,"message":"Internal error","data":{"details":"no rollout found for thread id x"}}"#,
                ErrorMeaning::Lost,
            ),
            (
                r#"{"code":-32603,"message":"Internal error","data":{"details":"Session not found"}}"#,
                ErrorMeaning::Lost,
            ),
            (
                r#"{"code":-32603,"message":"x","data":{"details":"No previous sessions found for this project."}}"#,
                ErrorMeaning::Lost,
            ),
            (
                r#"{"code":-32603,"message":"x","data":{"details":"Invalid session identifier \"x\""}}"#,
                ErrorMeaning::Lost,
            ),
            (r#"{"code":-32603,"message":"OpenCode service failure"}"#, ErrorMeaning::Broken),
            (r#"{"code":-32602,"message":"Invalid params"}"#, ErrorMeaning::Broken),
            (
                r#"{"code":-32600,"message":"Invalid request","data":{"reason":"thread_active_writer"}}"#,
                ErrorMeaning::BusyElsewhere,
            ),
            (r#"{"code":-31002,"message":"Session is already open"}"#, ErrorMeaning::BusyElsewhere),
            (r#"{"code":-32003,"message":"Session is active"}"#, ErrorMeaning::BusyElsewhere),
            (r#"{"code":-32602,"message":"Session x is already loaded"}"#, ErrorMeaning::BusyElsewhere),
            (r#"{"code":-32000,"message":"Authentication required"}"#, ErrorMeaning::LoginNeeded),
            (r#"{"code":-32000,"message":"x","data":{"authMethods":[]}}"#, ErrorMeaning::LoginNeeded),
            (
                r#"{"code":-32603,"message":"Internal error","data":"Missing provider"}"#,
                ErrorMeaning::LoginNeeded,
            ),
            (
                r#"{"code":-32603,"message":"Gemini API key is missing or not configured."}"#,
                ErrorMeaning::LoginNeeded,
            ),
            (r#"{"code":400,"message":"bad"}"#, ErrorMeaning::Broken),
            (
                r#"{"code":-32603,"message":"Internal error","data":{"details":"ECONNRESET"}}"#,
                ErrorMeaning::Broken,
            ),
            (r#"{"code":429,"message":"rate limited"}"#, ErrorMeaning::Broken),
            // The MCP library of many agents uses the code that once meant an unknown session.
            (r#"{"code":-32001,"message":"MCP error -32001: Request timed out"}"#, ErrorMeaning::Broken),
            (
                r#"{"code":-32602,"message":"the directory of the session does not exist"}"#,
                ErrorMeaning::Broken,
            ),
            (
                r#"{"code":-32601,"message":"\"Method not found\": session/resume"}"#,
                ErrorMeaning::Unsupported,
            ),
        ];
        for (text, reading) in cases {
            assert_eq!(meant("any", text), reading, "{text}");
        }
    }

    #[test]
    fn an_unknown_session_is_recognised_in_the_words_of_every_agent() {
        let not_found = r#"{"code":-32002,"message":"Resource not found"}"#;
        let details = |details: &str| {
            format!(r#"{{"code":-32603,"message":"Internal error","data":{{"details":"{details}"}}}}"#)
        };
        let cases = [
            (
                "claude",
                r#"{"code":-32002,"message":"Resource not found","data":{"sessionId":"x"}}"#.to_owned(),
            ),
            ("claude-code", details("Session not found")),
            ("zed-codex", not_found.to_owned()),
            ("codex", details("no rollout found for thread id x")),
            ("gemini", details("No previous sessions found for this project.")),
            ("gemini", details("Invalid session identifier")),
            ("qwen", r#"{"code":-32002,"message":"x","data":{"uri":"x"}}"#.to_owned()),
            ("copilot", r#"{"code":-32002,"message":"x","data":{"uri":"x"}}"#.to_owned()),
            ("pi", r#"{"code":-32602,"message":"Invalid params","data":"Unknown sessionId: x"}"#.to_owned()),
            ("goose", r#"{"code":-32002,"message":"x","data":"Session not found"}"#.to_owned()),
            (
                "vibe",
                r#"{"code":-32602,"message":"Invalid params","data":{"session":"Not found"}}"#.to_owned(),
            ),
            ("fast-agent", r#"{"code":-32002,"message":"Session not found: x"}"#.to_owned()),
            (
                "kimi",
                r#"{"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}"#
                    .to_owned(),
            ),
            ("cline", r#"{"code":-32002,"message":"x","data":{"uri":"x"}}"#.to_owned()),
            ("openclaw", not_found.to_owned()),
        ];
        for (agent, error) in cases {
            assert_eq!(meant(agent, &error), ErrorMeaning::Lost, "{agent}: {error}");
        }
        // A rule for one agent does not apply to others.
        let error = r#"{"code":-32602,"message":"x","data":{"session":"Not found"}}"#;
        assert_eq!(meant("any", error), ErrorMeaning::Broken, "{error}");
    }

    #[test]
    fn a_dead_worker_is_recognised_in_the_words_of_its_agent_alone() {
        let claude = r#"{"code":-32603,"message":"Internal error: The Claude Agent process exited unexpectedly. Please start a new session."}"#;
        let codex = r#"{"code":1001,"message":"The Codex app-server was killed by SIGKILL, which usually means it ran out of memory."}"#;
        for (agent, error) in [("claude", claude), ("codex", codex)] {
            assert_eq!(meant(agent, error), ErrorMeaning::WorkerDied, "{agent}: {error}");
            assert_eq!(meant("goose", error), ErrorMeaning::Broken, "{agent}: {error}");
        }
    }

    #[test]
    fn parameter_and_transient_errors_are_no_lost_session() {
        let wrong = r#"{"code":-32602,"message":"Invalid params","data":{"mcpServers":"wrong"}}"#;
        let cases = [
            ("pi", wrong),
            ("vibe", wrong),
            ("kimi", wrong),
            ("opencode", r#"{"code":-32603,"message":"OpenCode service failure"}"#),
            ("kilocode", r#"{"code":-32603,"message":"OpenCode service failure"}"#),
        ];
        for (agent, error) in cases {
            assert_eq!(meant(agent, error), ErrorMeaning::Broken, "{agent}: {error}");
        }
    }

    #[test]
    fn codex_that_has_no_thread_has_lost_the_session() {
        let error = r#"{"code":-32603,"message":"Internal error","data":{"details":"thread not found: x"}}"#;
        assert_eq!(meant("codex", error), ErrorMeaning::Lost);
        assert_eq!(meant("goose", error), ErrorMeaning::Broken);
    }

    #[test]
    fn login_and_in_use_errors_are_matched_before_lost() {
        let cases = [
            ("authentication required, session not found", ErrorMeaning::LoginNeeded),
            ("session already open, the other was not found", ErrorMeaning::BusyElsewhere),
        ];
        for (words, reading) in cases {
            let error = format!(r#"{{"code":-32602,"message":"{words}"}}"#);
            assert_eq!(meant("vibe", &error), reading, "{error}");
        }
    }

    #[test]
    fn session_in_use_by_another_process_is_not_lost_for_any_agent() {
        let cases = [
            ("codex", r#"{"code":-32600,"message":"x","data":{"reason":"thread_active_writer"}}"#),
            ("vibe", r#"{"code":-31002,"message":"x"}"#),
            ("fast-agent", r#"{"code":-32003,"message":"x"}"#),
            ("copilot", r#"{"code":-32602,"message":"Session x is already loaded"}"#),
        ];
        for (agent, error) in cases {
            assert_eq!(meant(agent, error), ErrorMeaning::BusyElsewhere, "{agent}: {error}");
        }
    }
}
