//! The login methods that an agent offers, and the user's policy for them. A credential is identified by the
//! environment variable that holds it. Its value never appears here; only whether the variable is set.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One login method of an agent, from its response to `initialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginMethod {
    /// The agent's id for it, which a login request carries.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// The agent's description.
    pub description: Option<String>,
    /// How the login works.
    pub how: LoginMethodKind,
}

/// How a login method works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginMethodKind {
    /// The agent handles the login itself.
    Agent,
    /// Variables must be set in the agent's environment.
    Variables(Vec<LoginVariable>),
    /// A person runs the agent's program in a terminal with these additions.
    Terminal {
        /// Appended to the agent's own arguments.
        args: Vec<String>,
        /// Added to its environment: name and value.
        env: Vec<(String, String)>,
    },
    /// A kind that acpx does not know, by its name.
    Other(String),
}

/// A variable that a login needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginVariable {
    /// Its name.
    pub name: String,
    /// Whether the login works without it.
    pub optional: bool,
}

/// What to do if an agent offers logins and no credential is set for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginPolicy {
    /// Continue: it may be logged in already.
    #[default]
    Skip,
    /// Fail.
    Fail,
}

impl LoginPolicy {
    /// The policy that has this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "skip" => Some(Self::Skip),
            "fail" => Some(Self::Fail),
            _ => None,
        }
    }
}

/// The prefix of all variables that hold credentials.
const CREDENTIAL: &str = "ACPX_AUTH_";

/// The id of a login method as part of a variable's name: capitals, digits and underscores.
pub fn credential_token(id: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' }
    };
    id.chars().map(plain).collect()
}

/// The variable that holds the credential for the login method with this id.
pub fn credential_variable(id: &str) -> String {
    format!("{CREDENTIAL}{}", credential_token(id))
}

/// The token of a variable that holds a credential; `None` for any other.
pub fn token_of_variable(variable: &str) -> Option<&str> {
    variable.strip_prefix(CREDENTIAL).filter(|token| !token.is_empty())
}

impl LoginMethod {
    /// Whether everything it needs is set, according to `is_set`. A login in a terminal is never prepared: it needs a
    /// person.
    pub fn is_prepared(&self, is_set: impl Fn(&str) -> bool) -> bool {
        match &self.how {
            LoginMethodKind::Terminal { .. } => false,
            LoginMethodKind::Variables(needed) => {
                let all = || needed.iter().all(|variable| variable.optional || is_set(&variable.name));
                self.has_credential(&is_set) || (!needed.is_empty() && all())
            }
            LoginMethodKind::Agent | LoginMethodKind::Other(_) => self.has_credential(is_set),
        }
    }

    /// Whether a credential is set, so that acpx uses this method automatically. A login in a terminal is never
    /// automatic.
    pub(crate) fn has_credential(&self, is_set: impl Fn(&str) -> bool) -> bool {
        !matches!(self.how, LoginMethodKind::Terminal { .. }) && is_set(&credential_variable(&self.id))
    }
}

/// Its name within a sentence.
impl fmt::Display for LoginMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.how {
            LoginMethodKind::Agent | LoginMethodKind::Other(_) => "",
            LoginMethodKind::Variables(_) => ", by environment variables",
            LoginMethodKind::Terminal { .. } => ", in a terminal",
        };
        write!(f, "{} ({}{what})", self.id, self.name)
    }
}

/// The login methods as a list within a sentence; `None` if there is none.
pub(crate) fn join_login_methods(login_methods: &[LoginMethod]) -> Option<String> {
    let words: Vec<String> = login_methods.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(id: &str, how: LoginMethodKind) -> LoginMethod {
        LoginMethod { id: id.to_owned(), name: format!("{id} login"), description: None, how }
    }

    #[test]
    fn a_credential_is_found_by_the_name_that_the_id_makes() {
        assert_eq!(credential_variable("xai.api-key"), "ACPX_AUTH_XAI_API_KEY");
        assert_eq!(token_of_variable("ACPX_AUTH_XAI_API_KEY"), Some("XAI_API_KEY"));
        assert_eq!((token_of_variable("ACPX_AUTH_"), token_of_variable("XAI_API_KEY")), (None, None));
        let set = |name: &str| name == "ACPX_AUTH_API_KEY";
        assert!(method("api-key", LoginMethodKind::Agent).has_credential(set));
        assert!(method("api-key", LoginMethodKind::Other("oauth".into())).is_prepared(set));
        assert!(!method("chatgpt", LoginMethodKind::Agent).is_prepared(set));
        let terminal = LoginMethodKind::Terminal { args: Vec::new(), env: Vec::new() };
        assert!(!method("api-key", terminal).has_credential(set), "a terminal is never asked for unasked");
    }

    #[test]
    fn login_by_variables_is_prepared_when_all_required_are_set() {
        let variable = |name: &str, optional| LoginVariable { name: name.to_owned(), optional };
        let by = |variables| method("env", LoginMethodKind::Variables(variables));
        let set = |name: &str| name == "KEY";
        assert!(by(vec![variable("KEY", false), variable("ORG", true)]).is_prepared(set));
        assert!(!by(vec![variable("KEY", false), variable("ORG", false)]).is_prepared(set));
        assert!(!by(Vec::new()).is_prepared(set));
        assert!(!by(vec![variable("KEY", false)]).has_credential(set), "the agent has it already");
    }

    #[test]
    fn the_ways_of_an_agent_are_named_in_one_sentence() {
        let terminal = LoginMethodKind::Terminal { args: Vec::new(), env: Vec::new() };
        let login_methods = [method("api-key", LoginMethodKind::Agent), method("tui", terminal)];
        assert_eq!(
            join_login_methods(&login_methods).as_deref(),
            Some("api-key (api-key login), tui (tui login, in a terminal)")
        );
        assert_eq!(join_login_methods(&[]), None);
    }
}
