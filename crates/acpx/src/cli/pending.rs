//! The verbs about what agents ask, with their arguments and help texts.

use clap::Args;

use super::options::OutputArgs;

/// List the permissions that agents wait for, in all sessions
#[derive(Debug, Args)]
#[command(after_help = "\
A permission is asked by the turn's own client: on its terminal, or in its editor. From anywhere else it is answered
by its id, as long as it is open:
  acpx pending                          what each would do, where, and the options it has
  acpx approve 3f9c1a7be052
  acpx deny 3f9c1a7be052

Nothing is started: where no host runs, nothing waits.")]
#[command(override_usage = "acpx pending [FLAGS]")]
pub(super) struct PendingArgs {
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Give an agent a permission that it waits for
#[derive(Debug, Args)]
#[command(after_help = "\
Without --option the agent may do it this once, if it offers that. An option goes by its id, its kind or its number,
as pending has them, where that means one option and no other; one that refuses is chosen by deny.
  acpx approve 3f9c1a7be052
  acpx approve 3f9c1a7be052 --option allow_always

What an agent has started cannot approve anything.")]
#[command(override_usage = "acpx approve [FLAGS] <ID>")]
pub(super) struct ApproveArgs {
    /// The question's id, as pending has it
    #[arg(value_name = "ID")]
    pub(super) question: String,
    /// Choose this option of the agent's, by its id, kind or number
    #[arg(long, value_name = "OPTION")]
    pub(super) option: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Refuse an agent a permission that it waits for
#[derive(Debug, Args)]
#[command(after_help = "\
Without --option it is refused this once, if the agent offers that. An option goes by its id, its kind or its number,
as pending has them, where that means one option and no other.
  acpx deny 3f9c1a7be052
  acpx deny 3f9c1a7be052 --option reject_always")]
#[command(override_usage = "acpx deny [FLAGS] <ID>")]
pub(super) struct DenyArgs {
    /// The question's id, as pending has it
    #[arg(value_name = "ID")]
    pub(super) question: String,
    /// Choose this option of the agent's, by its id, kind or number
    #[arg(long, value_name = "OPTION")]
    pub(super) option: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}
