//! What agents run on here: processes, which are really gone when they are said to be; and what they have done for
//! them: files and terminals, inside the session's directories.
//!
//! An agent is forked from a thread that lives as long as its owner, in a group of its own, with a tag in its
//! environment. It ends with its session; if its holder is killed, the kernel kills it; and what it had started
//! is found by the tag and ended by the next holder. Linux has all of this; elsewhere there is the group alone.

mod children;
mod ending;
mod environment;
mod files;
mod hunt;
mod identity;
mod inside;
mod leader;
mod marks;
mod namespace;
mod open_files;
mod orphans;
mod parent_death;
mod process;
mod screen;
mod spawner;
mod stat;
mod stderr;
mod strays;
mod sweep;
mod tag;
mod telling;
mod terminal;

pub use ending::{GracePeriods, ProcessExit, TerminationOutcome};
pub use environment::Environment;
pub use files::{FileError, LineRange, Root, RootedPath, Roots};
pub use inside::{is_below, is_inside};
pub use marks::{HOST_VARIABLE, KEEP_VARIABLE, RECORD_VARIABLE};
pub use open_files::raise_open_files;
pub use orphans::OrphanReaper;
pub use process::{AgentProcess, Pipes};
pub use spawner::Spawner;
pub(crate) use stderr::StderrTail;
pub use strays::StrayProcesses;
pub use sweep::{SweepReport, SweptProcess, sweep, sweep_after};
pub use tag::{InvalidTag, Tag};
pub(crate) use telling::tell;
pub use terminal::{CommandLine, TerminalDelta, TerminalError, TerminalProcess, TerminalView};
