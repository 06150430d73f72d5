//! `acpx config show|init`: shows every setting with its origin, or creates `config.json`.

use std::collections::BTreeSet;
use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use acpx_core::model::credential_variable;
use serde_json::{Map, Value, json};

use crate::agents;
use crate::cli::{CliOptions, ConfigCommand, SessionArgs};
use crate::config::Config;
use crate::config::layers::ConfigOrigin;
use crate::config::project::{ProjectFile, ProjectState};
use crate::config::trust::PROJECT_FILE;
use crate::error::CliError;
use crate::http::client::post::PostTarget;
use crate::output::{self, Console, ShownConfig, ShownSetting};
use crate::private_file::{ExistingFile, PrivateFile};
use crate::session::agent_child::refuse_inside;
use crate::session::host_locator::{HostLocator, make_private};
use crate::session::settings::{self, DEFAULT_TTL, LazyConfig};

/// Runs a `config` subcommand.
pub(super) fn run(command: ConfigCommand, options: &CliOptions, config: &LazyConfig) -> Result<(), CliError> {
    match command {
        ConfigCommand::Show => show(&options.flags, config.get()?),
        ConfigCommand::Init => init(options, config),
    }
}

fn show(flags: &SessionArgs, config: &Config) -> Result<(), CliError> {
    let mut console = Console::of_program(settings::mode(flags.output, config)?);
    if let Some(notice) = config.project.as_ref().and_then(ProjectFile::notice) {
        console.notice(&notice);
    }
    let cwd = settings::directory(flags.cwd.as_deref())?;
    let shown = SettingList::new(flags, config).finish(cwd.as_path());
    Ok(output::config(&shown, &mut console)?)
}

/// Collects the settings in the order that they are shown in.
struct SettingList<'a> {
    flags: &'a SessionArgs,
    config: &'a Config,
    /// The members of both files.
    merged: Map<String, Value>,
    settings: Vec<ShownSetting>,
}

impl<'a> SettingList<'a> {
    fn new(flags: &'a SessionArgs, config: &'a Config) -> Self {
        Self { flags, config, merged: config.layers.merged(), settings: Vec::new() }
    }

    fn finish(mut self, cwd: &Path) -> ShownConfig {
        let flags = self.flags;
        let mode = flags.mode().map(|mode| {
            let value = serde_json::to_value(mode).unwrap_or_default();
            (format!("--{}", value.as_str().unwrap_or_default()), value)
        });
        let seconds =
            |flag: &str, limit: Option<Duration>| limit.map(|limit| (flag.to_owned(), seconds_of(limit)));
        self.agent();
        self.add("defaultPermissions", mode, json!("approve-reads"));
        let unattended =
            flags.unattended().map(|rule| ("--non-interactive-permissions".to_owned(), json!(rule)));
        self.add("nonInteractivePermissions", unattended, json!(settings::of_run()));
        let login = flags.auth_policy.map(|policy| ("--auth-policy".to_owned(), json!(policy)));
        self.add("authPolicy", login, json!("skip"));
        self.add("ttl", seconds("--ttl", flags.ttl), seconds_of(DEFAULT_TTL));
        self.add("timeout", seconds("--timeout", flags.timeout), Value::Null);
        self.add("idleTimeout", seconds("--idle-timeout", flags.idle_timeout), Value::Null);
        self.add("queueMaxDepth", None, json!(acpx_core::engine::MAX_QUEUED));
        self.add("maxCost", None, Value::Null);
        self.add("maxTokens", None, Value::Null);
        // The flag is about this output, as in npm acpx.
        self.add("format", None, json!("text"));
        self.policy();
        self.agents();
        self.credentials();
        self.add("disableExec", None, json!(false));
        self.add("keepPrograms", None, json!([]));
        self.add("index", None, json!({ "enabled": true, "exclude": [], "excludeAgents": [] }));
        self.sinks();
        self.servers();
        let recall = flags.with_recall.then(|| ("--with-recall".to_owned(), json!(true)));
        self.add("recall", recall, json!(false));
        self.paths(cwd);
        let project = self.config.project.as_ref().map(|project| &project.state);
        let withheld = match project {
            Some(ProjectState::Withheld { keys, .. }) => keys.clone(),
            _ => Vec::new(),
        };
        let is_read = self.config.layers.project.is_some();
        let loaded = [("global", self.config.layers.global.is_loaded), ("project", is_read)];
        ShownConfig { settings: self.settings, loaded, withheld }
    }

