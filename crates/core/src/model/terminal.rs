//! The output of our terminals, folded from the facts about them.

use std::collections::HashMap;

use super::Fact;

/// The terminals of a record by id. acpx makes the ids, and they are unique.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalTexts(HashMap<Box<str>, TerminalText>);

/// One terminal after the last fact about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalText {
    /// The command line.
    pub command: String,
    /// What it wrote, or the end of it.
    pub output: String,
    /// How it ended, as text, if it has.
    pub exit: Option<String>,
}

/// A command and its arguments as one shell command line.
pub fn command_line<'a>(command: &str, args: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = command.to_owned();
    for argument in args {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            line.extend([" ", argument]);
        } else {
            line.extend([" '", &argument.replace('\'', r"'\''"), "'"]);
        }
    }
    line
}

/// The current content of a file that is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PreviousContent {
    /// The file does not exist.
    Nothing,
    /// This text.
    Text(String),
    /// The number of bytes of a file that is too large to show or is not text.
    Unshown(u64),
}

impl TerminalTexts {
    /// Applies the next fact; facts that are not about terminals change nothing.
    pub fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::TerminalStarted { terminal_id, command } => {
                self.of(terminal_id).command.clone_from(command);
            }
            Fact::TerminalOutput { terminal_id, output } => self.of(terminal_id).output.push_str(output),
            Fact::TerminalEnded { terminal_id, exit_code, signal, output } => {
                let terminal = self.of(terminal_id);
                if let Some(output) = output {
                    terminal.output.clone_from(output);
                }
                terminal.exit = Some(match (exit_code, signal) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, Some(signal)) => format!("ended by {signal}"),
                    (None, None) => "ended".to_owned(),
                });
            }
            _ => {}
        }
    }

    /// Removes ended terminals, so that a long-running follower does not hold the output of every command.
    pub fn forget_ended(&mut self) {
        self.0.retain(|_, terminal| terminal.exit.is_none());
    }

    /// A terminal, if a fact has named it.
    pub fn get(&self, id: &str) -> Option<&TerminalText> {
        self.0.get(id)
    }

    fn of(&mut self, id: &str) -> &mut TerminalText {
        self.0.entry(id.into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_its_command_what_it_wrote_and_how_it_ended() {
        let id = || "t".to_owned();
        let mut terminals = TerminalTexts::default();
        let ended = |output: Option<&str>| Fact::TerminalEnded {
            terminal_id: id(),
            exit_code: None,
            signal: Some("SIGKILL".into()),
            output: output.map(str::to_owned),
        };
        let facts = [
            Fact::TerminalStarted { terminal_id: id(), command: "ls".into() },
            Fact::TerminalOutput { terminal_id: id(), output: "a\n".into() },
            Fact::Closed {},
            Fact::TerminalOutput { terminal_id: id(), output: "b\n".into() },
            ended(None),
        ];
        for fact in &facts {
            terminals.apply(fact);
        }
        let exit = Some("ended by SIGKILL".to_owned());
        let expected = TerminalText { command: "ls".into(), output: "a\nb\n".into(), exit };
        assert_eq!(terminals.get("t"), Some(&expected));
        terminals.apply(&ended(Some("end\n")));
        assert_eq!(terminals.get("t"), Some(&TerminalText { output: "end\n".into(), ..expected }));
        assert_eq!(terminals.get("u"), None);
        let running = Fact::TerminalStarted { terminal_id: "u".to_owned(), command: "top".into() };
        terminals.apply(&running);
        terminals.forget_ended();
        let expected = TerminalText { command: "top".into(), ..TerminalText::default() };
        assert_eq!((terminals.get("t"), terminals.get("u")), (None, Some(&expected)));
    }
}
