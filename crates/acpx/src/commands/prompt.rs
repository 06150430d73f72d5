//! `acpx prompt`, and words after an agent's name: sends a prompt to a session and shows the turn.
//!
//! If the host dies, the store knows what became of the prompt. A prompt that was never accepted, or is still queued,
//! is submitted again under its request id; one that an agent was sent is not. An unwritable stdout does not stop it
//! either: the prompt is sent, and its turn continues without being shown.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acpx_core::acp::Cursor;
use acpx_core::engine::SessionError;
use acpx_core::model::{
    ErrorCode, Fallback, Record, Seq, SessionIdentity, TurnState, UnattendedPolicy, WakeOptions,
};
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{RestoreMeta, WaitReasonMeta};
use acpx_core::store::Store;
use tokio::time::Instant;

use super::host_request::{is_unprompted_transcript, restore_meta};
use super::sessions::ensure::{PromptedSession, SessionPurpose, open_or_create};
use super::wait_reason;
use super::wait_reason::is_in_doubt;
use crate::agents;
use crate::cli::{CliOptions, Format, PromptCommand, PromptWords, Wait};
use crate::error::{CliError, CliExit};
use crate::output::{self, AgentReadiness, Console, PromptResult, ResultIds, SessionLabel, TurnView};
use crate::prompt_input;
use crate::prompt_input::StdinUse;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError, PromptOutcome};
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup::{RecordLookup, agent_lives, has_name, lost_among};
use crate::session::prompt_request::{PromptCompletion, PromptSubmission, done, ids_of_outcome};
use crate::session::restore_cause::RestoreCause;
use crate::session::settings::{CommandSettings, LazyConfig};
use crate::session::setup_request;
use crate::session::setup_request::{McpServerSet, ResumeParams};
use crate::terminal::prompt::TerminalPrompter;

/// Runs the command.
pub(super) fn run(
    command: &PromptCommand,
    settings: &CommandSettings,
    options: &CliOptions,
    config: &LazyConfig,
) -> Result<ExitCode, CliError> {
    let (begun, input) = (Instant::now(), &command.input);
    let mut console = Console::of_program(settings.mode);
    let blocks = read_prompt(input, settings, &mut console)?;
    let submission = PromptSubmission::new(&blocks, settings, &settings.policy, command.wake, command.wait)?
        .with_request(command.request_id.clone());
    let given = McpServerSet::typed(settings, options)?;
    let locator = HostLocator::of_environment()?;
    block_on(async {
        // A command that only queues does not stay to answer permission requests.
        let prompter = if submission.wait == Wait::ForAnswer { TerminalPrompter::of_program() } else { None };
        let purpose = SessionPurpose::Prompt { create: command.create };
        let PromptedSession { record, lookup, is_new } =
            open_or_create(settings, options, config, purpose, begun, &mut console).await?;
        let submission = submission.interactive(prompter.is_some()).for_agent(&record.agent.label());
        let submission = submission.with_wake_options(wake_options(command, &record));
        if !is_new {
            announce(&lookup, &record, &locator, settings, &mut console).await;
        }
        let EarlierTurn { next, state: earlier } = match &command.request_id {
            Some(_) => EarlierTurn::find(lookup, &record, &submission).await?,
            None => EarlierTurn::none(&record),
        };
        if earlier.is_some() && submission.wait == Wait::JustQueue {
            return queued(&record, &submission, &mut console);
        }
        let meta = restore(command, &record, settings, options, earlier);
        let mut resume = ResumeParams::new(&record, settings, given.as_ref(), meta);
        let mut view = view(&record, settings, prompter.is_some());
        // Otherwise the cost before the turn is not known: it has run, or the record is older than its usage.
        if earlier.is_none() && (record.info.usage.is_some() || record.answered_turns == 0) {
            view.begin_with(record.info.usage.as_ref());
        }
        let interrupts = InterruptWatcher::since(begun, settings.timeout)?.going_on_alone();
        let session = HostSession::new(&mut console, interrupts, Some(&locator)).with_prompter(prompter);
        let mut session = session.showing(&mut view, submission.request.clone(), next);
        let answered = session
            .retry_on_lost_host(async |session| match earlier {
                Some(EarlierState::Over) => recorded(&record, &submission, session).await,
                _ => ask(&locator, &record, &mut resume, &submission, session).await,
            })
            .await;
        let (unwritable, unshown) = (session.trouble_with_stdout(), session.unshown());
        let is_same_agent = record.agent.key() == settings.agent.key();
        let agent = if is_same_agent { &settings.agent } else { &record.agent };
        let typed = agents::typed(agent);
        let explained = |error: CliError| explain_restore(error.with_help_of(agent), &record, settings);
        let about = |error: CliError| explained(error).about(record.identity());
        let answered = match answered {
            Err(error) if !error.is_broken_pipe() && !is_accepted(&record, &submission).await => {
                return Err(explained(error).with_unsent_prompt().about(record.identity()));
            }
            answered => answered.map_err(about)?,
        };
        match answered {
            PromptCommandResult::Queued => queued(&record, &submission, &mut console),
            PromptCommandResult::Unshown(error) => unshown_turn(error, &mut console),
            PromptCommandResult::Detached { has_begun } => detached(has_begun, &mut console),
            PromptCommandResult::Over(ending) => {
                let PromptCompletion { mut result, exit } =
                    ending.by_stop_reason(command.exit_by_stop_reason);
                result.explain_timeout(&typed, view.timeout_cause());
                result.explain_denial(view.denied(), submission.permission_terms(true));
                explain_refusal(&mut result, &record, settings);
                result.add_attachment_hint(&input.attachments);
                add_rest(&mut result, &typed, &record, unshown);
                explain_reset(&view, &record, settings, &mut console);
                let shown = unwritable.map_or_else(|| view.finish(result, &mut console), Err);
                done(shown, exit, "the turn is over; sessions history has what was said")
            }
        }
        .map_err(about)
    })
}

