//! Resolves a command's settings: flags override the configuration, which overrides the defaults.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::engine::NewSession;
use acpx_core::model::{
    AbsolutePath, AgentSpec, LoginPolicy, PermissionMode, PermissionPolicy, SessionName, ToolPolicy,
    TurnLimits, UnattendedPolicy,
};
use acpx_core::protocol::ConfiguredAgent;
use acpx_core::protocol::meta::{ClientMeta, SettingMeta, StartMeta, TurnTermsMeta};
use acpx_core::store::{RecordFilter, Store};
use acpx_core::tools::Environment;

use super::host_locator::acpx_home;
use super::lookup;
use crate::agents;
use crate::agents::UnknownAgent;
use crate::cli::{
    AgentChoice, CliOptions, KnownAgents, OutputArgs, RequestedFormat, SessionArgs, SetupArgs, UsageError,
    requested_cwd,
};
use crate::config::credentials::Credentials;
use crate::config::environment;
use crate::config::project::ProjectFile;
use crate::config::{self, AgentVariables, Config, ConfigError, McpFile};
use crate::error::{CliError, system_words};
use crate::http::address::Address;
use crate::output::{Console, OutputMode};
use crate::session::host_locator::{HostLocator, block_on, for_agents};
use crate::terminal::tty;

/// The default idle time of an agent.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_mins(5);

/// The configuration for the command's directory, read on first use: many commands never need it.
#[derive(Debug, Default)]
pub(crate) struct LazyConfig {
    /// The directory that the command line names.
    cwd: Option<PathBuf>,
    config: OnceCell<Config>,
    /// The fallback if a file cannot be read.
    fallback: OnceCell<Config>,
}

impl LazyConfig {
    /// The configuration of a command with these arguments.
    pub(crate) fn of(arguments: &[String]) -> Self {
        Self { cwd: requested_cwd(arguments), ..Self::default() }
    }

    /// The configuration of the home and of the project.
    pub(crate) fn get(&self) -> Result<&Config, CliError> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let config = Config::load_for(&acpx_home()?, self.cwd.as_deref().unwrap_or(Path::new(".")))?;
        Ok(self.config.get_or_init(|| config))
    }

    /// What is left if a file cannot be read: that of the home if it can, or else the defaults.
    fn fallback(&self) -> &Config {
        let global = || acpx_home().ok().and_then(|home| Config::load(&home).ok());
        self.fallback.get_or_init(|| global().unwrap_or_default())
    }

    /// The settings of a session command, after a notice about the project's file if it needs one.
    pub(crate) fn settings(&self, options: &CliOptions) -> Result<CommandSettings, CliError> {
        let config = self.get()?;
        let settings = CommandSettings::new(options, config)?;
        report_project(config, settings.mode);
        Ok(settings)
    }

    /// The agents that can be named in addition to the built-in ones. If the file cannot be read, an agent that has
    /// sessions here is known by them, so that they can be inspected and stopped; a name alone never starts anything.
    pub(crate) fn known_agents(&self, wanted: &str) -> Result<KnownAgents, CliError> {
        match self.get() {
            Err(CliError::Config(_)) if has_records(wanted) => {
                Ok(KnownAgents { names: vec![wanted.to_owned()], untrusted_file: None })
            }
            config => {
                let config = config?;
                let untrusted_file = config.untrusted_file_of(wanted).map(Path::to_owned);
                Ok(KnownAgents { names: config.agent_names(), untrusted_file })
            }
        }
    }

    /// The console of a command that concerns no single agent. It needs nothing else of the configuration, so an
    /// unreadable file is only reported: sessions can still be inspected and stopped.
    pub(crate) fn console(&self, options: OutputArgs) -> Result<Console<'static>, CliError> {
        let config = self.get();
        let known = config.as_ref().map_or_else(|_| self.fallback(), |config| *config);
        let mut console = Console::of_program(mode(options, known)?);
        if let Err(error) = config {
            console.notice(&unread(&error));
        }
        Ok(console)
    }

    /// The settings of a command that starts no agent. If the configuration cannot be read, it needs only the default
    /// agent, and not even that when the session is named by its id. Any other name means a session of the default
    /// agent, and without the file it could select another agent's session.
    pub(crate) fn without_start(&self, options: &CliOptions) -> Result<CommandSettings, CliError> {
        self.without_file_if(options, || {
            options.agent != AgentChoice::Default || options.session.as_ref().is_some_and(refers_to_a_record)
        })
    }

    /// The same for a command that covers all agents unless one is named.
    pub(crate) fn of_any_agent(&self, options: &CliOptions) -> Result<CommandSettings, CliError> {
        self.without_file_if(options, || true)
    }

    fn without_file_if(
        &self,
        options: &CliOptions,
        may_use_defaults: impl Fn() -> bool,
    ) -> Result<CommandSettings, CliError> {
        match self.get() {
            Err(error @ CliError::Config(_)) if may_use_defaults() => {
                let settings = CommandSettings::without_start(options, self.fallback())?;
                Console::of_program(settings.mode).notice(&unread(&error));
                Ok(settings)
            }
            config => {
                let config = config?;
                let settings = CommandSettings::without_start(options, config)?;
                report_project(config, settings.mode);
                Ok(settings)
            }
        }
    }

    /// The format for an error, as far as it is known: from the flags, or else from the configuration.
    pub(crate) fn format_for(&self, wish: RequestedFormat) -> crate::cli::Format {
        let strict = wish.strict.then_some(crate::cli::Format::Json);
        strict.or(wish.format).or_else(|| self.get().ok()?.format).unwrap_or_default()
    }
}

