//! The engine's limits. The caller passes all of them; the library reads no configuration.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{AgentSpec, Timestamp};
use crate::tools::GracePeriods;
use crate::wire::{WireLimits, since_1970};

/// The limits of an engine, and its clock.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// How long a cancelled turn may take to end before its agent is ended.
    pub cancel_grace: Duration,
    /// How long an idle agent stays, unless its session sets another time; `None` for ever. An agent that cannot
    /// restore sessions stays longer once its session has content: it has the only copy.
    pub idle: Option<Duration>,
    /// How long `session/close` may take to be answered before the agent is ended.
    pub close_grace: Duration,
    /// How long each step of ending a process may take.
    pub process: GracePeriods,
    /// The home's name in the tag of every agent, by which a later host of the same home finds leftovers if this one is
    /// killed; `None` for no tag. It is opaque, preferably hex.
    pub tag: Option<String>,
    /// Programs that are not ended with the agent that started them, and neither are their descendants: names of the
    /// processes or of their files.
    pub keep_programs: Arc<[String]>,
    /// The limits of the connection to an agent.
    pub wire: WireLimits,
    /// How many bytes an agent may send within one turn, or between two.
    pub turn_bytes: u64,
    /// The program to start for a remote agent; without it there are no remote agents. It gets the agent's URL and
    /// arguments, and speaks ACP on stdin and stdout.
    pub relay: Option<AgentSpec>,
    /// The current time.
    pub clock: fn() -> Timestamp,
}

impl EngineSettings {
    /// The program to start for an agent: its own, or the relay that connects to it.
    pub(crate) fn program_of<'a>(&self, agent: &'a AgentSpec) -> Cow<'a, AgentSpec> {
        let (Some(relay), Some(_)) = (&self.relay, agent.url()) else { return Cow::Borrowed(agent) };
        let words = [&agent.program].into_iter().chain(&agent.args);
        let args = relay.args.iter().chain(words).cloned().collect();
        Cow::Owned(AgentSpec { program: relay.program.clone(), args, ..agent.clone() })
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            cancel_grace: Duration::from_secs(10),
            idle: None,
            close_grace: Duration::from_secs(5),
            process: GracePeriods::default(),
            tag: None,
            keep_programs: Arc::default(),
            wire: WireLimits::default(),
            turn_bytes: 4 << 30,
            relay: None,
            clock: system_time,
        }
    }
}

fn system_time() -> Timestamp {
    Timestamp::since_1970(since_1970())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_agent_runs_through_the_relay_with_its_name_and_timeout() {
        let relay = Some(AgentSpec::new("/bin/acpx", ["remote-agent"]));
        let settings = EngineSettings { relay, ..EngineSettings::default() };
        let start_limit = Duration::from_secs(7);
        let agent = |program: &str| {
            AgentSpec::new(program, ["--insecure"]).named("far").with_start_timeout(start_limit)
        };
        let reached = AgentSpec::new("/bin/acpx", ["remote-agent", "ws://h/acp", "--insecure"]);
        assert_eq!(
            *settings.program_of(&agent("ws://h/acp")),
            reached.named("far").with_start_timeout(start_limit)
        );
        assert_eq!(*settings.program_of(&agent("near")), agent("near"));
        assert_eq!(*EngineSettings::default().program_of(&agent("ws://h/acp")), agent("ws://h/acp"));
    }
}
