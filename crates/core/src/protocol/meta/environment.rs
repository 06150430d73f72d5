//! The environment of agents on the socket: variables for all agents, and additional ones for single agents.
//!
//! They are separate so that a connection can start any agent with its own variables and not with another's. The names
//! of variables that the user marked as secrets go with them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use crate::model::AgentSpec;
use crate::tools::Environment;

use super::{ClientMeta, LaunchMeta, OsText, StartMeta};

/// Variables for single agents, by agent name.
pub(crate) type VariablesMeta = BTreeMap<String, Vec<(OsText, OsText)>>;

/// Names of secret variables, by agent name.
pub(crate) type SecretVariablesMeta = BTreeMap<String, Vec<OsText>>;

/// The longest start wait: the range of a 32-bit count of milliseconds, as for every time on the command line. It
/// bounds how long a hanging agent is kept.
const LONGEST_START_WAIT: Duration = Duration::from_millis(i32::MAX as u64);

impl ClientMeta {
    /// Sets variables for single agents.
    #[must_use]
    pub fn with_variables<V>(self, variables: impl IntoIterator<Item = (String, V)>) -> Self
    where
        V: IntoIterator<Item = (OsString, OsString)>,
    {
        let variables = variables.into_iter().map(|(agent, own)| (agent, texts(own))).collect();
        Self { launch: LaunchMeta { variables, ..self.launch }, ..self }
    }

    /// Marks variables of single agents as secrets.
    #[must_use]
    pub fn with_secret_variables(self, names: impl IntoIterator<Item = (String, Vec<OsString>)>) -> Self {
        let secret_variables = names.into_iter().map(|(agent, names)| (agent, names_of(names))).collect();
        Self { launch: LaunchMeta { secret_variables, ..self.launch }, ..self }
    }
}

impl StartMeta {
    /// Sets variables for a named agent.
    #[must_use]
    pub fn with_variables(
        self,
        agent: &AgentSpec,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let own = agent.name.clone().map(|name| (name, texts(variables)));
        let variables = own.filter(|(_, own)| !own.is_empty()).into_iter().collect();
        Self { launch: LaunchMeta { variables, ..self.launch }, ..self }
    }

    /// Marks variables of a named agent as secrets.
    #[must_use]
    pub fn with_secret_variables(self, agent: &AgentSpec, names: Vec<OsString>) -> Self {
        let own = agent.name.clone().map(|name| (name, names_of(names)));
        let secret_variables = own.filter(|(_, own)| !own.is_empty()).into_iter().collect();
        Self { launch: LaunchMeta { secret_variables, ..self.launch }, ..self }
    }

    /// Sets how long the client waits for the agent.
    #[must_use]
    pub fn within(self, wait: Option<Duration>) -> Self {
        let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        Self { start_wait_ms: wait.map(millis), ..self }
    }

    /// How long the client waits for the agent.
    pub(crate) fn start_wait(&self) -> Option<Duration> {
        self.start_wait_ms.map(|millis| Duration::from_millis(millis).min(LONGEST_START_WAIT))
    }

    /// The environment for this agent.
    pub(crate) fn take_environment(&mut self, agent: &AgentSpec) -> Environment {
        let LaunchMeta { environment, variables, secret_variables, .. } = &mut self.launch;
        let shared = std::mem::take(environment);
        let (mut variables, mut secrets) = (std::mem::take(variables), std::mem::take(secret_variables));
        let own = agent.name.as_ref().and_then(|name| variables.remove(name)).unwrap_or_default();
        let secrets = agent.name.as_ref().and_then(|name| secrets.remove(name)).unwrap_or_default();
        let variable = |(name, value): (OsText, OsText)| (name.into(), value.into());
        let environment: Environment = shared.into_iter().map(variable).collect();
        environment
            .with_all(own.into_iter().map(variable))
            .with_secrets(secrets.into_iter().map(OsString::from))
    }
}

fn names_of(names: Vec<OsString>) -> Vec<OsText> {
    names.into_iter().map(OsText::from).collect()
}

fn texts(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(OsText, OsText)> {
    variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn an_agent_gets_its_own_variables_and_not_those_of_another() {
        let agent = |name: &str| AgentSpec::new("a", [""; 0]).named(name);
        let start = || {
            let client = ClientMeta::default()
                .with_variables([
                    ("mine".to_owned(), pairs(&[("FOO", "of-mine"), ("HOME", "/mine")])),
                    ("other".to_owned(), pairs(&[("BAR", "of-other")])),
                ])
                .with_secret_variables([("other".to_owned(), vec!["LANG".into()])]);
            let environment = texts(pairs(&[("HOME", "/home/me"), ("LANG", "C")]));
            StartMeta { launch: LaunchMeta { environment, ..client.launch }, ..StartMeta::default() }
        };
        let plain: Environment = pairs(&[("HOME", "/home/me"), ("LANG", "C")]).into_iter().collect();
        assert_eq!(start().take_environment(&agent("plain")), plain);
        assert_eq!(start().take_environment(&AgentSpec::new("mine", [""; 0])), plain);
        assert_eq!(
            start().take_environment(&agent("other")),
            plain.clone().with_all(pairs(&[("BAR", "of-other")])).with_secrets(["LANG".into()])
        );
        let mine = start().take_environment(&agent("mine"));
        assert_eq!(mine.variables(), pairs(&[("LANG", "C"), ("FOO", "of-mine"), ("HOME", "/mine")]));
    }

    #[test]
    fn the_start_wait_is_limited_to_a_32_bit_count_of_milliseconds() {
        let wait = |millis| StartMeta { start_wait_ms: Some(millis), ..StartMeta::default() }.start_wait();
        assert_eq!(wait(7), Some(Duration::from_millis(7)));
        assert_eq!(wait(u64::MAX), Some(Duration::from_millis(2_147_483_647)));
        assert_eq!(StartMeta::default().within(Some(Duration::ZERO)).start_wait_ms, Some(1));
    }
}
