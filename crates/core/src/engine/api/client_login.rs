//! Remembers how a client logged in with its agent, so that each start of the agent can repeat the login. An agent may
//! keep a login only as long as its process runs, and each session has its own process. The login lives in memory only;
//! it is never stored, logged or shown.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::acp::ExtraParams;
use crate::model::AgentSpec;
use crate::sync::Lock;

/// The login of one client with one agent, and whether the client has a terminal to log in with. Clones share their
/// state.
#[derive(Clone, Default)]
pub struct ClientLogin(Arc<Lock<ClientLoginState>>);

#[derive(Clone, Default)]
struct ClientLoginState {
    done: Option<Arc<Login>>,
    /// The client cannot run a login in a terminal. Commands of the CLI can.
    without_terminal: bool,
}

/// A login request that succeeded.
pub(crate) struct Login {
    agent: AgentSpec,
    pub(crate) method: String,
    /// Extra params of the client's request. They may contain a credential.
    pub(crate) extra_params: Option<ExtraParams>,
}

impl ClientLogin {
    /// Replaces the remembered login.
    pub(crate) fn remember(&self, agent: AgentSpec, method: &str, extra_params: Option<ExtraParams>) {
        self.0.lock().done = Some(Arc::new(Login { agent, method: method.to_owned(), extra_params }));
    }

    /// Forgets the remembered login.
    pub(crate) fn forget(&self) {
        self.0.lock().done = None;
    }

    /// The login with this agent.
    pub(crate) fn with(&self, agent: &AgentSpec) -> Option<Arc<Login>> {
        self.0.lock().done.clone().filter(|login| login.agent.is_same_as(agent))
    }

    /// Whether a login with any agent is remembered.
    pub(crate) fn is_there(&self) -> bool {
        self.0.lock().done.is_some()
    }

    /// Marks the client as unable to log in in a terminal, so that agents do not offer that method to it.
    pub(crate) fn without_terminal(&self) {
        self.0.lock().without_terminal = true;
    }

    /// Whether the client can log in in a terminal.
    pub(crate) fn has_terminal(&self) -> bool {
        !self.0.lock().without_terminal
    }

    /// A copy that later changes do not affect.
    pub(crate) fn as_it_is(&self) -> Self {
        Self(Arc::new(Lock::new(self.0.lock().clone())))
    }
}

impl Login {
    /// Every text in the extra params. Any of them may be a credential.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut open: Vec<Value> = self.extra_params.iter().flat_map(ExtraParams::values).collect();
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) => texts.push(text),
                Value::Array(values) => open.extend(values),
                Value::Object(members) => open.extend(members.into_iter().map(|(_, value)| value)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        texts
    }
}

impl fmt::Debug for ClientLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedIn").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_is_remembered_for_one_agent_and_never_shown() {
        let (this, other) = (AgentSpec::new("this", [""; 0]), AgentSpec::new("other", [""; 0]));
        let (logged_in, given) = (ClientLogin::default(), ClientLogin::default());
        assert!(!logged_in.is_there());
        let seen = logged_in.clone();
        logged_in.remember(
            this.clone(),
            "key",
            Some(ExtraParams::meta(r#"{"a":["hidden",1,{"b":"too"}],"c":null}"#)),
        );
        let login = seen.with(&this).unwrap();
        let mut secrets = login.secrets();
        secrets.sort();
        assert_eq!((login.method.as_str(), secrets), ("key", vec!["hidden".to_owned(), "too".to_owned()]));
        assert!(seen.with(&other).is_none() && given.with(&this).is_none());
        assert_eq!(format!("{seen:?}"), "LoggedIn { .. }");

        let then = seen.as_it_is();
        logged_in.forget();
        assert!(!seen.is_there() && then.with(&this).is_some());
    }
}
