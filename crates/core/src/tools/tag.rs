//! The tag: a variable in the environment of every agent that names the process which holds it.
//!
//! Whatever an agent starts inherits the tag, also what leaves its process group, so a later holder of the same
//! home finds what a killed one left. Homes leave each other alone by their names.

use std::fmt;
use std::str::FromStr;

use crate::model::ProcessIdentity;

/// Which process holds an agent, and for which home.
///
/// It is written `<home>:<boot>:<namespace>:<pid>:<started>`. The home is an opaque name chosen by the holder,
/// meant to be hex; it may hold colons, since the other four cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The name of the holder's home.
    pub home: String,
    /// The pid namespace the holder is numbered in; 0 where the system has none. The boot does not tell: containers
    /// share it.
    pub namespace: u64,
    /// The process that holds what carries the tag.
    pub holder: ProcessIdentity,
}

impl Tag {
    /// The environment variable that carries it.
    pub const VARIABLE: &str = "ACPX_TAG";

    /// The tag of what this process holds from now on; none where the system does not tell who we are.
    ///
    /// A process that forks to detach makes its tag afterwards: its child is somebody else.
    pub fn of_this_process(home: impl Into<String>) -> Option<Self> {
        let holder = ProcessIdentity::of(std::process::id())?;
        Some(Self { home: home.into(), namespace: namespace()?, holder })
    }
}

#[cfg(target_os = "linux")]
fn namespace() -> Option<u64> {
    super::namespace::ours()
}

#[cfg(not(target_os = "linux"))]
fn namespace() -> Option<u64> {
    Some(0)
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProcessIdentity { pid, started, boot } = &self.holder;
        write!(f, "{}:{boot}:{}:{pid}:{started}", self.home, self.namespace)
    }
}

/// A text that is no tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no tag: it is not <home>:<boot>:<namespace>:<pid>:<started>")]
pub struct InvalidTag(String);

impl FromStr for Tag {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, InvalidTag> {
        let parse = || {
            let mut parts = text.rsplitn(5, ':');
            let started = parts.next()?.parse().ok()?;
            let pid = parts.next()?.parse().ok()?;
            let namespace = parts.next()?.parse().ok()?;
            let boot = parts.next()?.to_owned();
            let home = parts.next()?.to_owned();
            Some(Self { home, namespace, holder: ProcessIdentity { pid, started, boot } })
        };
        parse().ok_or_else(|| InvalidTag(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
