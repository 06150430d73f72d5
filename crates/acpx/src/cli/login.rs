//! The verb about logging in, with its arguments and help texts.

use clap::Args;

use super::options::SessionArgs;
use super::usage::UsageError;

/// Show how to log in with an agent, or log in or out
#[derive(Debug, Args)]
#[command(after_help = "\
Without METHOD the ways to log in that the agent offers are listed, and what each needs.
With METHOD that way is gone: the agent does it, or says which variables to set, or its own program runs here in the
terminal until the login is done.

A credential for METHOD is the variable ACPX_AUTH_METHOD (in capitals, with _ for everything else), or \"auth\" in
config.json of ACPX_HOME; with one, an agent is logged in whenever it is started.")]
#[command(override_usage = "acpx AGENT auth [FLAGS] [METHOD]\n       acpx auth [FLAGS] [AGENT [METHOD]]")]
pub(super) struct AuthArgs {
    /// The agent, unless it stands before auth
    #[arg(value_name = "AGENT")]
    pub(super) first: Option<String>,
    /// The way to log in
    #[arg(value_name = "METHOD")]
    pub(super) second: Option<String>,
    /// Log out, with an agent that can
    #[arg(long, conflicts_with = "second")]
    pub(super) logout: bool,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// What to do about a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthCommand {
    /// Show the ways there are.
    List,
    /// Go one of them.
    LogIn {
        /// Its id.
        method: String,
    },
    /// Log out.
    LogOut,
}

impl AuthArgs {
    /// Tells the agent's name from the way to log in. An agent that is named before the verb, or by its command line,
    /// is not named again.
    pub(super) fn read(self, agent: Option<String>) -> Result<Read, UsageError> {
        let Self { first, second, logout, session } = self;
        let (agent, method) = match (agent, first, second) {
            (None, Some(name), method) if session.agent.is_none() => {
                (Some(crate::agents::canonical(&name)), method)
            }
            (_, _, Some(word)) => {
                return Err(UsageError::Arguments {
                    message: format!("unexpected argument {word:?} found"),
                    tip: Some("one way to log in is gone at a time".to_owned()),
                    verb: "auth".to_owned(),
                });
            }
            (agent, method, None) => (agent, method),
        };
        let command = match (logout, method) {
            (true, Some(word)) => {
                return Err(UsageError::Arguments {
                    message: format!("--logout and the way to log in {word:?} exclude each other"),
                    tip: None,
                    verb: "auth".to_owned(),
                });
            }
            (true, None) => AuthCommand::LogOut,
            (false, Some(method)) => AuthCommand::LogIn { method },
            (false, None) => AuthCommand::List,
        };
        Ok(Read { command, agent, session })
    }
}

/// What was read of it.
pub(super) struct Read {
    pub(super) command: AuthCommand,
    pub(super) agent: Option<String>,
    pub(super) session: SessionArgs,
}
