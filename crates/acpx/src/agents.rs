//! The built-in agents with their commands, and parsing of user-written command lines.

use std::fmt;
use std::path::Path;

use acpx_core::model::{AgentSpec, UnterminatedQuote, runs_package, split_command_line};

/// The default agent when the configuration has none.
pub(crate) const DEFAULT: &str = "codex";
/// The built-in demo agent, which is this program itself.
pub(crate) const DEMO: &str = "demo";

/// The built-in agents other than the demo, with their commands.
const TABLE: &[(&str, &[&str])] = &[
    ("pi", &["npx", "pi-acp@^0.0.33"]),
    ("openclaw", &["openclaw", "acp"]),
    ("codex", &["npx", "-y", "@agentclientprotocol/codex-acp@^1.1.5"]),
    ("claude", &["npx", "-y", "@agentclientprotocol/claude-agent-acp@^0.76.0"]),
    ("gemini", &["gemini", "--acp"]),
    ("cursor", &["cursor-agent", "acp"]),
    ("copilot", &["copilot", "--acp", "--stdio"]),
    ("antigravity", ANTIGRAVITY),
    ("devin", &["devin", "acp"]),
    ("droid", &["droid", "exec", "--output-format", "acp"]),
    ("fast-agent", &["uvx", "fast-agent-mcp", "acp"]),
    ("fx", &["fx", "acp"]),
    ("grok-build", &["grok", "agent", "stdio"]),
    ("iflow", &["iflow", "--experimental-acp"]),
    ("junie", &["junie", "--acp=true"]),
    ("kilocode", &["npx", "-y", "@kilocode/cli", "acp"]),
    ("kimi", &["kimi", "acp"]),
    ("kiro", &["kiro-cli-chat", "acp"]),
    ("mcode", &["mcode", "acp"]),
    ("mux", &["npx", "-y", "mux@^0.28.0", "acp"]),
    ("opencode", &["npx", "-y", "opencode-ai", "acp"]),
    ("pool", &["pool", "acp"]),
    ("qoder", &["qodercli", "--acp"]),
    ("qwen", &["qwen", "--acp"]),
    ("trae", &["traecli", "acp", "serve"]),
    ("zeroclaw", &["zeroclaw", "acp"]),
];

#[cfg(target_os = "macos")]
const ANTIGRAVITY: &[&str] = &["agy_acp_server.par"];
#[cfg(not(target_os = "macos"))]
const ANTIGRAVITY: &[&str] = &["agy_acp_server.par", "--uid="];

/// Aliases of built-in agents.
const ALIASES: &[(&str, &str)] = &[("factory-droid", "droid"), ("factorydroid", "droid")];

/// Packages that are or were a built-in agent, in any version and with any runner.
const PACKAGES: &[(&str, &str)] = &[
    ("@agentclientprotocol/codex-acp", "codex"),
    ("@zed-industries/codex-acp", "codex"),
    ("@agentclientprotocol/claude-agent-acp", "claude"),
    ("@zed-industries/claude-agent-acp", "claude"),
    ("@zed-industries/claude-code-acp", "claude"),
    ("@kilocode/cli", "kilocode"),
    ("pi-acp", "pi"),
    ("mux", "mux"),
    ("opencode-ai", "opencode"),
];

/// Former commands of built-in agents.
const FORMER: &[(&str, &[&str])] = &[
    ("gemini", &["gemini", "--experimental-acp"]),
    ("opencode", &["opencode", "acp"]),
    ("kimi", &["kimi", "--acp"]),
];

/// What the built-in agents are.
const ABOUT: &[(&str, &str)] = &[
    ("pi", "the Pi coding agent, through its ACP adapter"),
    ("openclaw", "OpenClaw"),
    ("codex", "Codex by OpenAI, through its ACP adapter"),
    ("claude", "Claude Code by Anthropic, through its ACP adapter"),
    ("gemini", "Gemini CLI by Google"),
    ("cursor", "the agent of Cursor"),
    ("copilot", "GitHub Copilot CLI"),
    ("antigravity", "Antigravity by Google"),
    ("devin", "Devin by Cognition"),
    ("droid", "Droid by Factory"),
    ("fast-agent", "fast-agent"),
    ("fx", "fx"),
    ("grok-build", "Grok by xAI"),
    ("iflow", "iFlow CLI"),
    ("junie", "Junie by JetBrains"),
    ("kilocode", "Kilo Code"),
    ("kimi", "Kimi Code by Moonshot AI"),
    ("kiro", "Kiro by AWS"),
    ("mcode", "mcode"),
    ("mux", "Mux by Coder"),
    ("opencode", "opencode"),
    ("pool", "the agent of Poolside"),
    ("qoder", "Qoder CLI"),
    ("qwen", "Qwen Code by Alibaba"),
    ("trae", "Trae by ByteDance"),
    ("zeroclaw", "ZeroClaw"),
    (DEMO, "the built-in agent, which needs no model and no account"),
];