    /// Adds a key: from a flag, or else from a file, or else its default.
    fn add(&mut self, key: &str, flag: Option<(String, Value)>, default: Value) {
        match (flag, self.merged.get(key).cloned()) {
            (Some((flag, value)), _) => self.push(key, value, ConfigOrigin::Flag, &flag),
            (None, Some(value)) => self.add_of_file(key, key, value),
            (None, None) => self.push(key, default, ConfigOrigin::BuiltIn, "built-in"),
        }
    }

    fn add_of_file(&mut self, key: &str, file_key: &str, value: Value) {
        let layers = &self.config.layers;
        let name = layers.file_of(file_key).file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.push(key, value, layers.origin(file_key), &name);
    }

    fn push(&mut self, key: &str, value: Value, origin: ConfigOrigin, source: &str) {
        self.settings.push(ShownSetting { key: key.to_owned(), value, origin, source: source.to_owned() });
    }

    /// The default agent by its canonical name.
    fn agent(&mut self) {
        match &self.config.default_agent {
            Some(name) => self.add_of_file("defaultAgent", "defaultAgent", json!(name)),
            None => self.push("defaultAgent", json!(agents::DEFAULT), ConfigOrigin::BuiltIn, "built-in"),
        }
    }

    fn policy(&mut self) {
        if let Some(typed) = self.flags.tool_policy() {
            self.push("permissionPolicy", json!(typed), ConfigOrigin::Flag, "--permission-policy");
        } else if let Some(policy) = self.merged.get("permissionPolicy").cloned() {
            self.add_of_file("permissionPolicy", "permissionPolicy", policy);
        }
    }

    /// The configured agents; a key alone opens the group.
    fn agents(&mut self) {
        self.push("agents", json!({}), ConfigOrigin::BuiltIn, "");
        let entries = self.merged.get("agents").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, entry) in entries {
            let key = format!("agents.{}", agents::canonical(&name));
            self.add_of_file(&key, &key, shown_agent(&entry));
        }
    }

    /// The ids of the credentials, never the values. A variable takes precedence over the files.
    fn credentials(&mut self) {
        self.push("authMethods", json!([]), ConfigOrigin::BuiltIn, "");
        let entries = self.merged.get("auth").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        for id in entries.cloned().collect::<BTreeSet<_>>() {
            let key = format!("authMethods.{id}");
            let variable = credential_variable(&id);
            if env::var_os(&variable).is_some_and(|value| !value.is_empty()) {
                self.push(&key, Value::Null, ConfigOrigin::Environment, &variable);
            } else {
                self.add_of_file(&key, &format!("auth.{id}"), Value::Null);
            }
        }
    }

    /// The sinks of notifications, without secrets: the path of a URL often is one, and so may be an argument.
    fn sinks(&mut self) {
        match self.merged.get("notify").cloned() {
            None => self.push("notify", json!({ "sinks": [] }), ConfigOrigin::BuiltIn, "built-in"),
            Some(mut notify) => {
                let sinks = notify.get_mut("sinks").and_then(Value::as_array_mut);
                sinks.into_iter().flatten().filter_map(Value::as_object_mut).for_each(hide_secrets);
                self.add_of_file("notify", "notify", notify);
            }
        }
    }

    /// The names of the MCP servers: their commands, variables and headers may have secrets.
    fn servers(&mut self) {
        if self.flags.mcp_config.is_some() {
            return;
        }
        let servers = self.merged.get("mcpServers").and_then(Value::as_array);
        let names: Option<Vec<Value>> =
            servers.map(|all| all.iter().map(|server| server["name"].clone()).collect());
        match names {
            Some(names) => self.add_of_file("mcpServers", "mcpServers", names.into()),
            None => self.push("mcpServers", json!([]), ConfigOrigin::BuiltIn, "built-in"),
        }
    }

    fn paths(&mut self, cwd: &Path) {
        let is_set = env::var_os("ACPX_HOME").is_some_and(|home| !home.is_empty());
        let (origin, source) = if is_set {
            (ConfigOrigin::Environment, "ACPX_HOME")
        } else {
            (ConfigOrigin::BuiltIn, "built-in")
        };
        let global = self.config.layers.global.file.clone();
        self.push("paths.global", json!(global), origin, source);
        let project = self.config.project.as_ref().map(|project| project.path.clone());
        let project = project.unwrap_or_else(|| cwd.join(PROJECT_FILE));
        let (origin, source) = match self.flags.cwd {
            Some(_) => (ConfigOrigin::Flag, "--cwd"),
            None => (ConfigOrigin::BuiltIn, "built-in"),
        };
        self.push("paths.project", json!(project), origin, source);
        if let Some(file) = &self.flags.mcp_config {
            self.push("paths.mcp", json!(cwd.join(file)), ConfigOrigin::Flag, "--mcp-config");
        }
    }
}

