//! A session whose conversation a command shows: a record of the store, or a native session. A native session is read
//! from its transcript as often as it is needed, and nothing is written.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use acpx_core::acp::Cursor;
use acpx_core::host::{CursorError, RecordEvents};
use acpx_core::model::{
    AbsolutePath, AgentMemory, AgentSpec, Event, Lifecycle, Lineage, Record, RecordId, RecordSettings, Seq,
    SessionIdentity, SessionInfo, Timestamp, Turn, TurnId, title_of,
};
use acpx_core::store::{Store, real_path_or_written};
use acpx_core::transcripts::{
    ItemContent, TranscriptEvents, TranscriptItem, TranscriptItems, TranscriptReader, TranscriptSource,
    TranscriptSummary,
};
use tokio::task::spawn_blocking;

use super::lookup::{RecordLookup, SessionFilter};
use super::native::NativeSessions;
use super::settings::CommandSettings;
use crate::error::{CliError, Intent, system_words};
use crate::output::Console;

/// How many events of a record are read at a time.
const PAGE: usize = 1024;

/// A session that a command shows.
pub(crate) enum ShownSession {
    Stored { lookup: RecordLookup, record: Box<Record> },
    Native(NativeSession),
}

/// A session that only its agent keeps.
#[derive(Clone)]
pub(crate) struct NativeSession {
    sessions: Arc<NativeSessions>,
    source: TranscriptSource,
    /// Its directory, if the transcript names none.
    cwd: AbsolutePath,
}

/// A native session as a record, as it would be adopted.
pub(crate) struct NativeRecord {
    pub(crate) record: Record,
    pub(crate) prompts: u64,
}

/// The conversation of a session.
pub(crate) enum ShownConversation {
    Stored { store: Arc<dyn Store>, events: RecordEvents, record: Box<Record> },
    Native(NativeSession),
}

/// Reads the events of a conversation in order.
pub(crate) enum ConversationEvents<'a> {
    Stored { store: &'a dyn Store, record: &'a Record, next: Seq },
    Native { session: &'a NativeSession, events: Box<TranscriptEvents>, from: Seq },
}

impl ShownSession {
    /// The session that a command means, or an error that names the alternatives.
    pub(crate) async fn find(settings: &CommandSettings, verb: &'static str) -> Result<Self, CliError> {
        let lookup = RecordLookup::open()?;
        if let Some(record) = lookup.selected(settings, SessionFilter::OpenOrClosed).await? {
            return Ok(Self::Stored { lookup, record: Box::new(record) });
        }
        if let Some(reference) = &settings.session {
            let sessions = NativeSessions::of(settings);
            if let Some(source) = sessions.find(reference.as_str())?
                && !lookup.has_deleted(&source).await?
            {
                let (sessions, cwd) = (Arc::new(sessions), settings.cwd.clone());
                return Ok(Self::Native(NativeSession { sessions, source, cwd }));
            }
        }
        Err(lookup.missing(settings, Intent::Show(verb)).await?)
    }

    /// Its conversation; `None` if there is no store any more.
    pub(crate) fn into_conversation(self) -> Option<ShownConversation> {
        Some(match self {
            Self::Stored { lookup, record } => {
                let (store, events) = lookup.into_events(&record)?;
                ShownConversation::Stored { store, events, record }
            }
            Self::Native(session) => ShownConversation::Native(session),
        })
    }
}

impl NativeSession {
    fn id(&self) -> Result<RecordId, CliError> {
        RecordId::new(self.source.session.as_str()).map_err(|error| self.not_read(&io::Error::other(error)))
    }

    fn not_read(&self, error: &io::Error) -> CliError {
        CliError::Transcript {
            path: self.source.path.clone(),
            session: self.source.session.to_string(),
            reason: system_words(error),
        }
    }

    fn reader(&self) -> Result<&dyn TranscriptReader, CliError> {
        let reader = self.sessions.reader(self.source.agent);
        reader.ok_or_else(|| self.not_read(&io::ErrorKind::NotFound.into()))
    }

