//! `acpx doctor`: reports problems with hints. Without an agent it checks acpx on this machine; with one, the agent and
//! its session here.
//!
//! It changes nothing: it sends no prompt, creates no record, and ends the agent that it started. Every step is
//! bounded, and a failed step is a finding that does not end the run.

mod agent;
mod configuration;
mod notifications;
mod path;
mod servers;
mod session;
mod system;
mod transcripts;

use std::borrow::Cow;
use std::process::ExitCode;
use std::time::Duration;

use acpx_core::engine::NewSession;

use crate::cli::{AgentChoice, CliOptions};
use crate::config::{Config, McpFile};
use crate::error::{CliError, CliExit};
use crate::output::{self, Console, DoctorSummary, Finding, Level};
use crate::session::host_locator::block_on;
use crate::session::settings;
use crate::session::settings::{CommandSettings, LazyConfig};

/// How long each step waits for an agent by default.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs the checks and prints each finding at once.
pub(super) fn run(options: &CliOptions, config: &LazyConfig) -> Result<ExitCode, CliError> {
    let is_general = options.agent == AgentChoice::Default && options.session.is_none();
    let verdict = if is_general {
        // An unreadable configuration is a finding.
        let nothing = Config::default();
        let read = config.get();
        let known = read.as_ref().map_or(&nothing, |config| *config);
        let mut report = DoctorReport::new(Console::of_program(settings::mode(options.flags.output, known)?));
        block_on(async {
            let configured = read.as_ref().ok().map(|config| McpFile::of(config));
            system::look(options.flags.cwd.as_deref(), read, &mut report).await?;
            if let Ok(settings) = CommandSettings::without_start(options, known) {
                transcripts::look(&settings, &mut report).await?;
            }
            notifications::look(known, &mut report).await?;
            // system::look has reported an unusable directory.
            let Ok(cwd) = settings::directory(options.flags.cwd.as_deref()) else { return Ok(()) };
            let named = options.flags.mcp_config.as_ref().map(|file| McpFile::load(cwd.as_path().join(file)));
            match named.transpose() {
                Err(error) => report.fail("config", &error.into()),
                Ok(named) => match named.or(configured) {
                    Some(file) => {
                        Box::pin(servers::look(&file, &cwd, options.flags.timeout, &mut report)).await
                    }
                    None => Ok(()),
                },
            }
        })?;
        report.end()?
    } else {
        let config = config.get()?;
        let settings = CommandSettings::new(options, config)?;
        let servers = settings.mcp_servers(options, config)?;
        let mut report = DoctorReport::new(Console::of_program(settings.mode));
        configuration::unread(config, Some(settings.agent.name.as_deref().unwrap_or_default()), &mut report)?;
        block_on(async {
            let seen = agent::look(&settings, &servers, &mut report).await?;
            Box::pin(servers::look(&servers, &settings.cwd, settings.timeout, &mut report)).await?;
            // Boxed, because the future is large.
            Box::pin(session::look(&settings, seen.as_ref(), &mut report)).await
        })?;
        report.end()?
    };
    let exit = if verdict.worst() == Level::Fail { CliExit::Failure } else { CliExit::Success };
    Ok(exit.into())
}

/// How to start the agent: like for a session, with longer timeouts.
fn session_with_timeout(settings: &CommandSettings) -> NewSession {
    let session = settings.new_session();
    let agent = session.agent.clone().with_start_timeout(settings.timeout.unwrap_or(START_TIMEOUT));
    NewSession { agent, ..session }
}

/// The findings so far, already printed.
struct DoctorReport {
    console: Console<'static>,
    verdict: DoctorSummary,
}

impl DoctorReport {
    fn new(console: Console<'static>) -> Self {
        Self { console, verdict: DoctorSummary::default() }
    }

    fn say(&mut self, finding: &Finding) -> Result<(), CliError> {
        self.verdict.count(finding.level);
        Ok(output::finding(finding, &mut self.console)?)
    }

    /// Reports an error as a finding, with the error's own hint.
    fn fail(&mut self, check: &'static str, error: &CliError) -> Result<(), CliError> {
        let hint = error.hint().map(Cow::into_owned);
        self.say(&Finding::fail(check, error.message(), hint))
    }

    /// Announces a step that may take a while.
    fn progress(&mut self, words: &str) {
        self.console.banner(words);
    }

    fn end(mut self) -> Result<DoctorSummary, CliError> {
        output::verdict(self.verdict, &mut self.console)?;
        Ok(self.verdict)
    }
}
