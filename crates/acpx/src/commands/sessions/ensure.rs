//! `acpx sessions ensure`: finds the session of this directory or a parent, or creates one. Prompts do the same.
//!
//! An existing session gets the typed flags as with a prompt: its agent is started for that. Flags that its agent
//! cannot apply any more are reported. Without flags nothing is started.

use acpx_core::model::{ProtocolVersion, Record, SessionIdentity};
use acpx_core::protocol::meta::{NewMeta, SessionMeta, ShellMeta};
use acpx_core::store::Store;
use tokio::time::Instant;

use super::new::{make, name, request};
use crate::cli::{CliOptions, NewArgs};
use crate::commands::host_request::{StartedSession, restore_meta, resume_session};
use crate::config::Config;
use crate::error::{CliError, Intent};
use crate::output::{self, Console, EnsureOrigin, EnsureResult, SessionLabel};
use crate::session::host_locator::block_on;
use crate::session::lookup::{RecordLookup, ScopeDirectories, SessionFilter, id_of, resolve};
use crate::session::native::NativeSessions;
use crate::session::recall_server::RECALL_NAME;
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::setup_request;
use crate::session::setup_request::{McpServerSet, ResumeParams};

/// Finds or creates the session.
pub(crate) fn run(
    args: &NewArgs,
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
) -> Result<(), CliError> {
    // An unreadable file is an error even if it is not needed.
    let given = McpServerSet::typed(settings, options)?;
    let there = block_on(async { RecordLookup::open()?.find(settings, SessionFilter::Open).await })?;
    let Some(record) = there else {
        return make(args, settings, options, config, unless_found(settings)?);
    };
    let mut console = Console::of_program(settings.mode);
    let (identity, mut not_applied) = if brings_something(settings, options, &record) {
        block_on(apply(settings, options, given.as_ref(), &record, &mut console))?
    } else {
        (record.identity(), Vec::new())
    };
    if lacks_recall(options, &record) {
        console.notice(WITHOUT_RECALL);
        not_applied.push("--with-recall");
    }
    let how = EnsureOrigin::Existing { not_applied: &not_applied };
    Ok(output::ensured(EnsureResult { identity: &identity, name: name(settings), how }, &mut console)?)
}

/// Shown for `--with-recall` on a session that exists without it.
const WITHOUT_RECALL: &str =
    "--with-recall is for new sessions, and this one exists; begin another with sessions new --with-recall";

/// Whether `--with-recall` was typed for a session that exists without that server, and other servers were not given.
fn lacks_recall(options: &CliOptions, record: &Record) -> bool {
    let has_recall = || record.mcp_servers.iter().any(|server| server.name == RECALL_NAME);
    options.flags.with_recall && options.flags.mcp_config.is_none() && !has_recall()
}

/// The name and place of a session to create, unless another command creates it first.
fn unless_found(settings: &CommandSettings) -> Result<ShellMeta, CliError> {
    let directories = ScopeDirectories::from(settings.cwd.as_path())?.directories()?;
    let unless_in = Some(directories.iter().map(ToString::to_string).collect());
    Ok(ShellMeta { name: settings.session.as_ref().map(ToString::to_string), unless_in })
}

/// The session of a prompt or of the interactive client.
pub(in crate::commands) struct PromptedSession {
    pub(in crate::commands) record: Record,
    pub(in crate::commands) lookup: RecordLookup,
    /// Whether it was created for this, and reported.
    pub(in crate::commands) is_new: bool,
}

/// What a session is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum SessionPurpose {
    Prompt {
        /// Whether `--create` was typed.
        create: bool,
    },
    Attach,
}

