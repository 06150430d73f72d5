//! Lists an agent's login methods, and reports the outcome of a login. Shows only the names of credentials, never
//! values.

use std::io::{self, Write};

use acpx_core::model::{AgentSpec, LoginMethod, LoginMethodKind, LoginVariable, credential_variable};
use serde::Serialize;

use super::record::AgentObject;
use super::sanitize::{line, on_one_line};
use super::{Console, json_line};
use crate::cli::Format;
use crate::config::credentials::CredentialSource;
use crate::error::CliExit;

/// The login methods that an agent offers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginList<'a> {
    pub(crate) agent: &'a AgentSpec,
    /// The agent as typed on a command line.
    pub(crate) typed: &'a str,
    pub(crate) methods: &'a [LoginMethod],
    /// Whether logout is supported.
    pub(crate) logout: bool,
    /// Where the credentials come from, by login method.
    pub(crate) credentials: &'a [(String, CredentialSource)],
}

impl LoginList<'_> {
    fn source(&self, method: &LoginMethod) -> Option<&CredentialSource> {
        self.credentials.iter().find(|(id, _)| *id == method.id).map(|(_, source)| source)
    }
}

/// The outcome of a login.
#[derive(Debug, Clone)]
pub(crate) enum LoginOutcome<'a> {
    /// The user is logged in.
    In(&'a LoginMethod),
    /// The login uses environment variables.
    Variables {
        method: &'a LoginMethod,
        /// Each with whether it is set.
        variables: Vec<(&'a LoginVariable, bool)>,
    },
    /// The user is logged out.
    Out,
}

impl LoginOutcome<'_> {
    /// How the command ends.
    pub(crate) fn exit(&self) -> CliExit {
        match self {
            Self::Variables { .. } if !self.missing().is_empty() => CliExit::Failure,
            Self::In(_) | Self::Variables { .. } | Self::Out => CliExit::Success,
        }
    }

    /// The required variables that are not set.
    fn missing(&self) -> Vec<&str> {
        let variables: &[(&LoginVariable, bool)] = match self {
            Self::Variables { variables, .. } => variables,
            Self::In(_) | Self::Out => &[],
        };
        let missing = variables.iter().filter(|(variable, is_set)| !is_set && !variable.optional);
        missing.map(|(variable, _)| variable.name.as_str()).collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListObject<'a> {
    action: &'static str,
    #[serde(flatten)]
    agent: AgentObject<'a>,
    methods: Vec<LoginMethodObject<'a>>,
    logout: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LoginMethodObject<'a> {
    method_id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'a str,
    /// Whether everything that it needs is present.
    prepared: bool,
    /// The variable that may hold its credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<VariableObject<'a>>,
}

#[derive(Serialize)]
struct VariableObject<'a> {
    name: &'a str,
    optional: bool,
    set: bool,
}

/// Writes the login methods; `is_set` is whether a variable has a value.
pub(crate) fn login_list(
    list: &LoginList<'_>,
    is_set: impl Fn(&str) -> bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let out = &mut console.out;
    match console.mode.format {
        Format::Quiet => list.methods.iter().try_for_each(|method| line(out, format_args!("{}", method.id))),
        Format::Json => json_line(&object(list, &is_set), out),
        Format::Text => text(list, &is_set, out),
    }?;
    console.flush()
}

fn object<'a>(list: &LoginList<'a>, is_set: &impl Fn(&str) -> bool) -> ListObject<'a> {
    let method = |method: &'a LoginMethod| {
        let needed: &[LoginVariable] = match &method.how {
            LoginMethodKind::Variables(needed) => needed,
            LoginMethodKind::Agent | LoginMethodKind::Terminal { .. } | LoginMethodKind::Other(_) => &[],
        };
        let variable = |variable: &'a LoginVariable| VariableObject {
            name: &variable.name,
            optional: variable.optional,
            set: is_set(&variable.name),
        };
        let is_for_terminals = matches!(method.how, LoginMethodKind::Terminal { .. });
        LoginMethodObject {
            method_id: &method.id,
            name: &method.name,
            description: method.description.as_deref(),
            kind: kind(&method.how),
            prepared: method.is_prepared(is_set),
            credential: (!is_for_terminals).then(|| credential_variable(&method.id)),
            variables: needed.iter().map(variable).collect(),
        }
    };
    ListObject {
        action: "auth_methods",
        agent: AgentObject::of(list.agent),
        methods: list.methods.iter().map(method).collect(),
        logout: list.logout,
    }
}

