//! The manual page, made from the grammar: every command with its own flags, and the shared flags once.

use clap::{Arg, Args, Command};

use super::options::{SHARED, SessionArgs, SessionNameArgs};
use super::pages::wrapped;
use super::verbs::{EXAMPLES, LONG_ABOUT, USAGE, built_in_agents, grammar};

/// The columns for text that keeps its own lines: those of a usual terminal, less the page's indent.
const COLUMNS: usize = 71;

const FILES: &str = "\
~/.acpx/acpx.db          the sessions; acpx backup copies it
~/.acpx/config.json      the configuration
~/.acpx/tokens.json      tokens of remote clients, as hashes
~/.acpx/host.log         the log of the host";

const ENVIRONMENT: &str = "\
ACPX_HOME             the directory of these files instead of ~/.acpx
ACPX_REMOTE_TOKEN     the token for an agent at a URL
NO_COLOR              no colour";

const EXIT_STATUS: &str = "\
0      success
1      failure
2      the command line is wrong
3      a time limit passed
4      there is no such session
5      a permission was denied
6      a session that was waited for needs you
130    interrupted";

/// The page in troff.
pub(crate) fn page() -> String {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.macros(&format!(".TH ACPX 1 \"\" \"acpx {version}\" \"User Commands\""));
    page.section("NAME");
    page.text("acpx - tmux for coding agents: sessions of the Agent Client Protocol that last");
    page.section("SYNOPSIS");
    page.lines(&usage_lines(USAGE));
    page.section("DESCRIPTION");
    for paragraph in LONG_ABOUT.split("\n\n").skip(1) {
        page.text(paragraph);
    }
    page.section("COMMANDS");
    let mut root = grammar(&[]);
    root.build();
    page.commands(&root, "acpx");
    page.section("SHARED FLAGS");
    let shared = SessionArgs::augment_args(SessionNameArgs::augment_args(Command::new("acpx")));
    for flag in shared.get_arguments().filter(|flag| !flag.is_hide_set()) {
        page.flag(flag);
    }
    page.section("AGENTS");
    page.lines(&built_in_agents());
    for (title, text) in
        [("EXAMPLES", EXAMPLES), ("EXIT STATUS", EXIT_STATUS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)]
    {
        page.section(title);
        page.lines(text.strip_prefix("Examples:\n").unwrap_or(text));
    }
    page.0
}

/// A usage with each form on its own line.
fn usage_lines(usage: &str) -> String {
    usage.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn macros(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.macros(&format!(".SH {title}"));
    }

    /// A paragraph that is filled.
    fn text(&mut self, text: &str) {
        self.macros(".PP");
        for line in text.lines() {
            self.macros(&escaped(line));
        }
    }

    /// Lines that stay as they are, unless they are too long.
    fn lines(&mut self, text: &str) {
        self.macros(".PP\n.nf");
        for line in wrapped(text, COLUMNS).lines() {
            self.macros(&escaped(line));
        }
        self.macros(".fi");
    }

    /// The commands below a command, and those below them.
    fn commands(&mut self, command: &Command, path: &str) {
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
        for verb in verbs {
            let path = format!("{path} {}", verb.get_name());
            self.macros(&format!(".SS {}", escaped(&path)));
            if let Some(about) = verb.get_long_about().or(verb.get_about()) {
                self.text(&about.to_string());
            }
            let is_group = verb.get_subcommands().any(|below| below.get_name() != "help");
            if !is_group {
                let usage = verb.clone().render_usage().to_string();
                self.lines(&usage_lines(usage.trim_start_matches("Usage: ")));
                for argument in verb.get_arguments().filter(|argument| is_own(argument)) {
                    self.flag(argument);
                }
            }
            if let Some(help) = verb.get_after_help() {
                self.lines(&help.to_string());
            }
            self.commands(verb, &path);
        }
    }

    /// A flag or an argument with its help.
    fn flag(&mut self, argument: &Arg) {
        let names = argument.get_value_names().unwrap_or_default();
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let takes_value = argument.get_action().takes_values() && !names.is_empty();
        let long = argument.get_long().map(|long| format!("--{long}"));
        let flags: Vec<String> =
            argument.get_short().map(|short| format!("-{short}")).into_iter().chain(long).collect();
        let value = if takes_value { format!("\\fI{}\\fR", escaped(&names)) } else { String::new() };
        let flags =
            flags.iter().map(|flag| format!("\\fB{}\\fR", escaped(flag))).collect::<Vec<_>>().join(", ");
        self.macros(".TP");
        self.macros(format!("{flags} {value}").trim());
        let help =
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let mut paragraphs = help.split("\n\n");
        self.macros(&escaped(paragraphs.next().unwrap_or_default()));
        for paragraph in paragraphs {
            // A list of values keeps its lines.
            self.macros(".IP\n.nf");
            for line in wrapped(paragraph, COLUMNS - 7).lines() {
                self.macros(&escaped(line));
            }
            self.macros(".fi");
        }
    }
}

/// Whether a flag is listed with its command, and not among the shared ones.
fn is_own(argument: &Arg) -> bool {
    let is_standard = ["help", "version", "session"].contains(&argument.get_id().as_str());
    argument.get_help_heading() != Some(SHARED) && !argument.is_hide_set() && !is_standard
}

/// A line of text: nothing in it is a command of troff.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_page_has_every_visible_command_and_flag() {
        fn paths(command: &Command, path: &str) -> Vec<String> {
            let below = command.get_subcommands().filter(|verb| !verb.is_hide_set());
            below
                .flat_map(|verb| {
                    let path = format!("{path} {}", verb.get_name());
                    [path.clone()].into_iter().chain(paths(verb, &path)).collect::<Vec<_>>()
                })
                .collect()
        }
        let page = page();
        for path in paths(&grammar(&[]), "acpx") {
            assert!(page.contains(&format!("\n.SS {}\n", escaped(&path))), "{path}");
        }
        let shown = |flag: &&str| !["--login", "--policy", "--name"].contains(flag);
        let long =
            super::super::flags::FLAGS.iter().map(|(flag, _)| *flag).filter(|flag| flag.starts_with("--"));
        for flag in long.filter(shown) {
            assert!(page.contains(&format!("\\fB{}\\fR", escaped(flag))), "{flag}");
        }
        assert!(!page.contains("remote\\-agent"), "a hidden command is shown");
    }

    #[test]
    fn no_line_of_text_is_a_troff_command() {
        assert_eq!(escaped(".SH x"), "\\&.SH x");
        assert_eq!(escaped("'a' \\ b-c"), "\\&'a' \\e b\\-c");
        let page = page();
        let is_command = |line: &&str| line.starts_with('.');
        let known = [".TH", ".SH", ".SS", ".PP", ".TP", ".IP", ".nf", ".fi"];
        let other: Vec<&str> = page
            .lines()
            .filter(is_command)
            .filter(|line| !known.iter().any(|known| line.split(' ').next() == Some(known)))
            .collect();
        assert_eq!(other, [""; 0]);
    }
}