/// Reads the prompt. In JSON mode the stdin of a prompt with words is left unread: programs often leave theirs open.
pub(super) fn read_prompt(
    input: &PromptWords,
    settings: &CommandSettings,
    console: &mut Console<'_>,
) -> Result<Arc<str>, CliError> {
    let stdin_use = if settings.mode.format == Format::Json { StdinUse::Ignore } else { StdinUse::Append };
    let read = prompt_input::read_within(settings.timeout, input, settings.cwd.as_path(), stdin_use)?;
    if read.is_stdin_silent {
        console.notice(output::SILENT_STDIN);
    }
    if prompt_input::words_look_like_blocks(input) {
        console.banner(output::WORDS_NOT_BLOCKS);
    }
    Ok(read.json)
}

/// The view of the turn.
fn view(record: &Record, settings: &CommandSettings, has_prompter: bool) -> TurnView {
    let mut view = TurnView::new(settings.mode, Some(record.identity()));
    if has_prompter {
        view.prompt_here();
    } else if settings.policy.unasked == UnattendedPolicy::Wait {
        view.wait_for_answers(&settings.policy);
    }
    view
}

/// How to restore the session. A fresh session gets the conversation of a transcript that was adopted for this prompt.
fn wake_options(command: &PromptCommand, record: &Record) -> WakeOptions {
    let is_carried = command.wake.fallback != Fallback::Never && is_unprompted_transcript(record);
    WakeOptions { carry_history: command.wake.carry_history || is_carried, ..command.wake }
}

/// Adds what the agent's own transcript shows about a failed restore.
pub(super) fn explain_restore(error: CliError, record: &Record, settings: &CommandSettings) -> CliError {
    if error.code() != ErrorCode::SessionNotRestored {
        return error;
    }
    let Some(problem) = RestoreCause::of(record, settings) else { return error };
    let hint = error.hint().map_or_else(|| problem.to_string(), |hint| format!("{problem}; {hint}"));
    error.with_hint(hint)
}

