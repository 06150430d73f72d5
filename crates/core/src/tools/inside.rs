//! Whether a process was started by an agent. Such a one speaks for its agent and not for the user.

/// Whether a process, or one it descends from, carries a tag of this home.
///
/// The tag is read from the environment a process was started with, which it cannot take back by unsetting a
/// variable. Only Linux tells; elsewhere nobody is inside.
#[cfg(target_os = "linux")]
pub fn is_inside(pid: u32, home: &str) -> bool {
    use super::stat::Stat;
    use super::sweep::tag_of;

    let mut next = Some(pid);
    // A chain of parents that somebody changes while it is read cannot keep us busy.
    for _ in 0..1024 {
        let Some(pid) = next.filter(|pid| *pid > 1) else { return false };
        if tag_of(pid).is_some_and(|tag| tag.home == home) {
            return true;
        }
        next = Stat::of(pid).map(|stat| stat.parent);
    }
    false
}

/// Whether a process descends from an agent of this home; here the system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn is_inside(_: u32, _: &str) -> bool {
    false
}
