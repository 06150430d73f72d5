//! `acpx sessions new` and `acpx sessions ensure`: a session with an agent, where a shell finds it.

use std::process::ExitCode;

use acpx_core::host::HostError;
use acpx_core::host::meta::{NewMeta, ShellMeta};
use acpx_core::model::{RecordId, SessionName};

use super::super::kept::{Kept, Which};
use crate::cli::Options;
use crate::config::Config;
use crate::error::{CliError, Exit};
use crate::output::{self, Console, Ensured, HowEnsured, SessionLabel};
use crate::patience::Patience;
use crate::reach::{Reach, block_on};
use crate::scope::Walk;
use crate::settings::Settings;
use crate::setup::{self, Given, NewParams};
use crate::talk::Talk;

/// Makes one; an open one of the same name in the same directory is closed.
pub(crate) fn new(settings: &Settings, options: &Options, config: &Config) -> Result<ExitCode, CliError> {
    let shell = ShellMeta { name: settings.session.as_ref().map(ToString::to_string), unless_in: None };
    make(settings, options, config, shell)
}

/// Makes one unless there is one, here or further up. One that is there is not touched.
pub(crate) fn ensure(settings: &Settings, options: &Options, config: &Config) -> Result<ExitCode, CliError> {
    let there = block_on(async { Kept::open()?.find(settings, Which::Open).await })?;
    if let Some(record) = there {
        let identity = record.identity();
        let ensured = Ensured { identity: &identity, name: name(settings), how: HowEnsured::Existing };
        output::ensured(&ensured, &mut Console::of_program(settings.mode))?;
        return Ok(Exit::Success.into());
    }
    let directories = Walk::from(settings.cwd.as_path())?.directories()?;
    let unless_in = Some(directories.iter().map(ToString::to_string).collect());
    let shell = ShellMeta { name: settings.session.as_ref().map(ToString::to_string), unless_in };
    make(settings, options, config, shell)
}

fn make(
    settings: &Settings,
    options: &Options,
    config: &Config,
    shell: ShellMeta,
) -> Result<ExitCode, CliError> {
    let is_ensure = shell.unless_in.is_some();
    let given = Given::of(&settings.mcp_servers(options, config)?, &settings.cwd)?;
    let start = settings.start(&settings.agent, settings.ttl, options.model.as_deref());
    let meta = NewMeta { agent: Some((&settings.agent).into()), shell: Some(shell), start };
    let params = NewParams::new(settings, &given, meta);
    let reach = Reach::of_environment()?;
    let mut console = Console::of_program(settings.mode);
    settings.warn_of_unread_keys(config, &mut console);
    block_on(async {
        let answer = ask(&reach, &params, settings, &mut console).await?;
        let bad = || HostError::BadAnswer { method: "session/new".to_owned() };
        let (identity, meta) = setup::read(&answer).ok_or_else(bad)?;
        setup::say_what_is_shown(params.wanted(), &answer, &mut console);
        let replaced = meta.replaced_record_id.as_deref().and_then(|id| RecordId::new(id).ok());
        if meta.created {
            let (record, name, cwd) = (&identity.record, name(settings), settings.cwd.as_path());
            output::created(SessionLabel { record, name, cwd }, &settings.agent, &mut console);
        }
        let how = match (is_ensure, meta.created) {
            (false, _) => HowEnsured::New { replaced: replaced.as_ref() },
            (true, true) => HowEnsured::Created,
            (true, false) => HowEnsured::Existing,
        };
        output::ensured(&Ensured { identity: &identity, name: name(settings), how }, &mut console)?;
        Ok(Exit::Success.into())
    })
}

fn name(settings: &Settings) -> Option<&str> {
    settings.session.as_ref().map(SessionName::as_str)
}

/// Asks until a host has answered: one that went away before has made nothing that a shell could find.
async fn ask(
    reach: &Reach,
    params: &NewParams<'_>,
    settings: &Settings,
    console: &mut Console<'static>,
) -> Result<Box<str>, CliError> {
    let mut talk = Talk::new(console, Patience::new(settings.timeout)?, Some(reach));
    let asked = talk.persist(async |talk| {
        let mut client = talk.host(reach).await?;
        output::starting(&settings.agent, settings.cwd.as_path(), talk.console);
        talk.start(&mut client, "session/new", params, &settings.agent.label(), None).await
    });
    let told = |error: CliError| error.with_nothing_kept().with_login_of(&settings.typed_agent());
    asked.await.map_err(told)
}
