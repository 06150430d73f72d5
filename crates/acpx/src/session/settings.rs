//! What a command works with, once the command line, the configuration and the machine have been asked, in
//! this order: what is typed wins over what is configured, and that over the defaults.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acpx_core::engine::NewSession;
use acpx_core::model::{
    AbsolutePath, AgentSpec, LoginPolicy, PermissionMode, PermissionPolicy, RecordId, SessionName,
    ToolPolicy, TurnLimits, UnattendedPolicy,
};
use acpx_core::protocol::ConfiguredAgent;
use acpx_core::protocol::meta::{ClientMeta, SettingMeta, StartMeta, TurnTermsMeta};
use acpx_core::store::{RecordFilter, Store};
use acpx_core::tools::Environment;

use super::agent_lookup;
use super::home::acpx_home;
use crate::agents;
use crate::agents::UnknownAgent;
use crate::cli::{AgentChoice, CliOptions, FormatWish, OutputOptions, UsageError};
use crate::config::credentials::Credentials;
use crate::config::{self, AgentVariables, Config, ConfigError, McpFile};
use crate::error::{CliError, system_words};
use crate::http::address::Address;
use crate::output::{Console, OutputMode};
use crate::session::host_locator::{HostLocator, block_on, for_agents};
use crate::terminal::tty;

/// How long an agent may be idle unless something else is said.
pub(crate) const DEFAULT_TTL: Duration = Duration::from_mins(5);

/// The configuration, read when it is first needed: many commands never do.
#[derive(Debug, Default)]
pub(crate) struct LazyConfig {
    config: OnceCell<Config>,
    /// What holds where it cannot be read.
    nothing: Config,
}

impl LazyConfig {
    /// The configuration of the home.
    pub(crate) fn get(&self) -> Result<&Config, CliError> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let config = Config::load(&acpx_home()?)?;
        Ok(self.config.get_or_init(|| config))
    }

    /// The agents that can be named beside the built-in ones. Where the file cannot be read, one that has sessions here
    /// is known by them, so that they can be looked at and stopped; nothing is started by a name alone.
    pub(crate) fn agent_names(&self, wanted: &str) -> Result<Vec<String>, CliError> {
        match self.get() {
            Err(CliError::Config(_)) if has_records(wanted) => Ok(vec![wanted.to_owned()]),
            config => Ok(config?.agent_names()),
        }
    }

    /// Where a command writes that is about no one agent. It needs nothing else of the configuration, so one that
    /// cannot be read is said and stops nothing: whatever runs can be looked at and stopped.
    pub(crate) fn console(&self, options: OutputOptions) -> Result<Console<'static>, CliError> {
        let config = self.get();
        let mut console = Console::of_program(mode(options, config.as_ref().unwrap_or(&&self.nothing))?);
        if let Err(error) = config {
            console.say(&unread(&error));
        }
        Ok(console)
    }

    /// What a command works with that starts no agent. Of a configuration that cannot be read it needs the default
    /// agent alone, and not even that where a session is named by its id. Any other name means a session of that agent,
    /// and without the file another agent's would be taken for it.
    pub(crate) fn without_start(&self, options: &CliOptions) -> Result<CommandSettings, CliError> {
        self.without_file_if(options, || {
            options.agent != AgentChoice::Default || options.session.as_ref().is_some_and(is_id_of_a_record)
        })
    }

    /// The same for a command that is about all agents where none is named.
    pub(crate) fn of_any_agent(&self, options: &CliOptions) -> Result<CommandSettings, CliError> {
        self.without_file_if(options, || true)
    }

    fn without_file_if(
        &self,
        options: &CliOptions,
        is_told: impl Fn() -> bool,
    ) -> Result<CommandSettings, CliError> {
        match self.get() {
            Err(error @ CliError::Config(_)) if is_told() => {
                let settings = CommandSettings::without_start(options, &self.nothing)?;
                Console::of_program(settings.mode).say(&unread(&error));
                Ok(settings)
            }
            config => CommandSettings::without_start(options, config?),
        }
    }

    /// The format for an error, as far as it can be told: from the flags, or else from the configuration.
    pub(crate) fn format_for(&self, wish: FormatWish) -> crate::cli::Format {
        let strict = wish.strict.then_some(crate::cli::Format::Json);
        strict.or(wish.format).or_else(|| self.get().ok()?.format).unwrap_or_default()
    }
}