    fn items(&self) -> Result<Box<dyn TranscriptItems>, CliError> {
        self.reader()?.open(&self.source, 0).map_err(|error| self.not_read(&error))
    }

    /// The events from this one on.
    fn events(&self, from: Seq) -> Result<TranscriptEvents, CliError> {
        let secrets = Arc::clone(&self.sessions.secrets);
        let mut events = TranscriptEvents::open(self.reader()?, &self.source, secrets)
            .map_err(|error| self.not_read(&error))?;
        events.skip_to(from);
        Ok(events)
    }

    /// Calls `each` with every item and the number of its first event. This blocks.
    fn each_item(&self, mut each: impl FnMut(&TranscriptItem, Seq)) -> Result<Seq, CliError> {
        let (mut items, mut next) = (self.items()?, Seq::FIRST);
        while let Some(item) = items.next().map_err(|error| self.not_read(&error))? {
            each(&item, next);
            next = Seq(next.0 + item.updates_count());
        }
        Ok(next)
    }

    /// The session as a record. This reads its transcript to the end.
    pub(crate) async fn record(&self, console: &mut Console<'_>) -> Result<NativeRecord, CliError> {
        let session = self.clone();
        waiting(console, move || session.read_record()).await
    }

    fn read_record(&self) -> Result<NativeRecord, CliError> {
        let mut summary = TranscriptSummary::default();
        let end = self.each_item(|item, _| summary.add(item))?;
        let last_seq = (end > Seq::FIRST).then(|| Seq(end.0 - 1));
        let modified = Timestamp::from_millis(self.source.stamp.modified / 1_000_000).ok();
        let modified = modified.unwrap_or_else(|| Timestamp::since_1970(std::time::Duration::ZERO));
        let created_at = summary.created_at.unwrap_or(modified);
        let named = summary.directory.and_then(|directory| AbsolutePath::new(directory).ok());
        let cwd = named.unwrap_or_else(|| self.cwd.clone());
        let title = summary.title.or_else(|| summary.first_prompt.as_deref().and_then(title_of));
        let masked = |title: String| self.sessions.secrets.redact_text(&title).into_owned();
        let record = Record {
            id: self.id()?,
            scope: None,
            agent: AgentSpec::new(self.source.agent, [""; 0]).named(self.source.agent),
            real_cwd: real_path_or_written(cwd.clone()),
            cwd,
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
            info: SessionInfo { title: title.map(masked), ..SessionInfo::default() },
            lifecycle: Lifecycle::Open,
            lineage: Lineage::adopted(self.source.session.clone(), created_at),
            agent_run: None,
            settings: RecordSettings::default(),
            memory: AgentMemory::default(),
            restore_error: None,
            created_at,
            updated_at: summary.updated_at.unwrap_or(modified),
            last_seq,
            last_turn: None,
            answered_turns: 0,
        };
        Ok(NativeRecord { record, prompts: summary.prompts })
    }

    /// The event at which a part of the conversation begins.
    fn position(&self, cursor: &Cursor) -> Result<Seq, CliError> {
        let id = match cursor {
            // Whether there is such an event is known at the end.
            Cursor::Start => return Ok(Seq::FIRST),
            Cursor::Seq(seq) => return Ok(*seq),
            Cursor::Turn(turn) => return Err(CursorError::NotAmongOurs { turn: *turn, last: None }.into()),
            Cursor::Message(id) => id,
        };
        let mut found = None;
        self.each_item(|item, seq| match &item.content {
            ItemContent::Prompt { id: Some(own), .. }
            | ItemContent::Reply { id: Some(own), .. }
            | ItemContent::Thought { id: Some(own), .. }
                if found.is_none() && **own == **id =>
            {
                found = Some(seq);
            }
            _ => {}
        })?;
        let missing = || CursorError::NotThere { place: format!("message {id:?}"), last: None };
        found.ok_or_else(|| missing().into())
    }

