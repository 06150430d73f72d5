//! The key `notify`: where events of sessions are reported, and which ones. Only the file of the home has it, because a
//! sink runs a command or sends data to another machine.
//!
//! A secret and the path of a URL, which often is one, are in no error and in no debug output.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use acpx_core::model::{JsonMembers, JsonNode, NotificationKind, WrongMember};

use crate::http::client::post::PostTarget;

/// The validated value of the key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NotifySettings {
    /// The sinks, each with its own name.
    pub(crate) sinks: Vec<NotifySink>,
}

/// Where notifications go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotifySink {
    /// Its name: configured, or its type, with a number if others have the type too.
    pub(crate) name: String,
    pub(crate) target: SinkTarget,
    /// The events that it gets.
    pub(crate) kinds: BTreeSet<NotificationKind>,
    /// Whether it gets texts of the conversation.
    pub(crate) bodies: bool,
}

/// How a sink is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SinkTarget {
    /// A program and its arguments, which gets the event as JSON on stdin.
    Command(Vec<String>),
    /// A URL that gets the event as signed JSON.
    Webhook { target: PostTarget, secret: SinkSecret },
    /// A topic of ntfy, with an access token if it needs one.
    Ntfy { target: PostTarget, token: Option<SinkSecret> },
    /// The desktop of this machine.
    Desktop,
}

/// A secret of a sink.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SinkSecret {
    Value(String),
    /// The value of this environment variable.
    Variable(String),
}

/// The variables that a host keeps for sinks begin like this.
pub(crate) const SECRET_VARIABLES: &str = "ACPX_NOTIFY_";
/// The types of sinks, in words.
const TYPES: &str = "\"command\", \"webhook\", \"ntfy\" or \"desktop\"";
/// How long the name of a sink may be.
const MAX_NAME: usize = 64;
/// How many sinks there may be.
const MAX_SINKS: usize = 32;

/// How long a command may run.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

impl fmt::Debug for SinkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(…)"),
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
        }
    }
}

impl SinkTarget {
    /// The name of its type in the configuration.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Webhook { .. } => "webhook",
            Self::Ntfy { .. } => "ntfy",
            Self::Desktop => "desktop",
        }
    }
}

impl NotifySettings {
    pub(super) fn read(node: &JsonNode<'_>) -> Result<Self, WrongMember> {
        let members = node.object("an object with sinks, events and bodies")?;
        let kinds = members.read("events", kinds)?.unwrap_or_else(|| NotificationKind::EVERY.into());
        let bodies = members.read("bodies", JsonNode::boolean)?.unwrap_or(false);
        let list = members.needed("sinks");
        let nodes = list.array()?;
        if nodes.len() > MAX_SINKS {
            return Err(list.wrong_content("a list of at most 32 sinks"));
        }
        let mut sinks: Vec<NotifySink> = Vec::new();
        for node in &nodes {
            let sink = sink(node, &kinds, bodies, &sinks)?;
            sinks.push(sink);
        }
        Ok(Self { sinks })
    }

    /// The sinks that get this kind of event.
    pub(crate) fn sinks_of(&self, kind: NotificationKind) -> impl Iterator<Item = &NotifySink> {
        self.sinks.iter().filter(move |sink| sink.kinds.contains(&kind))
    }
}

fn sink(
    node: &JsonNode<'_>,
    kinds_of_all: &BTreeSet<NotificationKind>,
    bodies_of_all: bool,
    earlier: &[NotifySink],
) -> Result<NotifySink, WrongMember> {
    let members = node.object("an object with type")?;
    let type_name = members.needed("type");
    let target = match type_name.text()?.as_str() {
        "command" => SinkTarget::Command(argv(&members)?),
        "webhook" => {
            let expected = "a non-empty string, or secretEnv instead";
            let secret = secret(&members)?.ok_or_else(|| members.needed("secret").wrong(expected))?;
            SinkTarget::Webhook { target: url(&members)?, secret }
        }
        "ntfy" => SinkTarget::Ntfy { target: url(&members)?, token: secret(&members)? },
        "desktop" => SinkTarget::Desktop,
        _ => return Err(type_name.wrong_content(TYPES)),
    };
    let name = match members.get("name") {
        Some(node) => name(&node)?,
        None => default_name(target.type_name(), earlier),
    };
    if earlier.iter().any(|other| other.name == name) {
        return Err(members.needed("name").wrong_content("a name that no other sink has"));
    }
    Ok(NotifySink {
        name,
        target,
        kinds: members.read("events", kinds)?.unwrap_or_else(|| kinds_of_all.clone()),
        bodies: members.read("bodies", JsonNode::boolean)?.unwrap_or(bodies_of_all),
    })
}

fn default_name(type_name: &str, earlier: &[NotifySink]) -> String {
    let before = earlier.iter().filter(|other| other.target.type_name() == type_name).count();
    if before == 0 { type_name.to_owned() } else { format!("{type_name}-{}", before + 1) }
}

fn name(node: &JsonNode<'_>) -> Result<String, WrongMember> {
    let is_name = |text: &str| {
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_allowed)
    };
    let expected = "letters, digits, -, _ and ., at most 64 of them";
    node.parsed(expected, |text| is_name(text).then(|| text.to_owned()))
}

fn kinds(node: &JsonNode<'_>) -> Result<BTreeSet<NotificationKind>, WrongMember> {
    let expected = NotificationKind::EVERY.map(|kind| format!("{:?}", kind.as_str())).join(", ");
    node.array()?.iter().map(|item| item.parsed(&expected, NotificationKind::parse)).collect()
}

