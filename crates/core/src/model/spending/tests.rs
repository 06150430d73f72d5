use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::model::{AcpSessionId, Timestamp};

fn usd(nanos: u64) -> Money {
    Money { nanos, currency: "USD".into() }
}

#[test]
fn money_is_written_with_all_its_decimals_and_read_back() {
    let cases = [
        (0.003_496_000_000_000_000_4, "0.003496 USD"),
        (0.5, "0.50 USD"),
        (12.0, "12.00 USD"),
        (0.0, "0.00 USD"),
    ];
    for (amount, text) in cases {
        let money = Money::of(amount, "USD").unwrap();
        assert_eq!(money.to_string(), text);
        let json = serde_json::to_string(&money).unwrap();
        assert_eq!(serde_json::from_str::<Money>(&json).unwrap(), money);
    }
    let impossible = [-0.1, f64::NAN, f64::INFINITY, 1e300];
    assert_eq!(impossible.map(|amount| Money::of(amount, "USD")), [None, None, None, None]);
}

#[test]
fn tokens_are_the_reported_total_or_the_sum_of_the_parts() {
    let total = |usage: &str| TurnTokens::read(usage).total();
    assert_eq!(total(r#"{"inputTokens":3,"outputTokens":4,"totalTokens":9}"#), Some(9));
    assert_eq!(total(r#"{"inputTokens":3,"outputTokens":4,"cachedReadTokens":5}"#), Some(12));
    assert_eq!(total(r#"{"inputTokens":-3,"totalTokens":"many"}"#), None);
    assert_eq!((total("{}"), total("nonsense")), (None, None));
}

#[test]
fn cost_of_an_adopted_session_counts_from_its_first_report() {
    let at = Timestamp::from_millis(1).unwrap();
    let adopted = Lineage::adopted(AcpSessionId::new("s").unwrap(), at);
    let mut counter = CostCounter::of_session(Some(&adopted), None);
    assert_eq!(counter.in_turn(&usd(500)), None);
    assert_eq!(counter.in_turn(&usd(700)), Some(usd(200)));
    let mut counter = CostCounter::of_session(Some(&adopted), Some(usd(500)));
    assert_eq!(counter.in_turn(&usd(700)), Some(usd(200)));
}

#[test]
fn cost_counter_neither_repeats_nor_loses_costs_after_a_restart() {
    let mut counter = CostCounter::of_session(None, None);
    assert_eq!(counter.in_turn(&usd(500)), Some(usd(500)));
    // The agent repeats its total, as some do after a load, or begins again.
    counter.on_restored();
    counter.between_turns(&usd(500));
    assert_eq!(counter.in_turn(&usd(600)), Some(usd(100)));
    counter.on_restored();
    assert_eq!(counter.in_turn(&usd(50)), Some(usd(50)));
    // A report after the end of a turn belongs to the next one.
    counter.between_turns(&usd(80));
    assert_eq!(counter.in_turn(&usd(90)), Some(usd(40)));
    // Another currency is not added to the first.
    let euros = Money { nanos: 10, currency: "EUR".into() };
    assert_eq!(counter.in_turn(&euros), None);
    assert_eq!(counter.in_turn(&Money { nanos: 12, ..euros.clone() }), Some(Money { nanos: 2, ..euros }));
}

#[test]
fn limits_are_reached_by_the_session_and_passed_by_a_turn() {
    let limits = SpendingLimits {
        turn: Budget { cost: Some(usd(500_000_000)), tokens: None },
        session: Budget { cost: None, tokens: Some(100) },
    };
    let spent = |tokens| Spending { tokens, costs: vec![usd(900_000_000)] };
    let text = |reached: Option<LimitReached>| reached.map(|reached| (reached.code(), reached.to_string()));
    assert_eq!(text(limits.reached(&spent(99))), None);
    let used = (ErrorCode::TokenLimit, "the session's turns have used 100 tokens, and the limit is 100");
    assert_eq!(text(limits.reached(&spent(100))), Some((used.0, used.1.to_owned())));
    assert_eq!(text(limits.passed(&spent(50), Some(&usd(500_000_000)), 50)), None);
    let cost = (ErrorCode::CostLimit, "the turn has cost 0.51 USD, and the limit is 0.50 USD");
    assert_eq!(
        text(limits.passed(&spent(50), Some(&usd(510_000_000)), 51)),
        Some((cost.0, cost.1.to_owned()))
    );
}

#[test]
fn lower_limits_win_and_absent_ones_are_filled() {
    let limits = |cost, tokens| SpendingLimits { turn: Budget { cost, tokens }, ..SpendingLimits::default() };
    let own = limits(Some(usd(5)), None);
    let set = limits(Some(usd(3)), Some(7));
    assert_eq!(own.clone().or(&set), limits(Some(usd(5)), Some(7)));
    assert_eq!(own.clone().within(&set), set);
    assert_eq!(set.clone().within(&own), set);
    let euros = limits(Some(Money { nanos: 1, currency: "EUR".into() }), None);
    assert_eq!(euros.within(&set), set);
}

/// What happens to a session: turns with their reports, restarts, and reports between turns.
#[derive(Debug, Clone)]
enum Step {
    InTurn(Vec<u32>),
    Restored,
    Between(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = proptest::prop_oneof![
        proptest::collection::vec(any::<u32>(), 0..4).prop_map(Step::InTurn),
        proptest::strategy::Just(Step::Restored),
        any::<u32>().prop_map(Step::Between),
    ];
    proptest::collection::vec(step, 0..20)
}

proptest! {
    /// The costs of the turns are together what the total has grown by: no cost is lost, repeated or negative.
    #[test]
    fn derived_costs_of_a_session_add_up_to_its_growth(increases in steps()) {
        let mut counter = CostCounter::of_session(None, None);
        let (mut total, mut derived, mut assigned) = (0, 0, 0);
        for step in increases {
            match step {
                Step::InTurn(reports) => for increase in reports {
                    total += u64::from(increase);
                    derived += counter.in_turn(&usd(total)).unwrap().nanos;
                    assigned = total;
                },
                // An agent that is restored repeats its total before anything else.
                Step::Restored => {
                    counter.on_restored();
                    if assigned == total && total > 0 {
                        counter.between_turns(&usd(total));
                    }
                }
                Step::Between(increase) if counter.is_confirmed => {
                    total += u64::from(increase);
                    counter.between_turns(&usd(total));
                }
                Step::Between(_) => {}
            }
            prop_assert_eq!(derived, assigned);
        }
    }

    /// Whatever an agent reports, no turn costs more than the reports of the session add up to.
    #[test]
    fn derived_costs_are_bounded_by_what_was_reported(reports in proptest::collection::vec((any::<bool>(), any::<u32>()), 0..30)) {
        let mut counter = CostCounter::of_session(None, None);
        let (mut sum, mut derived) = (0_u64, 0_u64);
        for (in_turn, total) in reports {
            let reported = usd(total.into());
            sum += reported.nanos;
            if in_turn {
                derived += counter.in_turn(&reported).map_or(0, |cost| cost.nanos);
            } else {
                counter.between_turns(&reported);
            }
            prop_assert!(derived <= sum);
        }
    }
}
