//! Plays a script over stdin and stdout, blocking and single-threaded, one step after another.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Script, ScriptStep, monotonic_nanos};

/// The exit code of a script that failed or could not be read.
const SCRIPT_FAILED: u8 = 64;
/// Placeholder for the time at which the text is written.
const NOW: &str = "{now}";
/// Interval of polling for a file.
const POLL: Duration = Duration::from_millis(2);

/// Plays the script at this path and returns the exit code.
pub fn main(script: Option<&Path>) -> ExitCode {
    let Some(path) = script else { return failed("the path of a script is missing") };
    let mut player = match Player::open(path) {
        Ok(player) => player,
        Err(problem) => return failed(&format!("cannot play {}: {problem}", path.display())),
    };
    let steps = std::mem::take(&mut player.steps);
    match player.play(&steps).and_then(|()| player.drain()) {
        Err(ScriptEnd::Exit(code)) => ExitCode::from(code),
        Err(ScriptEnd::Gone) if player.ignores_eof => hang(),
        Ok(()) | Err(ScriptEnd::Gone) => ExitCode::SUCCESS,
        Err(ScriptEnd::Failed(problem)) => failed(&problem),
    }
}

struct Player {
    path: PathBuf,
    steps: Vec<ScriptStep>,
    ignores_eof: bool,
    input: BufReader<io::Stdin>,
    received: File,
    /// Messages received while waiting for a reply.
    backlog: VecDeque<Value>,
    captured: HashMap<String, String>,
    /// Params of the last captured message.
    params: Value,
    requests: u64,
}

/// Why the script ends before its last step.
enum ScriptEnd {
    Exit(u8),
    /// The other side closed the connection.
    Gone,
    Failed(String),
}

impl From<io::Error> for ScriptEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl Player {
    fn open(path: &Path) -> io::Result<Self> {
        let script: Script = serde_json::from_slice(&std::fs::read(path)?)?;
        let append =
            |extension| OpenOptions::new().create(true).append(true).open(path.with_extension(extension));
        writeln!(append("starts")?, "{}", std::process::id())?;
        let start = std::fs::read_to_string(path.with_extension("starts"))?.lines().count();
        let steps = script.starts.get(start - 1).or_else(|| script.starts.last()).cloned();
        Ok(Self {
            path: path.to_owned(),
            steps: steps.unwrap_or_default(),
            ignores_eof: script.ignores_eof,
            input: BufReader::new(io::stdin()),
            received: append("received")?,
            backlog: VecDeque::new(),
            captured: HashMap::new(),
            params: Value::Null,
            requests: 0,
        })
    }

