//! Signalling this very process or nobody: a number that went to another process is never signalled.

use rustix::process::{Pid, Signal, kill_process};

use crate::model::ProcessIdentity;

/// Signals a process, if it still runs.
#[cfg(target_os = "linux")]
pub(crate) fn tell(process: &ProcessIdentity, signal: Signal) {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let Some(pid) = pid_of(process) else { return };
    // In every case a process that has gone meanwhile needs no signal.
    match pidfd_open(pid, PidfdFlags::empty()) {
        // What is held now cannot become another process, so looking first and signalling after is safe.
        Ok(held) => {
            if process.is_alive() {
                let _ = pidfd_send_signal(&held, signal);
            }
        }
        Err(Errno::SRCH) => {}
        // An old kernel, or no descriptor is free: the best that is left is to look right before.
        Err(_) => {
            if process.is_alive() {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Signals a process, if it still runs as far as the system tells.
#[cfg(not(target_os = "linux"))]
pub(crate) fn tell(process: &ProcessIdentity, signal: Signal) {
    if let Some(pid) = pid_of(process).filter(|_| process.is_alive()) {
        // One that has gone meanwhile needs no signal.
        let _ = kill_process(pid, signal);
    }
}

fn pid_of(process: &ProcessIdentity) -> Option<Pid> {
    i32::try_from(process.pid).ok().and_then(Pid::from_raw)
}
