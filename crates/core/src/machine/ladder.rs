//! From a started agent to a live session: creates one, or restores it by the restore ladder.
//!
//! The ladder is resume, then load, each only if advertised. Load comes first if the agent's list shows a later change
//! than our record: only load replays messages from outside acpx. A fresh session follows only if the agent reports the
//! session as not found, or can restore nothing; after any other refusal the attempt fails and the record keeps its
//! session, unless the options allow a fresh one. A profile adds what an agent needs: a delay before a load, and no
//! restore of a session that it has not written yet.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{
    AcpSessionId, Advertised, AgentEnd, AgentError, AgentSessionId, Alignment, ErrorMeaning, Exchange, Fact,
    Fallback, InnerIdChange, Lineage, LineageReason, OfferedSettings, ReplayStep, RestoreError,
    RestoreProfile, Timestamp, Update,
};

use super::state::{AfterExit, Ladder, LiveSession, MachineState, Owed, Reset, Restore, RestoreRefusal};
use super::{AgentCall, Deadline, Effect, OnResume, Rung, SessionMachine, WakeOutcome};

/// Agents may store a turn shortly after they answered it; a change within this time is not another program's.
const TAIL: Duration = Duration::from_secs(2);

impl SessionMachine {
    pub(super) fn agent_ready(
        &mut self,
        now: Timestamp,
        advertised: Advertised,
        profile: RestoreProfile,
        exchanges: Vec<Exchange>,
        on_resume: OnResume,
    ) {
        if !matches!(self.state, MachineState::Starting) {
            return;
        }
        // The previous agent's settings do not apply to this one.
        self.offered = OfferedSettings::default();
        if self.lineage.is_none() {
            return self.create(advertised, None);
        }
        if self.is_forking {
            self.do_(Effect::Call(AgentCall::Fork));
            self.do_(Effect::Arm(Deadline::Setup));
            let reset = Reset { reason: LineageReason::Forked, announced: false, error: None };
            return self.state = MachineState::Creating(advertised, Some(reset));
        }
        self.is_prompted = !exchanges.is_empty() || !self.is_created_here();
        if self.fallback() == Fallback::Reset {
            let reset = Reset { reason: LineageReason::Reset, announced: self.is_prompted, error: None };
            return self.create(advertised, Some(reset));
        }
        let is_unwritten =
            profile.needs_prompt_before_load && !self.is_prompted && self.fallback() != Fallback::Never;
        let (tried_resume, tried_load, refusal) = (false, false, None);
        let ladder = Ladder { advertised, profile, exchanges, on_resume, tried_resume, tried_load, refusal };
        if is_unwritten {
            return self.fresh(now, &ladder);
        }
        // If a resume replays the missed events, there is no need to check for changes first.
        let can_choose =
            advertised.resume && (advertised.load || advertised.replay) && on_resume == OnResume::Nothing;
        // For a session that we do not know, the agent's list has its title and directory.
        if advertised.list && (can_choose || (self.is_adopting && advertised.restores())) {
            self.do_(Effect::Call(AgentCall::List));
            self.do_(Effect::Arm(Deadline::Setup));
            self.state = MachineState::Looking(ladder);
        } else {
            self.descend(now, ladder, self.preferred());
        }
    }

    /// Whether acpx created the session, so that every prompt in it is known.
    fn is_created_here(&self) -> bool {
        let lineage = self.lineage.as_ref().filter(|_| !self.is_adopting);
        lineage.zip(self.target_session()).is_some_and(|(lineage, session)| lineage.is_created_here(session))
    }

    /// Only a load replays what precedes the adoption of a session.
    fn preferred(&self) -> Rung {
        if self.is_adopting { Rung::Load } else { Rung::Resume }
    }

    pub(super) fn listed(&mut self, now: Timestamp, changed: Option<Timestamp>) {
        let ladder = match self.take_state() {
            MachineState::Looking(ladder) => ladder,
            other => return self.state = other,
        };
        let created = self.lineage.as_ref().map(|lineage| lineage.current().from);
        let ours = self.last_message_at.or(created);
        let is_changed = changed.zip(ours).is_some_and(|(theirs, ours)| theirs.since(ours) > TAIL);
        // Another program has prompted the session.
        self.is_prompted |= is_changed;
        self.descend(now, ladder, if is_changed { Rung::Load } else { self.preferred() });
    }

