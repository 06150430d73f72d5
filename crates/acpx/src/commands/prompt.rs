//! `acpx prompt`, and words after an agent's name: sends a prompt to a session and shows the turn.
//!
//! If the host dies, the store knows what became of the prompt. A prompt that was never accepted, or is still queued,
//! is submitted again under its request id; one that an agent was sent is not. An unwritable stdout does not stop it
//! either: the prompt is sent, and its turn continues without being shown.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use acpx_core::model::{Record, Seq, SessionIdentity, TurnState, UnattendedPolicy};
use acpx_core::protocol::HostError;
use acpx_core::protocol::meta::{RestoreMeta, WaitReasonMeta};
use acpx_core::store::Store;
use tokio::time::Instant;

use super::host_request::restore_meta;
use super::wait_reason;
use super::wait_reason::is_in_doubt;
use crate::agents;
use crate::cli::{CliOptions, Format, PromptCommand, Wait};
use crate::error::{CliError, CliExit};
use crate::output::{self, AgentReadiness, Console, ResultIds, SessionLabel, TurnView};
use crate::prompt_input;
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::{HostSession, HostSessionError, PromptOutcome};
use crate::session::interrupt::InterruptWatcher;
use crate::session::lookup::{RecordLookup, agent_lives, lost_among};
use crate::session::prompt_request::{PromptCompletion, PromptSubmission, done, ids_of_outcome};
use crate::session::settings::CommandSettings;
use crate::session::setup_request;
use crate::session::setup_request::{McpServerSet, ResumeParams};
use crate::terminal::prompt::TerminalPrompter;

