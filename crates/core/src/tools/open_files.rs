//! The limit of open files. A host raises its own to serve many clients; the programs that it starts get the original
//! limit back, because some use `select` or close every possible descriptor.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The highest limit that a host asks for.
const MOST: u64 = 65_536;

/// The limit that this process was started with, if it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's soft limit of open files as far as its hard limit allows. On systems other than Linux the
/// limit stays, because children could not get the original one back.
pub(crate) fn raise_open_files() {
    let original = getrlimit(Resource::Nofile);
    let most = original.maximum.map_or(MOST, |hard| hard.min(MOST));
    let is_lower = original.current.is_some_and(|soft| soft < most);
    // The original is stored first, so that no child can inherit a raised limit.
    if cfg!(target_os = "linux") && is_lower && ORIGINAL.set(original).is_ok() {
        // A host that may not raise its limit serves fewer clients.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..original });
    }
}

/// The limit for programs that this process starts, if it is not the process's own.
#[cfg(target_os = "linux")]
pub(super) fn original() -> Option<Rlimit> {
    ORIGINAL.get().copied()
}
