//! What turns cost, and turns that pass a limit of cost or tokens.

use super::cases::{calls, ended};
use super::*;
use crate::model::{Budget, Cost, CostCounter, Money, SessionUsage, Spending, SpendingLimits, TurnStop};

/// A usage update with the size of the context and the session's total cost in USD.
pub(super) fn usage(used: u64, cost: Option<f64>) -> Input {
    let number = |amount| serde_json::Number::from_f64(amount).unwrap();
    let cost = cost.map(|amount| Cost { amount: number(amount), currency: "USD".to_owned() });
    let (cost_stands, usage) = (cost.is_none(), SessionUsage { used, size: 100, cost });
    Input::Update { update: Update::Usage { usage, cost_stands }, body: Arc::from("usage") }
}

/// A prompt with these limits.
pub(super) fn within(request: &str, spending: SpendingLimits) -> Input {
    let Input::Prompt { request, prompt, policy, options, .. } = prompt(request) else { panic!("a prompt") };
    Input::Prompt {
        request,
        prompt,
        policy,
        options,
        limits: TurnLimits { spending, ..TurnLimits::default() },
    }
}

/// One dollar for the turn.
pub(super) fn one_dollar() -> SpendingLimits {
    SpendingLimits { turn: Budget { cost: Money::of(1.0, "USD"), tokens: None }, ..SpendingLimits::default() }
}

fn of_session(cost: Option<f64>, tokens: Option<u64>) -> SpendingLimits {
    let cost = cost.and_then(|amount| Money::of(amount, "USD"));
    SpendingLimits { session: Budget { cost, tokens }, ..SpendingLimits::default() }
}

