//! Credentials for logging in to agents, passed to them only as environment variables.
//!
//! The environment takes precedence over the configuration, and that over a variable that an agent is known to read. An
//! existing variable is never overwritten, and no value is ever shown.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use acpx_core::model::{AgentSpec, credential_token, credential_variable, token_of_variable};

use crate::agents;

/// Credentials by the id of the login method they are for.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Credentials(BTreeMap<String, String>);

/// Variables that agents read themselves: the agent's command, the variable, and the login method it serves.
const KNOWN: [(&[&str], &str, &str); 1] = [(&["grok", "agent", "stdio"], "XAI_API_KEY", "xai.api_key")];

impl FromIterator<(String, String)> for Credentials {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(credentials: I) -> Self {
        Self(credentials.into_iter().filter(|(id, value)| !id.is_empty() && !value.is_empty()).collect())
    }
}

impl fmt::Debug for Credentials {
    /// Shows only the ids.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Where a credential comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CredentialSource {
    /// This environment variable.
    Variable(String),
    /// The configuration.
    Configuration,
}

impl Credentials {
    /// Where an agent's credential for a login method comes from, if there is one. `environment` must be the original
    /// one, without added credentials.
    pub(crate) fn source(
        &self,
        method: &str,
        environment: &[(OsString, OsString)],
        agent: &AgentSpec,
    ) -> Option<CredentialSource> {
        let is_set = |name: &str| environment.iter().any(|(known, value)| known == name && !value.is_empty());
        let variable = credential_variable(method);
        if is_set(&variable) {
            return Some(CredentialSource::Variable(variable));
        }
        if self.0.keys().any(|id| credential_variable(id) == variable) {
            return Some(CredentialSource::Configuration);
        }
        let read = |(command, _, id): &&(&[&str], &str, &str)| {
            is_command(agent, command) && credential_variable(id) == variable
        };
        let known = KNOWN.iter().find(read).map(|(_, name, _)| *name).filter(|name| is_set(name));
        known.map(|name| CredentialSource::Variable(name.to_owned()))
    }

    /// Names of the agents that read variables themselves.
    pub(crate) fn readers() -> impl Iterator<Item = String> {
        KNOWN.iter().filter_map(|(command, ..)| {
            agents::name_of(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        })
    }

    /// Adds the credentials to the environment of an agent, or of any agent.
    pub(crate) fn add_to(
        &self,
        environment: Vec<(OsString, OsString)>,
        agent: Option<&AgentSpec>,
    ) -> Vec<(OsString, OsString)> {
        let mut environment = Variables(environment);
        for (id, configured) in &self.0 {
            let value = environment.get(&credential_variable(id)).unwrap_or_else(|| configured.into());
            environment.set_once(id, &value);
            environment.set_once(&credential_token(id), &value);
            environment.set_once(&credential_variable(id), &value);
        }
        for (token, value) in environment.credentials() {
            environment.set_once(&token, &value);
        }
        let is_read =
            |(command, ..): &&(&[&str], &str, &str)| agent.is_some_and(|agent| is_command(agent, command));
        for (_, variable, id) in KNOWN.iter().filter(is_read) {
            if let Some(value) = environment.get(variable) {
                environment.set_once(&credential_variable(id), &value);
            }
        }
        environment.0
    }
}

fn is_command(agent: &AgentSpec, command: &[&str]) -> bool {
    let words = [agent.program.as_str()].into_iter().chain(agent.args.iter().map(String::as_str));
    words.eq(command.iter().copied())
}

struct Variables(Vec<(OsString, OsString)>);

impl Variables {
    /// A variable's value, unless it is empty.
    fn get(&self, name: &str) -> Option<OsString> {
        let value = self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
        value.filter(|value| !value.is_empty()).cloned()
    }

