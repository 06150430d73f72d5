//! `acpx` alone on a terminal: the session picker, and then the interactive client in the chosen session.

use std::path::Path;
use std::process::ExitCode;

use acpx_core::model::{RecordId, SessionName, Timestamp};
use acpx_core::store::RecordFilter;
use acpx_core::wire::since_1970;
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;

use super::attach::{self, RawTerminal};
use super::sessions::list::{page, real};
use super::sessions::new;
use crate::cli::CliOptions;
use crate::error::{CliError, CliExit};
use crate::output::{SessionRow, TableView, screen, session_table, terminal_size};
use crate::session::host_locator::block_on;
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::takeover::{self, ImportScope};
use crate::terminal::attach::screen::InlineScreen;
use crate::terminal::picker::{PickerChoice, SessionPicker};

/// How many sessions are read: opening the picker takes as long with many more.
const READ: usize = 2000;

/// Lets the user pick a session, and runs the interactive client in it.
pub(crate) fn run(config: &LazyConfig) -> Result<ExitCode, CliError> {
    let mut options = CliOptions::default();
    let settings = config.of_any_agent(&options)?;
    takeover::first(&settings, ImportScope::Any)?;
    match block_on(pick(&settings))? {
        PickedSession::None => return Ok(CliExit::Success.into()),
        PickedSession::Kept(id) => options.session = SessionName::new(id.as_str()).ok(),
        PickedSession::New => {
            let settings = CommandSettings::new(&options, config.get()?)?;
            let made = block_on(new::create(&settings, &options, config.get()?))?;
            options.session = SessionName::new(made.as_str()).ok();
        }
    }
    attach::run(&CommandSettings::new(&options, config.get()?)?, &options, config)
}

/// What was picked.
enum PickedSession {
    None,
    New,
    Kept(RecordId),
}

async fn pick(settings: &CommandSettings) -> Result<PickedSession, CliError> {
    let here = real(settings.cwd.as_path(), Path::new(""))?;
    let (rows, is_cut) = page(&RecordFilter::default(), &here, READ).await?;
    let home = std::env::home_dir();
    let now = Timestamp::since_1970(since_1970());
    let view = TableView { here: here.as_path(), home: home.as_deref(), now };
    let picker = SessionPicker::new(&rows, session_table(&rows, view), &settings.agent.label(), is_cut);
    let has_colour = settings.mode.has_color();
    crossterm::style::force_color_output(has_colour);
    let terminal = RawTerminal::enter()?;
    let mut screen = InlineScreen::new(screen(), terminal_size(), has_colour);
    let choice = choose(picker, &mut screen).await;
    screen.clear()?;
    drop(terminal);
    Ok(match choice? {
        PickerChoice::Leave => PickedSession::None,
        PickerChoice::New => PickedSession::New,
        PickerChoice::Open(index) => {
            let id = |row: &SessionRow| PickedSession::Kept(row.record.id.clone());
            rows.get(index).map_or(PickedSession::None, id)
        }
    })
}

/// Shows the picker until something is chosen. A terminal that is gone leaves.
async fn choose<W: std::io::Write>(
    mut picker: SessionPicker,
    screen: &mut InlineScreen<W>,
) -> Result<PickerChoice, CliError> {
    let mut events = EventStream::new();
    loop {
        screen.set_size(terminal_size());
        screen.draw(&[], picker.draw(screen.columns(), screen.live_rows()))?;
        match events.next().await {
            Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                if let Some(choice) = picker.key(key) {
                    return Ok(choice);
                }
            }
            Some(Ok(Event::Paste(text))) => picker.paste(&text),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Ok(PickerChoice::Leave),
        }
    }
}