/// Whether the home has a session with an agent of this name; false if the store cannot be read.
fn has_records(agent: &str) -> bool {
    let Ok(Some(store)) = HostLocator::of_environment().and_then(|locator| locator.open_store()) else {
        return false;
    };
    let filter = RecordFilter { agent: Some(named_only(agent).key()), real_cwd: None };
    let found = block_on(async { Ok(store.records(filter, None, 1).await?) });
    found.is_ok_and(|records| !records.is_empty())
}

/// Whether a name refers to a session of the home by its id or its position; false if the store cannot be read.
fn refers_to_a_record(name: &SessionName) -> bool {
    let Ok(Some(store)) = HostLocator::of_environment().and_then(|locator| locator.open_store()) else {
        return false;
    };
    let filter = RecordFilter::default();
    matches!(block_on(lookup::referenced(&store, name.as_str(), &filter)), Ok(Some(_)))
}

/// Reports what is not in force of the project's file.
fn report_project(config: &Config, mode: OutputMode) {
    if let Some(notice) = config.project.as_ref().and_then(ProjectFile::notice) {
        Console::of_program(mode).notice(&notice);
    }
}

fn unread(error: &CliError) -> String {
    format!("{}; nothing of it is used", error.message())
}

/// The settings of a session command.
#[derive(Debug, Clone)]
pub(crate) struct CommandSettings {
    /// The output mode.
    pub(crate) mode: OutputMode,
    /// The agent.
    pub(crate) agent: AgentSpec,
    /// Whether the agent was typed, not taken from the default.
    pub(crate) agent_is_typed: bool,
    /// The directory, as the agent gets it.
    pub(crate) cwd: AbsolutePath,
    /// Additional directories whose files the session may use.
    pub(crate) additional_directories: Vec<AbsolutePath>,
    /// The session's name in the directory; `None` for the unnamed one.
    pub(crate) session: Option<SessionName>,
    /// What the user fixes about the agent.
    pub(crate) setup: SetupArgs,
    /// What the agent may do.
    pub(crate) policy: PermissionPolicy,
    /// The permission mode, if it was typed or configured. Without one, an editor is asked every permission.
    pub(crate) set_mode: Option<PermissionMode>,
    /// `--non-interactive-permissions` or its config key, if set.
    set_unattended: Option<UnattendedPolicy>,
    /// How long to wait for the agent.
    pub(crate) timeout: Option<Duration>,
    /// The limits of a turn but for its time, which is that of the command.
    turn_limits: TurnLimits,
    /// How long the agent may be idle, if set; zero means forever.
    pub(crate) ttl: Option<Duration>,
    /// What to do if the agent offers logins and no credential is known.
    pub(crate) login: LoginPolicy,
    /// The credentials of the configuration.
    pub(crate) credentials: Credentials,
    /// Programs that are not killed with the agent that started them.
    pub(crate) keep_programs: Arc<[String]>,
    /// Environment variables that the configuration sets per agent name.
    variables: BTreeMap<String, AgentVariables>,
    /// The agents with variables of their own, by name: those configured, and those known to read some.
    known_agents: BTreeMap<String, AgentSpec>,
    /// The configured agents with their command lines, which give imported npm acpx sessions their agent names.
    pub(crate) configured_agents: Vec<ConfiguredAgent>,
}

