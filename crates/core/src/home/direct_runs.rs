//! Lists the processes that hold agents of a home without being its host: commands such as `exec`, which may be killed.
//!
//! A running command is listed by a file named after its tag. A file of a dead command means that processes may be
//! left; only then are the machine's processes searched, so that a command after a clean exit pays only for reading a
//! directory. The file never decides what is ended: the sweep checks the tag of each process.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::HostPaths;
use crate::model::ProcessIdentity;
use crate::tools::{GracePeriods, SweepReport, Tag, sweep_after};

/// Numbers the files of one process, which may hold agents several times, independently.
static RUN_NUMBERS: AtomicU32 = AtomicU32::new(0);

/// RAII guard: lists this process as a holder of agents until it is dropped.
#[derive(Debug)]
pub struct DirectRun {
    file: PathBuf,
}

impl DirectRun {
    /// Adds this process to the list.
    pub fn begin(paths: &HostPaths, tag: &Tag) -> io::Result<Self> {
        let directory = paths.holders();
        let number = RUN_NUMBERS.fetch_add(1, Ordering::Relaxed);
        let file = directory.join(format!("{tag},{number}"));
        match File::create(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_directory(&directory)?;
                File::create(&file)
            }
            made => made,
        }?;
        Ok(Self { file })
    }
}

/// Creates the list's directory. It is worthless after a reboot, so it is not synced.
fn create_directory(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

impl Drop for DirectRun {
    fn drop(&mut self) {
        // A file that stays costs the next command one search of the processes, which then removes it.
        drop(fs::remove_file(&self.file));
    }
}

/// The killed commands of a home that are still listed.
#[derive(Debug, Default)]
pub(crate) struct StaleRuns {
    files: Vec<PathBuf>,
    holders: Vec<ProcessIdentity>,
}

impl StaleRuns {
    /// The listed commands that are dead. Unreadable files are ignored.
    pub(crate) fn of(paths: &HostPaths) -> Self {
        let mut stale = Self::default();
        let Some(ours) = Tag::of_this_process("") else { return stale };
        let Ok(entries) = fs::read_dir(paths.holders()) else { return stale };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let tag = name.to_str().and_then(|name| name.rsplit_once(',')?.0.parse::<Tag>().ok());
            let Some(Tag { namespace, holder, .. }) = tag else { continue };
            // A pid of another namespace can be checked only there, unless it is from an earlier boot.
            let is_known = namespace == ours.namespace || holder.boot != ours.holder.boot;
            if is_known && !holder.is_alive() {
                stale.files.push(entry.path());
                stale.holders.push(holder);
            }
        }
        stale
    }

    /// Removes them after a sweep, unless processes are left.
    pub(crate) fn remove_after(self, swept: &SweepReport) {
        if !swept.left.is_empty() {
            return;
        }
        for file in self.files {
            // Another sweep may have removed it first.
            drop(fs::remove_file(file));
        }
    }
}

/// Whether a command of this home was killed since the last clean-up.
pub fn has_leftovers(paths: &HostPaths) -> bool {
    !StaleRuns::of(paths).files.is_empty()
}

/// Ends what killed commands of this home left, except for these programs. Processes of a killed host are left to the
/// next host, which names them in the records. Searches all processes of the machine, and blocks for at most twice
/// [`GracePeriods::term`].
pub fn end_leftovers(paths: &HostPaths, home: &str, keep: &[String], grace: GracePeriods) -> SweepReport {
    let stale = StaleRuns::of(paths);
    let swept = sweep_after(&stale.holders, home, keep, grace);
    stale.remove_after(&swept);
    swept
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::tools::SweptProcess;

    fn paths(home: &Path) -> HostPaths {
        HostPaths::new(home.to_owned(), None, home)
    }

    fn files(paths: &HostPaths) -> Vec<String> {
        let entries = fs::read_dir(paths.holders()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    #[test]
    fn a_direct_run_is_listed_until_it_is_dropped() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let tag = Tag::of_this_process("home").unwrap();
        let first = DirectRun::begin(&paths, &tag).unwrap();
        let second = DirectRun::begin(&paths, &tag).unwrap();
        assert_eq!(files(&paths).len(), 2);
        assert!(StaleRuns::of(&paths).files.is_empty(), "a running command is not stale");
        drop(first);
        assert_eq!(files(&paths).len(), 1);
        drop(second);
        assert_eq!(files(&paths), [""; 0]);
    }

    #[test]
    fn dead_direct_runs_are_those_of_this_pid_namespace() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let ours = Tag::of_this_process("home").unwrap();
        create_directory(&paths.holders()).unwrap();
        let mut gone = ours.clone();
        gone.holder.started += 1;
        let mut earlier = Tag { namespace: ours.namespace + 1, ..ours.clone() };
        earlier.holder.boot = "another".to_owned();
        let contained = Tag { namespace: ours.namespace + 1, ..gone.clone() };
        let write = |name: &str, text: &str| fs::write(paths.holders().join(name), text).unwrap();
        let others = ["no tag".to_owned(), format!("{gone}"), format!("{ours},0"), format!("{contained},0")];
        for name in &others {
            write(name, "x");
        }
        write(&format!("{gone},0"), "");
        write(&format!("{earlier},3"), "x");
        let stale = StaleRuns::of(&paths);
        assert_eq!(stale.holders.len(), 2);
        let unended = SweptProcess { identity: gone.holder, name: "sh".to_owned(), group: 1, record: None };
        stale.remove_after(&SweepReport { ended: Vec::new(), left: vec![unended] });
        let stale = StaleRuns::of(&paths);
        assert_eq!(stale.holders.len(), 2, "what is left is looked for again");
        stale.remove_after(&SweepReport::default());
        let (mut left, mut expected) = (files(&paths), Vec::from(others));
        left.sort();
        expected.sort();
        assert_eq!(left, expected);
    }
}
