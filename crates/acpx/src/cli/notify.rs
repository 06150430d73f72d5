//! The arguments of `acpx notify`.

use clap::Subcommand;

/// Show or try where events are reported
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum NotifyCommand {
    /// Show the sinks, what waits for them, and the last errors
    Status,
    /// Send a test event to all sinks, or to one
    Test {
        /// The name of the sink, as status shows it
        #[arg(value_name = "SINK")]
        sink: Option<String>,
    },
    /// Deliver what is queued until the queue is empty or stdin ends
    #[command(hide = true)]
    Run,
}
