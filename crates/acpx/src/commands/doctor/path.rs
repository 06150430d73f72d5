//! Checks which `acpx` comes first on the PATH: hints name the program alone, so it should be this one.
//!
//! A script is not run, only read: npm acpx is recognised by the package that its file belongs to. Another program of
//! this name is asked for its version, with a time limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, access};
use serde::Deserialize;

use crate::output::Finding;
use crate::version::VERSION_LINE;

/// How long another program may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of a program's output is read.
const VERSION_BYTES: u64 = 200;
/// How far above a script its package may be.
const PACKAGE_DEPTH: usize = 4;

/// The finding about this program, given the value of `PATH`.
pub(super) fn first_on(path: Option<&OsStr>, own: &Path) -> Finding {
    let Some(first) = find(path.unwrap_or_default()) else {
        let words = "there is no acpx on the PATH, and hints name it without its directory";
        return Finding::warn("path", words, format!("add {} to the PATH", directory_of(own)));
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let shown = first.display();
    if real(&first) == real(own) {
        return Finding::ok("path", format!("{shown} is this program"));
    }
    let what = match npm_version(&real(&first)) {
        Ok(Some(version)) => format!("npm acpx {version}"),
        Ok(None) => match version_of(&first) {
            Some(line) if line == VERSION_LINE => format!("a copy of this program, {line}"),
            Some(line) => format!("another program: {line}"),
            None => "another program, which does not print its version".to_owned(),
        },
        Err(error) => format!("another program, which cannot be read: {error}"),
    };
    let words = format!("{shown} comes first and is {what}; this program is {}", own.display());
    Finding::warn("path", words, format!("put {} first on the PATH, or remove {shown}", directory_of(own)))
}

fn directory_of(program: &Path) -> String {
    program.parent().unwrap_or(program).display().to_string()
}

/// The first executable file with our name.
fn find(path: &OsStr) -> Option<PathBuf> {
    let candidates = std::env::split_paths(path).map(|directory| directory.join("acpx"));
    candidates.filter(|file| file.is_file()).find(|file| access(file, Access::EXEC_OK).is_ok())
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// The version of npm acpx, if this file is a script of its package. A wrapper that a package manager wrote counts too.
fn npm_version(file: &Path) -> io::Result<Option<String>> {
    let mut beginning = [0; 2];
    let read = File::open(file)?.read(&mut beginning)?;
    if &beginning[..read] != b"#!" {
        return Ok(None);
    }
    let package = file.ancestors().skip(1).take(PACKAGE_DEPTH).find_map(|directory| {
        let bytes = std::fs::read(directory.join("package.json")).ok()?;
        serde_json::from_slice::<Package>(&bytes).ok().filter(|package| package.name == "acpx")
    });
    Ok(Some(package.map_or_else(|| "or another script".to_owned(), |package| package.version)))
}

/// The first line that a program prints for `--version`.
fn version_of(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (sender, printed) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.take(VERSION_BYTES).read_to_end(&mut bytes).ok();
        sender.try_send(bytes).ok();
    });
    let bytes = printed.recv_timeout(VERSION_TIMEOUT).ok();
    // It has printed its version, or takes too long.
    child.kill().and_then(|()| child.wait()).ok();
    let text = String::from_utf8_lossy(&bytes?).into_owned();
    text.lines().next().map(str::to_owned).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::output::Level;

    fn program(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn first_acpx_on_the_path_is_recognised_without_running_scripts() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        let own = at("own/acpx");
        program(&own, "this program");
        let seen = |directories: &[&str]| {
            let path = std::env::join_paths(directories.iter().map(|directory| at(directory))).unwrap();
            let Finding { level, detail, .. } = first_on(Some(&path), &own);
            (level, detail.replace(home.path().to_str().unwrap(), ""))
        };
        let none = "there is no acpx on the PATH, and hints name it without its directory".to_owned();
        assert_eq!(seen(&["empty"]), (Level::Warn, none));
        assert_eq!(seen(&["empty", "own"]), (Level::Ok, "/own/acpx is this program".to_owned()));
        fs::create_dir_all(at("link")).unwrap();
        symlink(&own, at("link/acpx")).unwrap();
        assert_eq!(seen(&["link", "own"]), (Level::Ok, "/link/acpx is this program".to_owned()));
        // As npm installs it; it must not run.
        let trace = at("ran");
        let script = format!("#!/bin/sh\n: > '{}'\n", trace.display());
        program(&at("lib/node_modules/acpx/dist/cli.js"), &script);
        fs::write(at("lib/node_modules/acpx/package.json"), r#"{"name":"acpx","version":"0.19.1"}"#).unwrap();
        fs::create_dir_all(at("npm")).unwrap();
        symlink(at("lib/node_modules/acpx/dist/cli.js"), at("npm/acpx")).unwrap();
        let other = |what: &str, first: &str| {
            (Level::Warn, format!("{first} comes first and is {what}; this program is /own/acpx"))
        };
        assert_eq!(seen(&["npm", "own"]), other("npm acpx 0.19.1", "/npm/acpx"));
        program(&at("wrapper/acpx"), &script);
        assert_eq!(seen(&["wrapper", "own"]), other("npm acpx or another script", "/wrapper/acpx"));
        assert!(!trace.exists(), "the script ran");
    }
}