    /// The credentials in this environment, by the tokens in their variables' names.
    fn credentials(&self) -> Vec<(String, OsString)> {
        let credential = |(name, value): &(OsString, OsString)| {
            let token = token_of_variable(name.to_str()?)?.to_owned();
            (!value.is_empty()).then(|| (token, value.clone()))
        };
        self.0.iter().filter_map(credential).collect()
    }

    /// Sets a variable unless it exists or its name is invalid.
    fn set_once(&mut self, name: &str, value: &OsStr) {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        if is_name && !self.0.iter().any(|(known, _)| known == name) {
            self.0.push((name.into(), value.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn credentials(credentials: &[(&str, &str)]) -> Credentials {
        credentials.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect()
    }

    fn agent(line: &str) -> AgentSpec {
        let mut words = line.split(' ');
        AgentSpec::new(words.next().unwrap(), words)
    }

    #[test]
    fn a_configured_credential_is_exported_under_three_names_and_overrides_nothing() {
        let configured = credentials(&[("my-key", "s3cret"), ("empty", "")]);
        let merged = configured.add_to(environment(&[("HOME", "/h")]), Some(&agent("a")));
        let expected =
            [("HOME", "/h"), ("my-key", "s3cret"), ("MY_KEY", "s3cret"), ("ACPX_AUTH_MY_KEY", "s3cret")];
        assert_eq!(merged, environment(&expected));
        let merged = configured.add_to(environment(&[("MY_KEY", "mine")]), Some(&agent("a")));
        let expected = [("MY_KEY", "mine"), ("my-key", "s3cret"), ("ACPX_AUTH_MY_KEY", "s3cret")];
        assert_eq!(merged, environment(&expected));
    }

    #[test]
    fn environment_credential_overrides_the_configuration() {
        let merged = credentials(&[("key", "configured")])
            .add_to(environment(&[("ACPX_AUTH_KEY", "set"), ("ACPX_AUTH_NONE", "")]), Some(&agent("a")));
        let expected = [("ACPX_AUTH_KEY", "set"), ("ACPX_AUTH_NONE", ""), ("key", "set"), ("KEY", "set")];
        assert_eq!(merged, environment(&expected));
    }

    #[test]
    fn known_credential_variable_counts_for_its_agent_only() {
        let variables = [("XAI_API_KEY", "x")];
        let merged = Credentials::default().add_to(environment(&variables), Some(&agent("grok agent stdio")));
        assert_eq!(merged, environment(&[("XAI_API_KEY", "x"), ("ACPX_AUTH_XAI_API_KEY", "x")]));
        let merged = Credentials::default().add_to(environment(&variables), Some(&agent("grok")));
        assert_eq!(merged, environment(&variables));
        assert_eq!(Credentials::default().add_to(environment(&variables), None), environment(&variables));
        assert_eq!(Credentials::readers().collect::<Vec<_>>(), ["grok-build"]);
    }

    #[test]
    fn credential_source_is_reported() {
        let configured = credentials(&[("api-key", "s3cret")]);
        let grok = agent("grok agent stdio");
        let source = |method: &str, variables: &[(&str, &str)]| {
            configured.source(method, &environment(variables), &grok)
        };
        let variable = |name: &str| Some(CredentialSource::Variable(name.to_owned()));
        assert_eq!(source("api-key", &[]), Some(CredentialSource::Configuration));
        assert_eq!(source("api-key", &[("ACPX_AUTH_API_KEY", "set")]), variable("ACPX_AUTH_API_KEY"));
        assert_eq!(source("api-key", &[("ACPX_AUTH_API_KEY", "")]), Some(CredentialSource::Configuration));
        assert_eq!(source("xai.api_key", &[("XAI_API_KEY", "x")]), variable("XAI_API_KEY"));
        assert_eq!(source("oauth", &[("XAI_API_KEY", "x")]), None);
    }

    #[test]
    fn credentials_are_not_printed() {
        assert_eq!(format!("{:?}", credentials(&[("key", "s3cret")])), r#"["key"]"#);
    }
}
