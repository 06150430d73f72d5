//! A line that may be a mistyped command or a prompt.

use crate::agents;

/// A line whose first word after the agent's name is nearly a verb. Both readings are arguments after the program's
/// name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NearVerb {
    /// The word.
    pub(crate) word: String,
    /// The line with the verb.
    pub(crate) command: Vec<String>,
    /// The line that sends the words to the agent.
    pub(crate) prompt: Vec<String>,
}

impl NearVerb {
    /// The readings of these arguments, whose word at this index may be this verb.
    pub(super) fn new(arguments: &[String], index: usize, verb: &str) -> Self {
        let (before, after) = arguments.split_at(index);
        let (word, behind) =
            after.split_first().map_or((verb, after), |(word, behind)| (word.as_str(), behind));
        let line = |middle: &[&str]| -> Vec<String> {
            let middle = middle.iter().map(|word| (*word).to_owned());
            before.iter().cloned().chain(middle).chain(behind.iter().cloned()).collect()
        };
        Self { word: word.to_owned(), command: line(&[verb]), prompt: line(&["prompt", word]) }
    }

    /// The line to type for the verb.
    pub(crate) fn command_line(&self) -> String {
        typed_line(&self.command)
    }

    /// The line to type for the prompt.
    pub(crate) fn prompt_line(&self) -> String {
        typed_line(&self.prompt)
    }
}

fn typed_line(arguments: &[String]) -> String {
    let words = arguments.iter().map(|word| agents::quote(word));
    ["acpx".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