/// Whether there is a session with an agent of this name in the home. What cannot be looked up is none.
fn has_records(agent: &str) -> bool {
    let Ok(Some(store)) = HostLocator::of_environment().and_then(|reach| reach.kept()) else { return false };
    let filter = RecordFilter { agent: Some(named_only(agent).key()), real_cwd: None };
    let found = block_on(async { Ok(store.records(filter, None, 1).await?) });
    found.is_ok_and(|records| !records.is_empty())
}

/// Whether a name is the id of a session of the home. What cannot be looked up is none.
fn is_id_of_a_record(name: &SessionName) -> bool {
    let Ok(id) = RecordId::new(name.as_str()) else { return false };
    let Ok(Some(store)) = HostLocator::of_environment().and_then(|reach| reach.kept()) else { return false };
    matches!(block_on(async { Ok(store.record(id).await?) }), Ok(Some(_)))
}

fn unread(error: &CliError) -> String {
    format!("{}; nothing of it is used", error.message())
}

/// What a session command works with.
#[derive(Debug, Clone)]
pub(crate) struct CommandSettings {
    /// How to write.
    pub(crate) mode: OutputMode,
    /// The agent.
    pub(crate) agent: AgentSpec,
    /// Whether it was typed, and is not the default.
    pub(crate) agent_is_typed: bool,
    /// The directory, as the agent is told it.
    pub(crate) cwd: AbsolutePath,
    /// Directories beside that one whose files the session is to have.
    pub(crate) additional_directories: Vec<AbsolutePath>,
    /// Which of the directory's sessions; `None` for the unnamed one.
    pub(crate) session: Option<SessionName>,
    /// What the agent may do.
    pub(crate) policy: PermissionPolicy,
    /// The mode of that, if it was typed or configured. An editor that was told none is asked everything.
    pub(crate) said_mode: Option<PermissionMode>,
    /// `--non-interactive-permissions` or its config key, if set.
    said_unasked: Option<UnattendedPolicy>,
    /// How long to wait for the agent.
    pub(crate) timeout: Option<Duration>,
    /// How long the agent may say nothing in a turn.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long the agent may be idle, if somebody has said so; zero is for ever.
    pub(crate) ttl: Option<Duration>,
    /// What to do where the agent offers logins and no credential is known.
    pub(crate) login: LoginPolicy,
    /// The credentials of the configuration.
    pub(crate) credentials: Credentials,
    /// Programs that are not ended with an agent that has started them.
    pub(crate) keep_programs: Arc<[String]>,
    /// What the configuration sets in the environment of each agent, by its name.
    variables: BTreeMap<String, AgentVariables>,
    /// The agents that have variables of their own, by their names: those, and those that are known to read some.
    known_agents: BTreeMap<String, AgentSpec>,
    /// The agents of the configuration with their command lines, by which sessions of npm acpx find their names.
    pub(crate) configured_agents: Vec<ConfiguredAgent>,
}

/// Variables: names and values.
type Pairs = Vec<(OsString, OsString)>;

impl CommandSettings {
    /// Settles everything a session command needs.
    pub(crate) fn new(options: &CliOptions, config: &Config) -> Result<Self, CliError> {
        Self::with(agent(&options.agent, config)?, options, config)
    }

    /// The same for a command that starts no agent and reaches none: of one whose entry in the configuration is wrong,
    /// its name is enough to find its sessions.
    pub(crate) fn without_start(options: &CliOptions, config: &Config) -> Result<Self, CliError> {
        let agent = match chosen(&options.agent, config) {
            Err(CliError::Config(ConfigError::Wrong(_))) => named_only(&name(&options.agent, config)),
            // One that is named is known to the file, or by its sessions where that cannot be read.
            Err(CliError::Agent(_)) if matches!(options.agent, AgentChoice::Named(_)) => {
                named_only(&name(&options.agent, config))
            }
            known => known?,
        };
        Self::with(agent, options, config)
    }

