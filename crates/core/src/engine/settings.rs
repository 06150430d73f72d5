//! The engine's limits, in one place. All of them are passed in; the library has no configuration.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::model::Timestamp;
use crate::tools::Grace;
use crate::wire::Limits;

/// What an engine allows, and its clock.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a cancelled turn may take to end before its agent is ended.
    pub cancel_grace: Duration,
    /// How long an agent with nothing to do stays, unless its session says otherwise; `None` for ever.
    pub idle: Option<Duration>,
    /// How long `session/close` may take to be answered, and a full pipe to be read, before the agent is ended.
    pub close_grace: Duration,
    /// How long each step of ending a process may take.
    pub process: Grace,
    /// The name of the home in the tag of every agent, by which a later holder of the same home finds what is left
    /// if this one is killed; `None` for no tag. It is opaque, and best in hex.
    pub tag: Option<String>,
    /// The limits of the connection to an agent.
    pub wire: Limits,
    /// How many bytes an agent may send within one turn, or between two.
    pub turn_bytes: u64,
    /// What time it is.
    pub clock: fn() -> Timestamp,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cancel_grace: Duration::from_secs(10),
            idle: None,
            close_grace: Duration::from_secs(5),
            process: Grace::default(),
            tag: None,
            wire: Limits::default(),
            turn_bytes: 4 << 30,
            clock: system_time,
        }
    }
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or_default();
    Timestamp::from_millis(millis).expect("the clock of a running machine shows a time of our calendar")
}
