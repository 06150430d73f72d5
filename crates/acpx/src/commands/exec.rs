//! `acpx exec`: sends one prompt to an agent started for it, and stores nothing. It runs the same host as for sessions,
//! in this process, with a store in memory. After the result it asks the agent to delete its session, if the agent can.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::client::HostClient;
use acpx_core::engine::Engine;
use acpx_core::host::{ClientTimeouts, Host};
use acpx_core::model::{PermissionPolicy, RecordId, Seq, UnattendedPolicy, WakeOptions};
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{NewMeta, SettingMeta, StartMeta};
use acpx_core::store::MemoryStore;
use tokio::time::Instant;

use super::prompt::read_prompt;
use crate::cli::{CliOptions, ExecCommand, UsageError, Wait};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{self, Console, ResultIds, TurnView};
use crate::session::agent_child::{refuse_inside, refuse_own_terms};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError, PromptOutcome};
use crate::session::interrupt::InterruptWatcher;
use crate::session::own_engine::{OwnEngine, own_engine};
use crate::session::prompt_request::{PromptCompletion, PromptSubmission, done, ids_of_outcome};
use crate::session::settings::CommandSettings;
use crate::session::setup_request;
use crate::session::setup_request::{McpServerSet, NewParams};
use crate::terminal::prompt::TerminalPrompter;

/// How long the agent has to delete its session after the result.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the one turn.
pub(super) fn run(
    command: &ExecCommand,
    settings: &CommandSettings,
    options: &CliOptions,
    config: &Config,
) -> Result<ExitCode, CliError> {
    let turn = ExecTurn { command, settings, options, config };
    turn.check()?;
    let begun = Instant::now();
    let mut console = Console::of_program(settings.mode);
    let blocks = read_prompt(&command.input, settings, &mut console)?;
    let mut view = TurnView::new(settings.mode, None);
    view.begin_with(None);
    turn.run(begun, &blocks, view, &mut console, |ExecEnd { completion, view, unwritable }, console| {
        let PromptCompletion { result, exit } = completion?;
        let shown = unwritable.map_or_else(|| view.finish(result, console), Err);
        done(shown, exit, "the turn is over all the same, and nothing of it is kept")
    })?
}

/// One turn without a stored session, and what it works with.
pub(super) struct ExecTurn<'a> {
    pub(super) command: &'a ExecCommand,
    pub(super) settings: &'a CommandSettings,
    pub(super) options: &'a CliOptions,
    pub(super) config: &'a Config,
}

/// How the turn ended.
pub(super) struct ExecEnd {
    /// Its result, or why it did not begin.
    pub(super) completion: Result<PromptCompletion, CliError>,
    /// What was shown of it.
    pub(super) view: TurnView,
    /// Why stdout could not be written, if it could not.
    unwritable: Option<std::io::Error>,
}

impl ExecTurn<'_> {
    /// Fails if the configuration or the caller's place forbids the turn.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let Self { command, settings, config, .. } = self;
        if config.disable_exec {
            return Err(CliError::ExecDisabled { file: config.layers.file_of("disableExec").to_owned() });
        }
        let paths = HostLocator::of_environment()?.paths;
        refuse_own_terms(&paths, Some(settings.policy.mode), settings.policy.tools.is_some())?;
        if !command.options.is_empty() || !settings.setup.options().is_empty() {
            refuse_inside(&paths, "choose how a session works")?;
        }
        Ok(())
    }

    /// Runs the turn. `finish` is called with its end before the agent has to delete its session.
    pub(super) fn run<T>(
        &self,
        begun: Instant,
        blocks: &Arc<str>,
        mut view: TurnView,
        console: &mut Console<'static>,
        finish: impl FnOnce(ExecEnd, &mut Console<'_>) -> T,
    ) -> Result<T, CliError> {
        let Self { command, settings, options, config } = self;
        let policy = policy(settings, options)?;
        let submission =
            PromptSubmission::new(blocks, settings, &policy, WakeOptions::default(), Wait::ForAnswer)?;
        let submission = limited(submission)?;
        let given = McpServerSet::of_new(settings, options, config)?;
        settings.warn_of_unread_keys(config, console);
        block_on(async {
            let (host, engine) = host(settings).await?;
            let prompter = TerminalPrompter::of_program();
            let submission = submission.interactive(prompter.is_some());
            if prompter.is_some() {
                view.prompt_here();
            }
            let interrupts = InterruptWatcher::since(begun, settings.timeout)?;
            let mut session = HostSession::new(console, interrupts, None)
                .showing(&mut view, submission.request.clone(), Seq::FIRST)
                .with_prompter(prompter);
            let start = start(command, settings, options);
            let mut made = None;
            let ended = turn(&host, &submission, &given, (settings, start), &mut session, &mut made).await;
            let (unwritable, is_all) = (session.trouble_with_stdout(), session.unshown().is_none());
            let completion = self.completion(ended, &submission, &view, is_all);
            let finished = finish(ExecEnd { completion, view, unwritable }, console);
            if let Some(record) = made {
                // An agent that does not delete it in time keeps its session, and is ended.
                drop(tokio::time::timeout(DELETE_TIMEOUT, engine.delete(&record)).await);
            }
            host.shut_down().await;
            Ok(finished)
        })
    }

    /// The result of the turn, with hints for a turn that is not stored.
    fn completion(
        &self,
        ended: Result<PromptOutcome, HostSessionError>,
        submission: &PromptSubmission,
        view: &TurnView,
        is_all: bool,
    ) -> Result<PromptCompletion, CliError> {
        let Self { command, settings, .. } = self;
        let outcome = ended.map_err(|trouble| match trouble {
            HostSessionError::Lost => HostError::Lost.into(),
            HostSessionError::Stopped(stop) => stop.into(),
            HostSessionError::Failed(error) => error.without_record().with_help_of(&settings.agent),
        })?;
        let ids = ids_of_outcome(&outcome).map_or_else(ResultIds::default, ResultIds::from);
        let ending = submission.ending(&outcome, ResultIds { record: None, ..ids });
        let ending = ending.ok_or_else(|| HostError::BadAnswer { method: "session/prompt".to_owned() })?;
        let mut ending = ending.by_stop_reason(command.exit_by_stop_reason);
        ending.result.explain_missing_record();
        ending.result.explain_timeout(&settings.typed_agent(), view.timeout_cause());
        ending.result.explain_denial(view.denied(), submission.permission_terms(false));
        ending.result.add_attachment_hint(&command.input.attachments);
        if !is_all {
            ending.result.add_replay_hint(None);
            ending.result.text_truncated = true;
        }
        Ok(ending)
    }
}

