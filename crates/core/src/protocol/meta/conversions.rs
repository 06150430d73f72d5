//! Converts between the types on the socket and the model.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

use crate::machine::WakeOutcome;
use crate::model::{
    AbsolutePath, AcpSessionId, AgentMemory, AgentProfile, AgentSessionId, AgentSpec, Fallback, LoginPolicy,
    ProfileError, ProtocolVersion, RecordId, SessionIdentity, Setting, WakeOptions,
};

use super::{
    AgentMeta, AwakeningMeta, ClientMeta, FallbackMeta, IdsMeta, LoginMeta, MemoryMeta, OsText, ProfileMeta,
    ProtocolMeta, SecretVariablesMeta, StartMeta, TurnTermsMeta, UnmetSettingMeta, VariablesMeta,
    WakeOptionsMeta,
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
            environment: environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            variables: VariablesMeta::new(),
            secret_variables: SecretVariablesMeta::new(),
            idle_ms: idle.map(idle_millis),
            login: LoginMeta::of(login),
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

/// Zero means no limit, so a very short time is not rounded to it.
fn idle_millis(idle: Duration) -> u64 {
    let millis = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
    if idle.is_zero() { 0 } else { millis.max(1) }
}

impl StartMeta {
    /// The start options of a client that watches and needs no updates. An idle time of zero means forever.
    pub fn watching(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        idle: Option<Duration>,
        login: LoginPolicy,
    ) -> Self {
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let idle_ms = idle.map(idle_millis);
        let login = LoginMeta::of(login);
        Self { environment, idle_ms, login, without_updates: true, ..Self::default() }
    }
}

impl From<WakeOptions> for WakeOptionsMeta {
    fn from(options: WakeOptions) -> Self {
        let fallback = match options.fallback {
            Fallback::Auto => None,
            Fallback::Always => Some(FallbackMeta::Always),
            Fallback::Never => Some(FallbackMeta::Never),
            Fallback::Reset => Some(FallbackMeta::Reset),
        };
        Self { fallback, carry_history: options.carry_history }
    }
}

impl From<SessionIdentity> for IdsMeta {
    fn from(identity: SessionIdentity) -> Self {
        Self {
            acpx_record_id: identity.record.to_string(),
            acpx_session_id: identity.session.to_string(),
            agent_session_id: identity.agent_session.map(|inner| inner.as_str().to_owned()),
        }
    }
}

impl IdsMeta {
    /// The ids as model types; `None` if one of them is empty.
    pub fn identity(&self) -> Option<SessionIdentity> {
        Some(SessionIdentity {
            record: RecordId::new(self.acpx_record_id.as_str()).ok()?,
            session: AcpSessionId::new(self.acpx_session_id.as_str()).ok()?,
            agent_session: self.agent_session_id.as_deref().and_then(AgentSessionId::from_agent),
        })
    }
}

impl From<WakeOptionsMeta> for WakeOptions {
    fn from(wishes: WakeOptionsMeta) -> Self {
        let fallback = match wishes.fallback {
            None | Some(FallbackMeta::Auto) => Fallback::Auto,
            Some(FallbackMeta::Always) => Fallback::Always,
            Some(FallbackMeta::Never) => Fallback::Never,
            Some(FallbackMeta::Reset) => Fallback::Reset,
        };
        Self { fallback, carry_history: wishes.carry_history }
    }
}

impl From<LoginMeta> for LoginPolicy {
    fn from(policy: LoginMeta) -> Self {
        match policy {
            LoginMeta::Skip => Self::Skip,
            LoginMeta::Fail => Self::Fail,
        }
    }
}

impl LoginMeta {
    /// The policy on the socket; `None` for the default.
    pub fn of(policy: LoginPolicy) -> Option<Self> {
        match policy {
            LoginPolicy::Skip => None,
            LoginPolicy::Fail => Some(Self::Fail),
        }
    }
}

impl From<&AgentSpec> for AgentMeta {
    fn from(agent: &AgentSpec) -> Self {
        let argv = agent.command();
        // Version 1 is the default.
        let protocol = Some(ProtocolMeta(agent.protocol)).filter(|_| agent.protocol != ProtocolVersion::V1);
        let profile = agent.profile.clone().map(ProfileMeta);
        Self { name: agent.name.clone(), argv, protocol, profile }
    }
}

impl TryFrom<serde_json::Value> for ProfileMeta {
    type Error = ProfileError;

    fn try_from(value: serde_json::Value) -> Result<Self, ProfileError> {
        AgentProfile::parse(&value).map(|profile| Self(Arc::new(profile)))
    }
}

impl From<ProfileMeta> for serde_json::Value {
    fn from(ProfileMeta(profile): ProfileMeta) -> Self {
        profile.to_json()
    }
}

impl TryFrom<u16> for ProtocolMeta {
    type Error = String;

    fn try_from(number: u16) -> Result<Self, String> {
        let version = ProtocolVersion::from_number(number);
        version.map(Self).ok_or_else(|| format!("{number} is no version of the protocol that is spoken here"))
    }
}

impl From<ProtocolMeta> for u16 {
    fn from(ProtocolMeta(version): ProtocolMeta) -> Self {
        version.number()
    }
}

impl AgentMeta {
    /// The agent to start; `None` without a program.
    pub(crate) fn spec(self) -> Option<AgentSpec> {
        let mut argv = self.argv.into_iter();
        let spec = AgentSpec::new(argv.next().filter(|program| !program.is_empty())?, argv);
        let spec =
            spec.with_protocol(self.protocol.map_or(ProtocolVersion::V1, |ProtocolMeta(version)| version));
        let spec = spec.with_profile(self.profile.map(|ProfileMeta(profile)| profile));
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
    fn from((wish, reason): &(Setting, Box<str>)) -> Self {
        let option = wish.name.option().map(str::to_owned);
        Self { option, value: wish.value.clone(), reason: reason.to_string() }
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
