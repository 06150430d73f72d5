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

use super::HostPlace;
use crate::model::ProcessIdentity;
use crate::tools::{GracePeriods, SweepReport, Tag, sweep_after};

/// Numbers the files of one process, which may hold agents several times, independently.
static RUN_NUMBERS: AtomicU32 = AtomicU32::new(0);

/// Lists this process as a holder of agents until it is dropped.
#[derive(Debug)]
pub struct Holding {
    file: PathBuf,
}

impl Holding {
    /// Adds this process to the list.
    pub fn begin(place: &HostPlace, tag: &Tag) -> io::Result<Self> {
        let directory = place.holders();
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

impl Drop for Holding {
    fn drop(&mut self) {
        // A file that stays costs the next command one search of the processes, which then removes it.
        drop(fs::remove_file(&self.file));
    }
}

/// The killed commands of a home that are still listed.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    files: Vec<PathBuf>,
    holders: Vec<ProcessIdentity>,
}

impl Dead {
    /// The listed commands that are dead. Unreadable files are ignored.
    pub(crate) fn of(place: &HostPlace) -> Self {
        let mut dead = Self::default();
        let Some(ours) = Tag::of_this_process("") else { return dead };
        let Ok(entries) = fs::read_dir(place.holders()) else { return dead };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let tag = name.to_str().and_then(|name| name.rsplit_once(',')?.0.parse::<Tag>().ok());
            let Some(Tag { namespace, holder, .. }) = tag else { continue };
            // A pid of another namespace can be checked only there, unless it is from an earlier boot.
            let is_known = namespace == ours.namespace || holder.boot != ours.holder.boot;
            if is_known && !holder.is_alive() {
                dead.files.push(entry.path());
                dead.holders.push(holder);
            }
        }
        dead
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
pub fn has_leftovers(place: &HostPlace) -> bool {
    !Dead::of(place).files.is_empty()
}

/// Ends what killed commands of this home left, except for these programs. Processes of a killed host are left to the
/// next host, which names them in the records. Searches all processes of the machine, and blocks for at most twice
/// [`GracePeriods::term`].
pub fn end_leftovers(place: &HostPlace, home: &str, keep: &[String], grace: GracePeriods) -> SweepReport {
    let dead = Dead::of(place);
    let swept = sweep_after(&dead.holders, home, keep, grace);
    dead.remove_after(&swept);
    swept
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::tools::SweptProcess;

    fn place(home: &Path) -> HostPlace {
        HostPlace::new(home.to_owned(), None, home)
    }

    fn files(place: &HostPlace) -> Vec<String> {
        let entries = fs::read_dir(place.holders()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    #[test]
    fn a_direct_run_is_listed_until_it_is_dropped() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        let tag = Tag::of_this_process("home").unwrap();
        let first = Holding::begin(&place, &tag).unwrap();
        let second = Holding::begin(&place, &tag).unwrap();
        assert_eq!(files(&place).len(), 2);
        assert!(Dead::of(&place).files.is_empty(), "who lives is not among the dead");
        drop(first);
        assert_eq!(files(&place).len(), 1);
        drop(second);
        assert_eq!(files(&place), [""; 0]);
    }

    #[test]
    fn dead_direct_runs_are_those_of_this_pid_namespace() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        let ours = Tag::of_this_process("home").unwrap();
        create_directory(&place.holders()).unwrap();
        let mut gone = ours.clone();
        gone.holder.started += 1;
        let mut earlier = Tag { namespace: ours.namespace + 1, ..ours.clone() };
        earlier.holder.boot = "another".to_owned();
        let contained = Tag { namespace: ours.namespace + 1, ..gone.clone() };
        let write = |name: &str, text: &str| fs::write(place.holders().join(name), text).unwrap();
        let others = ["no tag".to_owned(), format!("{gone}"), format!("{ours},0"), format!("{contained},0")];
        for name in &others {
            write(name, "x");
        }
        write(&format!("{gone},0"), "");
        write(&format!("{earlier},3"), "x");
        let dead = Dead::of(&place);
        assert_eq!(dead.holders.len(), 2);
        let unended = SweptProcess { identity: gone.holder, name: "sh".to_owned(), group: 1, record: None };
        dead.remove_after(&SweepReport { ended: Vec::new(), left: vec![unended] });
        let dead = Dead::of(&place);
        assert_eq!(dead.holders.len(), 2, "what is left is looked for again");
        dead.remove_after(&SweepReport::default());
        let (mut left, mut expected) = (files(&place), Vec::from(others));
        left.sort();
        expected.sort();
        assert_eq!(left, expected);
    }
}