    /// Takes the preferred rung if it is advertised and untried, else the other, else a fresh session.
    fn descend(&mut self, now: Timestamp, mut ladder: Ladder, preferred: Rung) {
        let resume = ladder.advertised.resume && !ladder.tried_resume;
        let replaying = if ladder.advertised.load { Rung::Load } else { Rung::Replay };
        let load = (ladder.advertised.load || ladder.advertised.replay) && !ladder.tried_load;
        let rung = match preferred {
            Rung::Load | Rung::Replay if load => replaying,
            _ if resume => Rung::Resume,
            _ if load => replaying,
            _ => return self.fresh(now, &ladder),
        };
        if rung == Rung::Load
            && let Some(until) = self.not_before(now, &ladder.profile)
        {
            self.do_(Effect::Fact(Fact::LoadDelayed { until }));
            self.do_(Effect::Arm(Deadline::Load(until)));
            return self.state = MachineState::Waiting(ladder);
        }
        match rung {
            Rung::Resume => ladder.tried_resume = true,
            Rung::Load | Rung::Replay => ladder.tried_load = true,
        }
        self.do_(Effect::Call(match rung {
            Rung::Resume => AgentCall::Resume,
            Rung::Load => AgentCall::Load,
            Rung::Replay => AgentCall::Replay,
        }));
        self.do_(Effect::Arm(Deadline::Setup));
        let alignment = if rung == Rung::Resume && ladder.on_resume == OnResume::Missed {
            Alignment::of_missed()
        } else {
            Alignment::new(ladder.exchanges.clone(), &ladder.profile.notes)
        };
        self.state = MachineState::Restoring(Restore { ladder, rung, alignment });
    }

    /// The time from which the agent can load the session, if that is in the future.
    fn not_before(&self, now: Timestamp, profile: &RestoreProfile) -> Option<Timestamp> {
        profile.wait_before_load.until(self.lineage.as_ref()?.current().from, now)
    }

    /// The delay before a load has passed.
    pub(super) fn waited(&mut self, now: Timestamp) {
        match self.take_state() {
            MachineState::Waiting(ladder) => match self.not_before(now, &ladder.profile) {
                // The timer fired slightly early.
                Some(until) => {
                    self.do_(Effect::Arm(Deadline::Load(until)));
                    self.state = MachineState::Waiting(ladder);
                }
                None => self.descend(now, ladder, Rung::Load),
            },
            other => self.state = other,
        }
    }

    /// The end of the ladder: a fresh session, if the options allow one.
    fn fresh(&mut self, now: Timestamp, ladder: &Ladder) {
        let reason = match &ladder.refusal {
            _ if !self.is_prompted => LineageReason::NotMaterialised,
            None => LineageReason::CannotRestore,
            Some(refusal) if refusal.is_lost => LineageReason::AgentLost,
            Some(_) => LineageReason::LoadFailed,
        };
        let error = ladder.refusal.as_ref().map(|refusal| refusal.error.clone());
        let is_allowed = match self.fallback() {
            Fallback::Auto => reason != LineageReason::LoadFailed,
            Fallback::Always | Fallback::Reset => true,
            Fallback::Never => false,
        };
        // A fresh session would not be the one that the client asked for.
        let must_be_this_one = self.is_adopting || self.returning.is_some();
        if (must_be_this_one || !is_allowed)
            && let Some(session) = self.target_session()
        {
            let error = AgentError::NotRestored {
                agent: self.agent.clone(),
                session: session.clone(),
                reason: reason.as_str().to_owned(),
                cause: error.map(Box::new),
            };
            return self.give_up(now, &error);
        }
        self.create(ladder.advertised, Some(Reset { reason, announced: self.is_prompted, error }));
    }

    fn create(&mut self, advertised: Advertised, reset: Option<Reset>) {
        self.do_(Effect::Call(AgentCall::New));
        self.do_(Effect::Arm(Deadline::Setup));
        self.state = MachineState::Creating(advertised, reset);
    }

    pub(super) fn opened(
        &mut self,
        now: Timestamp,
        session: AcpSessionId,
        agent_session: Option<AgentSessionId>,
    ) {
        let MachineState::Creating(advertised, reset) = &mut self.state else { return };
        let (live, reset) = (LiveSession { advertised: *advertised, owed: None }, reset.take());
        self.clear_restore_error();
        let (Some(reset), Some(lineage)) = (reset, &mut self.lineage) else {
            let lineage = Lineage::begin(session, agent_session, now);
            self.lineage = Some(lineage.clone());
            self.do_(Effect::SaveLineage(lineage));
            return self.settle(now, live, WakeOutcome::Created);
        };
        let fact = Fact::SessionReset {
            reason: reset.reason.as_str().to_owned(),
            from_acpx_session_id: lineage.current().session.to_string(),
            acpx_session_id: session.to_string(),
            agent_session_id: agent_session.as_ref().map(|agent_session| agent_session.as_str().to_owned()),
            announced: reset.announced,
            carried: self.carried,
            error: reset.error.clone(),
        };
        let how = match reset.reason {
            LineageReason::Forked => WakeOutcome::Forked,
            reason => WakeOutcome::Fresh { reason, announced: reset.announced },
        };
        lineage.replace_after(reset.error, session, agent_session, reset.reason, now);
        // A fork has the history of the session it was forked from.
        self.is_prompted &= std::mem::take(&mut self.is_forking);
        let lineage = lineage.clone();
        self.do_(Effect::SaveLineage(lineage));
        self.do_(Effect::Fact(fact));
        self.carry = self.carried.is_some();
        self.settle(now, live, how);
    }

