//! `acpx sessions new`: creates a session where lookup finds it. `sessions ensure` uses it too.

use acpx_core::model::{RecordId, SessionName};
use acpx_core::protocol::meta::{NewMeta, ShellMeta};

use super::ensure::not_applied;
use crate::cli::CliOptions;
use crate::commands::host_request::{StartedSession, start_session};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{self, Console, EnsureOrigin, EnsureResult, SessionLabel};
use crate::session::host_locator::block_on;
use crate::session::settings::CommandSettings;
use crate::session::setup_request;
use crate::session::setup_request::{McpServerSet, NewParams};

/// Creates a session; an open one of the same name in the same directory is closed.
pub(crate) fn new(settings: &CommandSettings, options: &CliOptions, config: &Config) -> Result<(), CliError> {
    let shell = ShellMeta { name: settings.session.as_ref().map(ToString::to_string), unless_in: None };
    make(settings, options, config, shell)
}

/// Requests a session. If another command has just created it, the result may be that one.
pub(super) fn make(
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
    shell: ShellMeta,
) -> Result<(), CliError> {
    let is_ensure = shell.unless_in.is_some();
    let given = McpServerSet::of(&settings.mcp_servers(options, config)?, &settings.cwd)?;
    let start = settings.start(&settings.agent, settings.ttl, options.flags.model.as_deref());
    let meta = NewMeta { agent: Some((&settings.agent).into()), shell: Some(shell), start };
    let params = NewParams::new(settings, &given, meta);
    let mut console = Console::of_program(settings.mode);
    settings.warn_of_unread_keys(config, &mut console);
    block_on(async {
        // A host that died before it replied has created nothing that lookup finds.
        let StartedSession { identity, meta, reply } =
            start_session("session/new", &params, None, settings, &mut console).await?;
        setup_request::report_applied_settings(params.wanted(), &reply, &mut console);
        let replaced = meta.replaced_record_id.as_deref().and_then(|id| RecordId::new(id).ok());
        if meta.created {
            let (record, name, cwd) = (&identity.record, name(settings), settings.cwd.as_path());
            output::created(SessionLabel { record, name, cwd }, &settings.agent, &mut console);
        }
        output::report_kept_settings(&meta, &mut console);
        let not_applied = not_applied(&meta);
        let how = match (is_ensure, meta.created) {
            (false, _) => EnsureOrigin::New { replaced: replaced.as_ref() },
            (true, true) => EnsureOrigin::Created,
            (true, false) => EnsureOrigin::Existing { not_applied: &not_applied },
        };
        Ok(output::ensured(EnsureResult { identity: &identity, name: name(settings), how }, &mut console)?)
    })
}

pub(super) fn name(settings: &CommandSettings) -> Option<&str> {
    settings.session.as_ref().map(SessionName::as_str)
}
