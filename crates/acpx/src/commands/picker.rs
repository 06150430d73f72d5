//! `acpx` alone on a terminal: the session picker, and then the interactive client in the chosen session.

use std::path::Path;
use std::process::ExitCode;

use acpx_core::model::{RecordId, SessionName, Timestamp};
use acpx_core::store::{RecordFilter, Store as _};
use acpx_core::wire::since_1970;
use crossterm::event::{Event, KeyEventKind};

use super::attach;
use super::sessions::list::{page, real};
use super::sessions::new;
use crate::cli::{AgentChoice, CliOptions};
use crate::error::{CliError, CliExit};
use crate::output::{self, SessionRow, TableView, screen, session_table, terminal_size};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, SessionFilter};
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::takeover::{self, ImportScope};
use crate::terminal::attach::screen::InlineScreen;
use crate::terminal::picker::{PickerChoice, SessionPicker};
use crate::terminal::raw_terminal::RawTerminal;
use crate::terminal::tty::ControllingTerminal;

/// How many sessions are read: opening the picker takes as long with many more.
const READ: usize = 2000;

/// Lets the user pick a session, and runs the interactive client in it.
pub(crate) fn run(config: &LazyConfig) -> Result<ExitCode, CliError> {
    let mut options = CliOptions::default();
    let settings = config.of_any_agent(&options)?;
    takeover::first(&settings, ImportScope::Any)?;
    let has_default = config.get().is_ok_and(|config| config.default_agent.is_some());
    match block_on(pick(&settings, has_default))? {
        PickedSession::None => return Ok(CliExit::Success.into()),
        PickedSession::Kept(id) => options.session = SessionName::new(id.as_str()).ok(),
        PickedSession::New(agent) => {
            options.agent = agent.map_or(AgentChoice::Default, AgentChoice::Named);
            let settings = CommandSettings::new(&options, config.get()?)?;
            if !block_on(may_replace(&settings))? {
                return Ok(CliExit::Success.into());
            }
            let made = block_on(new::create(&settings, &options, config.get()?))?;
            options.session = SessionName::new(made.as_str()).ok();
        }
    }
    attach::run(&CommandSettings::new(&options, config.get()?)?, &options, config)
}

/// What was picked.
enum PickedSession {
    None,
    /// A new session with this agent, or else the default one.
    New(Option<String>),
    Kept(RecordId),
}

/// Whether a new session may take the place of the one of this directory. If that one has work, the user is asked.
async fn may_replace(settings: &CommandSettings) -> Result<bool, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(record) = lookup.find(settings, SessionFilter::Open).await? else { return Ok(true) };
    let has_work = match lookup.store() {
        Some(store) => !store.open_turns(record.id).await?.is_empty(),
        None => false,
    };
    if !has_work {
        return Ok(true);
    }
    let Some(mut terminal) = ControllingTerminal::of_program() else { return Ok(false) };
    Ok(terminal.confirm(output::REPLACE_QUESTION).await)
}

async fn pick(settings: &CommandSettings, has_default: bool) -> Result<PickedSession, CliError> {
    let here = real(settings.cwd.as_path(), Path::new(""))?;
    let (rows, is_cut) = page(&RecordFilter::default(), &here, READ).await?;
    let home = std::env::home_dir();
    let now = Timestamp::since_1970(since_1970());
    let view = TableView { here: here.as_path(), home: home.as_deref(), now };
    // Unless the configuration names one, a new session is with the agent that was used last.
    let last = rows.iter().max_by_key(|row| row.record.updated_at).filter(|_| !has_default);
    let agent = last.and_then(|row| row.record.agent.name.clone());
    let label = agent.clone().map_or_else(|| settings.agent.label(), Into::into);
    let picker = SessionPicker::new(&rows, session_table(&rows, view), &label, is_cut);
    let has_color = settings.mode.has_color();
    crossterm::style::force_color_output(has_color);
    let mut terminal = RawTerminal::enter()?;
    let mut screen = InlineScreen::new(screen(), terminal_size(), has_color);
    let choice = choose(picker, &mut terminal, &mut screen).await;
    screen.clear()?;
    drop(terminal);
    Ok(match choice? {
        PickerChoice::Leave => PickedSession::None,
        PickerChoice::New => PickedSession::New(agent),
        PickerChoice::Open(index) => {
            let id = |row: &SessionRow| PickedSession::Kept(row.record.id.clone());
            rows.get(index).map_or(PickedSession::None, id)
        }
    })
}

/// Shows the picker until something is chosen. A terminal that is gone leaves.
async fn choose<W: std::io::Write>(
    mut picker: SessionPicker,
    terminal: &mut RawTerminal,
    screen: &mut InlineScreen<W>,
) -> Result<PickerChoice, CliError> {
    loop {
        screen.set_size(terminal_size());
        screen.draw(&[], picker.draw(screen.columns(), screen.live_rows()))?;
        match terminal.next().await {
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                if let Some(choice) = picker.key(key) {
                    return Ok(choice);
                }
            }
            Some(Event::Paste(text)) => picker.paste(&text),
            Some(_) => {}
            None => return Ok(PickerChoice::Leave),
        }
    }
}
