use serde_json::json;

use super::*;

fn options() -> Vec<OptionMeta> {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "kind": kind });
    let options = [
        option("2", "allow_once"),
        option("1", "allow_always"),
        option("no", "reject_once"),
        option("never", "reject_always"),
        option("x", "of_its_own"),
        option("y", "of_its_own"),
    ];
    OptionMeta::of_request(&json!({ "options": options }))
}

#[test]
fn an_ambiguous_word_selects_no_permission_option() {
    let options = options();
    let chosen = |word: &str| chosen(&options, word).map(|option| option.option_id.as_str());
    for word in ["1", "2", "of_its_own", "0", "7", "allow", ""] {
        assert_eq!(chosen(word), None, "{word:?}");
    }
    let words = [("allow_always", "1"), ("3", "no"), ("no", "no"), ("reject_once", "no"), ("5", "x")];
    for (word, id) in words {
        assert_eq!(chosen(word), Some(id), "{word:?}");
    }
}

#[test]
fn an_option_of_the_opposite_kind_is_refused() {
    let options = options();
    let choose = |id: &str| Ok(ClientDecision::Choose(id.into()));
    let cases = [
        (true, Some("3"), Err(AnswerProblem::Refuses)),
        (true, Some("1"), Err(AnswerProblem::NotOne)),
        (true, Some("allow_once"), choose("2")),
        (true, Some("5"), choose("x")),
        (true, None, Ok(ClientDecision::Approve)),
        (false, Some("3"), choose("no")),
        (false, Some("reject_always"), choose("never")),
        (false, Some("allow_once"), Err(AnswerProblem::MayApprove)),
        (false, Some("5"), Err(AnswerProblem::MayApprove)),
        (false, None, Ok(ClientDecision::Reject)),
    ];
    for (approve, word, expected) in cases {
        assert_eq!(decision(&options, true, approve, word), expected, "{approve} {word:?}");
    }
    assert_eq!(decision(&options, false, true, None), Err(AnswerProblem::NoneApproves));
}

#[test]
fn pause_after_a_report_of_pending_requests_grows_with_its_size() {
    assert_eq!(report_pause(0), Duration::from_millis(50));
    assert_eq!(report_pause(50_000), Duration::from_millis(50));
    assert_eq!(report_pause(16 << 20), Duration::from_micros(16 << 20));
}