/// The selected open session. A missing one is created if that was typed, or if a person at a terminal named none: a
/// typed name may have a typing error.
pub(in crate::commands) async fn open_or_create(
    settings: &CommandSettings,
    options: &CliOptions,
    config: &LazyConfig,
    purpose: SessionPurpose,
    begun: Instant,
    console: &mut Console<'static>,
) -> Result<PromptedSession, CliError> {
    let lookup = RecordLookup::open()?;
    let found = match purpose {
        SessionPurpose::Prompt { .. } => lookup.for_prompt(settings, SessionFilter::Open).await?,
        SessionPurpose::Attach => lookup.selected(settings, SessionFilter::Open).await?,
    };
    if let Some(record) = found {
        if lacks_recall(options, &record) {
            console.notice(WITHOUT_RECALL);
        }
        return Ok(PromptedSession { record, lookup, is_new: false });
    }
    let is_create_typed = matches!(purpose, SessionPurpose::Prompt { create: true });
    if !is_create_typed && let Some(record) = adopted(settings, config, console).await? {
        return Ok(PromptedSession { record, lookup: RecordLookup::open()?, is_new: false });
    }
    let may_create = is_create_typed || settings.session.is_none() && settings.mode.is_for_a_person();
    if !may_create || id_of(settings).is_some() {
        let intent = if purpose == SessionPurpose::Attach { Intent::Use } else { Intent::Prompt };
        return Err(lookup.missing(settings, intent).await?);
    }
    let alternatives = lookup.alternatives(settings).await?;
    let shell = unless_found(settings)?;
    let wanted = NewMeta { shell: Some(shell), ..NewMeta::default() };
    let (identity, meta) = request(settings, options, config.get()?, wanted, begun, console).await?;
    let lookup = RecordLookup::open()?;
    if meta.created {
        let (record, cwd) = (&identity.record, settings.cwd.as_path());
        let short = lookup.short_id(record, settings.mode).await;
        let label = SessionLabel { record, name: name(settings), cwd, agent: &settings.agent, short: &short };
        let instead = alternatives.instead_of_created(&settings.typed_agent());
        output::created_for_prompt(label, &instead, console);
    }
    let record = match lookup.store() {
        Some(store) => store.record(identity.record).await?,
        None => None,
    };
    match record {
        Some(record) => Ok(PromptedSession { record, lookup, is_new: meta.created }),
        // Another command has deleted it.
        None => Err(lookup.missing(settings, Intent::Prompt).await?),
    }
}

/// Makes a record of the agent's own transcript that the name refers to, if there is one.
async fn adopted(
    settings: &CommandSettings,
    config: &LazyConfig,
    console: &mut Console<'static>,
) -> Result<Option<Record>, CliError> {
    let Some(reference) = &settings.session else { return Ok(None) };
    let native = NativeSessions::of(settings);
    let Some(source) = native.find(reference.as_str())? else { return Ok(None) };
    if RecordLookup::open()?.has_deleted(&source).await? {
        return Ok(None);
    }
    let is_typed = settings.agent.name.as_deref() == Some(source.agent);
    let agent = if is_typed { settings.agent.clone() } else { resolve(source.agent, config.get()?)? };
    let meta = native.adopt(&source, &agent, None, settings, console).await?;
    output::adopted(&source, &meta, console);
    match RecordLookup::open()?.store() {
        Some(store) => Ok(store.record(meta.identity.record).await?),
        None => Ok(None),
    }
}

/// Whether a flag was typed that an existing session may not have.
fn brings_something(settings: &CommandSettings, options: &CliOptions, record: &Record) -> bool {
    options.flags.model.is_some()
        || options.flags.mcp_config.is_some()
        || !settings.additional_directories.is_empty()
        || record.settings.setup.updated_by(&settings.setup.options()) != record.settings.setup
        || wants_newer(options, record).is_some()
}

/// The typed protocol version, if it is newer than the session's.
fn wants_newer(options: &CliOptions, record: &Record) -> Option<ProtocolVersion> {
    options.flags.protocol.filter(|wanted| record.agent.protocol < *wanted)
}

/// Applies the typed flags; returns the session's ids, and the flags without effect.
async fn apply(
    settings: &CommandSettings,
    options: &CliOptions,
    given: Option<&McpServerSet>,
    record: &Record,
    console: &mut Console<'static>,
) -> Result<(SessionIdentity, Vec<&'static str>), CliError> {
    let meta = restore_meta(record, settings, options.flags.model.as_deref());
    let resume = ResumeParams::new(record, settings, given, meta);
    let StartedSession { identity, meta, reply } = resume_session(&resume, record, settings, console).await?;
    setup_request::report_applied_settings(resume.wanted(), &reply, console);
    output::report_kept_settings(&meta, console);
    if let Some(how) = &meta.agent.awakening {
        output::awake(how, console);
        output::unmet(&meta.agent.unmet_settings, console);
    }
    let mut not_applied = not_applied(&meta, settings);
    if let Some(wanted) = wants_newer(options, record)
        && !has_protocol(record, wanted).await?
    {
        output::report_kept_version(wanted, console);
        not_applied.push("--protocol");
    }
    Ok((identity, not_applied))
}

/// The flags without effect, since the agent keeps what it has.
pub(super) fn not_applied(meta: &SessionMeta, settings: &CommandSettings) -> Vec<&'static str> {
    let unchanged = [(meta.mcp_servers, "--mcp-config"), (meta.additional_directories, "--add-dir")];
    let setup = meta.setup.map(|_| settings.setup.typed()).unwrap_or_default();
    unchanged.into_iter().filter(|(state, _)| state.is_some()).map(|(_, flag)| flag).chain(setup).collect()
}

/// Whether the record now has this protocol version for its agent.
async fn has_protocol(record: &Record, wanted: ProtocolVersion) -> Result<bool, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok(false) };
    let now = store.record(record.id.clone()).await?;
    Ok(now.is_some_and(|now| now.agent.protocol >= wanted))
}
