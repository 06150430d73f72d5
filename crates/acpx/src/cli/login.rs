//! The command `auth`, with its arguments and help texts.

use clap::Args;

use super::usage::UsageError;

/// Show how to log in to an agent, or log in or out
#[derive(Debug, Args)]
#[command(after_help = "\
Without METHOD, the agent's login methods are listed with what each needs.
With METHOD, you are logged in by it: the agent does it, or acpx lists the variables to set, or the agent's own program
runs in this terminal.

Store a credential for METHOD in the variable ACPX_AUTH_METHOD (in capitals, with _ for other characters), or under
\"auth\" in config.json of ACPX_HOME. acpx then logs in whenever it starts the agent.")]
#[command(override_usage = "acpx AGENT auth [FLAGS] [METHOD]\n       acpx auth [FLAGS] [AGENT [METHOD]]")]
pub(super) struct AuthArgs {
    /// The agent, unless it is before auth
    #[arg(value_name = "AGENT")]
    pub(super) first: Option<String>,
    /// The login method
    #[arg(value_name = "METHOD")]
    pub(super) second: Option<String>,
    /// Log out, if the agent supports it
    #[arg(long, conflicts_with = "second")]
    pub(super) logout: bool,
}

/// A login command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthCommand {
    /// List the methods.
    List,
    /// Log in by a method.
    LogIn {
        /// Its id.
        method: String,
    },
    /// Log out.
    LogOut,
}

impl AuthArgs {
    /// Separates the agent's name from the login method. An agent that is named before `auth`, or by `--agent`, is not
    /// named again.
    pub(super) fn read(
        self,
        agent: &mut Option<String>,
        has_agent_flag: bool,
    ) -> Result<AuthCommand, UsageError> {
        let Self { first, second, logout } = self;
        let method = match (&*agent, first, second) {
            (None, Some(name), method) if !has_agent_flag => {
                *agent = Some(crate::agents::canonical(&name));
                method
            }
            (_, _, Some(word)) => {
                return Err(UsageError::Arguments {
                    message: format!("unexpected argument {word:?} found"),
                    tip: Some("give one login method".to_owned()),
                    verb: "auth".to_owned(),
                });
            }
            (_, method, None) => method,
        };
        match (logout, method) {
            (true, Some(word)) => Err(UsageError::Arguments {
                message: format!("--logout and the login method {word:?} exclude each other"),
                tip: None,
                verb: "auth".to_owned(),
            }),
            (true, None) => Ok(AuthCommand::LogOut),
            (false, Some(method)) => Ok(AuthCommand::LogIn { method }),
            (false, None) => Ok(AuthCommand::List),
        }
    }
}