fn argv(members: &JsonMembers<'_>) -> Result<Vec<String>, WrongMember> {
    let node = members.needed("argv");
    let expected = "a list of strings, the program first";
    let argv = node.array().map_err(|_| node.wrong(expected))?;
    let argv: Vec<String> = argv.iter().map(JsonNode::text).collect::<Result<_, _>>()?;
    let is_usable = argv.first().is_some_and(|program| !program.trim().is_empty())
        && argv.iter().all(|argument| !argument.contains('\0'));
    if is_usable { Ok(argv) } else { Err(node.wrong_content(expected)) }
}

fn url(members: &JsonMembers<'_>) -> Result<PostTarget, WrongMember> {
    let is_insecure = members.read("insecure", JsonNode::boolean)?.unwrap_or(false);
    let node = members.needed("url");
    PostTarget::parse(&node.text()?, is_insecure).map_err(|expected| node.wrong_content(expected))
}

fn secret(members: &JsonMembers<'_>) -> Result<Option<SinkSecret>, WrongMember> {
    if let Some(value) = members.read("secret", JsonNode::word)? {
        return Ok(Some(SinkSecret::Value(value)));
    }
    let is_variable = |name: &str| {
        let rest = name.strip_prefix(SECRET_VARIABLES)?;
        let is_word =
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word.then(|| SinkSecret::Variable(name.to_owned()))
    };
    let expected = "the name of a variable that begins with ACPX_NOTIFY_";
    members.read("secretEnv", |node| node.parsed(expected, is_variable))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<NotifySettings, WrongMember> {
        NotifySettings::read(&JsonNode::root(value, "notify"))
    }

    #[test]
    fn sinks_have_names_and_events_of_their_own() {
        let settings = read(&json!({
            "sinks": [
                { "type": "command", "argv": ["notify", ""], "events": ["waiting"] },
                { "type": "command", "argv": ["other"], "name": "mine" },
                { "type": "command", "argv": ["third"] },
                { "type": "webhook", "url": "https://hooks.example/x?key=1", "secretEnv": "ACPX_NOTIFY_HOOK" },
                { "type": "ntfy", "url": "http://127.0.0.1:7/topic", "bodies": true },
                { "type": "ntfy", "url": "http://box.example/topic", "insecure": true, "secret": "tk_1" },
                { "type": "desktop" },
            ],
            "events": ["failed", "host_lost"],
        }))
        .unwrap();
        let names: Vec<_> = settings.sinks.iter().map(|sink| sink.name.as_str()).collect();
        assert_eq!(names, ["command", "mine", "command-3", "webhook", "ntfy", "ntfy-2", "desktop"]);
        let of = |kind| settings.sinks_of(kind).map(|sink| sink.name.as_str()).collect::<Vec<_>>();
        assert_eq!(of(NotificationKind::Waiting), ["command"]);
        assert_eq!(of(NotificationKind::HostLost), names[1..]);
        assert_eq!(of(NotificationKind::Reset), [""; 0]);
        let with_bodies: Vec<_> = settings.sinks.iter().filter(|sink| sink.bodies).collect();
        assert_eq!(with_bodies[0].name, "ntfy");
        let shown = format!("{settings:?}");
        assert!(!shown.contains("tk_1") && !shown.contains("key=1"), "{shown}");
    }

    #[test]
    fn wrong_notify_settings_name_the_member_and_no_value() {
        let of_sink = |sink: Value| json!({ "sinks": [sink] });
        let url = "https://hooks.example/private";
        let cases = [
            (json!([]), "notify must be an object"),
            (json!({}), "sinks must be an array"),
            (json!({ "sinks": [], "events": ["ended"] }), "events[0] must be \"waiting\""),
            (json!({ "sinks": [], "bodies": 1 }), "bodies must be true or false"),
            (of_sink(json!({})), "sinks[0].type must be a string"),
            (of_sink(json!({ "type": "mail" })), "sinks[0].type must be \"command\""),
            (of_sink(json!({ "type": "command" })), "sinks[0].argv must be a list of strings"),
            (of_sink(json!({ "type": "command", "argv": [] })), "sinks[0].argv must be a list of strings"),
            (of_sink(json!({ "type": "webhook", "url": url })), "sinks[0].secret must be a non-empty string"),
            (of_sink(json!({ "type": "webhook", "secret": "s" })), "sinks[0].url must be a string"),
            (
                of_sink(json!({ "type": "webhook", "url": url, "secretEnv": "TOKEN" })),
                "sinks[0].secretEnv must be the name of a variable that begins with ACPX_NOTIFY_",
            ),
            (
                of_sink(json!({ "type": "ntfy", "url": "http://private.example/t" })),
                "sinks[0].url must be an https:// URL",
            ),
            (
                of_sink(json!({ "type": "ntfy", "url": "https://me:private@h" })),
                "sinks[0].url must be an http:// or https:// URL with a host and without",
            ),
            (of_sink(json!({ "type": "desktop", "name": "a b" })), "sinks[0].name must be letters"),
            (
                json!({ "sinks": [{ "type": "desktop" }, { "type": "desktop", "name": "desktop" }] }),
                "sinks[1].name must be a name that no other sink has",
            ),
        ];
        for (wrong, expected) in cases {
            let error = read(&wrong).unwrap_err().to_string();
            assert!(error.starts_with(expected) && !error.contains("private"), "{wrong}: {error}");
        }
    }
}