    fn with(agent: AgentSpec, options: &CliOptions, config: &Config) -> Result<Self, CliError> {
        let cwd = directory(options.cwd.as_deref())?;
        let policy = policy(options, config, cwd.as_path())?;
        let variables = config.variables();
        let set = variables.iter().filter(|(_, own)| !own.is_empty()).map(|(name, _)| name.clone());
        let known_agents = set.chain(Credentials::readers()).map(|name| {
            let agent = agent_lookup::resolve(&name, config).unwrap_or_else(|_| named_only(&name));
            (name, agent)
        });
        Ok(Self {
            mode: mode(options.output, config)?,
            agent: as_configured(agent, options, config),
            agent_is_typed: options.agent != AgentChoice::Default,
            additional_directories: options
                .add_dirs
                .iter()
                .map(|typed| directory_of("--add-dir", &cwd.as_path().join(typed)))
                .collect::<Result<_, _>>()?,
            cwd,
            session: options.session.clone(),
            policy,
            said_mode: options.mode.or(config.mode),
            said_unasked: options.unasked.or(config.unasked),
            timeout: options.timeout.or(config.timeout),
            idle_timeout: options.idle_timeout.or(config.idle_timeout),
            ttl: options.ttl.or(config.ttl),
            login: options.login.or(config.login).unwrap_or_default(),
            credentials: config.credentials.clone(),
            keep_programs: config.keep_programs.clone().into(),
            known_agents: known_agents.collect(),
            configured_agents: config.configured_agents(),
            variables,
        })
    }

    /// The environment of the agent, should it have to be started.
    pub(crate) fn environment(&self) -> Environment {
        let (everybodys, own) = self.environment_of(&self.agent);
        everybodys
            .into_iter()
            .collect::<Environment>()
            .with_all(own)
            .with_secrets(self.secrets_of(&self.agent))
    }

    /// The environment of the agent without the credentials of the configuration.
    pub(crate) fn environment_without_credentials(&self) -> Vec<(OsString, OsString)> {
        own_environment(self.variables_of(&self.agent))
    }

    /// What an agent is started with, and what is set for it over that.
    fn environment_of(&self, agent: &AgentSpec) -> (Pairs, Pairs) {
        let shell = for_agents();
        let everybodys = self.credentials.add_to(shell.clone(), Some(agent));
        let own = self.own_variables(agent, shell, &everybodys);
        (everybodys, own)
    }

    /// What an agent has instead of everybody's environment, or beside it: what is set for it, and the credentials that
    /// follow from it or from what the agent is.
    fn own_variables(&self, agent: &AgentSpec, shell: Pairs, everybodys: &[(OsString, OsString)]) -> Pairs {
        let own = self.variables_of(agent);
        let environment = match own {
            Some(own) => own.over(shell),
            None => shell,
        };
        let mut variables = self.credentials.add_to(environment, Some(agent));
        let is_own = |name: &OsString| own.is_some_and(|own| own.has(name));
        variables.retain(|variable| is_own(&variable.0) || !everybodys.contains(variable));
        variables
    }

    /// What agents have that are started for a bridge: everybody, and single ones over that, by their names. An agent
    /// without a name has nothing of its own, so what follows from it is everybody's.
    fn environments(&self, shell: &[(OsString, OsString)]) -> (Pairs, BTreeMap<String, Pairs>) {
        let unnamed = Some(&self.agent).filter(|agent| agent.name.is_none());
        let everybodys = self.credentials.add_to(shell.to_vec(), unnamed);
        let mut agents = self.known_agents.clone();
        agents.extend(self.agent.name.clone().map(|name| (name, self.agent.clone())));
        let own = agents.into_iter().map(|(name, agent)| {
            let own = self.own_variables(&agent, shell.to_vec(), &everybodys);
            (name, own)
        });
        let own = own.filter(|(_, own)| !own.is_empty()).collect();
        (everybodys, own)
    }

    /// The names of the variables that the configuration marks as secrets for an agent.
    fn secrets_of(&self, agent: &AgentSpec) -> Vec<OsString> {
        self.variables_of(agent).map(AgentVariables::secrets).unwrap_or_default()
    }

