//! The parts of an archive and where they are in its file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::FORMAT_VERSION;
use super::damage::{ImportArchiveError, ScanError};
use super::own_record::OwnRecord;
use super::scanner::{Position, SCALAR_LIMIT, Scanner, VALUE_LIMIT, parse, wrong_at};
use crate::store::file_system;

/// The largest member of the head: a command line or a path.
const HEAD_LIMIT: usize = 1024 * 1024;

/// What an archive says about its session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ArchiveHead {
    /// The agent's command line. It is only compared, and never run.
    pub agent: String,
    /// The agent's configured name.
    #[serde(default)]
    pub agent_name: Option<String>,
    /// The session's name.
    #[serde(default)]
    pub name: Option<String>,
    /// The directory: relative to the user's home if it was in there, else absolute.
    pub cwd_relative: String,
    /// The directory as it was.
    pub cwd_original: String,
}

/// An archive whose parts were found.
#[derive(Debug)]
pub struct SessionArchive {
    pub(super) path: PathBuf,
    file: Arc<File>,
    head: ArchiveHead,
    /// Where npm acpx's record begins, in its on-disk form.
    state: Position,
    pub(super) history: Position,
    pub(super) own: Option<OwnParts>,
}

/// The member `acpx`.
#[derive(Debug)]
pub(super) struct OwnParts {
    pub(super) record: OwnRecord,
    pub(super) turns: Position,
    pub(super) events: Position,
}

/// Reads an archive's file from a position on. Several readers may share the file.
#[derive(Debug)]
pub(super) struct ArchiveReader {
    file: Arc<File>,
    offset: u64,
}

impl Read for ArchiveReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

fn scanner(file: &Arc<File>, position: Position) -> Scanner<ArchiveReader> {
    Scanner::at(ArchiveReader { file: Arc::clone(file), offset: position.offset }, position)
}

/// The parts that were found so far.
#[derive(Default)]
struct Found {
    version: Option<Value>,
    session: Option<(ArchiveHead, Position)>,
    history: Option<Position>,
    own: Option<OwnParts>,
}

impl SessionArchive {
    /// Reads a file to its end and finds its parts. The items of the history are not examined. This blocks.
    pub fn open(path: &Path) -> Result<Self, ImportArchiveError> {
        let not_read = |source| ImportArchiveError::NotRead { path: path.to_owned(), source };
        Self::read(path, file_system::open(path).map_err(not_read)?)
    }

    /// Copies a file into a private directory and opens the copy, which has no name. What is read later depends
    /// neither on the file's disk nor on a program that changes the file.
    pub(super) fn open_copy(path: &Path, directory: &Path) -> Result<Self, ImportArchiveError> {
        let not_read = |source| ImportArchiveError::NotRead { path: path.to_owned(), source };
        let not_copied = |source| ImportArchiveError::NotCopied { directory: directory.to_owned(), source };
        let mut original = file_system::open(path).map_err(not_read)?;
        let mut copy = tempfile::tempfile_in(directory).map_err(not_copied)?;
        let mut buffer = vec![0; 1024 * 1024];
        loop {
            match original.read(&mut buffer) {
                Ok(0) => return Self::read(path, copy),
                Ok(count) => copy.write_all(&buffer[..count]).map_err(not_copied)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(not_read(error)),
            }
        }
    }

    fn read(path: &Path, file: File) -> Result<Self, ImportArchiveError> {
        let file = Arc::new(file);
        let mut found = Found::default();
        let mut place = String::new();
        found
            .read(&mut scanner(&file, Position::START), &mut place)
            .map_err(|error| error.of(path, &place))?;
        match &found.version {
            Some(version) if version.as_u64() == Some(FORMAT_VERSION) => {}
            Some(version) => {
                let found: String = version.to_string().chars().take(80).collect();
                return Err(ImportArchiveError::FormatVersion { path: path.to_owned(), found });
            }
            None => return Err(missing("format_version").of(path, "")),
        }
        let Some((head, state)) = found.session else {
            return Err(missing("session").of(path, ""));
        };
        let Some(history) = found.history else { return Err(missing("history").of(path, "")) };
        Ok(Self { path: path.to_owned(), file, head, state, history, own: found.own })
    }

