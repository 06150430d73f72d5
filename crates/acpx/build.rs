//! Gives the program the commit that it is built from, if git knows it.
//!
//! It runs again when another commit is checked out, not when a file changes. A copy of the sources without a
//! repository, such as a package of them, is built without the commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let build = build().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rustc-env=ACPX_BUILD={build}");
    let suffix = if build.is_empty() { String::new() } else { format!(" ({build})") };
    println!("cargo::rustc-env=ACPX_VERSION_LINE=acpx {version}{suffix}");
}

/// The commit and its date, as `1a2b3c4d5 2026-11-18`.
fn build() -> Option<String> {
    // A copy of the sources inside another repository is not that repository's commit.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?.canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    watch(&git(&["rev-parse", "--git-path", "HEAD"])?);
    // What HEAD names: the branch's own file, or the list of those that were packed; and the log of HEAD, which a
    // commit on a packed branch changes too.
    if let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"]) {
        watch(&git(&["rev-parse", "--git-path", &branch])?);
        watch(&git(&["rev-parse", "--git-path", "packed-refs"])?);
    }
    watch(&git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["log", "-1", "--no-show-signature", "--abbrev=9", "--format=%h %cs"])
}

/// Runs this script again when the file changes. A file that does not exist would run it every time.
fn watch(file: &str) {
    if Path::new(file).exists() {
        println!("cargo::rerun-if-changed={file}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
