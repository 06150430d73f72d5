//! From a started agent to a live session: creates one, or restores it by the restore ladder, and then restores the
//! record's chosen settings before queued prompts and requests run.
//!
//! The ladder is resume, then load, each only if advertised. Load comes first if the agent's list shows a later change
//! than our record: only load replays messages from outside acpx. A fresh session follows only if the agent reports the
//! session as not found, or can restore nothing; after any other refusal the attempt fails and the record keeps its
//! session, unless the options allow a fresh one. A profile adds what an agent needs: a delay before a load, and no
//! restore of a session that it has not written yet.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{
    AcpSessionId, Advertised, AgentEnd, AgentError, AgentSessionId, Alignment, CostCounter, ErrorMeaning,
    Exchange, Fact, Fallback, InnerIdChange, Lifecycle, Lineage, LineageReason, ReplayStep, RestoreError,
    RestoreProfile, Setting, Timestamp, TurnOutcome, Update, WakeOptions,
};

use super::state::{
    AfterExit, Ladder, LateReplay, LiveSession, MachineState, Reset, Restore, RestoreRefusal, RestoreTarget,
    SettingsRestore, StartPhase,
};
use super::{
    AgentCall, AgentWork, Deadline, Effect, ForwardError, OnResume, Rung, SessionMachine, WakeError,
    WakeOutcome,
};

/// Agents may store a turn shortly after they answered it; a change within this time is not another program's.
const LATE_STORE_TIME: Duration = Duration::from_secs(2);

impl SessionMachine {
    /// Starts the agent for the queued prompts and waiting requests, with their merged options.
    pub(super) fn start_agent(&mut self) {
        let queued = self.turns.queued.iter().map(|turn| turn.wake_options);
        let waiting = self.forwards.waiting.iter().map(|request| request.options);
        for options in queued.chain(waiting).collect::<Vec<WakeOptions>>() {
            self.merge_options(options);
        }
        self.agent_work = AgentWork::default();
        self.state = MachineState::Starting(StartPhase::Process);
        self.emit(Effect::StartAgent);
    }

    pub(super) fn on_agent_ready(
        &mut self,
        now: Timestamp,
        advertised: Advertised,
        profile: RestoreProfile,
        exchanges: Vec<Exchange>,
        on_resume: OnResume,
    ) {
        if self.state != MachineState::Starting(StartPhase::Process) {
            return;
        }
        self.config.forget_offer();
        if self.lineage.is_none() {
            return self.create(advertised, None);
        }
        if self.target == RestoreTarget::Forked {
            let reset = Reset { reason: LineageReason::Forked, announced: false, error: None };
            return self.call(AgentCall::Fork, StartPhase::Creating(advertised, Some(reset)));
        }
        let is_prompted = !exchanges.is_empty() || !self.is_created_here();
        self.progress.is_prompted = is_prompted;
        if self.fallback() == Fallback::Reset {
            let reset = Reset { reason: LineageReason::Reset, announced: is_prompted, error: None };
            return self.create(advertised, Some(reset));
        }
        let is_unwritten =
            profile.needs_prompt_before_load && !is_prompted && self.fallback() != Fallback::Never;
        let (tried_resume, tried_load, refusal) = (false, false, None);
        let ladder = Ladder { advertised, profile, exchanges, on_resume, tried_resume, tried_load, refusal };
        if is_unwritten {
            return self.create_fresh(now, &ladder);
        }
        // If a resume replays the missed events, there is no need to check for changes first.
        let can_choose =
            advertised.resume && (advertised.load || advertised.replay) && on_resume == OnResume::Nothing;
        // For a session that we do not know, the agent's list has its title and directory.
        if advertised.list && (can_choose || (self.is_adopting() && advertised.restores())) {
            self.call(AgentCall::List, StartPhase::Listing(ladder));
        } else {
            self.descend(now, ladder, self.preferred_rung());
        }
    }

