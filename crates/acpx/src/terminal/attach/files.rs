//! The files that a prompt can mention.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How many files can be mentioned.
const FILES: usize = 20_000;
/// How long a directory is searched.
const SEARCH: Duration = Duration::from_secs(2);

/// The files below a directory that Git knows or would add, or else all that are not hidden, as far as they are found in
/// time. Blocks.
pub(crate) fn mentionable_files(directory: &Path) -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    match listed {
        Ok(output) if output.status.success() => {
            let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            names.take(FILES).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        }
        _ => walk(directory),
    }
}

fn walk(directory: &Path) -> Vec<String> {
    let end = Instant::now() + SEARCH;
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop().filter(|_| found.len() < FILES && Instant::now() < end) {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    let path = entry.path();
                    let below = path.strip_prefix(directory).unwrap_or(&path);
                    found.push(below.to_string_lossy().into_owned());
                }
                _ => {}
            }
        }
    }
    found.truncate(FILES);
    found
}
