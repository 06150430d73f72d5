//! The parent-death signal: the kernel kills an agent as soon as the thread that forked it ends.
//!
//! This works even if the whole process is killed. The signal is requested between fork and exec, which is the only
//! thing in this crate that needs `unsafe`. The agent's limit of open files is restored in the same place.

use std::process::Command;

/// Makes the kernel kill the command's process when the starting thread ends for any reason.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "what runs between fork and exec can be given in no other way")]
pub(super) fn die_with_this_thread(command: &mut Command) {
    use rustix::process::{Resource, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit};
    use std::os::unix::process::CommandExt;

    let parent = getpid();
    let open_files = super::open_files::original();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if let Some(limit) = open_files {
            setrlimit(Resource::Nofile, limit)?;
        }
        // If the parent has exited already, the signal will never arrive.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: the closure runs in the forked child of a process with many threads, where only what is
    // async-signal-safe is allowed. It makes three system calls, prctl, setrlimit and getppid, and compares two
    // numbers. It allocates nothing, takes no lock and cannot panic: an `io::Error` of an errno is a plain number, and
    // what the closure has captured are numbers too.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// There is no such signal here: an agent sees that its stdin is closed.
#[cfg(not(target_os = "linux"))]
pub(super) fn die_with_this_thread(_: &mut Command) {}
