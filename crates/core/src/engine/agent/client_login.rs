//! How a client has logged in with its agent, to be repeated: an agent may keep a login for as long as its process runs
//! and no longer, and each session has a process of its own. It is in memory alone, and is never stored, logged or shown.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::acp::ExtraParams;
use crate::model::AgentSpec;

/// The one login of a client, with one agent, if it has logged in, and whether the client can log in in a terminal.
/// Whoever has a clone of it sees what becomes of it.
#[derive(Clone, Default)]
pub struct ClientLogin(Arc<Mutex<ClientLoginState>>);

#[derive(Clone, Default)]
struct ClientLoginState {
    done: Option<Arc<Login>>,
    /// The client runs no login in a terminal. A command has one.
    without_terminal: bool,
}

/// What was asked of an agent, and done.
pub(crate) struct Login {
    agent: AgentSpec,
    pub(crate) way: String,
    /// What the client said besides. It may be a credential.
    pub(crate) besides: Option<ExtraParams>,
}

impl ClientLogin {
    /// From now on it is this one.
    pub(crate) fn remember(&self, agent: AgentSpec, way: &str, besides: Option<ExtraParams>) {
        self.lock().done = Some(Arc::new(Login { agent, way: way.to_owned(), besides }));
    }

    /// From now on there is none.
    pub(crate) fn forget(&self) {
        self.lock().done = None;
    }

    /// The login with this agent.
    pub(crate) fn with(&self, agent: &AgentSpec) -> Option<Arc<Login>> {
        self.lock().done.clone().filter(|login| login.agent.is_same_as(agent))
    }

    /// Whether there is one, with whichever agent.
    pub(crate) fn is_there(&self) -> bool {
        self.lock().done.is_some()
    }

    /// The client runs no login in a terminal, so agents are not to offer it one.
    pub(crate) fn without_terminal(&self) {
        self.lock().without_terminal = true;
    }

    /// Whether the client can log in in a terminal.
    pub(crate) fn has_terminal(&self) -> bool {
        !self.lock().without_terminal
    }

    /// The login as it is now, whatever becomes of it.
    pub(crate) fn as_it_is(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }

    fn lock(&self) -> MutexGuard<'_, ClientLoginState> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Login {
    /// Every text that was said in confidence. Nobody here knows which of them is a credential.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut open: Vec<Value> = self.besides.iter().flat_map(ExtraParams::values).collect();
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
    fn a_login_is_with_one_agent_until_it_is_forgotten_and_shows_nothing_of_itself() {
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
        assert_eq!((login.way.as_str(), secrets), ("key", vec!["hidden".to_owned(), "too".to_owned()]));
        assert!(seen.with(&other).is_none() && given.with(&this).is_none());
        assert_eq!(format!("{seen:?}"), "LoggedIn { .. }");

        let then = seen.as_it_is();
        logged_in.forget();
        assert!(!seen.is_there() && then.with(&this).is_some());
    }
}
