//! What a prompt asks the demo agent to do. Pure: the same words always give the same steps.

use std::time::Duration;

/// More chunks than this are not streamed, so that a mistyped number does no harm.
const MOST_CHUNKS: u32 = 1_000_000;

/// One thing a turn does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Echo,
    Chunks(u32),
    Think,
    Plan,
    Tool,
    Permission,
    Mode(String),
    WaitUntilCancelled,
    Wait(Duration),
    Recall,
    Refuse,
    Fail,
    Crash,
}

/// The steps of a prompt, in the order of its words. What has no answer of its own is echoed at the end.
pub(super) fn steps(text: &str) -> Vec<Step> {
    let plain = |word: &str| word.trim_matches(|sign: char| !sign.is_alphanumeric()).to_lowercase();
    let words: Vec<String> = text.split_whitespace().map(plain).collect();
    let mut steps: Vec<Step> = (0..words.len()).filter_map(|index| step(&words[index..])).collect();
    if !steps.iter().any(Step::is_an_answer) {
        steps.push(Step::Echo);
    }
    steps
}

/// The step that begins with the first of these words.
fn step(words: &[String]) -> Option<Step> {
    let next = words.get(1).map(String::as_str);
    match words.first()?.as_str() {
        "chunks" => next?.parse().ok().map(|count: u32| Step::Chunks(count.min(MOST_CHUNKS))),
        "think" => Some(Step::Think),
        "plan" => Some(Step::Plan),
        "tool" => Some(Step::Tool),
        "permission" => Some(Step::Permission),
        "mode" => next.map(|mode| Step::Mode(mode.into())),
        "wait" => Some(match next.and_then(|millis| millis.parse().ok()) {
            Some(millis) => Step::Wait(Duration::from_millis(millis)),
            None => Step::WaitUntilCancelled,
        }),
        "recall" => Some(Step::Recall),
        "refuse" => Some(Step::Refuse),
        "fail" => Some(Step::Fail),
        "crash" => Some(Step::Crash),
        _ => None,
    }
}

impl Step {
    fn is_an_answer(&self) -> bool {
        matches!(self, Self::Chunks(_) | Self::Recall | Self::Refuse | Self::Fail | Self::Crash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_steps_in_their_order_and_the_rest_is_echoed() {
        let table = [
            ("hello", vec![Step::Echo]),
            ("", vec![Step::Echo]),
            ("Think, then plan!", vec![Step::Think, Step::Plan, Step::Echo]),
            ("chunks 3", vec![Step::Chunks(3)]),
            ("chunks of wood", vec![Step::Echo]),
            ("chunks 4000000000", vec![Step::Chunks(MOST_CHUNKS)]),
            ("wait", vec![Step::WaitUntilCancelled, Step::Echo]),
            ("wait 20 and recall", vec![Step::Wait(Duration::from_millis(20)), Step::Recall]),
            ("mode code", vec![Step::Mode("code".into()), Step::Echo]),
            ("mode", vec![Step::Echo]),
            ("permission tool", vec![Step::Permission, Step::Tool, Step::Echo]),
            ("refuse", vec![Step::Refuse]),
            ("fail", vec![Step::Fail]),
            ("crash", vec![Step::Crash]),
        ];
        for (text, expected) in table {
            assert_eq!(steps(text), expected, "{text}");
        }
    }
}
