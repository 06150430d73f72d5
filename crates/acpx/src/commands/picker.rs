//! `acpx` alone on a terminal: the session picker, and then the interactive client in the chosen session.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use acpx_core::model::{AbsolutePath, AgentKey, RecordId, Scope, SessionName, Timestamp};
use acpx_core::store::{RecordFilter, Store as _};
use acpx_core::wire::since_1970;
use crossterm::event::{Event, KeyEventKind};

use super::attach;
use super::sessions::list::{page, real};
use super::sessions::list_all::{SessionsFilter, native_rows, sort};
use super::sessions::new;
use crate::cli::{AgentChoice, CliOptions};
use crate::error::{CliError, CliExit};
use crate::output::{
    self, AnySession, Console, ListedState, OutputMode, TableView, any_session_table, screen, terminal_size,
};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, SessionFilter};
use crate::session::search_index;
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::takeover::{self, ImportScope};
use crate::terminal::attach::screen::InlineScreen;
use crate::terminal::picker::{PickerChoice, SessionPicker};
use crate::terminal::raw_terminal::RawTerminal;
use crate::terminal::tty::ControllingTerminal;

/// How many sessions are read: opening the picker takes as long with many more.
const READ: usize = 2000;
/// How long new transcripts are read before the picker opens. Those that are not read yet are in it without a title.
const INDEX_LIMIT: Duration = Duration::from_millis(200);

/// Lets the user pick a session, and runs the interactive client in it.
pub(crate) fn run(config: &LazyConfig) -> Result<ExitCode, CliError> {
    let mut options = CliOptions::default();
    let settings = config.of_any_agent(&options)?;
    takeover::first(&settings, ImportScope::Any)?;
    let has_default = config.get().is_ok_and(|config| config.default_agent.is_some());
    match block_on(pick(&settings, config, has_default))? {
        PickedSession::None => return Ok(CliExit::Success.into()),
        PickedSession::Kept(id) => options.session = SessionName::new(id.as_str()).ok(),
        // The client adopts it.
        PickedSession::Native { agent, session } => {
            options.agent = AgentChoice::Named(agent);
            options.session = SessionName::new(&session).ok();
        }
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
    attach::run(&CommandSettings::new(&options, config.get()?)?, &options, config, None)
}

/// What was picked.
enum PickedSession {
    None,
    /// A new session with this agent, or else the default one.
    New(Option<String>),
    Kept(RecordId),
    /// A session that only its agent has.
    Native {
        agent: String,
        session: String,
    },
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

async fn pick(
    settings: &CommandSettings,
    config: &LazyConfig,
    has_default: bool,
) -> Result<PickedSession, CliError> {
    let here = real(settings.cwd.as_path(), Path::new(""))?;
    let (rows, is_cut) = rows(settings, config, &here).await?;
    let home = std::env::home_dir();
    let now = Timestamp::since_1970(since_1970());
    let view = TableView { here: here.as_path(), home: home.as_deref(), now };
    // Unless the configuration names one, a new session is with the agent that was used last.
    let records = rows.iter().filter_map(|row| match row {
        AnySession::Record { row, .. } => Some(&row.record),
        AnySession::Native(_) => None,
    });
    let last = records.max_by_key(|record| record.updated_at).filter(|_| !has_default);
    let agent = last.and_then(|record| record.agent.name.clone());
    let label = agent.clone().map_or_else(|| settings.agent.label(), Into::into);
    let key = agent.as_deref().map_or_else(|| settings.agent.key(), AgentKey::new);
    let replaced = replaced_session(&rows, &here, key);
    let picker = SessionPicker::new(&rows, any_session_table(&rows, view), &label, replaced, is_cut);
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
            let session = |row: &AnySession| match row {
                AnySession::Record { row, .. } => PickedSession::Kept(row.record.id.clone()),
                AnySession::Native(row) => PickedSession::Native {
                    agent: row.session.agent.clone(),
                    session: row.session.session.clone(),
                },
            };
            rows.get(index).map_or(PickedSession::None, session)
        }
    })
}

/// The short id of the open session that a new one with this agent closes.
fn replaced_session(rows: &[AnySession], here: &AbsolutePath, agent: AgentKey) -> Option<String> {
    let scope = Some(Scope { agent, name: None });
    rows.iter().find_map(|row| match row {
        AnySession::Record { row, .. }
            if row.state != ListedState::Closed
                && row.record.real_cwd == *here
                && row.record.scope == scope =>
        {
            Some(row.short_id.clone())
        }
        _ => None,
    })
}

/// The records and the agents' own sessions, those of a directory first, and whether there are more. Without a usable
/// index there are only the records.
async fn rows(
    settings: &CommandSettings,
    config: &LazyConfig,
    here: &AbsolutePath,
) -> Result<(Vec<AnySession>, bool), CliError> {
    let (records, _) = page(&RecordFilter::default(), Some(here), READ + 1, None).await?;
    // Its table has no turns and tokens.
    let record = |row| AnySession::Record { row: Box::new(row), turns: 0, tokens: None };
    let mut rows: Vec<AnySession> = records.into_iter().map(record).collect();
    if let Ok(exclusions) = search_index::exclusions(config) {
        // What the index lacks is no matter here.
        let mut console = Console::of_program(OutputMode { strict: true, ..settings.mode });
        let everything = SessionsFilter::everything();
        let natives = native_rows(settings, &exclusions, &everything, READ, INDEX_LIMIT, &mut console).await;
        rows.extend(natives.unwrap_or_default().rows);
    }
    sort(&mut rows, Some(here));
    let is_cut = rows.len() > READ;
    rows.truncate(READ);
    Ok((rows, is_cut))
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
