//! `acpx sessions export`: writes a session as an archive, as Markdown, HTML or JSON. It reads the store and starts
//! nothing. A file is written under a temporary name in the same directory and renamed, so it is complete or absent.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use acpx_core::host::title;
use acpx_core::model::{Event, Record, Seq, Timestamp, TurnId};
use acpx_core::wire::since_1970;

use crate::cli::{ExportArgs, ExportFormat, Format, UsageError};
use crate::error::{CliError, system_words};
use crate::output::{
    ArchiveWriter, Console, ConversationSection, DocumentKind, Sections, document, exported,
};
use crate::private_file::{ExistingFile, PrivateFile};
use crate::session::host_locator::block_on;
use crate::session::settings::CommandSettings;
use crate::session::shown_session::{ShownConversation, ShownSession};

/// Exports the selected session.
pub(crate) fn run(settings: &CommandSettings, args: &ExportArgs) -> Result<(), CliError> {
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if settings.mode.format == Format::Json && output.is_none() {
        refuse_unless_json(args.r#as)?;
    }
    block_on(async {
        let mut console = Console::of_program(settings.mode);
        let session = ShownSession::find(settings, "export").await?;
        let mut record = match &session {
            ShownSession::Stored { record, .. } => (**record).clone(),
            ShownSession::Native(native) => native.record(&mut console).await?.record,
        };
        let Some(conversation) = session.into_conversation() else { return Ok(()) };
        if let (Some((store, _)), false) = (conversation.stored(), args.r#as == ExportFormat::Archive) {
            record.info.title = title(&**store, &record).await?;
        }
        let export = Export { conversation: &conversation, record: &record, format: args.r#as };
        let Some(output) = output else {
            export.write(&mut console.out).await?;
            return Ok(console.flush()?);
        };
        let not_written =
            |error: io::Error| CliError::ExportFile { path: output.to_owned(), reason: system_words(&error) };
        refuse_other_kinds(output).map_err(not_written)?;
        let target = PrivateFile::next_to(output, ".acpx-export-").map_err(not_written)?;
        let mut file = BufWriter::new(target);
        export.write(&mut file).await.map_err(|error| match error {
            CliError::Output(error) => not_written(error),
            other => other,
        })?;
        let target = file.into_inner().map_err(|error| not_written(error.into_error()))?;
        target.persist(output, ExistingFile::Replace).map_err(not_written)?;
        Ok(exported(&record.identity(), output, &mut console)?)
    })
}

/// Programs parse everything on a stdout of JSON.
fn refuse_unless_json(format: ExportFormat) -> Result<(), UsageError> {
    let form = match format {
        ExportFormat::Archive | ExportFormat::Json => return Ok(()),
        ExportFormat::Markdown => "markdown",
        ExportFormat::Html => "html",
    };
    Err(UsageError::ExportForm { form })
}

/// The file replaces a regular file, and nothing else.
fn refuse_other_kinds(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Err(io::Error::other("it is a directory")),
        Ok(found) if !found.is_file() => Err(io::Error::other("it is there and is not a regular file")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A session that is exported.
struct Export<'a> {
    conversation: &'a ShownConversation,
    record: &'a Record,
    format: ExportFormat,
}

impl Export<'_> {
    async fn write(&self, out: &mut dyn Write) -> Result<(), CliError> {
        match self.format {
            ExportFormat::Archive => self.archive(out).await,
            ExportFormat::Markdown => self.document(DocumentKind::Markdown, out).await,
            ExportFormat::Html => self.document(DocumentKind::Html, out).await,
            ExportFormat::Json => self.document(DocumentKind::Json, out).await,
        }
    }

    async fn document(&self, kind: DocumentKind, out: &mut dyn Write) -> Result<(), CliError> {
        let mut document = document(kind);
        document.begin(self.record, out)?;
        self.each_section(|section| document.section(&section, out)).await?;
        Ok(document.end(self.record, out)?)
    }

    async fn archive(&self, out: &mut dyn Write) -> Result<(), CliError> {
        let mut archive = ArchiveWriter::default();
        self.each_section(|section| {
            archive.section(&section);
            Ok(())
        })
        .await?;
        let home = std::env::home_dir();
        archive.begin(self.record, home.as_deref(), Timestamp::since_1970(since_1970()), out)?;
        if let Some((store, _)) = self.conversation.stored() {
            let mut next = TurnId::FIRST;
            while let Some(turn) = store.first_turn_from(self.record.id.clone(), next).await? {
                if Some(turn.id) > self.record.last_turn {
                    break;
                }
                next = turn.id.next();
                archive.turn(&turn, out)?;
            }
        }
        archive.begin_events(out)?;
        self.each_event(|event| archive.event(event, out)).await?;
        archive.begin_history(out)?;
        self.each_event(|event| archive.line(event, out)).await?;
        Ok(ArchiveWriter::end(out)?)
    }

    /// Calls `each` with every event that the record had when it was read.
    async fn each_event(&self, mut each: impl FnMut(&Event) -> io::Result<()>) -> Result<(), CliError> {
        let mut events = self.conversation.events(Seq::FIRST)?;
        loop {
            let page = events.next().await?;
            if page.is_empty() {
                return Ok(());
            }
            page.iter().filter(|event| Some(event.seq) <= self.record.last_seq).try_for_each(&mut each)?;
        }
    }

    /// Calls `each` with every section, complete.
    async fn each_section(
        &self,
        mut each: impl FnMut(ConversationSection) -> io::Result<()>,
    ) -> Result<(), CliError> {
        let mut sections = Sections::new(self.record.id.clone());
        let mut events = self.conversation.events(Seq::FIRST)?;
        loop {
            let page = events.next().await?;
            if page.is_empty() {
                break;
            }
            for event in page.iter().filter(|event| Some(event.seq) <= self.record.last_seq) {
                if let Some(section) = sections.apply(event) {
                    each(self.complete(section).await?)?;
                }
            }
        }
        match sections.finish() {
            Some(section) => Ok(each(self.complete(section).await?)?),
            None => Ok(()),
        }
    }

    async fn complete(&self, mut section: ConversationSection) -> Result<ConversationSection, CliError> {
        if let Some(turn) = section.turn
            && let Some(turn) = self.conversation.turn_numbered(turn).await?
        {
            section.complete(&turn);
        }
        Ok(section)
    }
}
