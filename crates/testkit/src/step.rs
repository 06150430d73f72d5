//! One thing the scripted agent does. The set is closed: a new misbehaviour is a new step here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One step of a script. In every text and JSON value `{name}` stands for what was captured under that name:
/// each expected message captures its `id` (as JSON) and its top-level string params (`{sessionId}`, `{cwd}`), and a
/// prompt its words (`{prompt}`).
/// `{now}` stands for the nanoseconds of the machine's monotonic clock when the text is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ScriptStep {
    /// Waits for a message with this method. Other notifications are passed over; another request ends the
    /// script with code 64 and a line on stderr.
    Expect {
        /// The method.
        method: String,
        /// A second name for the message's id, for when `{id}` has moved on.
        name: Option<String>,
    },
    /// Serves messages by method until stdin ends or a step exits; unnamed requests get -32601.
    Serve {
        /// What to do on each method.
        on: BTreeMap<String, Vec<ScriptStep>>,
    },
    /// Does the steps if the last message had this param, and not as `null`.
    When {
        /// Its name.
        param: String,
        /// What.
        steps: Vec<ScriptStep>,
    },
    /// Does the steps several times over.
    Repeat {
        /// How often.
        times: u64,
        /// What.
        steps: Vec<ScriptStep>,
    },
    /// Answers a request.
    Reply {
        /// The name of the id; the last captured one without it.
        to: Option<String>,
        /// The result.
        result: Value,
    },
    /// Answers a request with an error object.
    ReplyError {
        /// The name of the id; the last captured one without it.
        to: Option<String>,
        /// The error object.
        error: Value,
    },
    /// Sends a `session/update` for `{sessionId}`.
    Update {
        /// The update object.
        update: Value,
    },
    /// Sends a request and waits for its answer, which is captured whole as `{answer}`.
    Request {
        /// The method.
        method: String,
        /// The params.
        params: Value,
    },
    /// Sends an update again and again without reading anything.
    Flood {
        /// The update object.
        update: Value,
        /// How often; without end if absent.
        count: Option<u64>,
    },
    /// Writes a line as it stands.
    Line {
        /// The line, without its end.
        text: String,
    },
    /// Writes bytes as they stand: garbage, or a line that never ends.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Writes a line to stderr.
    Stderr {
        /// The line, without its end.
        text: String,
    },
    /// Waits.
    Delay {
        /// How long.
        millis: u64,
    },
    /// Waits until a file exists, so that a test can say "now".
    AwaitFile {
        /// The file.
        path: PathBuf,
    },
    /// Makes a file, so that a test knows how far the script has come.
    Touch {
        /// The file.
        path: PathBuf,
    },
    /// Closes stdout. What is written after that is lost.
    CloseStdout,
    /// Closes stdin. What is sent to the agent after that meets a broken pipe.
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
    /// Does nothing, for good, and reads nothing.
    Hang,
    /// Ends the process.
    Exit {
        /// Its exit code.
        code: u8,
    },
}
