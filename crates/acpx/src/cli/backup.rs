//! The arguments of `backup` and `verify`.

use std::path::PathBuf;

use clap::Args;

/// Back up all stored sessions into one file, also while they are in use
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = "\
The file has everything that was stored when the backup began; it is verified before it gets its name. It is not
encrypted, and only you can read it. config.json, tokens.json, trusted.json and the files of agents are not in it.

To restore it: acpx host stop, then copy it to acpx.db in ACPX_HOME (default ~/.acpx) after you have moved acpx.db,
acpx.db-wal and acpx.db-shm away.

Examples:
  acpx backup ~/acpx-$(date +%F).db
  acpx verify ~/acpx-2026-11-18.db      check it again later")]
#[command(override_usage = "acpx backup [FLAGS] FILE")]
pub(crate) struct BackupArgs {
    /// The file to write
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// Verify the stored sessions, or a backup: every page, session, event and turn
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = "\
It reads everything and changes nothing, also while the sessions are in use. The exit code is 1 if something is damaged.

Examples:
  acpx verify                           the store of ACPX_HOME
  acpx verify ~/acpx-2026-11-18.db      a backup")]
#[command(override_usage = "acpx verify [FLAGS] [FILE]")]
pub(crate) struct VerifyArgs {
    /// The backup; without it, the store is verified
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
