//! Signals a process by its identity, so that a process with a reused pid is never signalled.

use rustix::process::{Pid, Signal, kill_process};

use crate::model::ProcessIdentity;

/// Signals a process if it is still running.
#[cfg(target_os = "linux")]
pub(crate) fn signal_process(process: &ProcessIdentity, signal: Signal) {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let Some(pid) = pid_of(process) else { return };
    // A process that has exited by now needs no signal.
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The pidfd pins the process, so checking first and signalling after is safe.
        Ok(held) => {
            if process.is_alive() {
                let _ = pidfd_send_signal(&held, signal);
            }
        }
        Err(Errno::SRCH) => {}
        // An old kernel, or no free descriptor: check immediately before the signal.
        Err(_) => {
            if process.is_alive() {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Signals a process if it is still running, as far as the system can identify it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn signal_process(process: &ProcessIdentity, signal: Signal) {
    if let Some(pid) = pid_of(process).filter(|_| process.is_alive()) {
        // A process that has exited by now needs no signal.
        let _ = kill_process(pid, signal);
    }
}

fn pid_of(process: &ProcessIdentity) -> Option<Pid> {
    i32::try_from(process.pid).ok().and_then(Pid::from_raw)
}