    /// The event at which the last prompts begin.
    fn last_prompts(&self, count: u64) -> Result<Seq, CliError> {
        let (mut prompts, mut total) = (VecDeque::new(), 0);
        let end = self.each_item(|item, seq| {
            if matches!(item.content, ItemContent::Prompt { .. }) {
                total += 1;
                prompts.push_back(seq);
                if prompts.len() as u64 > count {
                    prompts.pop_front();
                }
            }
        })?;
        Ok(if total < count { Seq::FIRST } else { prompts.front().copied().unwrap_or(end) })
    }
}

/// Reads a transcript while a terminal shows that the command works.
async fn waiting<T: Send + 'static>(
    console: &mut Console<'_>,
    read: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<T, CliError> {
    let mut work = pin!(spawn_blocking(read));
    console.wait_for("reading the transcript");
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = console.next_frame() => {}
        }
    };
    console.stop_waiting();
    done.map_err(|error| CliError::Runtime(error.into()))?
}

impl ShownConversation {
    pub(crate) fn identity(&self) -> Result<SessionIdentity, CliError> {
        match self {
            Self::Stored { record, .. } => Ok(record.identity()),
            Self::Native(native) => {
                let (record, session) = (native.id()?, native.source.session.clone());
                Ok(SessionIdentity { record, session, agent_session: None })
            }
        }
    }

    /// The store and the record in it, if the session is no native one.
    pub(crate) fn stored(&self) -> Option<(&Arc<dyn Store>, &Record)> {
        match self {
            Self::Stored { store, record, .. } => Some((store, record)),
            Self::Native(_) => None,
        }
    }

    /// The position that a cursor means.
    pub(crate) async fn position(&self, cursor: &Cursor, console: &mut Console<'_>) -> Result<Seq, CliError> {
        match self {
            Self::Stored { events, .. } => Ok(events.find(cursor).await?),
            Self::Native(native) => {
                let (native, cursor) = (native.clone(), cursor.clone());
                waiting(console, move || native.position(&cursor)).await
            }
        }
    }

    /// Where the last turns begin, or the last prompts of a native session.
    pub(crate) async fn last_turns(&self, count: u64, console: &mut Console<'_>) -> Result<Seq, CliError> {
        match self {
            Self::Stored { events, .. } => Ok(events.last_turns(count).await?),
            Self::Native(native) => {
                let native = native.clone();
                waiting(console, move || native.last_prompts(count)).await
            }
        }
    }

    /// The events from this one on; of a record those that it had when it was found.
    pub(crate) fn events(&self, from: Seq) -> Result<ConversationEvents<'_>, CliError> {
        Ok(match self {
            Self::Stored { store, record, .. } => {
                ConversationEvents::Stored { store: &**store, record, next: from }
            }
            Self::Native(session) => {
                ConversationEvents::Native { session, events: Box::new(session.events(from)?), from }
            }
        })
    }

    pub(crate) async fn turn_numbered(&self, turn: TurnId) -> Result<Option<Turn>, CliError> {
        match self {
            Self::Stored { store, record, .. } => Ok(store.turn_numbered(record.id.clone(), turn).await?),
            Self::Native(_) => Ok(None),
        }
    }
}

impl ConversationEvents<'_> {
    /// The next events; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<Event>, CliError> {
        match self {
            Self::Stored { store, record, next } => {
                if Some(*next) > record.last_seq {
                    return Ok(Vec::new());
                }
                let mut page = store.events(record.id.clone(), *next, PAGE).await?;
                // Later events are for `sessions watch`.
                page.retain(|event| Some(event.seq) <= record.last_seq);
                *next = page.last().map_or(*next, |event| event.seq.next());
                Ok(page)
            }
            Self::Native { session, events, from } => {
                let batch = events.next_batch().map_err(|error| session.not_read(&error))?;
                let last = events.last();
                if batch.is_none() && *from > last.next() {
                    let (place, last) = (format!("event {from}"), Some(last.0).filter(|last| *last > 0));
                    return Err(CursorError::NotThere { place, last }.into());
                }
                Ok(batch.unwrap_or_default())
            }
        }
    }
}
