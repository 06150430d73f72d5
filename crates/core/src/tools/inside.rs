//! Whether a process was started by an agent. Such a one speaks for its agent and not for the user.
//!
//! Two things show it. The parents of its parents lead to the holder itself: whatever an agent starts stays below
//! its holder, since a holder adopts what loses its parent, and neither a clean environment nor a session of its
//! own changes that. Or one of these parents carries a tag of the home, which is how the children of a holder that
//! was killed are known; this alone is lost to an exec with a clean environment.
//!
//! A program that has something else start a process for it, such as a service manager or the server of a terminal
//! multiplexer, is not seen through: what runs there has another ancestor and an environment of its own.

/// Whether a process descends from an agent of this process, or from one that carries a tag of this home.
///
/// A process that cannot be looked at is taken to be one: it is gone, or it hides. Only Linux tells; elsewhere
/// nobody is inside.
#[cfg(target_os = "linux")]
pub fn is_inside(pid: u32, home: &str) -> bool {
    let is_tagged = |pid| super::marks::Marks::of(pid).tag.is_some_and(|tag| tag.home == home);
    descends(pid, std::process::id(), super::stat::Stat::of, is_tagged)
}

/// Whether a process descends from this other one, which holds agents. Only Linux tells; elsewhere nobody does.
#[cfg(target_os = "linux")]
pub fn is_below(pid: u32, holder: u32) -> bool {
    descends(pid, holder, super::stat::Stat::of, |_| false)
}

/// Follows the parents of a process until one proves it to be inside, or there are no more of them.
#[cfg(target_os = "linux")]
fn descends(
    pid: u32,
    holder: u32,
    look: impl Fn(u32) -> Option<super::stat::Stat>,
    is_tagged: impl Fn(u32) -> bool,
) -> bool {
    let Some(mut process) = look(pid) else { return true };
    // Whoever changes its parents while they are read gets no further than this, and is inside.
    for _ in 0..STEPS {
        if process.parent == holder || is_tagged(process.pid) {
            return true;
        }
        if process.parent == 0 {
            return false;
        }
        match look(process.parent) {
            // A parent began before its child; one that did not has the number of a parent that is gone.
            Some(parent) if parent.started <= process.started => process = parent,
            _ => match look(process.pid) {
                // It has lost its parent meanwhile and got another one.
                Some(again) if again.parent != process.parent => process = again,
                // The parent is there and is not shown: systems hide the processes of other users, and agents run
                // as ours.
                Some(_) => return false,
                None => return true,
            },
        }
    }
    true
}

/// How many parents are followed.
#[cfg(target_os = "linux")]
const STEPS: usize = 1024;

/// Whether a process descends from an agent; here the system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn is_inside(_: u32, _: &str) -> bool {
    false
}

/// Whether a process descends from this other one; here the system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn is_below(_: u32, _: u32) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