/// An agent's entry as npm acpx shows it, and the members that only acpx has. Of its environment only the names are
/// shown.
fn shown_agent(entry: &Value) -> Value {
    let mut shown = Map::new();
    match (&entry["command"], &entry["args"]) {
        (command @ Value::String(_), Value::Array(args)) => {
            shown.insert("argv".to_owned(), [command].into_iter().chain(args).cloned().collect());
        }
        (Value::String(line), _) => drop(shown.insert("command".to_owned(), json!(line))),
        _ => {}
    }
    for key in ["argv", "tokenFile", "protocol", "profile", "secretEnv"] {
        shown.extend(entry.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    if let Some(url) = entry["url"].as_str() {
        shown.insert("url".to_owned(), json!(without_password(url)));
    }
    if let Some(variables) = entry["env"].as_object() {
        shown.insert("env".to_owned(), variables.keys().cloned().collect());
    }
    shown.into()
}

/// A URL without its password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
        Some((user, host)) => format!("{scheme}://{user}:…@{host}{path}"),
        None => url.to_owned(),
    }
}

/// Hides what may be secret in the entry of a sink.
fn hide_secrets(sink: &mut Map<String, Value>) {
    let hidden = || json!("…");
    if let Some(secret) = sink.get_mut("secret") {
        *secret = hidden();
    }
    if let Some(url) = sink.get_mut("url") {
        let origin = url.as_str().and_then(|url| PostTarget::parse(url, true).ok()).map(|url| url.origin());
        *url = origin.map_or_else(hidden, |origin| json!(format!("{origin}/…")));
    }
    for argument in sink.get_mut("argv").and_then(Value::as_array_mut).into_iter().flatten().skip(1) {
        *argument = hidden();
    }
}

fn seconds_of(limit: Duration) -> Value {
    if limit.subsec_nanos() == 0 { json!(limit.as_secs()) } else { json!(limit.as_secs_f64()) }
}

/// Creates `config.json` with the defaults, unless it exists.
fn init(options: &CliOptions, config: &LazyConfig) -> Result<(), CliError> {
    let locator = HostLocator::of_environment()?;
    refuse_inside(&locator.paths, "create the configuration")?;
    let mut console = config.console(options.flags.output)?;
    let home = locator.paths.home();
    make_private(home)?;
    let path = home.join("config.json");
    let created = create(&path)
        .map_err(|source| CliError::System { doing: format!("create {}", path.display()), source })?;
    Ok(output::config_created(&path, created, &mut console)?)
}

/// Writes the file whole, or not at all if there is one.
fn create(path: &Path) -> io::Result<bool> {
    let template = json!({
        "defaultAgent": agents::DEFAULT,
        "defaultPermissions": "approve-reads",
        "authPolicy": "skip",
        "ttl": DEFAULT_TTL.as_secs(),
        "timeout": null,
        "format": "text",
        "agents": {},
        "auth": {},
    });
    let mut file = PrivateFile::next_to(path, ".acpx-home-")?;
    writeln!(file, "{template:#}")?;
    match file.persist(path, ExistingFile::Keep) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