fn answered(tokens: Option<u64>) -> Input {
    let usage = tokens.map(|tokens| Arc::from(format!(r#"{{"totalTokens":{tokens}}}"#)));
    Input::PromptAnswered(Ok(TurnStop { reason: StopReason::new("end_turn"), usage }))
}

fn failed(code: &str, message: &str) -> TurnOutcome {
    TurnOutcome::Failed(TurnError { code: code.into(), message: message.into(), acp: None })
}

fn cost(effects: &[Effect]) -> Option<f64> {
    effects.iter().find_map(|effect| match effect {
        Effect::TurnEnded(turn) => turn.cost.as_ref().map(Money::amount),
        _ => None,
    })
}

#[test]
fn turn_over_its_cost_limit_is_cancelled_after_the_report_is_stored() {
    let mut machine = live(ALL);
    let effects = feed(&mut machine, [within("p", one_dollar()), usage(10, Some(1.0))]);
    let [Effect::SaveUsage { .. }, Effect::SaveCost(turn), Effect::PersistUpdate(_)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(turn.cost, Money::of(1.0, "USD"));
    let effects = feed(&mut machine, [usage(20, Some(1.25))]);
    assert_eq!(
        effects[2..],
        [
            Effect::PersistUpdate(Arc::from("usage")),
            Effect::Call(AgentCall::Cancel),
            Effect::Arm(Deadline::Cancel)
        ]
    );
    // Further reports and answers change nothing but the cost.
    feed(&mut machine, [usage(20, Some(1.5))]);
    let effects = feed(&mut machine, [answered(Some(7))]);
    let message = "the turn has cost 1.25 USD, and the limit is 1.00 USD; the turn was cancelled";
    assert_eq!(ended(&effects), [(2, &failed("COST_LIMIT", message))]);
    assert_eq!(cost(&effects), Some(1.5));
    // The limit was that of the turn: the next one begins at zero.
    let effects = feed(&mut machine, [within("q", one_dollar()), usage(20, Some(2.5))]);
    assert_eq!(calls(&effects), Vec::<&AgentCall>::new());
}

#[test]
fn session_at_its_limit_refuses_prompts_and_ends_queued_ones() {
    let limit = of_session(Some(2.0), None);
    let mut machine = kept(1);
    machine.set_spent(Spending { tokens: 0, costs: vec![Money::of(1.0, "USD").unwrap()] });
    feed(&mut machine, [Input::Wake(WakeOptions::default()), ready(ALL)]);
    feed(&mut machine, [Input::SessionRestored { agent_session: None }]);
    feed(&mut machine, [within("p", limit.clone()), usage(10, Some(1.0)), within("q", limit.clone())]);
    let effects = feed(&mut machine, [answered(None)]);
    let reached = "the session's turns have cost 2.00 USD, and the limit is 2.00 USD";
    let unsent = failed("COST_LIMIT", &format!("{reached}; the prompt was not sent"));
    let outcomes: Vec<_> = ended(&effects).into_iter().skip(1).collect();
    assert_eq!((outcomes, calls(&effects)), (vec![(3, &unsent)], vec![]));
    let effects = feed(&mut machine, [within("r", limit)]);
    let [Effect::TurnRefused(_, PromptRefusal::LimitReached(why))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((why.code(), why.to_string()), (ErrorCode::CostLimit, reached.to_owned()));
    // A higher limit lets the session continue.
    let effects = feed(&mut machine, [within("s", of_session(Some(3.0), None))]);
    assert!(matches!(calls(&effects)[..], [AgentCall::Prompt { .. }]), "{effects:?}");
}

#[test]
fn tokens_count_at_turn_end_and_by_context_before() {
    let limit = || of_session(None, Some(100));
    let mut machine = live(ALL);
    feed(&mut machine, [within("p", limit())]);
    assert_eq!(calls(&feed(&mut machine, [usage(60, None)])), Vec::<&AgentCall>::new());
    feed(&mut machine, [answered(Some(70))]);
    feed(&mut machine, [within("q", limit())]);
    assert_eq!(calls(&feed(&mut machine, [usage(31, None)])), [&AgentCall::Cancel]);
    let effects = feed(&mut machine, [answered(Some(40))]);
    let message = "the session's turns have used 101 tokens, and the limit is 100; the turn was cancelled";
    assert_eq!(ended(&effects), [(3, &failed("TOKEN_LIMIT", message))]);
    let effects = feed(&mut machine, [within("r", limit())]);
    assert!(matches!(&effects[..], [Effect::TurnRefused(_, PromptRefusal::LimitReached(_))]), "{effects:?}");
}

#[test]
fn tokens_of_a_turn_stopped_without_usage_count_for_the_session() {
    let mut machine = live(ALL);
    feed(&mut machine, [within("p", of_session(None, Some(100)))]);
    assert_eq!(calls(&feed(&mut machine, [usage(101, None)])), [&AgentCall::Cancel]);
    feed(&mut machine, [answered(None)]);
    let effects = feed(&mut machine, [within("q", of_session(None, Some(100)))]);
    let [Effect::TurnRefused(_, PromptRefusal::LimitReached(why))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(why.to_string(), "the session's turns have used 101 tokens, and the limit is 100");
}

#[test]
fn tokens_over_the_turn_limit_that_arrive_at_its_end_are_noted() {
    let limit =
        SpendingLimits { turn: Budget { cost: None, tokens: Some(100) }, ..SpendingLimits::default() };
    let mut machine = live(ALL);
    for request in ["p", "q"] {
        let effects = feed(&mut machine, [within(request, limit.clone()), answered(Some(101))]);
        let reason = "tokens: the turn used 101 tokens, reported only at its end, and the limit is 100";
        assert_eq!(noted(&effects), [reason]);
    }
    let effects = feed(&mut machine, [within("r", limit), answered(Some(100))]);
    assert_eq!(noted(&effects), [""; 0]);
}

#[test]
fn first_total_of_an_adopted_session_is_noted_as_unknown_cost() {
    let mut machine = live(ALL);
    let adopted = Lineage::adopted(session("s1"), at(1));
    machine.meter.counter = CostCounter::of_session(Some(&adopted), None);
    let effects = feed(&mut machine, [within("p", one_dollar()), usage(1, Some(5.0)), answered(None)]);
    let first = "cost: the agent's first report has the cost of the whole session, and not that of the turn";
    assert_eq!(noted(&effects), [first]);
    let effects = feed(&mut machine, [within("q", one_dollar()), usage(1, Some(5.5)), answered(None)]);
    assert_eq!((cost(&effects), noted(&effects)), (Some(0.5), Vec::new()));
    // A later turn without any report is noted with the true reason.
    let effects = feed(&mut machine, [within("r", one_dollar()), answered(None)]);
    assert_eq!(noted(&effects), ["cost: the agent reports no cost for this turn"]);
}

/// The limits that were reported as not enforced, with their reasons.
fn noted(effects: &[Effect]) -> Vec<String> {
    let reason = |effect: &Effect| match effect {
        Effect::Fact(Fact::LimitNotEnforced { limit, reason, .. }) => Some(format!("{limit}: {reason}")),
        _ => None,
    };
    effects.iter().filter_map(reason).collect()
}

#[test]
fn limit_that_cannot_be_enforced_is_noted_in_every_turn() {
    let both = SpendingLimits { session: of_session(Some(9.0), Some(9)).session, ..one_dollar() };
    let mut machine = live(ALL);
    let unknown = ["cost: the agent reports no cost for this turn", "tokens: the agent reports no tokens"];
    for request in ["p", "q"] {
        let effects = feed(&mut machine, [within(request, both.clone()), answered(None)]);
        assert_eq!(noted(&effects), unknown);
    }
    let in_currency = |currency: &str| Budget { cost: Money::of(9.0, currency), tokens: None };
    let limits = SpendingLimits { turn: in_currency("EUR"), session: in_currency("GBP") };
    let effects = feed(&mut machine, [within("r", limits), usage(1, Some(5.0)), answered(None)]);
    let other = |limit: &str| format!("cost: the agent reports its cost in USD, and the limit is in {limit}");
    assert_eq!(noted(&effects), [other("EUR"), other("GBP")]);
}

#[test]
fn costs_of_a_restored_session_count_from_its_last_total() {
    let mut machine = live(ALL);
    let effects = feed(&mut machine, [prompt("p"), usage(1, Some(2.0)), answered(None)]);
    assert_eq!(cost(&effects), Some(2.0));
    // The agent is parked and restored: it repeats its total, which is no cost.
    feed(&mut machine, [Input::Park, Input::AgentStopped, prompt("q"), ready(ALL), usage(1, Some(2.0))]);
    feed(&mut machine, [Input::SessionRestored { agent_session: None }]);
    let effects = feed(&mut machine, [usage(1, Some(2.5)), answered(None)]);
    assert_eq!(cost(&effects), Some(0.5));
    // A turn that was interrupted has cost what it had cost until then.
    feed(&mut machine, [prompt("r"), usage(1, Some(3.0))]);
    let effects = feed(&mut machine, [Input::HostStopping]);
    assert_eq!(cost(&effects), Some(0.5));
}
