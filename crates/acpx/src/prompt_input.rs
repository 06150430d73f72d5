//! Reads the prompt from words, a file or stdin, as content blocks of the protocol.
//!
//! A file or stdin that holds a JSON array is validated as content blocks and sent byte for byte. All other input is
//! text, and words on the command line always are. Attachments follow the prompt. For a person, a stdin that is a pipe
//! or a file is appended to the words, unless it stays silent.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use crate::agents;
use crate::cli::PromptWords;

mod attachments;
mod blocks;

pub(crate) use self::attachments::AttachmentError;
pub(crate) use self::blocks::BlockProblem;

/// The file name that stands for stdin.
const STDIN: &str = "-";
/// Maximum length of a prompt, which must fit into one line of the protocol.
const LONGEST: u64 = 60 * 1024 * 1024;
/// How long a stdin that is not the prompt itself may be silent.
const SILENCE: Duration = Duration::from_secs(1);

/// Why there is no usable prompt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// No words were given, and stdin is a terminal.
    #[error("a prompt is required")]
    Missing,
    /// The words are blank.
    #[error("the prompt is empty")]
    EmptyWords,
    /// Stdin is empty or closed.
    #[error("the prompt from stdin is empty")]
    EmptyStdin,
    /// The file is empty.
    #[error("the prompt file {} is empty", .0.display())]
    EmptyFile(PathBuf),
    /// The file cannot be read.
    #[error("cannot read the prompt file {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The file is not text.
    #[error("the prompt file {} is not UTF-8 text", .0.display())]
    BinaryFile(PathBuf),
    /// Stdin cannot be read.
    #[error("cannot read the prompt from stdin")]
    Stdin(#[source] io::Error),
    /// Stdin is not text.
    #[error("stdin is not UTF-8 text")]
    BinaryStdin,
    /// The reader thread could not be started.
    #[error("cannot start a thread")]
    NoThread(#[source] io::Error),
    /// It could not be read in time.
    #[error("timed out while reading the prompt")]
    TimedOut(Duration),
    /// Stdin is requested twice, but can be read only once.
    #[error("stdin is used more than once")]
    StdinTwice,
    /// It does not fit into one line of the protocol.
    #[error("the prompt is longer than {} MiB", LONGEST / (1024 * 1024))]
    TooLong,
    /// A content block is invalid.
    #[error(transparent)]
    Block(#[from] BlockProblem),
    /// An attachment is unusable.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
}

impl InputError {
    /// What the user can do next.
    pub(crate) fn hint(&self) -> Cow<'static, str> {
        let hint = match self {
            Self::BinaryFile(path) => return attach_hint(&agents::quote(&path.to_string_lossy())).into(),
            Self::BinaryStdin => {
                return format!("{}; </dev/null leaves stdin out", attach_hint(STDIN)).into();
            }
            Self::Missing | Self::EmptyWords | Self::EmptyStdin => {
                "give the prompt as words, with --file, or through a pipe"
            }
            Self::EmptyFile(_) => "write the prompt into the file, or give it as words",
            Self::File { .. } => "check the path; it is taken from the directory the command works in",
            Self::Stdin(_) => "give the prompt as words, or with --file",
            Self::NoThread(_) => "try again",
            Self::TimedOut(_) => "give the prompt as words, or more time with --timeout",
            Self::StdinTwice => "give all but one of them as files",
            Self::TooLong => "put the text into a file and send the agent its name",
            Self::Attachment(error) => error.hint(),
            Self::Block(_) => "correct the block; pass other text as words, or do not begin it with [",
        };
        hint.into()
    }
}

/// How to attach a file that is not text.
fn attach_hint(file: &str) -> String {
    format!("attach it instead, with --image {file}, --audio {file} or --resource {file}")
}

/// The part of stdin that reading a prompt needs.
pub(crate) trait Stdin {
    /// Whether it is a terminal, where a user might not know how to end the input.
    fn is_terminal(&self) -> bool;
    /// What has arrived on a pipe or in a file after a moment.
    fn arrival(&self) -> io::Result<StdinArrival>;
    /// The piped input.
    fn reader(&mut self) -> &mut dyn Read;
}

/// What a stdin adds to the words of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinArrival {
    /// It is a terminal or a device.
    Nothing,
    /// It is a pipe that is open, and nothing arrived.
    Silent,
    /// Something arrived, or its end.
    Input,
}

