//! The parts of an archive and where they are in its file.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::FORMAT_VERSION;
use super::damage::{ImportArchiveError, ScanError};
use super::own_record::OwnRecord;
use super::scanner::{Position, Scanner, parse, wrong_at};
use crate::store::file_system;

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
    head: ArchiveHead,
    /// Where the member `session` begins.
    session: Position,
    /// npm acpx's record, in its on-disk form.
    pub(super) state: Value,
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

#[derive(Deserialize)]
struct SessionMember {
    #[serde(flatten)]
    head: ArchiveHead,
    state: Value,
}

/// The parts that were found so far.
#[derive(Default)]
struct Found {
    version: Option<Value>,
    session: Option<(Position, SessionMember)>,
    history: Option<Position>,
    own: Option<OwnParts>,
}

impl SessionArchive {
    /// Reads a file to its end and finds its parts. The items of the history are not examined. This blocks.
    pub fn open(path: &Path) -> Result<Self, ImportArchiveError> {
        let not_read = |source| ImportArchiveError::NotRead { path: path.to_owned(), source };
        let mut scanner = Scanner::at(file_system::open(path).map_err(not_read)?, Position::START);
        let mut found = Found::default();
        let mut place = String::new();
        found.read(&mut scanner, &mut place).map_err(|error| error.of(path, &place))?;
        match &found.version {
            Some(version) if version.as_u64() == Some(FORMAT_VERSION) => {}
            Some(version) => {
                let found: String = version.to_string().chars().take(80).collect();
                return Err(ImportArchiveError::FormatVersion { path: path.to_owned(), found });
            }
            None => return Err(missing("format_version").of(path, "")),
        }
        let Some((session, SessionMember { head, state })) = found.session else {
            return Err(missing("session").of(path, ""));
        };
        let Some(history) = found.history else { return Err(missing("history").of(path, "")) };
        Ok(Self { path: path.to_owned(), head, session, state, history, own: found.own })
    }

    /// What it says about its session.
    pub fn head(&self) -> &ArchiveHead {
        &self.head
    }

    /// A problem of npm acpx's record in it.
    pub(super) fn invalid_state(&self, problem: String) -> ImportArchiveError {
        wrong_at(self.session, problem).of(&self.path, "session.state")
    }

    /// Reads the items of an array from its position on.
    pub(super) fn items(&self, name: &'static str, array: Position) -> Result<Items, ImportArchiveError> {
        let open = || {
            let mut file = file_system::open(&self.path)?;
            file.seek(SeekFrom::Start(array.offset))?;
            let mut scanner = Scanner::at(file, array);
            scanner.expect(b'[')?;
            Ok::<_, ScanError>(scanner)
        };
        let scanner = open().map_err(|error| error.of(&self.path, name))?;
        Ok(Items { path: self.path.clone(), name, scanner, count: 0, begin: array, value: Vec::new() })
    }
}

fn missing(member: &str) -> ScanError {
    wrong_at(Position::START, format!("{member} is missing"))
}

impl Found {
    /// Reads the document. `place` is the member that is read.
    fn read(&mut self, scanner: &mut Scanner<File>, place: &mut String) -> Result<(), ScanError> {
        let (mut value, mut is_first) = (Vec::new(), true);
        scanner.expect(b'{')?;
        while scanner.has_next(is_first, b'}')? {
            is_first = false;
            place.clear();
            let name = scanner.member(&mut value)?;
            place.push_str(&name);
            match name.as_str() {
                "format_version" => self.version = Some(scanner.parsed(&mut value)?),
                "session" => {
                    scanner.peek_token()?;
                    self.session = Some((scanner.position(), scanner.parsed(&mut value)?));
                }
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

/// Skips an array, and returns where it begins.
fn array(scanner: &mut Scanner<File>) -> Result<Position, ScanError> {
    if scanner.peek_token()? != Some(b'[') {
        return Err(scanner.wrong("an array is expected here"));
    }
    let begin = scanner.position();
    scanner.skip()?;
    Ok(begin)
}

/// Reads the member `acpx`; `None` if it is that of another version, and the rest is read as of npm acpx.
fn own(scanner: &mut Scanner<File>, place: &mut String) -> Result<Option<OwnParts>, ScanError> {
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
            "version" => version = Some(scanner.parsed(&mut value)?),
            "record" => {
                scanner.peek_token()?;
                let begin = scanner.position();
                let json: Box<RawValue> = scanner.parsed(&mut value)?;
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
    let record = OwnRecord::read(&record).map_err(|problem| wrong_at(at, problem))?;
    Ok(Some(OwnParts { record, turns, events }))
}

/// The items of an array, one in memory at a time.
#[derive(Debug)]
pub(super) struct Items {
    path: PathBuf,
    name: &'static str,
    scanner: Scanner<File>,
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
            items.begin = items.scanner.value(&mut items.value, super::scanner::VALUE_LIMIT)?;
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
