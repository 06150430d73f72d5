//! `ACPX_PERF_METRICS_FILE`: appends one line of JSON about each command to a file, for measurements. A file that
//! cannot be written is no error of the command.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use acpx_core::model::Timestamp;
use acpx_core::wire::since_1970;
use serde_json::json;

/// The measurement of one command.
pub(crate) struct CommandTimer {
    file: Option<PathBuf>,
    begun: Instant,
}

impl CommandTimer {
    /// Starts to measure, if the environment names a file.
    pub(crate) fn start() -> Self {
        let file = std::env::var_os("ACPX_PERF_METRICS_FILE").filter(|path| !path.is_empty());
        Self { file: file.map(PathBuf::from), begun: Instant::now() }
    }

    /// Appends the line of a command that is over. The arguments are left out: they have the user's words.
    pub(crate) fn finish(self, arguments: &[OsString]) {
        let Some(file) = self.file else { return };
        let millis = self.begun.elapsed().as_secs_f64() * 1000.0;
        let line = json!({
            "timestamp": Timestamp::since_1970(since_1970()).to_string(),
            "role": "cli",
            "pid": std::process::id(),
            "arguments": arguments.len(),
            "wallMs": (millis * 1000.0).round() / 1000.0,
        });
        let appended = OpenOptions::new().create(true).append(true).open(file);
        drop(appended.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())));
    }
}