/// What installs the programs that built-in agents start.
const INSTALL: &[(&str, &str)] = &[
    ("npx", "install Node.js, which brings npx: https://nodejs.org"),
    ("uvx", "install uv, which brings uvx: curl -LsSf https://astral.sh/uv/install.sh | sh"),
    ("openclaw", "install it: npm install -g openclaw"),
    ("gemini", "install it: npm install -g @google/gemini-cli"),
    ("cursor-agent", "install it: curl -fsS https://cursor.com/install | bash"),
    ("copilot", "install it: npm install -g @github/copilot"),
    ("droid", "install it: npm install -g droid"),
    ("grok", "install it: npm install -g @xai-official/grok"),
    ("junie", "install it: npm install -g @jetbrains/junie"),
    ("kimi", "install it: npm install -g @moonshot-ai/kimi-code"),
    ("kiro-cli-chat", "install it: curl -fsSL https://cli.kiro.dev/install | bash"),
    ("qodercli", "install it: npm install -g @qoder-ai/qodercli"),
    ("qwen", "install it: npm install -g @qwen-code/qwen-code"),
    ("zeroclaw", "install it: cargo install zeroclaw"),
];

/// No agent has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct UnknownAgent {
    /// The name.
    pub(crate) name: String,
    /// The configuration file that names it as the default agent, if it comes from there.
    pub(crate) chosen_in: Option<Box<Path>>,
    /// The project's file that would define it if it were trusted.
    pub(crate) untrusted_file: Option<Box<Path>>,
}

impl fmt::Display for UnknownAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no agent named {:?}", self.name)?;
        match &self.chosen_in {
            Some(file) => write!(f, ", which {} has as defaultAgent", file.display()),
            None => Ok(()),
        }
    }
}

/// The hint for an agent that only an untrusted project's file defines.
pub(crate) fn trust_hint(name: &str, file: &Path) -> String {
    format!(
        "the project's file {} defines the agent {name}, but is not trusted as it is now; to review and allow it: \
         acpx trust",
        file.display()
    )
}

/// The lookup form of a name: trimmed, lower case, and with aliases resolved.
pub(crate) fn canonical(name: &str) -> String {
    let name = name.trim().to_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, agent)| (*agent).to_owned())
}

/// Whether this names a built-in agent.
pub(crate) fn is_built_in(name: &str) -> bool {
    let name = canonical(name);
    built_in_names().any(|known| known == name)
}

/// The names of the built-in agents.
pub(crate) fn built_in_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name).chain([DEMO])
}

/// The built-in agent with this canonical name; `None` for the demo.
pub(crate) fn built_in(name: &str) -> Option<AgentSpec> {
    let (_, argv) = TABLE.iter().find(|(known, _)| *known == name)?;
    Some(spec(argv.iter().copied()).named(name))
}

/// The agent for a command line. It has no name.
pub(crate) fn from_line(line: &str) -> Result<AgentSpec, CommandLineProblem> {
    Ok(spec(split_line(line)?.iter().map(String::as_str)))
}

/// The name of the built-in agent that this command starts, in any version.
pub(crate) fn name_of(argv: &[String]) -> Option<String> {
    let is_same = |known: &[&str]| known.iter().eq(argv.iter());
    let by_command = TABLE.iter().chain(FORMER).find(|(_, known)| is_same(known));
    let by_package =
        || PACKAGES.iter().find(|(package, _)| runs_package(argv, package)).map(|(_, name)| *name);
    by_command.map(|(name, _)| *name).or_else(by_package).map(str::to_owned)
}

/// What a built-in agent is, by its canonical name.
pub(crate) fn about(name: &str) -> Option<&'static str> {
    ABOUT.iter().find(|(known, _)| *known == name).map(|(_, about)| *about)
}

/// How to install the program of an agent, if that is known.
pub(crate) fn install_hint(program: &str) -> Option<&'static str> {
    INSTALL.iter().find(|(known, _)| *known == program).map(|(_, hint)| *hint)
}

/// An agent as typed on a command line.
pub(crate) fn typed(agent: &AgentSpec) -> String {
    if let Some(name) = &agent.name {
        return name.clone();
    }
    let words = [&agent.program].into_iter().chain(&agent.args);
    let line = words.map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    format!("--agent {}", quote(&line))
}

pub(crate) fn spec<'a>(mut argv: impl Iterator<Item = &'a str>) -> AgentSpec {
    AgentSpec::new(argv.next().unwrap_or_default(), argv.collect::<Vec<_>>())
}

/// Why a line is not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandLineProblem {
    /// A quote is never closed.
    #[error("has an unterminated quote")]
    UnterminatedQuote,
    /// It is empty.
    #[error("is empty")]
    Empty,
}

/// Splits a line into a program and its arguments.
pub(crate) fn split_line(line: &str) -> Result<Vec<String>, CommandLineProblem> {
    let words =
        split_command_line(line).map_err(|UnterminatedQuote| CommandLineProblem::UnterminatedQuote)?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(CommandLineProblem::Empty),
    }
}

/// Quotes a word so that [`split_line`] and a shell read it as one word.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_@%+=:,./^~-".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