/// Variables: names and values.
type Pairs = Vec<(OsString, OsString)>;

impl CommandSettings {
    /// Resolves everything a session command needs.
    pub(crate) fn new(options: &CliOptions, config: &Config) -> Result<Self, CliError> {
        Self::with(agent(&options.agent, config)?, options, config)
    }

    /// The same for a command that neither starts nor contacts an agent: for an agent whose configuration entry is
    /// invalid, the name is enough to find its sessions.
    pub(crate) fn without_start(options: &CliOptions, config: &Config) -> Result<Self, CliError> {
        let agent = match chosen(&options.agent, config) {
            Err(CliError::Config(ConfigError::Wrong(_))) => named_only(&name(&options.agent, config)),
            // A named agent is known from the file, or by its sessions if the file cannot be read.
            Err(CliError::Agent(_)) if matches!(options.agent, AgentChoice::Named(_)) => {
                named_only(&name(&options.agent, config))
            }
            known => known?,
        };
        Self::with(agent, options, config)
    }

    fn with(agent: AgentSpec, options: &CliOptions, config: &Config) -> Result<Self, CliError> {
        let flags = &options.flags;
        // The host reads these when it starts, and could not report a wrong one to the user.
        environment::engine_settings()?;
        let cwd = directory(flags.cwd.as_deref())?;
        let policy = policy(flags, config, cwd.as_path())?;
        let variables = config.variables();
        let set = variables.iter().filter(|(_, own)| !own.is_empty()).map(|(name, _)| name.clone());
        let known_agents = set.chain(Credentials::readers()).map(|name| {
            let agent = lookup::resolve(&name, config).unwrap_or_else(|_| named_only(&name));
            (name, agent)
        });
        Ok(Self {
            mode: mode(flags.output, config)?,
            agent: as_configured(agent, options, config)?,
            agent_is_typed: options.agent != AgentChoice::Default,
            additional_directories: flags
                .add_dir
                .iter()
                .map(|typed| directory_of("--add-dir", &cwd.as_path().join(typed)))
                .collect::<Result<_, _>>()?,
            cwd,
            session: options.session.clone(),
            setup: flags.setup.clone(),
            policy,
            set_mode: flags.mode().or(config.mode),
            set_unattended: flags.unattended().or(config.unattended),
            timeout: flags.timeout.or(config.timeout),
            turn_limits: TurnLimits {
                whole: None,
                silence: flags.idle_timeout.or(config.idle_timeout),
                retries: flags.prompt_retries.unwrap_or_default(),
                queue_depth: config.queue_depth,
                spending: flags.spending().or(&config.spending),
            },
            ttl: flags.ttl.or(config.ttl),
            login: flags.auth_policy.or(config.login).unwrap_or_default(),
            credentials: config.credentials.clone(),
            keep_programs: config.home.keep_programs.clone().into(),
            known_agents: known_agents.collect(),
            configured_agents: config.configured_agents(),
            variables,
        })
    }

    /// The environment of the agent, in case it has to be started.
    pub(crate) fn environment(&self) -> Environment {
        self.whole_environment_of(&self.agent)
    }

    fn whole_environment_of(&self, agent: &AgentSpec) -> Environment {
        let (shared, own) = self.environment_of(agent);
        shared.into_iter().collect::<Environment>().with_all(own).with_secrets(self.secrets_of(agent))
    }

