//! Processes, files and terminals. A process that is reported as ended has ended; files and terminals of agents stay
//! inside the session's directories.
//!
//! An agent is forked from a thread that lives as long as its owner, in its own process group, with a tag in its
//! environment. It ends with its session; if its holder is killed, the kernel kills it, and the next holder finds its
//! descendants by the tag and ends them. This needs Linux; on other systems there is only the process group.

mod ancestry;
mod children;
mod environment;
mod files;
mod identity;
mod leader;
mod marks;
mod open_files;
mod orphans;
mod parent_death;
mod process;
mod process_snapshot;
mod screen;
mod spawner;
mod stat;
mod stderr;
mod strays;
mod sweep;
mod tag;
mod terminal;
mod termination;

pub use ancestry::{AgentAncestor, agent_above, is_below, is_inside};
pub use environment::Environment;
pub(crate) use files::{FileError, LineRange, Root, RootedPath, Roots};
pub use marks::{HOST_VARIABLE, KEEP_VARIABLE, RECORD_VARIABLE};
pub(crate) use open_files::raise_open_files;
pub use orphans::OrphanReaper;
pub use process::{AgentProcess, Pipes};
pub use spawner::Spawner;
pub(crate) use stderr::StderrTail;
pub use strays::StrayProcesses;
pub(crate) use sweep::sweep_after;
pub use sweep::{SweepReport, SweptProcess, sweep};
pub use tag::{InvalidTag, Tag};
pub(crate) use terminal::{CommandLine, TerminalDelta, TerminalProcess, TerminalView};
pub(crate) use termination::signal_process;
pub use termination::{GracePeriods, ProcessExit, TerminationOutcome};
