//! The official Rust SDK as an editor: lives the whole life of a session with an agent, and prints a line of JSON for
//! each step.
//!
//! ```text
//! sdk_editor 1|2 demo|model DIRECTORY COMMAND…
//! ```
//!
//! The first is the version of the protocol, the second whose words the agent understands, the third a directory that
//! had no session ever, and the rest starts the agent. A check that fails ends the program. Tests run it with the demo
//! agent, and `./lab` with real ones.

#![expect(clippy::print_stdout, reason = "its steps are what it is run for")]

mod conversation;
mod v1;
mod v2;
mod words;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agent_client_protocol::{ByteStreams, Error};
use tokio::net::unix::pipe;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use conversation::Message;
use words::{Exchange, Words};

/// The bytes that an agent reads and writes.
type Agent = ByteStreams<Compat<pipe::Sender>, Compat<pipe::Receiver>>;

/// What an editor does in one version of the protocol.
trait Editor {
    /// Begins a session; its id.
    async fn begin(&self, cwd: &Path) -> Result<String, Error>;
    /// Runs a turn to its end; its stop reason, and its messages.
    async fn prompt(&self, session: &str, text: &str) -> Result<(String, Vec<Message>), Error>;
    /// Runs a turn that is cancelled once this text was received.
    async fn cancel(&self, session: &str, turn: &Exchange) -> Result<(String, Vec<Message>), Error>;
    /// How many permission requests were received.
    fn permission_requests(&self) -> usize;
    /// Restores a session with its whole conversation, which is what comes back.
    async fn replay(&self, session: &str, cwd: &Path) -> Result<Vec<Message>, Error>;
    /// Restores a session without its conversation; the messages that were sent anyway.
    async fn resume(&self, session: &str, cwd: &Path) -> Result<Vec<Message>, Error>;
    /// Closes a session.
    async fn close(&self, session: &str) -> Result<(), Error>;
    /// The sessions of a directory.
    async fn list(&self, cwd: &Path) -> Result<Vec<String>, Error>;
    /// Deletes a session.
    async fn delete(&self, session: &str) -> Result<(), Error>;
}

/// One life of one session.
struct Life {
    cwd: PathBuf,
    words: Words,
    session: String,
    /// The conversation so far.
    messages: Vec<Message>,
}

impl Life {
    /// Begins, prompts, is asked and cancels. Its process is killed after that.
    async fn begin(&mut self, editor: &impl Editor) -> Result<(), Error> {
        step("initialize");
        self.session = editor.begin(&self.cwd).await?;
        step("new");
        self.turn(editor, self.words.hello).await?;
        step("prompt");
        self.turn(editor, self.words.permission).await?;
        assert_eq!(editor.permission_requests(), 1, "there is one permission request");
        step("permission");
        let slow = self.words.slow;
        let (stop_reason, received) = editor.cancel(&self.session, &slow).await?;
        assert_eq!(stop_reason, "cancelled");
        self.keep(&slow, received);
        step("cancel");
        Ok(())
    }

    /// Comes back and goes on to the end.
    async fn go_on(&mut self, editor: &impl Editor) -> Result<(), Error> {
        let replayed = editor.replay(&self.session, &self.cwd).await?;
        assert_eq!(replayed, self.messages, "the replay is the conversation");
        step("replay");
        self.turn(editor, self.words.recall).await?;
        step("prompt after replay");
        editor.close(&self.session).await?;
        step("close");
        let replayed = editor.resume(&self.session, &self.cwd).await?;
        assert_eq!(replayed, [], "resume replays nothing");
        self.turn(editor, self.words.again).await?;
        step("resume");
        assert_eq!(editor.list(&self.cwd).await?, [self.session.as_str()]);
        step("list");
        editor.delete(&self.session).await?;
        assert_eq!(editor.list(&self.cwd).await?, [""; 0]);
        let gone = editor.resume(&self.session, &self.cwd).await.expect_err("what is deleted is gone");
        assert_eq!(i32::from(gone.code), -32002, "{gone}");
        step("delete");
        Ok(())
    }

    async fn turn(&mut self, editor: &impl Editor, turn: Exchange) -> Result<(), Error> {
        let (stop_reason, received) = editor.prompt(&self.session, turn.say).await?;
        assert_eq!(stop_reason, "end_turn", "{received:?}");
        self.keep(&turn, received);
        Ok(())
    }

    /// Whether an agent repeats the prompt while the turn runs depends on the version and on the agent.
    fn keep(&mut self, turn: &Exchange, received: Vec<Message>) {
        let answer: Vec<Message> = received.into_iter().filter(|message| !message.is_user()).collect();
        assert!(answer.iter().any(|message| message.text.contains(turn.answers)), "{answer:?}");
        self.messages.push(Message::user(turn.say));
        self.messages.extend(answer);
    }
}

fn step(name: &str) {
    println!("{}", serde_json::json!({ "step": name }));
}

/// A running agent, killed with the value.
struct Process(Child);

impl Process {
    fn start(command: &[String]) -> std::io::Result<(Self, Agent)> {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdin = OwnedFd::from(stdin.expect("stdin is a pipe"));
        let stdout = OwnedFd::from(stdout.expect("stdout is a pipe"));
        let sender = pipe::Sender::from_owned_fd(stdin)?.compat_write();
        let receiver = pipe::Receiver::from_owned_fd(stdout)?.compat();
        Ok((Self(child), ByteStreams::new(sender, receiver)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have gone by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [version, words, cwd, command @ ..] = &*arguments else {
        return Err("see the first lines of the file for its arguments".into());
    };
    let words = words::known(words).ok_or("there are the words of demo and of model")?;
    let mut life = Life { cwd: PathBuf::from(cwd), words, session: String::new(), messages: Vec::new() };
    let is_v1 = version == "1";
    let (process, agent) = Process::start(command)?;
    if is_v1 {
        v1::as_editor(agent, async |editor| life.begin(&editor).await).await?;
    } else {
        v2::as_editor(agent, async |editor| life.begin(&editor).await).await?;
    }
    drop(process);
    step("kill");
    let (_process, agent) = Process::start(command)?;
    if is_v1 {
        v1::as_editor(agent, async |editor| life.go_on(&editor).await).await?;
    } else {
        v2::as_editor(agent, async |editor| life.go_on(&editor).await).await?;
    }
    step("leave");
    Ok(())
}
