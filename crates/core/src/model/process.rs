//! Which process it is: a process id alone is given to somebody else as soon as its process is gone.

/// One process of one life of one machine. Two processes never have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its process id.
    pub pid: u32,
    /// When it started, in the system's own ticks since the boot.
    pub started: u64,
    /// The boot it started in, by the system's name for it.
    pub boot: String,
}