/// Adds how to continue if the agent refused the prompt of a session whose transcript is gone: some agents restore such
/// a session, and then do not know it.
fn explain_refusal(result: &mut PromptResult, record: &Record, settings: &CommandSettings) {
    let Some(error) = result.error.as_mut().filter(|error| error.code == ErrorCode::AgentRefused) else {
        return;
    };
    if let Some(problem) = RestoreCause::of_lost(record, settings) {
        let reset = format!("to continue in a fresh session, run: acpx sessions reset {}", record.id);
        error.hint = Some(format!("{problem}; {reset}"));
    }
}

/// Reports what the agent's own transcript shows about a session that a fresh one has replaced.
fn explain_reset(view: &TurnView, record: &Record, settings: &CommandSettings, console: &mut Console<'_>) {
    if view.has_left(&record.lineage.current().session)
        && let Some(problem) = RestoreCause::of(record, settings)
    {
        console.notice(&format!("the fresh session took over because {problem}"));
    }
}

/// Adds where to find the rest of a turn that is not shown to its end.
fn add_rest(result: &mut PromptResult, typed: &str, record: &Record, unshown: Option<Seq>) {
    let Some(next) = unshown else { return };
    let replay = format!("acpx {typed} sessions replay {} --from seq:{next}", record.id);
    result.add_replay_hint(Some(&replay));
    result.text_truncated = true;
}

/// How to restore the session for this prompt. No agent is started for a turn that was sent to one.
fn restore(
    command: &PromptCommand,
    record: &Record,
    settings: &CommandSettings,
    options: &CliOptions,
    earlier: Option<EarlierState>,
) -> RestoreMeta {
    RestoreMeta {
        wishes: wake_options(command, record).into(),
        later: command.wait == Wait::JustQueue || earlier == Some(EarlierState::Sent),
        ..restore_meta(record, settings, options.flags.model.as_deref())
    }
}

/// What the record has of a prompt with the same request id.
struct EarlierTurn {
    /// The first event to show: of its turn, or the next one.
    next: Seq,
    /// The state of its turn, if there is one.
    state: Option<EarlierState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlierState {
    Queued,
    /// An agent was sent the prompt, and the end of its turn is not known.
    Sent,
    Over,
}

impl EarlierTurn {
    fn none(record: &Record) -> Self {
        Self { next: record.last_seq.map_or(Seq::FIRST, Seq::next), state: None }
    }

    /// Looks for the turn. The same request id with another prompt is an error.
    async fn find(
        lookup: RecordLookup,
        record: &Record,
        submission: &PromptSubmission,
    ) -> Result<Self, CliError> {
        let none = Self::none(record);
        let Some((store, events)) = lookup.into_events(record) else { return Ok(none) };
        let request = submission.request.clone();
        let Some(turn) = store.turn(record.id.clone(), request.clone()).await? else { return Ok(none) };
        if !submission.is_prompt_of(&turn) {
            let error = SessionError::RequestExists { record: record.id.clone(), request };
            return Err(CliError::from(error).about(record.identity()));
        }
        // A turn that has not begun has no event.
        let next = events.find(&Cursor::Turn(turn.id)).await.unwrap_or(none.next);
        let state = match turn.state {
            TurnState::Queued => EarlierState::Queued,
            TurnState::Dispatched { .. } => EarlierState::Sent,
            TurnState::Ended { .. } | TurnState::Interrupted { .. } => EarlierState::Over,
        };
        Ok(Self { next, state: Some(state) })
    }
}

/// Shows the stored turn of the prompt, and returns its result.
async fn recorded(
    record: &Record,
    submission: &PromptSubmission,
    session: &mut HostSession<'_>,
) -> Result<PromptCommandResult, HostSessionError> {
    match stored_state(record, submission, session).await? {
        StoredPromptState::Over(ending) => Ok(PromptCommandResult::Over(ending)),
        StoredPromptState::NotSent | StoredPromptState::Sent => Err(HostSessionError::Lost),
    }
}

/// Reports that the prompt is queued.
fn queued(
    record: &Record,
    submission: &PromptSubmission,
    console: &mut Console<'_>,
) -> Result<ExitCode, CliError> {
    let shown = output::queued(&record.identity(), &submission.request, console);
    done(shown, CliExit::Success, "the prompt is queued all the same")
}

/// Reports that a turn continues without being shown.
fn unshown_turn(error: io::Error, console: &mut Console<'_>) -> Result<ExitCode, CliError> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        console.banner("stdout has no reader any more; the turn continues, and sessions watch shows it");
    }
    done(Err(error), CliExit::Success, "the turn goes on all the same; sessions watch shows it")
}

