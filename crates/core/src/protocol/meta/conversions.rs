//! Converts between the types on the socket and the model.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::SessionStatus;
use crate::machine::WakeOutcome;
use crate::model::{
    AbsolutePath, AgentMemory, AgentSpec, Fallback, LoginPolicy, ProtocolVersion, Setting, WakeOptions,
};

use super::{
    AgentMeta, AgentStateMeta, AwakeningMeta, ClientMeta, LaunchMeta, MemoryMeta, OsText, StartMeta,
    TurnTermsMeta, UnmetSettingMeta, WakeOptionsMeta,
};

impl From<OsString> for OsText {
    fn from(text: OsString) -> Self {
        text.into_string().map_or_else(|bytes| Self::Bytes(bytes.as_bytes().to_vec()), Self::Text)
    }
}

impl From<OsText> for OsString {
    fn from(text: OsText) -> Self {
        match text {
            OsText::Text(text) => text.into(),
            OsText::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

impl std::fmt::Debug for OsText {
    /// Prints nothing, because environments contain secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OsText(..)")
    }
}

impl ClientMeta {
    /// A bridge's description of its client: the agent and how it is started. An idle time of zero means forever.
    pub fn bridged(
        agent: &AgentSpec,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        idle: Option<Duration>,
        login: LoginPolicy,
        cwd: &AbsolutePath,
    ) -> Self {
        Self {
            agent: Some(agent.into()),
            launch: LaunchMeta::new(environment, idle, login),
            cwd: Some(cwd.as_str().to_owned()),
            seq: true,
            terms: TurnTermsMeta::default(),
        }
    }

    /// Sets the default terms of turns.
    #[must_use]
    pub fn with_terms(self, terms: TurnTermsMeta) -> Self {
        Self { terms, ..self }
    }
}

impl LaunchMeta {
    fn new(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        idle: Option<Duration>,
        login: LoginPolicy,
    ) -> Self {
        // Zero means no limit, so a very short time is not rounded to it.
        let millis = |idle: Duration| u64::try_from(idle.as_millis()).unwrap_or(u64::MAX).max(1);
        Self {
            environment: environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            idle_ms: idle.map(|idle| if idle.is_zero() { 0 } else { millis(idle) }),
            login: Some(login).filter(|login| *login != LoginPolicy::default()),
            ..Self::default()
        }
    }
}

impl StartMeta {
    /// The start options of a client that watches and needs no updates. An idle time of zero means forever.
    pub fn watching(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        idle: Option<Duration>,
        login: LoginPolicy,
    ) -> Self {
        let launch = LaunchMeta::new(environment, idle, login);
        Self { launch, without_updates: true, ..Self::default() }
    }
}

impl From<WakeOptions> for WakeOptionsMeta {
    fn from(WakeOptions { fallback, carry_history }: WakeOptions) -> Self {
        Self { fallback: Some(fallback).filter(|fallback| *fallback != Fallback::Auto), carry_history }
    }
}

impl From<WakeOptionsMeta> for WakeOptions {
    fn from(WakeOptionsMeta { fallback, carry_history }: WakeOptionsMeta) -> Self {
        Self { fallback: fallback.unwrap_or_default(), carry_history }
    }
}

impl From<&AgentSpec> for AgentMeta {
    fn from(agent: &AgentSpec) -> Self {
        let argv = agent.command();
        // Version 1 is the default.
        let protocol = Some(agent.protocol).filter(|version| *version != ProtocolVersion::V1);
        let profile = agent.profile.as_deref().cloned();
        Self { name: agent.name.clone(), argv, protocol, profile }
    }
}

impl AgentMeta {
    /// The agent to start; `None` without a program.
    pub(crate) fn spec(self) -> Option<AgentSpec> {
        let mut argv = self.argv.into_iter();
        let spec = AgentSpec::new(argv.next().filter(|program| !program.is_empty())?, argv);
        let spec = spec.with_protocol(self.protocol.unwrap_or(ProtocolVersion::V1));
        let spec = spec.with_profile(self.profile.map(Arc::new));
        Some(match self.name {
            Some(name) => spec.named(name),
            None => spec,
        })
    }
}

impl MemoryMeta {
    /// The memory on the socket; `None` if the agent remembers everything.
    pub fn of(memory: AgentMemory) -> Option<Self> {
        let how = |how: &str| Some(Self { how: how.to_owned(), from: None, reason: None });
        match memory {
            AgentMemory::Whole => None,
            AgentMemory::Compacted => how("compacted"),
            AgentMemory::Part => how("shorter"),
            AgentMemory::Another => how("different"),
            AgentMemory::Since { from, reason } => {
                let reason = reason.map(|reason| reason.as_str().to_owned());
                Some(Self { how: "fresh".to_owned(), from: Some(from.0), reason })
            }
        }
    }
}

impl From<&(Setting, Box<str>)> for UnmetSettingMeta {
    fn from((setting, reason): &(Setting, Box<str>)) -> Self {
        let option = setting.name.option().map(str::to_owned);
        Self { option, value: setting.value.clone(), reason: reason.to_string() }
    }
}

impl AgentStateMeta {
    /// The state of a session's agent, with how it became live.
    pub(crate) fn of(status: &SessionStatus, wake: Option<WakeOutcome>) -> Self {
        Self {
            awakening: wake.map(Into::into),
            memory: MemoryMeta::of(status.memory),
            unmet_settings: status.unmet.iter().map(Into::into).collect(),
        }
    }
}

impl From<WakeOutcome> for AwakeningMeta {
    fn from(how: WakeOutcome) -> Self {
        let by = |by: &str| Self { by: by.to_owned(), replay: None, reason: None, announced: false };
        match how {
            WakeOutcome::Live => by("live"),
            WakeOutcome::Created => by("created"),
            WakeOutcome::Forked => by("session/fork"),
            WakeOutcome::Returned => by("returned"),
            WakeOutcome::Restored { rung, replay } => Self { replay, ..by(rung.method()) },
            WakeOutcome::Fresh { reason, announced } => {
                Self { reason: Some(reason.as_str().to_owned()), announced, ..by("fresh") }
            }
        }
    }
}