    pub(super) fn restored(&mut self, now: Timestamp, agent_session: Option<AgentSessionId>) {
        let Restore { ladder, rung, alignment } = match self.take_state() {
            MachineState::Restoring(restore) => restore,
            other => return self.state = other,
        };
        let is_adopted = std::mem::take(&mut self.is_adopting);
        self.is_prompted |= is_adopted;
        self.clear_restore_error();
        let returned = self.returned(now);
        if let Some(lineage) = &mut self.lineage
            && (lineage.tell_inner_id(agent_session, now) != InnerIdChange::None
                || is_adopted
                || returned.is_some())
        {
            let lineage = lineage.clone();
            self.do_(Effect::SaveLineage(lineage));
        }
        let replay = alignment.verdict();
        self.do_(Effect::Fact(Fact::Restored { by: rung.method().to_owned(), replay }));
        let how = match returned {
            Some(_) => WakeOutcome::Returned,
            None => WakeOutcome::Restored { rung, replay },
        };
        self.out.extend(returned.map(Effect::Fact));
        // An agent that resumes as the protocol requires replays nothing.
        let replays = rung != Rung::Resume || ladder.profile.replays_on_resume || replay.is_some();
        let owed = (alignment.is_owed() && replays).then(|| Box::new(Owed { alignment, told: replay }));
        let live = LiveSession { advertised: ladder.advertised, owed };
        self.settle(now, live, how);
    }

    /// The agent restored the earlier session that the record returns to: adds a lineage row and returns the fact.
    fn returned(&mut self, now: Timestamp) -> Option<Fact> {
        let session = self.returning.take()?;
        let lineage = self.lineage.as_mut()?;
        let agent_session = lineage.row_of(&session).and_then(|row| row.agent_session.clone());
        let fact = Fact::SessionReturned {
            from_acpx_session_id: lineage.current().session.to_string(),
            acpx_session_id: session.to_string(),
            agent_session_id: agent_session.as_ref().map(|agent_session| agent_session.as_str().to_owned()),
        };
        lineage.replace(session, agent_session, LineageReason::Returned, now);
        self.is_prompted = true;
        Some(fact)
    }

    pub(super) fn setup_refused(&mut self, now: Timestamp, error: &AgentError) {
        match self.take_state() {
            MachineState::Creating(..) => self.give_up(now, error),
            MachineState::Restoring(Restore { mut ladder, rung, .. }) => match error.meaning() {
                ErrorMeaning::BusyElsewhere if self.fallback() != Fallback::Always => {
                    self.give_up(now, error);
                }
                ErrorMeaning::LoginNeeded => self.give_up(now, error),
                ErrorMeaning::Unsupported => self.descend(now, ladder, rung),
                ErrorMeaning::Lost
                | ErrorMeaning::Broken
                | ErrorMeaning::BusyElsewhere
                | ErrorMeaning::WorkerDied => {
                    let is_lost = error.meaning() == ErrorMeaning::Lost;
                    let error = RestoreError::new(error, now);
                    ladder.refusal = Some(RestoreRefusal { is_lost, error });
                    self.descend(now, ladder, rung);
                }
            },
            other => self.state = other,
        }
    }

    /// The agent cannot accept a request that we would have to send on every rung.
    pub(super) fn setup_impossible(&mut self, now: Timestamp, error: &AgentError) {
        if matches!(
            self.state,
            MachineState::Creating(..) | MachineState::Restoring(_) | MachineState::Looking(_)
        ) {
            self.give_up(now, error);
        }
    }

    /// Handles an update that arrives while the agent restores the session.
    pub(super) fn replayed(&mut self, update: &Update, body: Arc<str>) {
        let MachineState::Restoring(restore) = &mut self.state else { return };
        let is_compared = update.is_history() && !self.is_adopting;
        let step = if is_compared { restore.alignment.step(update) } else { ReplayStep::Keep };
        if step == ReplayStep::Keep {
            self.do_(Effect::PersistUpdate(body));
        }
        self.do_(Effect::Arm(Deadline::Setup));
    }

    /// The agent runs but did not provide the session.
    pub(super) fn give_up(&mut self, now: Timestamp, error: &AgentError) {
        self.do_(Effect::Disarm);
        self.note_failed_restore(now, error);
        self.fail_waiters(now, error);
        // There may be no attached client, and no turn records the failure, so the agent's run does.
        let wants_login = self.lineage.is_some() && error.meaning() == ErrorMeaning::LoginNeeded;
        self.do_(Effect::StopAgent(wants_login.then_some(AgentEnd::WANTS_LOGIN)));
        self.state = MachineState::Ending(AfterExit::Park);
    }

    /// Stores why the record's session was not restored. Skipped for a record without a session and for a failed
    /// return, adoption or fork, which concern another session.
    pub(super) fn note_failed_restore(&mut self, now: Timestamp, error: &AgentError) {
        let is_other = self.is_adopting || self.is_forking || self.returning.is_some();
        if self.lineage.is_some() && !is_other {
            self.restore_error = Some(RestoreError::new(error, now));
            self.do_(Effect::SaveRestoreError(self.restore_error.clone()));
        }
    }

    fn clear_restore_error(&mut self) {
        if self.restore_error.take().is_some() {
            self.do_(Effect::SaveRestoreError(None));
        }
    }
}