fn text(list: &LoginList<'_>, is_set: &impl Fn(&str) -> bool, out: &mut dyn Write) -> io::Result<()> {
    if list.methods.is_empty() {
        let otherwise =
            "if it wants one, log in with its own program, or set what it takes from its environment";
        return writeln!(out, "{} offers no login; {otherwise}", list.agent.label());
    }
    for method in list.methods {
        let [id, name] = [&method.id, &method.name].map(|words| on_one_line(words));
        writeln!(out, "{id}\t{name}\t{}", state(method, list.source(method), is_set))?;
        if let Some(description) = &method.description {
            line(out, format_args!("  {description}"))?;
        }
        match &method.how {
            LoginMethodKind::Variables(needed) => {
                for variable in needed {
                    line(out, format_args!("  {}", shown(variable, is_set(&variable.name))))?;
                }
            }
            LoginMethodKind::Agent | LoginMethodKind::Terminal { .. } | LoginMethodKind::Other(_) => {
                line(out, format_args!("  acpx {} auth {}", list.typed, crate::agents::quote(&method.id)))?;
            }
        }
    }
    if list.logout {
        writeln!(out, "log out: acpx {} auth --logout", list.typed)?;
    }
    Ok(())
}

/// What a method still needs.
fn state(method: &LoginMethod, source: Option<&CredentialSource>, is_set: &impl Fn(&str) -> bool) -> String {
    match &method.how {
        LoginMethodKind::Terminal { .. } => "in a terminal".to_owned(),
        LoginMethodKind::Variables(_) if method.is_prepared(is_set) => "its variables are set".to_owned(),
        LoginMethodKind::Variables(_) => "by variables that are not set".to_owned(),
        LoginMethodKind::Agent | LoginMethodKind::Other(_) => match source {
            Some(CredentialSource::Variable(name)) => format!("with the credential in {name}"),
            Some(CredentialSource::Configuration) => "with the credential in config.json".to_owned(),
            None => format!("no credential in {} or config.json", credential_variable(&method.id)),
        },
    }
}

fn shown(variable: &LoginVariable, is_set: bool) -> String {
    let state = if is_set { "set" } else { "not set" };
    let optional = if variable.optional { ", optional" } else { "" };
    format!("{} ({state}{optional})", variable.name)
}

fn kind(how: &LoginMethodKind) -> &str {
    match how {
        LoginMethodKind::Agent => "agent",
        LoginMethodKind::Variables(_) => "env_var",
        LoginMethodKind::Terminal { .. } => "terminal",
        LoginMethodKind::Other(kind) => kind,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthResultObject<'a> {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method_id: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    missing: &'a [&'a str],
}

/// Writes the outcome of a login.
pub(crate) fn logged(
    agent: &AgentSpec,
    outcome: &LoginOutcome<'_>,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let missing = outcome.missing();
    let (method, status) = match outcome {
        LoginOutcome::In(method) => (Some(*method), "logged-in"),
        LoginOutcome::Variables { method, .. } if missing.is_empty() => (Some(*method), "prepared"),
        LoginOutcome::Variables { method, .. } => (Some(*method), "variables-missing"),
        LoginOutcome::Out => (None, "logged-out"),
    };
    let out = &mut console.out;
    match console.mode.format {
        Format::Quiet => writeln!(out, "{status}"),
        Format::Json => {
            let missing = missing.as_slice();
            let (agent_name, method_id) = (agent.name.as_deref(), method.map(|method| method.id.as_str()));
            json_line(
                &AuthResultObject { action: "auth_result", agent_name, method_id, status, missing },
                out,
            )
        }
        Format::Text => match outcome {
            LoginOutcome::In(method) => {
                line(out, format_args!("logged in with {}: {}", agent.label(), method.name))
            }
            LoginOutcome::Out => writeln!(out, "logged out of {}", agent.label()),
            LoginOutcome::Variables { method, variables } => {
                let what = if missing.is_empty() { "has what it needs" } else { "needs variables to be set" };
                line(out, format_args!("{} {what}:", method.name))?;
                variables.iter().try_for_each(|(variable, is_set)| {
                    line(out, format_args!("  {}", shown(variable, *is_set)))
                })
            }
        },
    }?;
    console.flush()?;
    if !missing.is_empty() {
        let names = missing.iter().map(|name| format!("{}=…", crate::agents::quote(name)));
        let names = names.collect::<Vec<_>>().join(" ");
        console.banner(&format!("set what is missing and try again: export {names}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
