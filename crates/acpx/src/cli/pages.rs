//! The help pages that clap does not make: the short page for a terminal, the complete one, and one for each agent; and
//! the wrapping of every page to a terminal's width. In a pipe a page has its own lines.

use super::options::{SessionArgs, SessionNameArgs};
use super::verbs::{EXAMPLES, LONG_ABOUT, VERBS, built_in_agents, grammar};
use crate::agents;
use clap::Args;

/// The widest line of help; a longer one is hard to read.
const WIDEST: usize = 100;
/// The width that the help texts are written for. A line that is nearly as long is continued by the next one.
const WRITTEN_FOR: usize = 100;
/// The least room for the second column of a row; with less, the column is not kept.
const NARROW: usize = 24;

const SHORT: &str = "\
acpx keeps sessions with coding agents. They outlive the terminal and the agent.

  acpx                            pick one of all sessions
  acpx claude                     open the session of this directory
  acpx claude 'fix the tests'     prompt it; it is created if there is none
  acpx claude -s api 'add it'     prompt the session named api
  git diff | acpx claude 'why?'   send words with the content of a pipe
  acpx exec 'what is this?'       one prompt to the default agent, not stored
";

const SHORT_FLAGS: &str = "
Flags, also after the words of a prompt:
  -s, --session NAME    this session, by its name or id
  -f, --file FILE       read the prompt from a file; --image FILE attaches one
      --model MODEL     use this model
      --approve-all     approve what the agent asks; --deny-all denies it
      --no-wait         queue the prompt and return
      --cwd DIR         work in another directory
      --format FORMAT   text, json or quiet

acpx help COMMAND or acpx help claude tells more, acpx --help --all everything.
";

/// The page that fits a small terminal: the common commands and flags.
pub(super) fn short() -> String {
    let mut lines = vec![String::from("Commands:")];
    for (verb, _) in
        VERBS.iter().filter(|(verb, _)| !["prompt", "remote-agent", "demo-agent", "complete"].contains(verb))
    {
        match lines.last_mut() {
            Some(line) if line.len() + verb.len() < 78 => *line = format!("{line} {verb}"),
            _ => lines.push(format!("  {verb}")),
        }
    }
    format!("{SHORT}\n{}\n{SHORT_FLAGS}", lines.join("\n"))
}

/// The page with every command, the flags that they share, every built-in agent and the examples.
pub(super) fn complete() -> String {
    let root = SessionArgs::augment_args(SessionNameArgs::augment_args(grammar(&[])));
    let root = root.about(LONG_ABOUT).after_help(format!("{}\n\n{EXAMPLES}", built_in_agents()));
    root.disable_help_flag(true).disable_version_flag(true).render_help().to_string()
}

/// The page of an agent: what it is, how it starts, and what to type.
pub(super) fn agent(name: &str) -> String {
    let (what, start) = match (agents::about(name), agents::built_in(name)) {
        (about, Some(agent)) => {
            let what = about.map_or_else(|| name.to_owned(), |about| format!("{name}: {about}"));
            let line = [&agent.program].into_iter().chain(&agent.args).map(String::as_str);
            let line = line.collect::<Vec<_>>().join(" ");
            let install = agents::install_hint(&agent.program);
            let install = install.map_or_else(String::new, |hint| format!("\nIf it is missing, {hint}"));
            (what, format!("acpx starts it with: {line}{install}"))
        }
        (Some(about), None) => (format!("{name}: {about}"), "It is part of acpx.".to_owned()),
        (None, None) => {
            (name.to_owned(), format!("acpx starts it as \"agents\" in config.json says for {name:?}."))
        }
    };
    let rows = [
        ("", "open the session of this directory"),
        (" 'fix the tests'", "prompt it"),
        (" -s api 'add a route'", "prompt the session named api"),
        (" sessions", "list the sessions with it"),
        (" status", "show what the session is doing"),
        (" auth", "show how to log in"),
        (" doctor", "check that it is installed and works"),
        (" acp", "run it in an editor; its sessions last"),
    ];
    let width = name.len() + " -s api 'add a route'".len();
    let rows = rows.map(|(words, meaning)| {
        let words = format!("{name}{words}");
        format!("  acpx {words:width$}   {meaning}\n")
    });
    let config = "ACPX_HOME/config.json (default ~/.acpx/config.json) can give it another command.";
    let words =
        if name == agents::DEMO { "acpx demo-agent --help lists the words it reacts to.\n" } else { "" };
    let end = format!("{words}acpx --help lists the commands and flags.\n");
    format!("{what}\n\n{start}\n{config}\n\n{}\n{end}", rows.concat())
}