/// Reports what becomes of a prompt whose command was ended by SIGTERM.
fn detached(has_begun: bool, console: &mut Console<'_>) -> Result<ExitCode, CliError> {
    let shown = console.flush();
    let (notice, fate) = if has_begun {
        (
            "the turn goes on; sessions watch shows it, and cancel ends it",
            "the turn goes on all the same; sessions watch shows it",
        )
    } else {
        (
            "the prompt stays queued and runs later; sessions watch shows it",
            "the prompt stays queued all the same; sessions watch shows it",
        )
    };
    console.banner(notice);
    done(shown, CliExit::Interrupted, fate)
}

/// The result of the command.
enum PromptCommandResult {
    Queued,
    /// The turn continues, and cannot be shown.
    Unshown(io::Error),
    /// The prompt stays in the host, and SIGTERM ended the command.
    Detached {
        has_begun: bool,
    },
    Over(Box<PromptCompletion>),
}

/// Submits the prompt once. If its host died, the store knows whether it may be submitted again.
async fn ask(
    locator: &HostLocator,
    record: &Record,
    resume: &mut ResumeParams<'_>,
    submission: &PromptSubmission,
    session: &mut HostSession<'_>,
) -> Result<PromptCommandResult, HostSessionError> {
    let outcome = match attempt(locator, record, resume, submission, session).await {
        Err(HostSessionError::Lost) => {
            let state = stored_state(record, submission, session).await?;
            // Start no agent for a prompt that is to be cancelled or was already sent to one.
            if session.is_stopped() || matches!(state, StoredPromptState::Sent) {
                resume.start_later();
            }
            return match state {
                StoredPromptState::Over(ending) => Ok(PromptCommandResult::Over(ending)),
                StoredPromptState::Sent | StoredPromptState::NotSent => Err(HostSessionError::Lost),
            };
        }
        outcome => outcome?,
    };
    let outcome = match outcome {
        PromptOutcome::Queued => return Ok(PromptCommandResult::Queued),
        PromptOutcome::Unshown(error) => return Ok(PromptCommandResult::Unshown(error)),
        PromptOutcome::Detached { has_begun } => return Ok(PromptCommandResult::Detached { has_begun }),
        outcome => outcome,
    };
    let ids = ids_of_outcome(&outcome).unwrap_or_else(|| record.identity());
    let ending = submission.ending(&outcome, ResultIds::from(ids));
    let bad = || HostError::BadAnswer { method: "session/prompt".to_owned() };
    Ok(PromptCommandResult::Over(ending.ok_or_else(bad)?.into()))
}

async fn attempt(
    locator: &HostLocator,
    record: &Record,
    resume: &ResumeParams<'_>,
    submission: &PromptSubmission,
    session: &mut HostSession<'_>,
) -> Result<PromptOutcome, HostSessionError> {
    let mut client = session.host(locator).await?;
    let id = record.id.as_str();
    // A command that only queues does not stay for the agent's events.
    if submission.wait == Wait::ForAnswer {
        session.watch(&client, id).await?;
    }
    let answer = session.start(&mut client, "session/resume", resume, &record.agent, Some(id)).await?;
    setup_request::report_applied_settings(resume.wanted(), &answer, session.console);
    if let Some((_, meta)) = setup_request::read(&answer) {
        output::report_kept_settings(&meta, session.console);
        if let Some(how) = &meta.agent.awakening {
            output::awake(how, session.console);
        }
    }
    session.prompt(&mut client, id, submission).await
}

