//! Resolves agent names: configured agents first, then the built-in ones.

use acpx_core::model::{AbsolutePath, AgentSpec};

use super::host_locator::own_program;
use crate::agents::{self, UnknownAgent};
use crate::config::{Config, ConfigError};
use crate::error::CliError;

/// The agent of this name: the configuration's, or the built-in one.
pub(crate) fn resolve(name: &str, config: &Config) -> Result<AgentSpec, CliError> {
    let name = agents::canonical(name);
    if let Some(argv) = config.agent(&name).map_err(ConfigError::from)? {
        return Ok(agents::spec(argv.iter().map(String::as_str)).named(name));
    }
    if name == agents::DEMO {
        let program = AbsolutePath::from_path(&own_program()?)?;
        return Ok(AgentSpec::new(program.as_str(), ["demo-agent"]).named(name));
    }
    agents::built_in(&name).ok_or_else(|| UnknownAgent { name, chosen_in: None }.into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("/home/config.json"), text).unwrap()
    }

    #[test]
    fn an_agent_is_the_configured_one_or_else_the_built_in_one() {
        let spec = |program: &str, args: &[&str], name: &str| {
            AgentSpec::new(program, args.iter().copied()).named(name)
        };
        let mine = config(
            r#"{"agents":{"Mine":{"command":"mine","args":["a b"]},"codex":{"argv":["codex-acp","--x"]},
                "factory-droid":{"command":"droid 'acp mode'"}}}"#,
        );
        let cases = [
            ("claude", spec("npx", &["-y", "@agentclientprotocol/claude-agent-acp@^0.76.0"], "claude")),
            (" Gemini ", spec("gemini", &["--acp"], "gemini")),
            ("mine", spec("mine", &["a b"], "mine")),
            ("codex", spec("codex-acp", &["--x"], "codex")),
            ("factorydroid", spec("droid", &["acp mode"], "droid")),
        ];
        for (name, expected) in cases {
            assert_eq!(resolve(name, &mine).unwrap(), expected, "{name}");
        }
        let this = std::env::current_exe().unwrap();
        assert_eq!(resolve("demo", &mine).unwrap(), spec(this.to_str().unwrap(), &["demo-agent"], "demo"));
        let error = resolve("nobody", &mine).unwrap_err();
        assert_eq!(
            (error.message(), error.code()),
            ("there is no agent named \"nobody\"".to_owned(), acpx_core::model::ErrorCode::AgentUnknown)
        );
    }
}