/// The permission policy. Only this process knows the agent's requests, so no other command can answer them. If only
/// the configuration wants them to wait, they are denied.
fn policy(settings: &CommandSettings, options: &CliOptions) -> Result<PermissionPolicy, CliError> {
    let policy = settings.policy.clone();
    match (options.flags.unattended(), policy.unasked) {
        (Some(UnattendedPolicy::Wait), _) => Err(UsageError::ExecWaits.into()),
        (_, UnattendedPolicy::Wait) => Ok(PermissionPolicy { unasked: UnattendedPolicy::Deny, ..policy }),
        _ => Ok(policy),
    }
}

async fn host(settings: &CommandSettings) -> Result<(Arc<Host>, OwnEngine), CliError> {
    let store = Arc::new(MemoryStore::new());
    let engine = own_engine("exec", settings, store.clone()).await?;
    let version = env!("CARGO_PKG_VERSION");
    Ok((Arc::new(Host::new(Engine::clone(&engine), store, version, ClientTimeouts::default())), engine))
}

/// Lowers the limits of a program that an agent started to those of the user's own configuration, as a host does.
fn limited(submission: PromptSubmission) -> Result<PromptSubmission, CliError> {
    let paths = HostLocator::of_environment()?.paths;
    match refuse_inside(&paths, "exceed limits of usage") {
        Ok(()) => Ok(submission),
        Err(_) => Ok(submission.within(&Config::load(paths.home())?.spending)),
    }
}

/// How to start the agent. The model comes before the options, which may depend on it.
fn start(command: &ExecCommand, settings: &CommandSettings, options: &CliOptions) -> StartMeta {
    let mut start = settings.start(&settings.agent, Some(Duration::ZERO), options.flags.model.as_deref());
    let chosen = command.options.iter().cloned();
    start.settings.extend(chosen.map(|(option, value)| SettingMeta { option: Some(option), value }));
    start
}

async fn turn(
    host: &Arc<Host>,
    submission: &PromptSubmission,
    given: &McpServerSet,
    (settings, start): (&CommandSettings, StartMeta),
    session: &mut HostSession<'_>,
    made: &mut Option<RecordId>,
) -> Result<PromptOutcome, HostSessionError> {
    let mut client = HostClient::over(host.connect()).await?;
    let meta = NewMeta { agent: Some((&settings.agent).into()), start, ..NewMeta::default() };
    let new = NewParams::new(settings, given, meta);
    output::starting(&settings.agent, settings.cwd.as_path(), session.console);
    let answer = session.start(&mut client, "session/new", &new, &settings.agent, None).await?;
    setup_request::report_applied_settings(new.wanted(), &answer, session.console);
    let bad = || HostError::BadAnswer { method: "session/new".to_owned() };
    let (identity, _) = setup_request::read(&answer).ok_or_else(bad)?;
    let record = made.insert(identity.record).as_str();
    session.watch(&client, record).await?;
    session.prompt(&mut client, record, submission).await
}
