//! The commands for pending permission requests, with their arguments and help texts.

use clap::Args;

/// The description of `pending`.
pub(super) const PENDING_HELP: &str = "\
The terminal or editor that sent the prompt asks for the permission. Until it is answered, any shell can answer it by
its id:
  acpx pending                  what each would do, where, and the lines that answer it
  acpx approve 3f9c1a7b
  acpx deny 3f9c1a7b

This starts nothing: without a host, no request is pending.";

pub(super) const APPROVE_HELP: &str = "\
At least six characters of the id are needed. Without an id, acpx approve shows the request on a terminal and asks.
Without --option it is approved once, if the agent offers that. Name an option by its id, kind or number from
acpx pending, if exactly one option has it; options that reject belong to deny.
  acpx approve 3f9c1a7b
  acpx approve 3f9c1a7b --option allow_always

A program that an agent started cannot approve anything.";

pub(super) const DENY_HELP: &str = "\
At least six characters of the id are needed. Without an id, acpx deny shows the request on a terminal and asks.
Without --option it is rejected once, if the agent offers that. Name an option by its id, kind or number from
acpx pending, if exactly one option has it.
  acpx deny 3f9c1a7b
  acpx deny 3f9c1a7b --option reject_always";

// The answer of `approve` and `deny`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The request's id, as in acpx pending, or a unique beginning of it
    #[arg(value_name = "ID")]
    pub(crate) request: Option<String>,
    /// Choose this option, by its id, kind or number
    #[arg(long, value_name = "OPTION")]
    pub(crate) option: Option<String>,
}