    /// The environment of the agent without the credentials of the configuration.
    pub(crate) fn environment_without_credentials(&self) -> Vec<(OsString, OsString)> {
        own_environment(self.variables_of(&self.agent))
    }

    /// The common environment of an agent, and the variables that override it.
    fn environment_of(&self, agent: &AgentSpec) -> (Pairs, Pairs) {
        let shell = for_agents();
        let shared = self.credentials.add_to(shell.clone(), Some(agent));
        let own = self.own_variables(agent, shell, &shared);
        (shared, own)
    }

    /// The variables of one agent that differ from the common environment or are set for it, with the credentials that
    /// follow from these or from the agent.
    fn own_variables(&self, agent: &AgentSpec, shell: Pairs, shared: &[(OsString, OsString)]) -> Pairs {
        let own = self.variables_of(agent);
        let environment = match own {
            Some(own) => own.over(shell),
            None => shell,
        };
        let mut variables = self.credentials.add_to(environment, Some(agent));
        let is_own = |name: &OsString| own.is_some_and(|own| own.has(name));
        variables.retain(|variable| is_own(&variable.0) || !shared.contains(variable));
        variables
    }

    /// The environments of agents that a bridge starts: the common one, and overrides by agent name. An unnamed agent
    /// cannot have overrides, so its credentials are part of the common environment.
    fn environments(&self, shell: &[(OsString, OsString)]) -> (Pairs, BTreeMap<String, Pairs>) {
        let unnamed = Some(&self.agent).filter(|agent| agent.name.is_none());
        let shared = self.credentials.add_to(shell.to_vec(), unnamed);
        let mut agents = self.known_agents.clone();
        agents.extend(self.agent.name.clone().map(|name| (name, self.agent.clone())));
        let own = agents.into_iter().map(|(name, agent)| {
            let own = self.own_variables(&agent, shell.to_vec(), &shared);
            (name, own)
        });
        let own = own.filter(|(_, own)| !own.is_empty()).collect();
        (shared, own)
    }

    /// The environment of the agent of this name.
    pub(crate) fn environment_of_named(&self, name: &str) -> Environment {
        let agent = self.known_agents.get(name).cloned().unwrap_or_else(|| named_only(name));
        self.whole_environment_of(&agent)
    }

    /// The names of the variables that the configuration marks as secrets for an agent.
    fn secrets_of(&self, agent: &AgentSpec) -> Vec<OsString> {
        self.variables_of(agent).map(AgentVariables::secrets).unwrap_or_default()
    }

    fn variables_of(&self, agent: &AgentSpec) -> Option<&AgentVariables> {
        self.variables.get(agent.name.as_ref()?)
    }

    /// How a command with its own engine starts the agent.
    pub(crate) fn new_session(&self) -> NewSession {
        let new = NewSession::new(self.agent.clone(), self.cwd.clone(), self.environment());
        NewSession { login: self.login, start_wait: self.timeout, ..new }
    }

    /// The metadata of every request that may start this agent, with the requested model.
    pub(crate) fn start(&self, agent: &AgentSpec, ttl: Option<Duration>, model: Option<&str>) -> StartMeta {
        let setting = |model: &str| SettingMeta { option: Some("model".to_owned()), value: model.to_owned() };
        let settings = model.map(setting).into_iter().collect();
        let (shared, own) = self.environment_of(agent);
        let start = StartMeta::watching(shared, ttl, self.login);
        let start = start.with_variables(agent, own).with_secret_variables(agent, self.secrets_of(agent));
        let start = start.within(self.timeout);
        StartMeta { settings, setup: self.setup.options(), ..start }
    }

    /// How a bridge describes its client to the host. The client sees the sessions of this agent, whether they were
    /// created by its name or by its command line.
    pub(crate) fn client(&self) -> ClientMeta {
        let tools = self.policy.tools.as_deref();
        let terms = TurnTermsMeta::of(self.set_mode, tools, self.set_unattended, self.limits());
        let (environment, variables) = self.environments(&for_agents());
        let secrets = self.variables.iter().map(|(name, own)| (name.clone(), own.secrets()));
        ClientMeta::bridged(&self.agent, environment, self.ttl, self.login, &self.cwd)
            .with_variables(variables)
            .with_secret_variables(secrets.filter(|(_, names)| !names.is_empty()))
            .with_terms(terms)
    }