    fn variables_of(&self, agent: &AgentSpec) -> Option<&AgentVariables> {
        self.variables.get(agent.name.as_ref()?)
    }

    /// What the agent is started with by a command that has an engine of its own.
    pub(crate) fn new_session(&self) -> NewSession {
        let new = NewSession::new(self.agent.clone(), self.cwd.clone(), self.environment());
        NewSession { login: self.login, start_wait: self.timeout, ..new }
    }

    /// What a command says with every request that may start this agent, and the model that it wants.
    pub(crate) fn start(&self, agent: &AgentSpec, ttl: Option<Duration>, model: Option<&str>) -> StartMeta {
        let setting = |model: &str| SettingMeta { option: Some("model".to_owned()), value: model.to_owned() };
        let settings = model.map(setting).into_iter().collect();
        let (everybodys, own) = self.environment_of(agent);
        let start = StartMeta::watching(everybodys, ttl, self.login);
        let start = start.with_variables(agent, own).with_secret_variables(agent, self.secrets_of(agent));
        let start = start.within(self.timeout);
        StartMeta { settings, ..start }
    }

    /// What a bridge says of the client that it joins to the host. That one has the sessions of this agent, whether they
    /// were made by its name or by its command line.
    pub(crate) fn client(&self) -> ClientMeta {
        let tools = self.policy.tools.as_deref();
        let terms = TurnTermsMeta::of(self.said_mode, tools, self.said_unasked, self.limits());
        let (environment, variables) = self.environments(&for_agents());
        let secrets = self.variables.iter().map(|(name, own)| (name.clone(), own.secrets()));
        ClientMeta::bridged(&self.agent, environment, self.ttl, self.login, &self.cwd)
            .with_variables(variables)
            .with_secret_variables(secrets.filter(|(_, names)| !names.is_empty()))
            .with_terms(terms)
    }

    /// How long a turn may take, and how long its agent may be silent.
    pub(crate) fn limits(&self) -> TurnLimits {
        TurnLimits { whole: self.timeout, silence: self.idle_timeout }
    }

    /// Whether anything but reading is approved that nobody was asked.
    pub(crate) fn approves_unasked(&self) -> bool {
        let PermissionPolicy { mode, ref tools, .. } = self.policy;
        mode == PermissionMode::ApproveAll || tools.as_ref().is_some_and(|tools| tools.approves())
    }

    /// The agent as it stands on a command line.
    pub(crate) fn typed_agent(&self) -> String {
        agents::typed(&self.agent)
    }

    /// Says which keys of the configuration nobody reads, at the top and of the agent: one that is misspelt would be
    /// missed.
    pub(crate) fn warn_of_unread_keys(&self, config: &Config, console: &mut Console<'_>) {
        let agent = self.agent.name.as_deref().unwrap_or_default();
        if let Some(words) = unread_keys(config, Some(agent)) {
            console.banner(&words);
        }
    }

    /// The MCP servers for the agent, with the file they are from.
    pub(crate) fn mcp_servers(&self, options: &CliOptions, config: &Config) -> Result<McpFile, CliError> {
        match &options.mcp_config {
            Some(file) => Ok(McpFile::load(self.cwd.as_path().join(file))?),
            None => Ok(McpFile::of(config)),
        }
    }
}

/// An agent of which nothing but the name is known.
fn named_only(name: &str) -> AgentSpec {
    AgentSpec::new(name, [""; 0]).named(name)
}

/// The environment of an agent that these are set for, before any credential is put in.
pub(crate) fn own_environment(own: Option<&AgentVariables>) -> Vec<(OsString, OsString)> {
    own.map_or_else(for_agents, |own| own.over(for_agents()))
}

/// What a turn allows its agent. Rules that are typed take the place of those in the configuration.
fn policy(options: &CliOptions, config: &Config, cwd: &Path) -> Result<PermissionPolicy, CliError> {
    let tools = match options.tool_policy.as_deref().map(str::trim_start) {
        // Rules that were written for all commands do not approve in one that is to deny all.
        None if options.mode == Some(PermissionMode::DenyAll) => None,
        None => config.tool_policy.clone(),
        Some(json) if json.starts_with('{') => Some(ToolPolicy::read(json).map_err(UsageError::Policy)?),
        Some(file) => Some(config::tool_policy(&cwd.join(file))?),
    };
    Ok(PermissionPolicy {
        mode: options.mode.or(config.mode).unwrap_or_default(),
        tools: tools.map(Into::into),
        unasked: options.unasked.or(config.unasked).unwrap_or_else(of_run),
    })
}

