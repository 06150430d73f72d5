//! The ways to log in that an agent offers, and what a user has said of them. A credential is known by the name of the
//! environment variable that holds it and never stands here: whether it is there is all that is asked.

use std::fmt;

/// One way to log in with an agent, as it tells it in its answer to `initialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginMethod {
    /// The agent's name for it, by which it is asked for.
    pub id: String,
    /// What a person calls it.
    pub name: String,
    /// What the agent says of it besides.
    pub description: Option<String>,
    /// How it is done.
    pub how: LoginMethodKind,
}

/// How a way to log in is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginMethodKind {
    /// The agent sees to it when it is asked to.
    Agent,
    /// Variables are to be set in the agent's environment.
    Variables(Vec<LoginVariable>),
    /// A person does it in a terminal, where the agent's program is run like this.
    Terminal {
        /// What is put after the agent's own arguments.
        args: Vec<String>,
        /// What is set in its environment besides: name and value.
        env: Vec<(String, String)>,
    },
    /// A kind that is not known here, by its name.
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

/// What to do with an agent that offers logins where no credential is known for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoginPolicy {
    /// Go on: it may be logged in already.
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

/// What the names of all variables with credentials begin with.
const CREDENTIAL: &str = "ACPX_AUTH_";

/// The id of a way as part of a variable's name: capitals, digits and underscores.
pub fn credential_token(id: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' }
    };
    id.chars().map(plain).collect()
}

/// The variable that holds the credential for the way of this id.
pub fn credential_variable(id: &str) -> String {
    format!("{CREDENTIAL}{}", credential_token(id))
}

/// The token of a variable that holds a credential; `None` for any other.
pub fn token_of_variable(variable: &str) -> Option<&str> {
    variable.strip_prefix(CREDENTIAL).filter(|token| !token.is_empty())
}

impl LoginMethod {
    /// Whether everything that it needs is there; `is_set` says whether a variable has a value. A login in a terminal
    /// needs a person.
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

    /// Whether there is a credential that it is to be asked for with, unasked. A way that is gone in a terminal is
    /// never asked for.
    pub fn has_credential(&self, is_set: impl Fn(&str) -> bool) -> bool {
        !matches!(self.how, LoginMethodKind::Terminal { .. }) && is_set(&credential_variable(&self.id))
    }
}

/// As one is named in a sentence.
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

/// The ways as they are named in a sentence; `None` if there is none.
pub fn ways_in_words(ways: &[LoginMethod]) -> Option<String> {
    let words: Vec<String> = ways.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(id: &str, how: LoginMethodKind) -> LoginMethod {
        LoginMethod { id: id.to_owned(), name: format!("{id} login"), description: None, how }
    }

    #[test]
    fn a_credential_is_found_by_the_name_that_the_id_makes() {
        assert_eq!(credential_variable("xai.api-key"), "ACPX_AUTH_XAI_API_KEY");
        assert_eq!(token_of_variable("ACPX_AUTH_XAI_API_KEY"), Some("XAI_API_KEY"));
        assert_eq!((token_of_variable("ACPX_AUTH_"), token_of_variable("XAI_API_KEY")), (None, None));
        let set = |name: &str| name == "ACPX_AUTH_API_KEY";
        assert!(way("api-key", LoginMethodKind::Agent).has_credential(set));
        assert!(way("api-key", LoginMethodKind::Other("oauth".into())).is_prepared(set));
        assert!(!way("chatgpt", LoginMethodKind::Agent).is_prepared(set));
        let terminal = LoginMethodKind::Terminal { args: Vec::new(), env: Vec::new() };
        assert!(!way("api-key", terminal).has_credential(set), "a terminal is never asked for unasked");
    }

    #[test]
    fn a_way_by_variables_is_prepared_when_all_that_it_needs_are_set() {
        let variable = |name: &str, optional| LoginVariable { name: name.to_owned(), optional };
        let by = |variables| way("env", LoginMethodKind::Variables(variables));
        let set = |name: &str| name == "KEY";
        assert!(by(vec![variable("KEY", false), variable("ORG", true)]).is_prepared(set));
        assert!(!by(vec![variable("KEY", false), variable("ORG", false)]).is_prepared(set));
        assert!(!by(Vec::new()).is_prepared(set));
        assert!(!by(vec![variable("KEY", false)]).has_credential(set), "the agent has it already");
    }

    #[test]
    fn the_ways_of_an_agent_are_named_in_one_sentence() {
        let terminal = LoginMethodKind::Terminal { args: Vec::new(), env: Vec::new() };
        let ways = [way("api-key", LoginMethodKind::Agent), way("tui", terminal)];
        assert_eq!(
            ways_in_words(&ways).as_deref(),
            Some("api-key (api-key login), tui (tui login, in a terminal)")
        );
        assert_eq!(ways_in_words(&[]), None);
    }
}
