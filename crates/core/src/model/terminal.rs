//! What a terminal of ours has shown, folded from the facts about it.

use std::collections::HashMap;

use super::Fact;

/// The terminals of a record, by their ids. They are ours, and no two are the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalTexts(HashMap<Box<str>, TerminalText>);

/// One terminal, as last told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalText {
    /// The command, as a person would type it.
    pub command: String,
    /// What it wrote, or the end of it.
    pub output: String,
    /// How it ended, in words, if it has.
    pub exit: Option<String>,
}

/// A command as a person would type it.
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

/// What a file has that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviousContent {
    /// There is none.
    Nothing,
    /// This text.
    Text(String),
    /// So many bytes, which are too many to be shown, or no text.
    Unshown(u64),
}

impl TerminalTexts {
    /// Takes the next fact, whatever it is about.
    pub fn take(&mut self, fact: &Fact) {
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

    /// Forgets those that have ended: whoever follows a record for long would have the output of all it ever ran.
    pub fn forget_ended(&mut self) {
        self.0.retain(|_, terminal| terminal.exit.is_none());
    }

    /// A terminal, if it was told of.
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
            terminals.take(fact);
        }
        let exit = Some("ended by SIGKILL".to_owned());
        let expected = TerminalText { command: "ls".into(), output: "a\nb\n".into(), exit };
        assert_eq!(terminals.get("t"), Some(&expected));
        terminals.take(&ended(Some("end\n")));
        assert_eq!(terminals.get("t"), Some(&TerminalText { output: "end\n".into(), ..expected }));
        assert_eq!(terminals.get("u"), None);
        let running = Fact::TerminalStarted { terminal_id: "u".to_owned(), command: "top".into() };
        terminals.take(&running);
        terminals.forget_ended();
        let expected = TerminalText { command: "top".into(), ..TerminalText::default() };
        assert_eq!((terminals.get("t"), terminals.get("u")), (None, Some(&expected)));
    }
}
