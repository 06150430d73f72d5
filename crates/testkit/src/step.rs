//! The steps of a scripted agent. The set is closed: a new misbehaviour is a new step here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One step of a script. In every text and JSON value, `{name}` is replaced by the value captured under that name. Each
/// expected message captures its `id` (as JSON) and its top-level string params (`{sessionId}`, `{cwd}`), and a prompt
/// its text (`{prompt}`). `{now}` is replaced by the nanoseconds of the machine's monotonic clock at the time of
/// writing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ScriptStep {
    /// Waits for a message with this method. Other notifications are ignored; another request ends the script with code
    /// 64 and a line on stderr.
    Expect {
        /// The method.
        method: String,
        /// A second name for the message's id, for use after `{id}` has changed.
        name: Option<String>,
    },
    /// Serves messages by method until stdin ends or a step exits; other requests get -32601.
    Serve {
        /// The steps for each method.
        on: BTreeMap<String, Vec<ScriptStep>>,
    },
    /// Performs the steps if the last message had this param, and it was not `null`.
    When {
        /// The param's name.
        param: String,
        /// The steps.
        steps: Vec<ScriptStep>,
    },
    /// Repeats the steps.
    Repeat {
        /// How often.
        times: u64,
        /// The steps.
        steps: Vec<ScriptStep>,
    },
    /// Replies to a request.
    Reply {
        /// The name of the id; without it, the last captured one.
        to: Option<String>,
        /// The result.
        result: Value,
    },
    /// Replies to a request with an error object.
    ReplyError {
        /// The name of the id; without it, the last captured one.
        to: Option<String>,
        /// The error object.
        error: Value,
    },
    /// Sends a `session/update` for `{sessionId}`.
    Update {
        /// The update object.
        update: Value,
    },
    /// Sends a request and waits for its reply, which is captured as `{answer}`.
    Request {
        /// The method.
        method: String,
        /// The params.
        params: Value,
    },
    /// Sends an update repeatedly without reading anything.
    Flood {
        /// The update object.
        update: Value,
        /// How often; endlessly if absent.
        count: Option<u64>,
    },
    /// Writes a line verbatim.
    Line {
        /// The line, without its line ending.
        text: String,
    },
    /// Writes bytes verbatim: garbage, or a line that never ends.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Writes a line to stderr.
    Stderr {
        /// The line, without its line ending.
        text: String,
    },
    /// Waits.
    Delay {
        /// How long.
        millis: u64,
    },
    /// Waits until a file exists, which lets a test trigger the next step.
    AwaitFile {
        /// The file.
        path: PathBuf,
    },
    /// Creates a file, which shows a test how far the script has come.
    Touch {
        /// The file.
        path: PathBuf,
    },
    /// Closes stdout. Later output is lost.
    CloseStdout,
    /// Closes stdin. A later write to the agent fails with a broken pipe.
    CloseStdin,
    /// Starts a `sleep` that outlives the agent.
    Child {
        /// How long it sleeps.
        seconds: u32,
        /// Whether it keeps the agent's stdout open.
        holds_stdout: bool,
        /// Whether it leaves the agent's process group.
        own_group: bool,
    },
    /// Blocks forever and reads nothing.
    Hang,
    /// Ends the process.
    Exit {
        /// Its exit code.
        code: u8,
    },
}
