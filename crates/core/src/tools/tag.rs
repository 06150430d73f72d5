//! The tag: an environment variable of every agent that names the process which holds it.
//!
//! Descendants of an agent inherit the tag, even outside its process group, so a later holder of the same home finds
//! what a killed one left. The home's name keeps homes apart.

use std::fmt;
use std::str::FromStr;

use crate::model::ProcessIdentity;

/// The process that holds an agent, and its home.
///
/// The format is `<home>:<boot>:<namespace>:<pid>:<started>`. The home is an opaque name chosen by the holder, usually
/// hex; it may contain colons, since the other four cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The name of the holder's home.
    pub home: String,
    /// The pid namespace of the holder's pid; 0 where the system has none. The boot id is not enough, because
    /// containers share it.
    pub namespace: u64,
    /// The holder of the processes that carry the tag.
    pub holder: ProcessIdentity,
}

impl Tag {
    /// The environment variable that carries it.
    pub const VARIABLE: &str = "ACPX_TAG";

    /// The tag for agents of this process; `None` where the system cannot identify us.
    ///
    /// A process that forks to detach must create its tag afterwards, because the child is another process.
    pub fn of_this_process(home: impl Into<String>) -> Option<Self> {
        let holder = ProcessIdentity::of(std::process::id())?;
        Some(Self { home: home.into(), namespace: namespace()?, holder })
    }
}

#[cfg(target_os = "linux")]
fn namespace() -> Option<u64> {
    super::stat::ours()
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

/// A text that is not a tag.
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