    /// Sends a request that sets the session up.
    fn call(&mut self, call: AgentCall, phase: StartPhase) {
        self.emit(Effect::Call(call));
        self.emit(Effect::Arm(Deadline::Setup));
        self.state = MachineState::Starting(phase);
    }

    /// When a fresh session may replace the one that is restored.
    fn fallback(&self) -> Fallback {
        self.options.unwrap_or_default().fallback
    }

    /// Whether acpx created the session, so that every prompt in it is known.
    fn is_created_here(&self) -> bool {
        let lineage = self.lineage.as_ref().filter(|_| !self.is_adopting());
        lineage.zip(self.target_session()).is_some_and(|(lineage, session)| lineage.is_created_here(session))
    }

    /// Only a load replays what precedes the adoption of a session.
    fn preferred_rung(&self) -> Rung {
        if self.is_adopting() { Rung::Load } else { Rung::Resume }
    }

    pub(super) fn on_listed(&mut self, now: Timestamp, changed: Option<Timestamp>) {
        let ladder = match self.take_state() {
            MachineState::Starting(StartPhase::Listing(ladder)) => ladder,
            other => return self.state = other,
        };
        let created = self.lineage.as_ref().map(|lineage| lineage.current().from);
        let ours = self.progress.last_message_at.or(created);
        let is_changed = changed.zip(ours).is_some_and(|(theirs, ours)| theirs.since(ours) > LATE_STORE_TIME);
        // Another program has prompted the session.
        self.progress.is_prompted |= is_changed;
        self.descend(now, ladder, if is_changed { Rung::Load } else { self.preferred_rung() });
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
            _ => return self.create_fresh(now, &ladder),
        };
        if rung == Rung::Load
            && let Some(until) = self.load_delay(now, &ladder.profile)
        {
            self.emit(Effect::Fact(Fact::LoadDelayed { until }));
            self.emit(Effect::Arm(Deadline::Load(until)));
            return self.state = MachineState::Starting(StartPhase::LoadDelay(ladder));
        }
        let call = match rung {
            Rung::Resume => AgentCall::Resume,
            Rung::Load => AgentCall::Load,
            Rung::Replay => AgentCall::Replay,
        };
        *(if rung == Rung::Resume { &mut ladder.tried_resume } else { &mut ladder.tried_load }) = true;
        let alignment = if rung == Rung::Resume && ladder.on_resume == OnResume::Missed {
            Alignment::of_missed()
        } else {
            Alignment::new(ladder.exchanges.clone(), &ladder.profile.notes)
        };
        self.call(call, StartPhase::Restoring(Restore { ladder, rung, alignment }));
    }

    /// The time from which the agent can load the session, if that is in the future.
    fn load_delay(&self, now: Timestamp, profile: &RestoreProfile) -> Option<Timestamp> {
        profile.wait_before_load.until(self.lineage.as_ref()?.current().from, now)
    }

    /// The delay before a load has passed.
    pub(super) fn on_load_time(&mut self, now: Timestamp) {
        match self.take_state() {
            MachineState::Starting(StartPhase::LoadDelay(ladder)) => {
                match self.load_delay(now, &ladder.profile) {
                    // The timer fired slightly early.
                    Some(until) => {
                        self.emit(Effect::Arm(Deadline::Load(until)));
                        self.state = MachineState::Starting(StartPhase::LoadDelay(ladder));
                    }
                    None => self.descend(now, ladder, Rung::Load),
                }
            }
            other => self.state = other,
        }
    }

    /// The end of the ladder: a fresh session, if the options allow one.
    fn create_fresh(&mut self, now: Timestamp, ladder: &Ladder) {
        let reason = match &ladder.refusal {
            _ if !self.progress.is_prompted => LineageReason::NotMaterialised,
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
        let must_be_this_one = matches!(self.target, RestoreTarget::Adopted | RestoreTarget::Earlier(_));
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
        self.create(ladder.advertised, Some(Reset { reason, announced: self.progress.is_prompted, error }));
    }

    fn create(&mut self, advertised: Advertised, reset: Option<Reset>) {
        self.call(AgentCall::New, StartPhase::Creating(advertised, reset));
    }

    pub(super) fn on_created(
        &mut self,
        now: Timestamp,
        session: AcpSessionId,
        agent_session: Option<AgentSessionId>,
    ) {
        let MachineState::Starting(StartPhase::Creating(advertised, reset)) = &mut self.state else { return };
        let (live, reset) = (LiveSession { advertised: *advertised, late_replay: None }, reset.take());
        self.clear_restore_error();
        let (Some(reset), Some(lineage)) = (reset, &mut self.lineage) else {
            let lineage = Lineage::begin(session, agent_session, now);
            self.lineage = Some(lineage.clone());
            self.meter.counter = CostCounter::of_session(Some(&lineage), None);
            self.emit(Effect::SaveLineage(lineage));
            return self.restore_settings(now, live, WakeOutcome::Created);
        };
        let fact = Fact::SessionReset {
            reason: reset.reason.as_str().to_owned(),
            from_acpx_session_id: lineage.current().session.to_string(),
            acpx_session_id: session.to_string(),
            agent_session_id: agent_session.as_ref().map(|id| id.as_str().to_owned()),
            announced: reset.announced,
            carried: self.history.extent,
            error: reset.error.clone(),
        };
        let outcome = match reset.reason {
            LineageReason::Forked => WakeOutcome::Forked,
            reason => WakeOutcome::Fresh { reason, announced: reset.announced },
        };
        lineage.replace_after(reset.error, session, agent_session, reset.reason, now);
        self.meter.counter = CostCounter::of_session(Some(lineage), None);
        self.out.push(Effect::SaveLineage(lineage.clone()));
        // A fork has the history of the session it was forked from.
        if std::mem::take(&mut self.target) != RestoreTarget::Forked {
            self.progress.is_prompted = false;
        }
        self.emit(Effect::Fact(fact));
        self.history.is_due = self.history.extent.is_some();
        self.restore_settings(now, live, outcome);
    }

    pub(super) fn on_restored(&mut self, now: Timestamp, agent_session: Option<AgentSessionId>) {
        let Restore { ladder, rung, alignment } = match self.take_state() {
            MachineState::Starting(StartPhase::Restoring(restore)) => restore,
            other => return self.state = other,
        };
        self.clear_restore_error();
        self.meter.counter.on_restored();
        let (is_adopted, returned) = match std::mem::take(&mut self.target) {
            RestoreTarget::Adopted => (true, None),
            RestoreTarget::Earlier(session) => (false, self.replace_by_earlier(now, session)),
            RestoreTarget::Current | RestoreTarget::Forked => (false, None),
        };
        self.progress.is_prompted |= is_adopted || returned.is_some();
        if let Some(lineage) = &mut self.lineage
            && (lineage.set_agent_session(agent_session, now) != InnerIdChange::None
                || is_adopted
                || returned.is_some())
        {
            self.out.push(Effect::SaveLineage(lineage.clone()));
        }
        let replay = alignment.verdict();
        self.emit(Effect::Fact(Fact::Restored { by: rung.method().to_owned(), replay }));
        let outcome = match returned {
            Some(_) => WakeOutcome::Returned,
            None => WakeOutcome::Restored { rung, replay },
        };
        self.out.extend(returned.map(Effect::Fact));
        // An agent that resumes as the protocol requires replays nothing.
        let replays = rung != Rung::Resume || ladder.profile.replays_on_resume || replay.is_some();
        let late_replay = (alignment.expects_more() && replays)
            .then(|| Box::new(LateReplay { alignment, recorded: replay }));
        self.restore_settings(now, LiveSession { advertised: ladder.advertised, late_replay }, outcome);
    }

    /// The agent restored the earlier session that the record returns to: adds a lineage row and returns the fact.
    fn replace_by_earlier(&mut self, now: Timestamp, session: AcpSessionId) -> Option<Fact> {
        let lineage = self.lineage.as_mut()?;
        let agent_session = lineage.row_of(&session).and_then(|row| row.agent_session.clone());
        let fact = Fact::SessionReturned {
            from_acpx_session_id: lineage.current().session.to_string(),
            acpx_session_id: session.to_string(),
            agent_session_id: agent_session.as_ref().map(|id| id.as_str().to_owned()),
        };
        lineage.replace(session, agent_session, LineageReason::Returned, now);
        self.meter.counter = CostCounter::of_session(Some(lineage), None);
        Some(fact)
    }

    pub(super) fn on_setup_refused(&mut self, now: Timestamp, error: &AgentError) {
        match self.take_state() {
            MachineState::Starting(StartPhase::Creating(..)) => self.give_up(now, error),
            MachineState::Starting(StartPhase::Restoring(Restore { mut ladder, rung, .. })) => {
                match error.meaning() {
                    ErrorMeaning::BusyElsewhere if self.fallback() != Fallback::Always => {
                        self.give_up(now, error);
                    }
                    ErrorMeaning::LoginNeeded => self.give_up(now, error),
                    ErrorMeaning::Unsupported => self.descend(now, ladder, rung),
                    meaning @ (ErrorMeaning::Lost
                    | ErrorMeaning::Broken
                    | ErrorMeaning::BusyElsewhere
                    | ErrorMeaning::WorkerDied) => {
                        let (is_lost, error) = (meaning == ErrorMeaning::Lost, RestoreError::new(error, now));
                        ladder.refusal = Some(RestoreRefusal { is_lost, error });
                        self.descend(now, ladder, rung);
                    }
                }
            }
            other => self.state = other,
        }
    }

    /// The agent cannot accept a request that we would have to send on every rung.
    pub(super) fn on_setup_impossible(&mut self, now: Timestamp, error: &AgentError) {
        if let MachineState::Starting(
            StartPhase::Creating(..) | StartPhase::Restoring(_) | StartPhase::Listing(_),
        ) = self.state
        {
            self.give_up(now, error);
        }
    }

    /// Handles an update that arrives while the agent restores the session.
    pub(super) fn on_replayed_update(&mut self, update: &Update, body: Arc<str>) {
        let is_compared = update.is_history() && !self.is_adopting();
        let MachineState::Starting(StartPhase::Restoring(restore)) = &mut self.state else { return };
        let step = if is_compared { restore.alignment.step(update) } else { ReplayStep::Keep };
        if step == ReplayStep::Keep {
            self.emit(Effect::PersistUpdate(body));
        }
        self.emit(Effect::Arm(Deadline::Setup));
    }

    /// The agent runs but did not provide the session.
    pub(super) fn give_up(&mut self, now: Timestamp, error: &AgentError) {
        self.emit(Effect::Disarm);
        self.fail_start(now, error);
        // There may be no attached client, and no turn records the failure, so the agent's run does.
        let wants_login = self.lineage.is_some() && error.meaning() == ErrorMeaning::LoginNeeded;
        self.emit(Effect::StopAgent(wants_login.then_some(AgentEnd::WANTS_LOGIN)));
        self.state = MachineState::Stopping(AfterExit::Park);
    }

    /// The agent did not get the session: the waiting clients get the error. If the record was to return to an earlier
    /// session, only that fails; later prompts and requests are for the session that the record has.
    pub(super) fn fail_start(&mut self, now: Timestamp, error: &AgentError) {
        // A failed return, adoption or fork concerns another session than the record's.
        if self.lineage.is_some() && self.target == RestoreTarget::Current {
            self.restore_error = Some(RestoreError::new(error, now));
            self.emit(Effect::SaveRestoreError(self.restore_error.clone()));
        }
        self.options = None;
        self.emit(Effect::ReplyWake(Err(WakeError::Agent(error.clone()))));
        if self.returning().is_some() {
            self.target = RestoreTarget::Current;
            return;
        }
        self.forwards.fail_waiting(&ForwardError::Agent(error.clone()), &mut self.out);
        for turn in std::mem::take(&mut self.turns.queued) {
            self.end_turn(now, turn, TurnOutcome::Failed(error.into()));
        }
    }

    fn clear_restore_error(&mut self) {
        if self.restore_error.take().is_some() {
            self.emit(Effect::SaveRestoreError(None));
        }
    }

    /// The agent has the session: restore the chosen settings, then go live.
    fn restore_settings(&mut self, now: Timestamp, live: LiveSession, outcome: WakeOutcome) {
        let left = self.config.begin_restore();
        self.restore_next_setting(now, live, outcome, left);
    }

    fn restore_next_setting(
        &mut self,
        now: Timestamp,
        live: LiveSession,
        outcome: WakeOutcome,
        mut left: Vec<Setting>,
    ) {
        let Some((requested, name)) = self.config.next_to_restore(&mut left) else {
            for setting in left {
                let reason = self.config.unmet_reason(&setting);
                self.add_unmet(setting, reason);
            }
            return self.become_live(now, live, outcome);
        };
        self.emit(Effect::Call(AgentCall::Set(Setting { name, value: requested.value.clone() })));
        self.emit(Effect::Arm(Deadline::Setting));
        let settings = SettingsRestore { live, outcome, requested, left };
        self.state = MachineState::Starting(StartPhase::Configuring(settings));
    }

    pub(super) fn on_setting_answer(&mut self, now: Timestamp, answer: Result<(), AgentError>) {
        let SettingsRestore { live, outcome, requested, left } = match self.take_state() {
            MachineState::Starting(StartPhase::Configuring(settings)) => settings,
            other => return self.state = other,
        };
        let current = self.config.current(&requested.name).filter(|current| **current != requested.value);
        match (answer, current.map(ToString::to_string)) {
            (Err(error), _) => self.add_unmet(requested, &error.to_string()),
            (Ok(()), Some(current)) => {
                self.add_unmet(requested, &format!("the agent shows {current} instead"));
            }
            (Ok(()), None) => {}
        }
        self.restore_next_setting(now, live, outcome, left);
    }

    /// An agent that leaves one request unanswered would do so with the next, so the remaining settings are skipped.
    pub(super) fn on_setting_unanswered(&mut self, now: Timestamp) {
        let SettingsRestore { live, outcome, requested, left } = match self.take_state() {
            MachineState::Starting(StartPhase::Configuring(settings)) => settings,
            other => return self.state = other,
        };
        for setting in [requested].into_iter().chain(left) {
            self.add_unmet(setting, "the agent did not answer");
        }
        self.become_live(now, live, outcome);
    }

    fn add_unmet(&mut self, setting: Setting, reason: &str) {
        let fact = self.config.add_unmet(setting, reason);
        self.emit(Effect::Fact(fact));
    }

    /// The session is live: sends what was waiting.
    fn become_live(&mut self, now: Timestamp, live: LiveSession, outcome: WakeOutcome) {
        if self.lifecycle != Lifecycle::Open {
            self.lifecycle = Lifecycle::Open;
            self.emit(Effect::SaveLifecycle(Lifecycle::Open));
        }
        // A client's options apply to one start only.
        self.options = None;
        self.emit(Effect::ReplyWake(Ok(outcome)));
        self.state = MachineState::Idle(live);
        self.send_waiting_forwards();
        // The agent may have been working since before the session was live.
        match self.agent_work.early_turn.take() {
            Some(request) => self.begin_own_turn(now, request),
            None => self.dispatch_next(now),
        }
    }
}