    /// How long a turn may take, how long its agent may be silent, and how often its prompt is sent again.
    pub(crate) fn limits(&self) -> TurnLimits {
        TurnLimits { whole: self.timeout, ..self.turn_limits.clone() }
    }

    /// Whether anything but reading is approved without asking.
    pub(crate) fn auto_approves(&self) -> bool {
        let PermissionPolicy { mode, ref tools, .. } = self.policy;
        mode == PermissionMode::ApproveAll || tools.as_ref().is_some_and(|tools| tools.approves())
    }

    /// The agent as typed on a command line.
    pub(crate) fn typed_agent(&self) -> String {
        agents::typed(&self.agent)
    }

    /// Warns of unknown keys in the configuration, at the top level and in the agent's entry: they may be misspelt.
    pub(crate) fn warn_of_unread_keys(&self, config: &Config, console: &mut Console<'_>) {
        let agent = self.agent.name.as_deref().unwrap_or_default();
        if let Some(words) = unread_keys(config, Some(agent)) {
            console.banner(&words);
        }
    }

    /// The MCP servers for the agent, with the file that defines them.
    pub(crate) fn mcp_servers(&self, options: &CliOptions, config: &Config) -> Result<McpFile, CliError> {
        match &options.flags.mcp_config {
            Some(file) => Ok(McpFile::load(self.cwd.as_path().join(file))?),
            None => Ok(McpFile::of(config)),
        }
    }
}

/// An agent of which only the name is known.
fn named_only(name: &str) -> AgentSpec {
    AgentSpec::new(name, [""; 0]).named(name)
}

/// The environment of an agent with these variables, without credentials.
pub(crate) fn own_environment(own: Option<&AgentVariables>) -> Vec<(OsString, OsString)> {
    own.map_or_else(for_agents, |own| own.over(for_agents()))
}

/// The permission policy of a turn. Typed rules replace those of the configuration.
fn policy(flags: &SessionArgs, config: &Config, cwd: &Path) -> Result<PermissionPolicy, CliError> {
    let tools = match flags.tool_policy().map(str::trim_start) {
        // Configured rules approve nothing in a command that denies everything.
        None if flags.mode() == Some(PermissionMode::DenyAll) => None,
        None => config.tool_policy.clone(),
        Some(json) if json.starts_with('{') => Some(ToolPolicy::parse(json).map_err(UsageError::Policy)?),
        Some(file) => Some(config::tool_policy(&cwd.join(file))?),
    };
    Ok(PermissionPolicy {
        mode: flags.mode().or(config.mode).unwrap_or_default(),
        tools: tools.map(Into::into),
        unasked: flags.unattended().or(config.unattended).unwrap_or_else(of_run),
    })
}

/// Default for unanswered requests: wait on a terminal, otherwise deny.
pub(crate) fn of_run() -> UnattendedPolicy {
    if tty::has_terminal_stream() { UnattendedPolicy::Wait } else { UnattendedPolicy::Deny }
}

/// How a command writes.
pub(crate) fn mode(options: OutputArgs, config: &Config) -> Result<OutputMode, CliError> {
    let format = options.format.or(config.format).unwrap_or_default();
    if options.json_strict && format != crate::cli::Format::Json {
        return Err(UsageError::StrictWithoutJson.into());
    }
    Ok(OutputMode::of_program(format, options))
}

/// The selected agent. A remote one needs a secure URL.
fn agent(choice: &AgentChoice, config: &Config) -> Result<AgentSpec, CliError> {
    let agent = chosen(choice, config)?;
    if let Some(url) = agent.url() {
        Address::parse(url, agent.args.iter().any(|word| word == "--insecure"))?;
    }
    Ok(agent)
}

fn chosen(choice: &AgentChoice, config: &Config) -> Result<AgentSpec, CliError> {
    match choice {
        AgentChoice::Named(name) => lookup::resolve(name, config),
        AgentChoice::Line(line) => {
            agents::from_line(line).map_err(|problem| UsageError::AgentLine { problem }.into())
        }
        AgentChoice::Default => default_agent(config),
    }
}