    fn play(&mut self, steps: &[ScriptStep]) -> Result<(), ScriptEnd> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &ScriptStep) -> Result<(), ScriptEnd> {
        match step {
            ScriptStep::Expect { method, name } => self.expect(method, name.as_deref()),
            ScriptStep::Serve { on } => loop {
                let message = self.next()?;
                let Some(method) = message["method"].as_str() else { continue };
                match on.get(method) {
                    Some(steps) => {
                        self.capture(&message);
                        self.play(steps)?;
                    }
                    None if message.get("id").is_some() => self.unknown(&message, method)?,
                    None => {}
                }
            },
            ScriptStep::When { param, steps } => {
                if self.params.get(param).is_some_and(|value| !value.is_null()) {
                    self.play(steps)?;
                }
                Ok(())
            }
            ScriptStep::Repeat { times, steps } => (0..*times).try_for_each(|_| self.play(steps)),
            ScriptStep::Reply { to, result } => self.reply(to.as_deref(), "result", result),
            ScriptStep::ReplyError { to, error } => self.reply(to.as_deref(), "error", error),
            ScriptStep::Update { update } => self.line(&self.update(update)),
            ScriptStep::Request { method, params } => self.request(method, params),
            ScriptStep::Flood { update, count } => self.flood(update, *count),
            ScriptStep::Line { text } => self.line(&self.filled(text)),
            ScriptStep::Bytes { bytes } => self.write(bytes),
            ScriptStep::Stderr { text } => Ok(writeln!(io::stderr(), "{}", self.filled(text))?),
            ScriptStep::Delay { millis } => {
                thread::sleep(Duration::from_millis(*millis));
                Ok(())
            }
            ScriptStep::AwaitFile { path } => {
                while !path.exists() {
                    thread::sleep(POLL);
                }
                Ok(())
            }
            ScriptStep::Touch { path } => Ok(File::create(path).map(drop)?),
            ScriptStep::CloseStdout => Ok(close_stdout()?),
            ScriptStep::CloseStdin => Ok(close_stdin()?),
            ScriptStep::Child { seconds, holds_stdout, own_group } => {
                self.child(*seconds, *holds_stdout, *own_group)
            }
            ScriptStep::Hang => hang(),
            ScriptStep::Exit { code } => Err(ScriptEnd::Exit(*code)),
        }
    }

    /// Reads until stdin ends, without replying.
    fn drain(&mut self) -> Result<(), ScriptEnd> {
        loop {
            self.read()?;
        }
    }

    fn expect(&mut self, method: &str, name: Option<&str>) -> Result<(), ScriptEnd> {
        loop {
            let message = self.next()?;
            if message["method"] == method {
                self.capture(&message);
                if let (Some(name), Some(id)) = (name, message.get("id")) {
                    self.captured.insert(name.to_owned(), id.to_string());
                }
                return Ok(());
            }
            if message.get("id").is_some() && message.get("method").is_some() {
                return Err(ScriptEnd::Failed(format!("expected {method}, got {message}")));
            }
        }
    }

    fn capture(&mut self, message: &Value) {
        self.params = message["params"].clone();
        if let Some(id) = message.get("id") {
            self.captured.insert("id".to_owned(), id.to_string());
        }
        for (name, value) in message["params"].as_object().into_iter().flatten() {
            if let Some(text) = value.as_str() {
                self.captured.insert(name.clone(), text.to_owned());
            }
        }
        if let Some(blocks) = message["params"]["prompt"].as_array() {
            let words = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            self.captured.insert("prompt".to_owned(), words);
        }
    }

    fn next(&mut self) -> Result<Value, ScriptEnd> {
        match self.backlog.pop_front() {
            Some(message) => Ok(message),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Value, ScriptEnd> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Err(ScriptEnd::Gone);
        }
        writeln!(self.received, "{}", line.trim_end())?;
        serde_json::from_str(&line)
            .map_err(|error| ScriptEnd::Failed(format!("got a line that is no JSON: {error}")))
    }

    fn reply(&mut self, to: Option<&str>, member: &str, value: &Value) -> Result<(), ScriptEnd> {
        let name = to.unwrap_or("id");
        let Some(id) = self.captured.get(name) else {
            return Err(ScriptEnd::Failed(format!("no request was captured as {name}")));
        };
        let answer = self.filled(&value.to_string());
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{answer}}}"#);
        // Later updates are for the session that this reply names.
        if let Some(session) = value["sessionId"].as_str() {
            self.captured.insert("sessionId".to_owned(), session.to_owned());
        }
        self.line(&line)
    }

    fn unknown(&mut self, message: &Value, method: &str) -> Result<(), ScriptEnd> {
        let error = json!({ "code": -32601, "message": "Method not found", "data": { "method": method } });
        self.line(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }).to_string())
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<(), ScriptEnd> {
        self.requests += 1;
        let id = format!("scripted-{}", self.requests);
        let params = self.filled(&params.to_string());
        self.line(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#))?;
        loop {
            let message = self.read()?;
            if message["id"] == id.as_str() && message.get("method").is_none() {
                self.captured.insert("answer".to_owned(), message.to_string());
                if let Some(terminal) = message["result"]["terminalId"].as_str() {
                    self.captured.insert("terminalId".to_owned(), terminal.to_owned());
                }
                return Ok(());
            }
            self.backlog.push_back(message);
        }
    }

    fn flood(&mut self, update: &Value, count: Option<u64>) -> Result<(), ScriptEnd> {
        let line = self.update(update);
        match count {
            Some(count) => (0..count).try_for_each(|_| self.line(&line)),
            None => loop {
                self.line(&line)?;
            },
        }
    }

    fn update(&self, update: &Value) -> String {
        let update = self.filled(&update.to_string());
        let session = self.captured.get("sessionId").map_or("", String::as_str);
        let session = Value::from(session);
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{update}}}}}"#
        )
    }

    fn filled(&self, text: &str) -> String {
        let fill =
            |text: String, (name, value): (&String, &String)| text.replace(&format!("{{{name}}}"), value);
        let text = self.captured.iter().fold(text.to_owned(), fill);
        if text.contains(NOW) { text.replace(NOW, &monotonic_nanos().to_string()) } else { text }
    }

    fn line(&mut self, line: &str) -> Result<(), ScriptEnd> {
        self.write(format!("{line}\n").as_bytes())
    }

    #[expect(clippy::unused_self, reason = "writing is a step like the others")]
    fn write(&mut self, bytes: &[u8]) -> Result<(), ScriptEnd> {
        let mut output = io::stdout().lock();
        output.write_all(bytes)?;
        Ok(output.flush()?)
    }

    fn child(&mut self, seconds: u32, holds_stdout: bool, own_group: bool) -> Result<(), ScriptEnd> {
        let stdout = if holds_stdout { Stdio::inherit() } else { Stdio::null() };
        let mut command = Command::new("sleep");
        command.arg(seconds.to_string()).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
        if own_group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let path = self.path.with_extension("children");
        let mut children = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(writeln!(children, "{}", child.id())?)
    }
}

/// Stdout cannot be closed without unsafe code; replacing it with another file closes the pipe for the reader.
fn close_stdout() -> io::Result<()> {
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}

fn close_stdin() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
}

fn hang() -> ! {
    loop {
        thread::park();
    }
}

#[expect(clippy::print_stderr, reason = "a script that fails says so where tests look for it")]
fn failed(problem: &str) -> ExitCode {
    eprintln!("scripted-agent: {problem}");
    ExitCode::from(SCRIPT_FAILED)
}