/// A page with lines of at most this many columns. Rows keep their second column.
pub(crate) fn wrapped(page: &str, columns: usize) -> String {
    let width = columns.clamp(1, WIDEST);
    let mut wrapped = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let mut line = line.to_owned();
        while let Some(next) = lines.next_if(|next| continues(&line, next)) {
            line = format!("{line} {}", next.trim_start());
        }
        wrap_line(&line, width, &mut wrapped);
    }
    wrapped
}

/// Whether a line was broken only because of its length, so that the next one belongs to its paragraph.
fn continues(line: &str, next: &str) -> bool {
    let first = next.split_whitespace().next().unwrap_or_default();
    let is_full = line.chars().count() + 1 + first.chars().count() > WRITTEN_FOR;
    let is_row = |line: &str| second_column(line).is_some();
    is_full && !first.is_empty() && indent(line) == indent(next) && !is_row(line) && !is_row(next)
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|character| *character == ' ').count()
}

/// Where the second column of a row begins: after at least two spaces.
fn second_column(line: &str) -> Option<usize> {
    let start = indent(line);
    let text: Vec<char> = line.chars().collect();
    let gap = (start..text.len()).find(|index| text.get(*index..index + 2) == Some(&[' ', ' ']))?;
    (gap..text.len()).find(|index| text.get(*index) != Some(&' '))
}

fn wrap_line(line: &str, width: usize, wrapped: &mut String) {
    let hanging =
        second_column(line).filter(|column| column + NARROW <= width).unwrap_or_else(|| indent(line));
    let hanging = if hanging + NARROW <= width { hanging } else { 0 };
    let (mut rest, mut margin) = (line, 0);
    while rest.chars().count() + margin > width {
        let limit: usize = rest.chars().take(width - margin + 1).map(char::len_utf8).sum();
        let head = rest.get(..limit).unwrap_or(rest);
        let from = head.len() - head.trim_start().len();
        let Some(at) = head.rfind(' ').filter(|at| *at > from) else { break };
        let (now, later) = rest.split_at(at);
        wrapped.push_str(&" ".repeat(margin));
        wrapped.push_str(now.trim_end());
        wrapped.push('\n');
        (rest, margin) = (later.trim_start(), hanging);
    }
    wrapped.push_str(&" ".repeat(margin));
    wrapped.push_str(rest.trim_end());
    wrapped.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_page_fits_a_terminal_of_80_columns_and_24_rows() {
        let page = wrapped(&short(), 80);
        assert!(page.lines().count() < 24, "{}", page.lines().count());
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        // Its own lines fit.
        assert_eq!(page, short());
    }

    #[test]
    fn wrapped_rows_keep_their_column_and_paragraphs_are_filled() {
        let long = "a word and ".repeat(10);
        let page = format!("  -x  {long}\n\n{}\nin the end\n", long.trim_end());
        let lines: Vec<String> = wrapped(&page, 40).lines().map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.len() <= 40), "{lines:#?}");
        assert_eq!(
            lines[..2],
            ["  -x  a word and a word and a word and a", "      word and a word and a word and a"]
        );
        let filled = [
            "a word and a word and a word and a word",
            "and a word and a word and a word and a",
            "word and a word and a word and in the",
            "end",
        ];
        assert_eq!(lines[5..], filled);
        // A word that does not fit is not broken.
        assert_eq!(wrapped("abcdefgh ij", 4), "abcdefgh ij\n");
        assert_eq!(wrapped("  ab cd", 5), "  ab\ncd\n");
    }

    #[test]
    fn agent_page_at_80_columns() {
        insta::assert_snapshot!(wrapped(&agent("gemini"), 80), @r"
        gemini: Gemini CLI by Google

        acpx starts it with: gemini --acp
        If it is missing, install it: npm install -g @google/gemini-cli
        ACPX_HOME/config.json (default ~/.acpx/config.json) can give it another command.

          acpx gemini                        open the session of this directory
          acpx gemini 'fix the tests'        prompt it
          acpx gemini -s api 'add a route'   prompt the session named api
          acpx gemini sessions               list the sessions with it
          acpx gemini status                 show what the session is doing
          acpx gemini auth                   show how to log in
          acpx gemini doctor                 check that it is installed and works
          acpx gemini acp                    run it in an editor; its sessions last

        acpx --help lists the commands and flags.
        ");
    }

    #[test]
    fn command_page_at_80_columns() {
        let mut status = grammar(&["approve"]);
        let page = status.find_subcommand_mut("approve").map(|command| command.render_help().to_string());
        let page = wrapped(&page.unwrap_or_default(), 80);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        assert!(!page.is_empty());
    }
}