/// Runs the command.
pub(super) fn run(
    command: &PromptCommand,
    settings: &CommandSettings,
    options: &CliOptions,
) -> Result<ExitCode, CliError> {
    let (begun, input) = (Instant::now(), &command.input);
    let blocks = prompt_input::read_within(settings.timeout, input, settings.cwd.as_path())?;
    let submission = PromptSubmission::new(&blocks, settings, &settings.policy, command.wake, command.wait)?;
    let given = McpServerSet::typed(settings, options)?;
    let mut console = Console::of_program(settings.mode);
    if prompt_input::words_look_like_blocks(input) {
        console.banner(output::WORDS_NOT_BLOCKS);
    }
    let locator = HostLocator::of_environment()?;
    block_on(async {
        // A command that only queues does not stay to answer permission requests.
        let prompter = if submission.wait == Wait::ForAnswer { TerminalPrompter::of_program() } else { None };
        let lookup = RecordLookup::open()?;
        let record = lookup.open_one(settings).await?;
        let word = agent_word(&lookup, &record, &locator, settings).await;
        drop(lookup);
        let submission = submission.interactive(prompter.is_some()).for_agent(&record.agent.label());
        announce(&record, word, settings, &mut console).await;
        let is_same_agent = record.agent.key() == settings.agent.key();
        let meta = RestoreMeta {
            wishes: command.wake.into(),
            later: submission.wait == Wait::JustQueue,
            ..restore_meta(&record, settings, options.flags.model.as_deref())
        };
        let mut resume = ResumeParams::new(&record, settings, given.as_ref(), meta);
        let mut view = TurnView::new(settings.mode, Some(record.identity()));
        if prompter.is_some() {
            view.prompt_here();
        } else if settings.policy.unasked == UnattendedPolicy::Wait {
            view.wait_for_answers(&settings.policy);
        }
        let next = record.last_seq.map_or(Seq::FIRST, Seq::next);
        let interrupts = InterruptWatcher::since(begun, settings.timeout)?.going_on_alone();
        let session = HostSession::new(&mut console, interrupts, Some(&locator)).with_prompter(prompter);
        let mut session = session.showing(&mut view, submission.request.clone(), next);
        let answered = session
            .retry_on_lost_host(async |session| {
                ask(&locator, &record, &mut resume, &submission, session).await
            })
            .await;
        let (unwritable, unshown) = (session.trouble_with_stdout(), session.unshown());
        let typed = agents::typed(if is_same_agent { &settings.agent } else { &record.agent });
        let about = |error: CliError| error.with_login_of(&typed).about(record.identity());
        let answered = match answered {
            Err(error) if !error.is_broken_pipe() && !is_accepted(&record, &submission).await => {
                return Err(error.with_login_of(&typed).with_unsent_prompt().about(record.identity()));
            }
            answered => answered.map_err(about)?,
        };
        match answered {
            PromptCommandResult::Queued => {
                let shown = output::queued(&record.identity(), &submission.request, &mut console);
                done(shown, CliExit::Success, "the prompt is queued all the same")
            }
            PromptCommandResult::Unshown(error) => unshown_turn(error, &mut console),
            PromptCommandResult::Detached { has_begun } => detached(has_begun, &mut console),
            PromptCommandResult::Over(ending) => {
                let PromptCompletion { mut result, exit } = *ending;
                result.explain_timeout(&typed, view.timeout_cause());
                result.explain_denial(view.denied(), submission.permission_terms(true));
                if let Some(next) = unshown {
                    let replay = format!("acpx {typed} sessions replay {} --from seq:{next}", record.id);
                    result.add_replay_hint(Some(&replay));
                }
                result.add_attachment_hint(&input.attachments);
                let shown = unwritable.map_or_else(|| view.finish(&result, &mut console), Err);
                done(shown, exit, "the turn is over; sessions history has what was said")
            }
        }
        .map_err(about)
    })
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
            let fate = lost_prompt_state(record, submission).await?;
            // Start no agent for a prompt that is to be cancelled or was already sent to one.
            if session.is_stopped() || matches!(fate, LostPromptState::Sent) {
                resume.start_later();
            }
            return match fate {
                LostPromptState::Over(ending) => Ok(PromptCommandResult::Over(ending)),
                LostPromptState::Sent | LostPromptState::NotSent => Err(HostSessionError::Lost),
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
    let answer =
        session.start(&mut client, "session/resume", resume, &record.agent.label(), Some(id)).await?;
    setup_request::report_applied_settings(resume.wanted(), &answer, session.console);
    if let Some((_, meta)) = setup_request::read(&answer) {
        output::report_kept_settings(&meta, session.console);
        if let Some(how) = &meta.agent.awakening {
            output::awake(how, session.console);
        }
    }
    session.prompt(&mut client, id, submission).await
}

/// What became of a prompt whose host died. Unless its turn has ended, the request is repeated, but no agent is sent
/// the prompt twice.
enum LostPromptState {
    NotSent,
    /// An agent was sent it: that of the dead host, or of the next host, which another client reached first.
    Sent,
    Over(Box<PromptCompletion>),
}

async fn lost_prompt_state(
    record: &Record,
    submission: &PromptSubmission,
) -> Result<LostPromptState, CliError> {
    let lookup = RecordLookup::open()?;
    let Some(store) = lookup.store() else { return Ok(LostPromptState::NotSent) };
    let turn = store.turn(record.id.clone(), submission.request.clone()).await?;
    match turn {
        None => Ok(LostPromptState::NotSent),
        Some(turn) => match turn.state {
            TurnState::Queued => Ok(LostPromptState::NotSent),
            TurnState::Dispatched { .. } => Ok(LostPromptState::Sent),
            TurnState::Ended { .. } | TurnState::Interrupted { .. } => {
                let now = store.record(record.id.clone()).await?;
                let identity: SessionIdentity = now.as_ref().unwrap_or(record).identity();
                Ok(LostPromptState::Over(PromptCompletion::stored(&turn, identity).into()))
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
    record: &Record,
    word: AgentReadiness,
    settings: &CommandSettings,
    console: &mut Console<'_>,
) {
    output::prompting(SessionLabel::of(record), settings.cwd.as_path(), word, console);
    // A session found by its directory has one. Only a running agent can work in a missing directory; starting one
    // fails.
    let is_by_id = settings.session.as_ref().is_some_and(|name| name.as_str() == record.id.as_str());
    if is_by_id && word == AgentReadiness::Connected && !lost_among(vec![record.clone()]).await.is_empty() {
        let (cwd, id) = (&record.cwd, &record.id);
        console.banner(&format!(
            "the session's directory {cwd} is gone; if the project has moved: acpx sessions move {id} --cwd DIR"
        ));
    }
}
