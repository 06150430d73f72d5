//! `acpx auth`: lists an agent's login methods, and runs one. The agent is started only for this and ended afterwards;
//! it stores the login for all its processes.

use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use acpx_core::acp::{Capabilities, login_methods};
use acpx_core::engine::{ClientDecision, Engine, ResponderRequest};
use acpx_core::model::{ErrorCode, LoginMethod, LoginMethodKind, ProcessIdentity, credential_variable};
use acpx_core::tools::{Environment, GracePeriods, RECORD_VARIABLE, Spawner, StrayProcesses, Tag};
use acpx_core::wire::RpcId;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::cli::{AuthCommand, Format};
use crate::config::credentials::CredentialSource;
use crate::error::InterruptReason;
use crate::error::{CliError, CliExit};
use crate::output::{Console, LoginList, LoginOutcome, TerminalForm, logged, login_list, stdio};
use crate::session::host_locator::{HostLocator, block_on};
use crate::session::host_session::waiting_for;
use crate::session::interrupt::InterruptWatcher;
use crate::session::own_engine::{login_engine, programs_kept_by_login};
use crate::session::settings::CommandSettings;
use crate::terminal::prompt::TerminalPrompter;
use crate::terminal::tty::ControllingTerminal;

/// How many requests of a login may be queued.
const QUESTIONS: usize = 4;
/// The tag of a login program in the terminal, in place of an agent's record id.
const MARK: &str = "login";

/// Runs the command.
pub(super) fn run(settings: &CommandSettings, command: &AuthCommand) -> Result<ExitCode, CliError> {
    let mut console = Console::of_program(settings.mode);
    block_on(async {
        let mut interrupts = InterruptWatcher::new(settings.timeout)?;
        let engine = login_engine(settings).await?;
        let slow = waiting_for(&settings.agent);
        if let AuthCommand::LogOut = command {
            let leaving = engine.log_out(settings.new_session());
            let done = Box::pin(interrupts.during_start(&slow, &mut console, leaving)).await?;
            done.map_err(|error| not_logged_out(error.into(), settings))?;
            logged(&settings.agent, &LoginOutcome::Out, &mut console)?;
            return Ok(CliExit::Success.into());
        }
        let asking = engine.agent_answer(settings.new_session());
        let answer = Box::pin(interrupts.during_start(&slow, &mut console, asking)).await??;
        interrupts.allow(Duration::ZERO);
        let methods = login_methods(&answer);
        let environment = settings.environment();
        let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
        let AuthCommand::LogIn { method: id } = command else {
            let typed = settings.typed_agent();
            let logout = Capabilities::of_answer(&answer).logout;
            let credentials: Vec<_> = methods
                .iter()
                .filter_map(|method| Some((method.id.clone(), source(settings, method)?)))
                .collect();
            let agent = &settings.agent;
            let list =
                LoginList { agent, typed: &typed, methods: &methods, logout, credentials: &credentials };
            login_list(&list, is_set, &mut console)?;
            return Ok(CliExit::Success.into());
        };
        let Some(method) = methods.iter().find(|method| method.id == *id) else {
            let known = methods.iter().map(|method| method.id.clone()).collect();
            return Err(CliError::NoLogin { agent: settings.typed_agent(), method: id.clone(), known });
        };
        let outcome = match &method.how {
            LoginMethodKind::Agent | LoginMethodKind::Other(_) => {
                Box::pin(ask(&engine, settings, method, &mut interrupts, &mut console)).await?;
                LoginOutcome::In(method)
            }
            LoginMethodKind::Variables(needed) => {
                let variables = needed.iter().map(|variable| (variable, is_set(&variable.name)));
                LoginOutcome::Variables { method, variables: variables.collect() }
            }
            LoginMethodKind::Terminal { args, env } => {
                if ControllingTerminal::of_program().is_none() {
                    console.banner("there is no terminal here, which this login may want");
                }
                in_terminal(settings, method, args, env, &environment, &mut interrupts).await?;
                LoginOutcome::In(method)
            }
        };
        logged(&settings.agent, &outcome, &mut console)?;
        Ok(outcome.exit().into())
    })
}

/// Has the agent log in. An interrupt ends the agent, and with it the login.
async fn ask(
    engine: &Engine,
    settings: &CommandSettings,
    method: &LoginMethod,
    interrupts: &mut InterruptWatcher,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let (label, name) = (settings.agent.label(), &method.name);
    console.banner(&format!("logging in with {label}: {name}; what follows may happen in a browser"));
    let (advisor, mut questions) = mpsc::channel(QUESTIONS);
    let logging_in = engine.log_in(settings.new_session(), &method.id, advisor);
    let answering = async {
        let mut prompter = TerminalPrompter::of_program();
        loop {
            console.wait_for(&format!("waiting for the login with {label}"));
            tokio::select! {
                question = questions.recv() => match question {
                    Some(question) => {
                        console.stop_waiting();
                        answer(question, prompter.as_mut(), console).await;
                    }
                    None => std::future::pending().await,
                },
                () = console.next_frame() => {}
            }
        }
    };
    let work = async {
        tokio::select! {
            done = logging_in => done,
            never = answering => never,
        }
    };
    let done = Box::pin(interrupts.during(work)).await;
    let done = done.map_err(|stop| stop.while_doing(&format!("logging in with {label}")))?;
    done.map_err(|error| refused(error.into(), settings, method))
}

/// Where the credential of a login method comes from, if there is one.
fn source(settings: &CommandSettings, method: &LoginMethod) -> Option<CredentialSource> {
    settings.credentials.source(&method.id, &settings.environment_without_credentials(), &settings.agent)
}