/// The agent if none is named.
pub(crate) fn default_agent(config: &Config) -> Result<AgentSpec, CliError> {
    match &config.default_agent {
        None => lookup::resolve(agents::DEFAULT, config),
        Some(name) => lookup::resolve(name, config).map_err(|error| match error {
            CliError::Agent(unknown) => {
                let file = config.layers.file_of("defaultAgent");
                UnknownAgent { chosen_in: Some(file.into()), ..unknown }.into()
            }
            other => other,
        }),
    }
}

/// The warning about unknown keys in the configuration, if there are any: at the top level, and of one agent or of all.
pub(crate) fn unread_keys(config: &Config, agent: Option<&str>) -> Option<String> {
    let mut files: Vec<(&Path, Vec<String>)> = Vec::new();
    for (file, key) in config.unknown_keys(agent) {
        let named = match Config::similar_key(key) {
            // A project's file cannot have it.
            Some(near) if near == key => format!("{key} (it belongs in config.json of ACPX_HOME)"),
            Some(near) => format!("{key} (did you mean {near}?)"),
            None => key.to_owned(),
        };
        match files.iter_mut().find(|(known, _)| *known == file) {
            Some((_, keys)) => keys.push(named),
            None => files.push((file, vec![named])),
        }
    }
    let words =
        files.iter().map(|(file, keys)| format!("{}: nothing reads {}", file.display(), keys.join(", ")));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The name of the selected agent, unless it is given as a command line.
fn name(choice: &AgentChoice, config: &Config) -> String {
    match choice {
        AgentChoice::Named(name) | AgentChoice::Line(name) => agents::canonical(name),
        AgentChoice::Default => config.default_agent.clone().unwrap_or_else(|| agents::DEFAULT.to_owned()),
    }
}

/// The agent with its configured protocol version and behaviour.
fn as_configured(agent: AgentSpec, options: &CliOptions, config: &Config) -> Result<AgentSpec, UsageError> {
    let configured = || config.protocol(agent.name.as_deref()?);
    let version = options.flags.protocol.or_else(configured).unwrap_or_default();
    let profile = agent.name.as_deref().and_then(|name| config.profile(name));
    let start_timeout = agent.name.as_deref().map(environment::start_timeout).transpose()?.flatten();
    let agent = agent.with_protocol(version).with_profile(profile);
    Ok(match start_timeout {
        Some(timeout) => agent.with_start_timeout(timeout),
        None => agent,
    })
}

/// The working directory: an absolute path stays as typed, byte for byte.
pub(crate) fn directory(typed: Option<&Path>) -> Result<AbsolutePath, CliError> {
    directory_of("--cwd", typed.unwrap_or(Path::new(".")))
}

/// The directory that a flag names.
fn directory_of(flag: &'static str, typed: &Path) -> Result<AbsolutePath, CliError> {
    let unusable = |path: &Path, reason: String| CliError::Directory { path: path.to_owned(), reason, flag };
    let path: PathBuf = if typed.is_absolute() {
        typed.to_owned()
    } else {
        std::path::absolute(typed).map_err(|error| unusable(typed, system_words(&error)))?
    };
    let path = without_parents(&path).map_err(|error| unusable(&path, system_words(&error)))?;
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(AbsolutePath::from_path(&path)?),
        Ok(_) => Err(unusable(&path, "it is not a directory".to_owned())),
        Err(error) => Err(unusable(&path, system_words(&error))),
    }
}

/// Removes `..` components, so that the path does not depend on a directory that may disappear. Links keep their names,
/// except one followed by `..`, which is resolved.
fn without_parents(path: &Path) -> io::Result<PathBuf> {
    if !path.components().any(|part| part == Component::ParentDir) {
        return Ok(path.to_owned());
    }
    let mut resolved = PathBuf::new();
    for part in path.components() {
        if part != Component::ParentDir {
            resolved.push(part);
            continue;
        }
        if resolved.symlink_metadata()?.is_symlink() {
            resolved = resolved.canonicalize()?;
        }
        resolved.pop();
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests;