/// What became of a prompt, as the store knows it. Unless its turn has ended, the request is repeated, but no agent is
/// sent the prompt twice.
enum StoredPromptState {
    NotSent,
    /// An agent was sent it: that of the dead host, or of the next host, which another client reached first.
    Sent,
    Over(Box<PromptCompletion>),
}

/// Looks the prompt up in the store, and shows the events of an ended turn that were not shown yet.
async fn stored_state(
    record: &Record,
    submission: &PromptSubmission,
    session: &mut HostSession<'_>,
) -> Result<StoredPromptState, CliError> {
    let Some((store, _)) = RecordLookup::open()?.into_events(record) else {
        return Ok(StoredPromptState::NotSent);
    };
    let turn = store.turn(record.id.clone(), submission.request.clone()).await?;
    match turn {
        None => Ok(StoredPromptState::NotSent),
        Some(turn) => match turn.state {
            TurnState::Queued => Ok(StoredPromptState::NotSent),
            TurnState::Dispatched { .. } => Ok(StoredPromptState::Sent),
            TurnState::Ended { .. } | TurnState::Interrupted { .. } => {
                let now = store.record(record.id.clone()).await?;
                let identity: SessionIdentity = now.as_ref().unwrap_or(record).identity();
                session.show_stored(&store, &record.id, turn.id).await?;
                Ok(StoredPromptState::Over(PromptCompletion::stored(&turn, identity).into()))
            }
        },
    }
}

/// Whether the store has the prompt, so that history shows it; true if the store cannot be read.
async fn is_accepted(record: &Record, submission: &PromptSubmission) -> bool {
    let Ok(lookup) = RecordLookup::open() else { return true };
    let Some(store) = lookup.store() else { return false };
    !matches!(store.turn(record.id.clone(), submission.request.clone()).await, Ok(None))
}

/// How many of the last events to search for a request without a reply.
const LAST: u64 = 31;
/// How long the host may take to report the agent's state. The prompt waits for that.
const WAIT_REASON_TIMEOUT: Duration = Duration::from_millis(250);

/// The agent's state for the notice: a live process may be ending, and the prompt then goes to another one. A failed
/// lookup does not stop the prompt.
async fn agent_word(
    lookup: &RecordLookup,
    record: &Record,
    locator: &HostLocator,
    settings: &CommandSettings,
) -> AgentReadiness {
    if !agent_lives(record, &locator.paths) {
        return AgentReadiness::Starting;
    }
    let is_doubtful = async {
        let (last_turn, recent) = (lookup.last_turn(record).await?, lookup.recent(record, LAST).await?);
        Ok::<_, CliError>(is_in_doubt(last_turn.as_ref(), &recent))
    };
    if settings.mode.format == Format::Quiet || !is_doubtful.await.unwrap_or(false) {
        return AgentReadiness::Connected;
    }
    let waits = wait_reason::request(locator, record, record.updated_at, WAIT_REASON_TIMEOUT).await;
    let has_to_go = waits.is_some_and(|waiting| waiting.what == WaitReasonMeta::AGENT_END);
    if has_to_go { AgentReadiness::Starting } else { AgentReadiness::Connected }
}

async fn announce(
    lookup: &RecordLookup,
    record: &Record,
    locator: &HostLocator,
    settings: &CommandSettings,
    console: &mut Console<'_>,
) {
    let word = agent_word(lookup, record, locator, settings).await;
    let short = lookup.short_id(&record.id, settings.mode).await;
    output::prompting(SessionLabel::of(record, &short), settings.cwd.as_path(), word, console);
    // A session found by its directory has one. Only a running agent can work in a missing directory; starting one
    // fails.
    let is_by_id = !has_name(record, settings.session.as_ref());
    if is_by_id && word == AgentReadiness::Connected && !lost_among(vec![record.clone()]).await.is_empty() {
        let (cwd, id) = (&record.cwd, &record.id);
        console.banner(&format!(
            "the session's directory {cwd} is gone; if the project has moved: acpx sessions move {id} --cwd DIR"
        ));
    }
}