    /// What it says about its session.
    pub fn head(&self) -> &ArchiveHead {
        &self.head
    }

    /// npm acpx's record, in its on-disk form. Only an archive without the member `acpx` needs it.
    pub(super) fn state(&self) -> Result<Value, ImportArchiveError> {
        let parsed = scanner(&self.file, self.state).parsed(&mut Vec::new(), VALUE_LIMIT);
        parsed.map_err(|error| error.of(&self.path, "session.state"))
    }

    /// A problem of npm acpx's record in it.
    pub(super) fn invalid_state(&self, problem: String) -> ImportArchiveError {
        wrong_at(self.state, problem).of(&self.path, "session.state")
    }

    /// Reads the items of an array from its position on.
    pub(super) fn items(&self, name: &'static str, array: Position) -> Result<Items, ImportArchiveError> {
        let mut scanner = scanner(&self.file, array);
        scanner.expect(b'[').map_err(|error| error.of(&self.path, name))?;
        Ok(Items { path: self.path.clone(), name, scanner, count: 0, begin: array, value: Vec::new() })
    }
}

fn missing(member: &str) -> ScanError {
    wrong_at(Position::START, format!("{member} is missing"))
}

impl Found {
    /// Reads the document, or only up to a version that is unknown. `place` is the member that is read.
    fn read(&mut self, scanner: &mut Scanner<ArchiveReader>, place: &mut String) -> Result<(), ScanError> {
        let (mut value, mut is_first) = (Vec::new(), true);
        scanner.expect(b'{')?;
        while scanner.has_next(is_first, b'}')? {
            is_first = false;
            place.clear();
            let name = scanner.member(&mut value)?;
            place.push_str(&name);
            match name.as_str() {
                "format_version" => {
                    let version: Value = scanner.parsed(&mut value, SCALAR_LIMIT)?;
                    let is_known = version.as_u64() == Some(FORMAT_VERSION);
                    self.version = Some(version);
                    if !is_known {
                        return Ok(());
                    }
                }
                "session" => self.session = Some(session(scanner, place)?),
                "history" => self.history = Some(array(scanner)?),
                "acpx" => self.own = own(scanner, place)?,
                _ => scanner.skip()?,
            }
        }
        place.clear();
        match scanner.peek_token()? {
            None => Ok(()),
            Some(_) => Err(scanner.wrong("there is more after the document")),
        }
    }
}

/// Reads the member `session`: its head, and where npm acpx's record begins, which is not read.
fn session(
    scanner: &mut Scanner<ArchiveReader>,
    place: &mut String,
) -> Result<(ArchiveHead, Position), ScanError> {
    let (mut value, mut is_first) = (Vec::new(), true);
    let (mut head, mut state) = (serde_json::Map::new(), None);
    scanner.peek_token()?;
    let begin = scanner.position();
    scanner.expect(b'{')?;
    while scanner.has_next(is_first, b'}')? {
        is_first = false;
        "session".clone_into(place);
        let name = scanner.member(&mut value)?;
        *place = format!("session.{name}");
        match name.as_str() {
            "state" => {
                scanner.peek_token()?;
                state = Some(scanner.position());
                scanner.skip()?;
            }
            "agent" | "agent_name" | "name" | "cwd_relative" | "cwd_original" => {
                let member: Option<String> = scanner.parsed(&mut value, HEAD_LIMIT)?;
                head.insert(name, member.into());
            }
            _ => scanner.skip()?,
        }
    }
    "session".clone_into(place);
    let head = serde_json::from_value(head.into()).map_err(|error| wrong_at(begin, error.to_string()))?;
    Ok((head, state.ok_or_else(|| wrong_at(begin, "state is missing"))?))
}

