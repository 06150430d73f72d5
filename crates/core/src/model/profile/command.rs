//! Recognises what a command line starts, independent of version and package runner.

use std::path::Path;

/// Programs that run a package which their arguments name.
const RUNNERS: [&str; 12] =
    ["npx", "npm", "npm-cli.js", "node", "bun", "bunx", "pnpm", "uv", "uvx", "pipx", "python", "python3"];

/// Whether these words run a package: directly or through a runner, with or without a version, as a runner's option,
/// or by a file in it.
pub fn runs_package(argv: &[String], package: &str) -> bool {
    let Some((program, arguments)) = argv.split_first() else { return false };
    let is_run = file_name(program).is_some_and(|name| RUNNERS.contains(&name));
    is_run && arguments.iter().any(|word| is_package(word, package))
}

/// Whether these words start a program of this name, or run a package of this name.
pub(super) fn starts(argv: &[String], name: &str) -> bool {
    let program = argv.first().and_then(|program| file_name(program));
    program == Some(name) || runs_package(argv, name)
}

fn file_name(program: &str) -> Option<&str> {
    Path::new(program).file_name()?.to_str()
}

fn is_package(word: &str, package: &str) -> bool {
    let word = word.strip_prefix("--package=").unwrap_or(word);
    match word.strip_prefix(package) {
        Some(rest) => rest.is_empty() || rest.starts_with('@'),
        None => word.contains(&format!("/node_modules/{package}/")),
    }
}