/// Improves the error of an agent that rejects a login: it needs another credential, or another method.
fn refused(error: CliError, settings: &CommandSettings, method: &LoginMethod) -> CliError {
    if error.code() != ErrorCode::AuthRequired {
        return error;
    }
    let typed = settings.typed_agent();
    let credential = match source(settings, method) {
        Some(CredentialSource::Variable(name)) => format!("put another credential in {name}"),
        Some(CredentialSource::Configuration) => {
            "put another credential under \"auth\" in config.json".to_owned()
        }
        None => format!(
            "if it takes a credential, put it in {} or under \"auth\" in config.json",
            credential_variable(&method.id)
        ),
    };
    error.with_hint(format!("{credential}; acpx {typed} auth has the other ways, if there are any"))
}

/// Improves the error of an agent without logout: its login is stored where its own program finds it.
fn not_logged_out(error: CliError, settings: &CommandSettings) -> CliError {
    if error.code() == ErrorCode::NotOffered {
        let label = settings.agent.label();
        return error.with_hint(format!("log out with {label}'s own program, which keeps the login"));
    }
    error
}

/// Passes a request of the agent to the person; without a terminal it is declined with a notice.
async fn answer(
    mut question: ResponderRequest,
    prompter: Option<&mut TerminalPrompter>,
    console: &mut Console<'_>,
) {
    let Some(prompter) = prompter else {
        let form = TerminalForm::read(question.params());
        // Dropping the request declines it.
        drop(question);
        return console.notice(&form.declined("there is no terminal to ask on"));
    };
    // There is one at a time.
    let id = RpcId::null();
    prompter.ask_form(id.clone(), question.params());
    tokio::select! {
        typed = prompter.answered() => {
            let (_, reply) = typed.or_refusal();
            question.answer(ClientDecision::Result(reply.to_string().into()));
            prompter.next();
        }
        () = question.withdrawn() => prompter.withdraw(&id),
    }
}

/// Runs the agent's own login program in this terminal. It is in our process group, so that both own the terminal:
/// Ctrl-C is for the program, and we wait for its reaction.
async fn in_terminal(
    settings: &CommandSettings,
    method: &LoginMethod,
    args: &[String],
    env: &[(String, String)],
    environment: &Environment,
    interrupts: &mut InterruptWatcher,
) -> Result<(), CliError> {
    let failed = |how: String| CliError::LoginFailed { method: method.id.clone(), how };
    if settings.agent.url().is_some() {
        return Err(failed("it is done in a terminal of the machine that the agent is on".to_owned()));
    }
    let mut command = Command::new(&settings.agent.program);
    command.args(&settings.agent.args).args(args).current_dir(settings.cwd.as_path());
    let given = environment.variables().iter().map(|(name, value)| (name, value));
    command.env_clear().envs(given).envs(env.iter().map(|(name, value)| (name, value)));
    let shown = match settings.mode.format {
        Format::Text => Stdio::inherit(),
        // The program's output is not our data.
        _ => stdio::shown_to_people(),
    };
    command.stdout(shown);
    let (keep, tag) = (
        programs_kept_by_login(settings),
        HostLocator::of_environment()?.tag().and_then(Tag::of_this_process),
    );
    Spawner::keeping(tag.clone(), &keep).mark(&mut command);
    command.env(RECORD_VARIABLE, MARK);
    let child = command.spawn().map_err(|error| failed(format!("its program cannot be started: {error}")))?;
    let status = wait(child, StrayProcesses::of(MARK, tag, keep), interrupts).await?;
    if status.success() { Ok(()) } else { Err(failed(format!("its program ended with {status}"))) }
}

/// Waits for a program that shares the terminal, and ends what it leaves behind. The first signal was meant for it;
/// after a second one, or at the time limit, it is ended like an agent.
async fn wait(
    child: Child,
    strays: StrayProcesses,
    interrupts: &mut InterruptWatcher,
) -> Result<ExitStatus, CliError> {
    let mut program = Program::new(child, strays);
    let mut signals = 0;
    let ended = loop {
        tokio::select! {
            ended = &mut program.waiting => {
                let unusable = |source| CliError::System { doing: "wait for the login".to_owned(), source };
                break ended.map_err(std::io::Error::other).and_then(|ended| ended).map_err(unusable);
            }
            stop = interrupts.over() => {
                signals += 1;
                if matches!(stop, InterruptReason::TimedOut(_)) || signals > 1 {
                    program.end().await;
                    break Err(stop.into());
                }
            }
        }
    };
    let strays = program.strays;
    // Only its end matters here, not its result.
    drop(spawn_blocking(move || strays.end(GracePeriods::default())).await);
    ended
}

/// A program that shares the terminal. It is in our own process group, so only its process is signalled.
struct Program {
    pid: Pid,
    identity: Option<ProcessIdentity>,
    waiting: JoinHandle<std::io::Result<ExitStatus>>,
    strays: StrayProcesses,
}

impl Program {
    fn new(mut child: Child, strays: StrayProcesses) -> Self {
        let (pid, identity) = (Pid::from_child(&child), ProcessIdentity::of(child.id()));
        Self { pid, identity, waiting: spawn_blocking(move || child.wait()), strays }
    }

    /// TERM, then KILL, in bounded time. Its child processes are noted while they are still visible.
    async fn end(&mut self) {
        if let Some(identity) = self.identity.clone() {
            let mut looking = self.strays.clone();
            let seen = spawn_blocking(move || {
                looking.record_descendants(&identity);
                looking
            });
            self.strays = seen.await.unwrap_or_else(|_| self.strays.clone());
        }
        for signal in [Signal::TERM, Signal::KILL] {
            // It may have ended by itself.
            let _ = kill_process(self.pid, signal);
            if tokio::time::timeout(GracePeriods::default().term, &mut self.waiting).await.is_ok() {
                return;
            }
        }
    }
}