/// Skips an array, and returns where it begins.
fn array(scanner: &mut Scanner<ArchiveReader>) -> Result<Position, ScanError> {
    if scanner.peek_token()? != Some(b'[') {
        return Err(scanner.wrong("an array is expected here"));
    }
    let begin = scanner.position();
    scanner.skip()?;
    Ok(begin)
}

/// Reads the member `acpx`; `None` if it is that of another version, and the rest is read as of npm acpx.
fn own(scanner: &mut Scanner<ArchiveReader>, place: &mut String) -> Result<Option<OwnParts>, ScanError> {
    let (mut value, mut is_first) = (Vec::new(), true);
    let (mut version, mut record, mut turns, mut events) = (None::<Value>, None, None, None);
    let begin = scanner.position();
    scanner.expect(b'{')?;
    while scanner.has_next(is_first, b'}')? {
        is_first = false;
        "acpx".clone_into(place);
        let name = scanner.member(&mut value)?;
        *place = format!("acpx.{name}");
        match name.as_str() {
            "version" => version = Some(scanner.parsed(&mut value, SCALAR_LIMIT)?),
            "record" => {
                scanner.peek_token()?;
                let begin = scanner.position();
                let json: Box<RawValue> = scanner.parsed(&mut value, VALUE_LIMIT)?;
                record = Some((begin, json));
            }
            "turns" => turns = Some(array(scanner)?),
            "events" => events = Some(array(scanner)?),
            _ => scanner.skip()?,
        }
    }
    "acpx".clone_into(place);
    if version.and_then(|version| version.as_u64()) != Some(1) {
        return Ok(None);
    }
    let (Some((at, record)), Some(turns), Some(events)) = (record, turns, events) else {
        return Err(wrong_at(begin, "record, turns or events is missing"));
    };
    "acpx.record".clone_into(place);
    let record = OwnRecord::read(&record).map_err(|problem| wrong_at(at, problem))?;
    Ok(Some(OwnParts { record, turns, events }))
}

/// The items of an array, one in memory at a time.
#[derive(Debug)]
pub(super) struct Items {
    path: PathBuf,
    name: &'static str,
    scanner: Scanner<ArchiveReader>,
    count: u64,
    begin: Position,
    value: Vec<u8>,
}

impl Items {
    /// The next item; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&mut Vec<u8>>, ImportArchiveError> {
        let read = |items: &mut Self| -> Result<bool, ScanError> {
            if !items.scanner.has_next(items.count == 0, b']')? {
                return Ok(false);
            }
            items.begin = items.scanner.value(&mut items.value, VALUE_LIMIT)?;
            items.count += 1;
            Ok(true)
        };
        match read(self) {
            Ok(true) => Ok(Some(&mut self.value)),
            Ok(false) => Ok(None),
            Err(error) => Err(error.of(&self.path, &format!("{}[{}]", self.name, self.count))),
        }
    }

    /// The next item, parsed.
    pub(super) fn next_parsed<T>(
        &mut self,
        read: impl FnOnce(&RawValue) -> Result<T, String>,
    ) -> Result<Option<T>, ImportArchiveError> {
        if self.next()?.is_none() {
            return Ok(None);
        }
        let json: Box<RawValue> = self.parse_current()?;
        read(&json).map(Some).map_err(|problem| self.wrong(problem))
    }

    /// Parses the item that was read last.
    pub(super) fn parse_current<T: serde::de::DeserializeOwned>(&self) -> Result<T, ImportArchiveError> {
        parse(&self.value, self.begin).map_err(|error| error.of(&self.path, &self.place()))
    }

    /// How many items were read.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A problem of the item that was read last.
    pub(super) fn wrong(&self, problem: impl Into<String>) -> ImportArchiveError {
        wrong_at(self.begin, problem).of(&self.path, &self.place())
    }

    fn place(&self) -> String {
        format!("{}[{}]", self.name, self.count.saturating_sub(1))
    }
}
