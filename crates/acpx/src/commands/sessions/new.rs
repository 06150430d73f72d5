//! `acpx sessions new`: creates a session where lookup finds it. `sessions ensure` and prompts use it too.

use acpx_core::model::{AcpSessionId, ErrorCode, RecordId, SessionIdentity, SessionName};
use acpx_core::protocol::meta::{NewMeta, SessionMeta, ShellMeta};
use acpx_core::store::Store as _;
use tokio::time::Instant;

use super::ensure::not_applied;
use crate::cli::{CliOptions, NewArgs, UsageError};
use crate::commands::host_request::{StartedSession, start_session};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{self, Console, EnsureOrigin, EnsureResult, SessionLabel};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, position_of};
use crate::session::native::NativeSessions;
use crate::session::settings::CommandSettings;
use crate::session::setup_request;
use crate::session::setup_request::{McpServerSet, NewParams};

/// Creates a session; an open one of the same name in the same directory is closed.
pub(crate) fn new(
    args: &NewArgs,
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
) -> Result<(), CliError> {
    let shell = ShellMeta { name: settings.session.as_ref().map(ToString::to_string), unless_in: None };
    make(args, settings, options, config, shell)
}

/// Requests a session. If another command has just created it, the result may be that one.
pub(super) fn make(
    args: &NewArgs,
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
    shell: ShellMeta,
) -> Result<(), CliError> {
    if let Some(name) = shell.name.as_ref().filter(|name| position_of(name).is_some()) {
        return Err(UsageError::ReservedName { name: name.clone() }.into());
    }
    let is_ensure = shell.unless_in.is_some();
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        if let Some(session) = &args.resume_session {
            adopt(session, settings, &mut console).await?;
        }
        let wanted = NewMeta {
            shell: Some(shell),
            resume_session: args.resume_session.as_ref().map(ToString::to_string),
            ..NewMeta::default()
        };
        let requested = request(settings, options, config, wanted, Instant::now(), &mut console).await;
        let (identity, meta) = requested.map_err(|error| match (&args.resume_session, error.code()) {
            (Some(_), ErrorCode::NoSession) => error.with_hint(format!(
                "acpx {} sessions list --remote lists the sessions that the agent has",
                settings.typed_agent()
            )),
            _ => error,
        })?;
        let replaced = meta.replaced_record_id.as_deref().and_then(|id| RecordId::new(id).ok());
        if meta.created {
            let (record, name, cwd) = (&identity.record, name(settings), settings.cwd.as_path());
            let short = RecordLookup::open()?.short_id(record, settings.mode).await;
            let label = SessionLabel { record, name, cwd, agent: &settings.agent, short: &short };
            output::created(label, &mut console);
        }
        output::report_kept_settings(&meta, &mut console);
        let not_applied = not_applied(&meta, settings);
        let how = match (is_ensure, meta.created) {
            (false, _) => EnsureOrigin::New { replaced: replaced.as_ref() },
            (true, true) => EnsureOrigin::Created,
            (true, false) => EnsureOrigin::Existing { not_applied: &not_applied },
        };
        Ok(output::ensured(EnsureResult { identity: &identity, name: name(settings), how }, &mut console)?)
    })
}

/// Makes a record of the agent's own transcript of a session, unless a record has the session. The agent's replay may
/// lack what came before a compaction.
async fn adopt(
    session: &AcpSessionId,
    settings: &CommandSettings,
    console: &mut Console<'static>,
) -> Result<(), CliError> {
    let lookup = RecordLookup::open()?;
    if let Some(store) = lookup.store()
        && !store.owners(settings.agent.clone(), vec![session.clone()]).await?.is_empty()
    {
        return Ok(());
    }
    let native = NativeSessions::of(settings);
    let Some(source) = native.find_whole(session.as_str()) else { return Ok(()) };
    let meta = native.adopt(&source, &settings.agent, None, settings, console).await?;
    output::adopted(&source, &meta, console);
    Ok(())
}

/// Creates a session for the interactive client; its id.
pub(in crate::commands) async fn create(
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
) -> Result<RecordId, CliError> {
    let mut console = Console::of_program(settings.mode);
    let shell = Some(ShellMeta { name: None, unless_in: None });
    let wanted = NewMeta { shell, ..NewMeta::default() };
    let (identity, meta) = request(settings, options, config, wanted, Instant::now(), &mut console).await?;
    if let Some(replaced) = meta.replaced_record_id {
        output::replaced(&replaced, &settings.typed_agent(), &mut console);
    }
    Ok(identity.record)
}

/// Requests a session from the host.
pub(super) async fn request(
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
    wanted: NewMeta,
    begun: Instant,
    console: &mut Console<'static>,
) -> Result<(SessionIdentity, SessionMeta), CliError> {
    let given = McpServerSet::of_new(settings, options, config)?;
    let start = settings.start(&settings.agent, settings.ttl, options.flags.model.as_deref());
    let meta = NewMeta { agent: Some((&settings.agent).into()), start, ..wanted };
    let params = NewParams::new(settings, &given, meta);
    settings.warn_of_unread_keys(config, console);
    // A host that died before it replied has created nothing that lookup finds.
    let StartedSession { identity, meta, reply } =
        start_session("session/new", &params, None, settings, begun, console).await?;
    setup_request::report_applied_settings(params.wanted(), &reply, console);
    Ok((identity, meta))
}

pub(super) fn name(settings: &CommandSettings) -> Option<&str> {
    settings.session.as_ref().map(SessionName::as_str)
}