/// What to do with a stdin if the prompt has words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinUse {
    /// Append it to the words.
    Append,
    /// Leave it unread.
    Ignore,
}

/// A prompt as content blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptBlocks {
    /// A JSON array.
    pub(crate) json: Arc<str>,
    /// Whether stdin would have been appended, but stayed silent.
    pub(crate) is_stdin_silent: bool,
}

impl From<Arc<str>> for PromptBlocks {
    fn from(json: Arc<str>) -> Self {
        Self { json, is_stdin_silent: false }
    }
}

/// The program's own stdin.
#[derive(Debug)]
pub(crate) struct OfProgram(io::Stdin);

impl Default for OfProgram {
    fn default() -> Self {
        Self(io::stdin())
    }
}

impl Stdin for OfProgram {
    fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }

    fn arrival(&self) -> io::Result<StdinArrival> {
        let kind = FileType::from_raw_mode(fstat(&self.0)?.st_mode);
        if !matches!(kind, FileType::Fifo | FileType::Socket | FileType::RegularFile) {
            return Ok(StdinArrival::Nothing);
        }
        let end = Instant::now() + SILENCE;
        loop {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return Ok(StdinArrival::Silent),
                Ok(_) => return Ok(StdinArrival::Input),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn reader(&mut self) -> &mut dyn Read {
        &mut self.0
    }
}

/// Reads the prompt within a time limit, because a pipe's writer may never write.
pub(crate) fn read_within(
    limit: Option<Duration>,
    input: &PromptWords,
    cwd: &Path,
    stdin_use: StdinUse,
) -> Result<PromptBlocks, InputError> {
    let Some(limit) = limit else { return read(input, cwd, stdin_use, &mut OfProgram::default()) };
    let (input, cwd) = (input.clone(), cwd.to_owned());
    let (sender, receiver) = mpsc::sync_channel(1);
    // A blocking read cannot be cancelled; after the limit its thread ends with the program.
    let reader = std::thread::Builder::new().name("prompt".to_owned());
    let reading = move || drop(sender.send(read(&input, &cwd, stdin_use, &mut OfProgram::default())));
    reader.spawn(reading).map_err(InputError::NoThread)?;
    receiver.recv_timeout(limit).map_err(|_| InputError::TimedOut(limit))?
}

/// The prompt's content blocks. Files are relative to `cwd`.
fn read(
    input: &PromptWords,
    cwd: &Path,
    stdin_use: StdinUse,
    stdin: &mut dyn Stdin,
) -> Result<PromptBlocks, InputError> {
    if input.attachments.is_empty() {
        return prompt_blocks(input, cwd, stdin_use, stdin);
    }
    let is_file_stdin = input.file.as_ref().is_some_and(|file| file.as_os_str() == STDIN);
    let along = input.attachments.iter().filter(|attachment| attachment.is_stdin()).count();
    if along + usize::from(is_file_stdin) > 1 {
        return Err(InputError::StdinTwice);
    }
    if along > 0 && stdin.is_terminal() {
        return Err(InputError::Missing);
    }
    let is_all = input.file.is_none() && input.words.is_empty();
    // Stdin that is an attachment is not also the prompt.
    let stdin_use = if along > 0 { StdinUse::Ignore } else { stdin_use };
    let text = if is_all && along > 0 {
        Err(InputError::Missing)
    } else {
        prompt_blocks(input, cwd, stdin_use, stdin)
    };
    let PromptBlocks { json: text, is_stdin_silent } = match text {
        // Attachments alone are a valid prompt.
        Err(InputError::Missing | InputError::EmptyWords | InputError::EmptyStdin) => {
            Arc::<str>::from("[]").into()
        }
        text => text?,
    };
    let mut length = text.len();
    let mut blocks = text.strip_suffix(']').unwrap_or(&text).to_owned();
    for attachment in &input.attachments {
        let block = attachment.block(cwd, stdin.reader())?.to_string();
        length += block.len();
        if length as u64 > LONGEST {
            return Err(InputError::TooLong);
        }
        if blocks.len() > 1 {
            blocks.push(',');
        }
        blocks.push_str(&block);
    }
    blocks.push(']');
    Ok(PromptBlocks { json: blocks.into(), is_stdin_silent })
}

/// The blocks of a text that is not JSON.
pub(crate) fn text_blocks(text: &str) -> Arc<str> {
    blocks::plain(&[text])
}

/// Whether the words look like content blocks. They are sent as text nevertheless.
pub(crate) fn words_look_like_blocks(input: &PromptWords) -> bool {
    input.file.is_none() && blocks::look_like_blocks(&input.words.join(" "))
}

/// The prompt without attachments: words, a file or stdin.
fn prompt_blocks(
    input: &PromptWords,
    cwd: &Path,
    stdin_use: StdinUse,
    stdin: &mut dyn Stdin,
) -> Result<PromptBlocks, InputError> {
    let words = input.words.join(" ");
    let words = words.trim();
    if let Some(file) = &input.file {
        let is_stdin = file.as_os_str() == STDIN;
        let text = if is_stdin { from_stdin(stdin)? } else { from_file(&cwd.join(file))? };
        if text.trim().is_empty() && words.is_empty() {
            return Err(if is_stdin { InputError::EmptyStdin } else { InputError::EmptyFile(file.clone()) });
        }
        return Ok(blocks::of_text(&text, words)?.into());
    }
    if !input.words.is_empty() {
        return if words.is_empty() {
            Err(InputError::EmptyWords)
        } else {
            with_stdin(words, stdin_use, stdin)
        };
    }
    if stdin.is_terminal() {
        return Err(InputError::Missing);
    }
    let text = from_stdin(stdin)?;
    if text.trim().is_empty() { Err(InputError::EmptyStdin) } else { Ok(blocks::of_text(&text, "")?.into()) }
}

/// The words, and after a blank line what stdin brings.
fn with_stdin(words: &str, stdin_use: StdinUse, stdin: &mut dyn Stdin) -> Result<PromptBlocks, InputError> {
    let arrival = match stdin_use {
        StdinUse::Append => stdin.arrival().map_err(InputError::Stdin)?,
        StdinUse::Ignore => StdinArrival::Nothing,
    };
    let text = if arrival == StdinArrival::Input { from_stdin(stdin)? } else { String::new() };
    let text = text.trim_end();
    let json =
        if text.is_empty() { blocks::plain(&[words]) } else { text_blocks(&format!("{words}\n\n{text}")) };
    Ok(PromptBlocks { json, is_stdin_silent: arrival == StdinArrival::Silent })
}

fn from_stdin(stdin: &mut dyn Stdin) -> Result<String, InputError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => InputError::BinaryStdin,
        _ => InputError::Stdin(error),
    };
    let text = bounded(stdin.reader()).map_err(unreadable)?.ok_or(InputError::TooLong)?;
    if is_binary(&text) { Err(InputError::BinaryStdin) } else { Ok(text) }
}

fn from_file(path: &Path) -> Result<String, InputError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::InvalidData => InputError::BinaryFile(path.to_owned()),
        _ => InputError::File { path: path.to_owned(), source },
    };
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    let text = bounded(&mut file).map_err(unreadable)?.ok_or(InputError::TooLong)?;
    if is_binary(&text) { Err(InputError::BinaryFile(path.to_owned())) } else { Ok(text) }
}

/// Whether valid UTF-8 is not text: no text has a NUL, and many binary files are valid otherwise.
fn is_binary(text: &str) -> bool {
    text.contains('\0')
}

/// Reads everything as text; `None` if it is too long.
fn bounded(source: &mut dyn Read) -> io::Result<Option<String>> {
    let mut text = String::new();
    let size = source.take(LONGEST + 1).read_to_string(&mut text)?;
    Ok((size as u64 <= LONGEST).then_some(text))
}

#[cfg(test)]
mod tests;
