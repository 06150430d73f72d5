//! Reads the prompt from words, a file or stdin, as content blocks of the protocol.
//!
//! A file or stdin that holds a JSON array is validated as content blocks and sent byte for byte. All other input is
//! text, and words on the command line always are. Attachments follow the prompt.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::cli::PromptWords;

mod attachments;
mod blocks;

pub(crate) use self::attachments::AttachmentError;
pub(crate) use self::blocks::BlockProblem;

/// The file name that stands for stdin.
const STDIN: &str = "-";
/// Maximum length of a prompt, which must fit into one line of the protocol.
const LONGEST: u64 = 60 * 1024 * 1024;

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
    /// Stdin cannot be read.
    #[error("cannot read the prompt from stdin")]
    Stdin(#[source] io::Error),
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
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Missing | Self::EmptyWords | Self::EmptyStdin => {
                "give the prompt as words, with --file, or through a pipe"
            }
            Self::EmptyFile(_) => "write the prompt into the file, or give it as words",
            Self::File { .. } => "check the path; it is taken from the directory the command works in",
            Self::Stdin(_) => "give the prompt as words, or with --file",
            Self::NoThread(_) => "try again",
            Self::TimedOut(_) => "give the prompt as words, or more time with --timeout",
            Self::StdinTwice => "give all but one of them as files",
            Self::TooLong => "put the text into a file and sender the agent its name",
            Self::Attachment(error) => error.hint(),
            Self::Block(_) => "correct the block; pass other text as words, or do not begin it with [",
        }
    }
}

/// The part of stdin that reading a prompt needs.
pub(crate) trait Stdin {
    /// Whether it is a terminal, where a user might not know how to end the input.
    fn is_terminal(&self) -> bool;
    /// The piped input.
    fn reader(&mut self) -> &mut dyn Read;
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

    fn reader(&mut self) -> &mut dyn Read {
        &mut self.0
    }
}

/// Reads the prompt within a time limit, because a pipe's writer may never write.
pub(crate) fn read_within(
    limit: Option<Duration>,
    input: &PromptWords,
    cwd: &Path,
) -> Result<Arc<str>, InputError> {
    let Some(limit) = limit else { return read(input, cwd, &mut OfProgram::default()) };
    let (input, cwd) = (input.clone(), cwd.to_owned());
    let (sender, receiver) = mpsc::sync_channel(1);
    // A blocking read cannot be cancelled; after the limit its thread ends with the program.
    let reader = std::thread::Builder::new().name("prompt".to_owned());
    let reading = move || drop(sender.send(read(&input, &cwd, &mut OfProgram::default())));
    reader.spawn(reading).map_err(InputError::NoThread)?;
    receiver.recv_timeout(limit).map_err(|_| InputError::TimedOut(limit))?
}

/// The prompt's content blocks as a JSON array. Files are relative to `cwd`.
fn read(input: &PromptWords, cwd: &Path, stdin: &mut dyn Stdin) -> Result<Arc<str>, InputError> {
    if input.attachments.is_empty() {
        return prompt_blocks(input, cwd, stdin);
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
    let text = if is_all && along > 0 { Err(InputError::Missing) } else { prompt_blocks(input, cwd, stdin) };
    let text = match text {
        // Attachments alone are a valid prompt.
        Err(InputError::Missing | InputError::EmptyWords | InputError::EmptyStdin) => "[]".into(),
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
    Ok(blocks.into())
}

/// Whether the words look like content blocks. They are sent as text nevertheless.
pub(crate) fn words_look_like_blocks(input: &PromptWords) -> bool {
    input.file.is_none() && blocks::look_like_blocks(&input.words.join(" "))
}

/// The prompt without attachments: words, a file or stdin.
fn prompt_blocks(input: &PromptWords, cwd: &Path, stdin: &mut dyn Stdin) -> Result<Arc<str>, InputError> {
    let words = input.words.join(" ");
    let words = words.trim();
    if let Some(file) = &input.file {
        let is_stdin = file.as_os_str() == STDIN;
        let text = if is_stdin { from_stdin(stdin)? } else { from_file(&cwd.join(file))? };
        if text.trim().is_empty() && words.is_empty() {
            return Err(if is_stdin { InputError::EmptyStdin } else { InputError::EmptyFile(file.clone()) });
        }
        return blocks::of_text(&text, words);
    }
    if !input.words.is_empty() {
        return if words.is_empty() { Err(InputError::EmptyWords) } else { Ok(blocks::plain(&[words])) };
    }
    if stdin.is_terminal() {
        return Err(InputError::Missing);
    }
    let text = from_stdin(stdin)?;
    if text.trim().is_empty() { Err(InputError::EmptyStdin) } else { blocks::of_text(&text, "") }
}

fn from_stdin(stdin: &mut dyn Stdin) -> Result<String, InputError> {
    bounded(stdin.reader()).map_err(InputError::Stdin)?.ok_or(InputError::TooLong)
}

fn from_file(path: &Path) -> Result<String, InputError> {
    let unreadable = |source| InputError::File { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    bounded(&mut file).map_err(unreadable)?.ok_or(InputError::TooLong)
}

/// Reads everything as text; `None` if it is too long.
fn bounded(source: &mut dyn Read) -> io::Result<Option<String>> {
    let mut text = String::new();
    let size = source.take(LONGEST + 1).read_to_string(&mut text)?;
    Ok((size as u64 <= LONGEST).then_some(text))
}

#[cfg(test)]
mod tests;