/// Default for unanswered requests: wait on a terminal, otherwise deny.
fn of_run() -> UnattendedPolicy {
    if tty::has_terminal_stream() { UnattendedPolicy::Wait } else { UnattendedPolicy::Deny }
}

/// How a command writes.
pub(crate) fn mode(options: OutputOptions, config: &Config) -> Result<OutputMode, CliError> {
    let format = options.format.or(config.format).unwrap_or_default();
    if options.strict && format != crate::cli::Format::Json {
        return Err(UsageError::StrictWithoutJson.into());
    }
    Ok(OutputMode { format, strict: options.strict, verbose: options.verbose })
}

/// The agent that is meant. One on another machine is reached safely, or not at all.
fn agent(choice: &AgentChoice, config: &Config) -> Result<AgentSpec, CliError> {
    let agent = chosen(choice, config)?;
    if let Some(url) = agent.url() {
        Address::parse(url, agent.args.iter().any(|word| word == "--insecure"))?;
    }
    Ok(agent)
}

fn chosen(choice: &AgentChoice, config: &Config) -> Result<AgentSpec, CliError> {
    match choice {
        AgentChoice::Named(name) => agent_lookup::resolve(name, config),
        AgentChoice::Line(line) => {
            agents::from_line(line).map_err(|problem| UsageError::AgentLine { problem }.into())
        }
        AgentChoice::Default => default_agent(config),
    }
}

/// The agent that is meant when none is named.
pub(crate) fn default_agent(config: &Config) -> Result<AgentSpec, CliError> {
    match &config.default_agent {
        None => agent_lookup::resolve(agents::DEFAULT, config),
        Some(name) => agent_lookup::resolve(name, config).map_err(|error| match error {
            CliError::Agent(unknown) => {
                UnknownAgent { chosen_in: Some(config.file.as_path().into()), ..unknown }.into()
            }
            other => other,
        }),
    }
}

/// That the configuration has keys which nobody reads, if it has any: at the top, or of one agent or of all.
pub(crate) fn unread_keys(config: &Config, agent: Option<&str>) -> Option<String> {
    let keys = config.unknown_keys(agent);
    (!keys.is_empty()).then(|| format!("{}: nothing reads {}", config.file.display(), keys.join(", ")))
}

/// The name of the agent that is meant, unless it is given as a command line.
fn name(choice: &AgentChoice, config: &Config) -> String {
    match choice {
        AgentChoice::Named(name) | AgentChoice::Line(name) => agents::canonical(name),
        AgentChoice::Default => config.default_agent.clone().unwrap_or_else(|| agents::DEFAULT.to_owned()),
    }
}

/// The agent, to be spoken to in the version of the protocol that is wanted, and taken to behave as its user says.
fn as_configured(agent: AgentSpec, options: &CliOptions, config: &Config) -> AgentSpec {
    let configured = || config.protocol(agent.name.as_deref()?);
    let version = options.protocol.or_else(configured).unwrap_or_default();
    let profile = agent.name.as_deref().and_then(|name| config.profile(name));
    agent.with_protocol(version).with_profile(profile)
}

/// The directory to work in: an absolute one stays as it was typed, byte for byte.
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

/// A directory by a name that does not lead through others: what leads back out of one is lost with it. Links keep their
/// names, but for one that is left by `..`, which leads to where it points.
fn without_parents(path: &Path) -> io::Result<PathBuf> {
    if !path.components().any(|part| part == Component::ParentDir) {
        return Ok(path.to_owned());
    }
    let mut kept = PathBuf::new();
    for part in path.components() {
        if part != Component::ParentDir {
            kept.push(part);
            continue;
        }
        if kept.symlink_metadata()?.is_symlink() {
            kept = kept.canonicalize()?;
        }
        kept.pop();
    }
    Ok(kept)
}

#[cfg(test)]
mod tests;
