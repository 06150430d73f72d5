//! The environment variables with numbers that acpx reads, as npm acpx names them. A value of a wrong form is an error
//! that names the variable, never a default.

use std::env;
use std::time::Duration;

use acpx_core::engine::EngineSettings;
use acpx_core::wire::WireLimits;

use crate::cli::UsageError;

/// The longest line of an agent.
pub(crate) const MESSAGE_BYTES: &str = "ACPX_MAX_ACP_MESSAGE_BYTES";
/// The longest kept output of an agent's command.
pub(crate) const TERMINAL_BYTES: &str = "ACPX_TERMINAL_MAX_OUTPUT_BYTES";
const REQUEST_BYTES: &str = "ACPX_QUEUE_MAX_REQUEST_BYTES";
/// How long these agents may take to start and to set a session up.
const START_TIMEOUTS: [(&str, &str); 2] = [
    ("gemini", "ACPX_GEMINI_ACP_STARTUP_TIMEOUT_MS"),
    ("claude", "ACPX_CLAUDE_ACP_SESSION_CREATE_TIMEOUT_MS"),
];
/// The longest line that the store can hold.
const LARGEST_LINE: usize = 512 << 20;

/// The settings of an engine with the limits of the environment.
pub(crate) fn engine_settings() -> Result<EngineSettings, UsageError> {
    let mut settings = EngineSettings::default();
    if let Some(bytes) = number(MESSAGE_BYTES, "a number of bytes; 0 is as many as can be stored")? {
        let line_bytes = if bytes == 0 { LARGEST_LINE } else { bytes.min(LARGEST_LINE) };
        let flood_bytes = settings.wire.flood_bytes.max(2 * line_bytes as u64);
        let sent_line_bytes = Some(settings.wire.line_bytes);
        settings.wire = WireLimits { line_bytes, sent_line_bytes, flood_bytes, ..settings.wire };
    }
    settings.terminal_bytes = number(TERMINAL_BYTES, "a number of bytes")?;
    Ok(settings)
}

/// How many bytes a prompt may have.
pub(crate) fn request_bytes() -> Result<Option<usize>, UsageError> {
    Ok(number(REQUEST_BYTES, "a number of bytes; 0 is no limit")?.filter(|bytes| *bytes > 0))
}

/// How long the agent of this name may take to start.
pub(crate) fn start_timeout(agent: &str) -> Result<Option<Duration>, UsageError> {
    let Some((_, variable)) = START_TIMEOUTS.iter().find(|(name, _)| *name == agent) else { return Ok(None) };
    let expected = "a number of milliseconds above 0";
    match number(variable, expected)? {
        Some(0) => Err(UsageError::Variable { name: variable, value: "0".to_owned(), expected }),
        millis => Ok(millis.map(|millis| Duration::from_millis(millis as u64))),
    }
}

/// Whether npm runs this program as a script, which puts `--` before its arguments.
pub(crate) fn is_npm_script() -> bool {
    ["npm_lifecycle_event", "npm_lifecycle_script"].iter().any(|name| env::var_os(name).is_some())
}

/// The number in a variable, if it is set and not blank.
fn number(name: &'static str, expected: &'static str) -> Result<Option<usize>, UsageError> {
    let Some(value) = env::var_os(name) else { return Ok(None) };
    let value = value.to_string_lossy().trim().to_owned();
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(UsageError::Variable { name, value, expected }),
    }
}
