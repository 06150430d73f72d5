//! The marks in a process's environment: its holder, the programs that the holder keeps, its record, and whether it is
//! a host.
//!
//! The system shows the environment that a process was started with. A process that clears it has no marks and must be
//! recognised in another way.

/// The variable that names the record an agent was started for. Its descendants inherit it.
pub const RECORD_VARIABLE: &str = "ACPX_RECORD";

/// The variable that lists, as JSON, the programs that the holder of a process does not end. A later sweep keeps them
/// too: its own settings may differ by then, and a login keeps more programs than a turn.
pub const KEEP_VARIABLE: &str = "ACPX_KEEP";

/// The variable that a host carries: the path of its lock. A host belongs to no holder, even if an agent started it.
/// Any program can set the variable, so a process counts as a host only if the lock names exactly this process.
pub const HOST_VARIABLE: &str = "ACPX_HOST";

#[cfg(target_os = "linux")]
pub(super) use system::Marks;

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::OsStr;
    use std::fs::{File, OpenOptions};
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::{Path, PathBuf};

    use rustix::fs::OFlags;
    use serde::Deserialize;

    use crate::model::ProcessIdentity;

    use super::super::tag::Tag;
    use super::{HOST_VARIABLE, KEEP_VARIABLE, RECORD_VARIABLE};

    /// How much of an environment is read. The kernel limits it to less.
    const ENVIRONMENT_BYTES: u64 = 8 << 20;
    /// How much of a lock is read.
    const LOCK_BYTES: u64 = 64 << 10;

    /// The part of a host lock that is read here.
    #[derive(Deserialize)]
    struct Holder {
        pid: u32,
        started: u64,
        boot: String,
    }

    /// The marks of one process.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub(in super::super) struct Marks {
        pub(in super::super) tag: Option<Tag>,
        pub(in super::super) record: Option<String>,
        pub(in super::super) keep: Vec<String>,
        /// The lock of the home whose host it claims to be.
        pub(in super::super) lock: Option<PathBuf>,
    }

    impl Marks {
        /// The marks that a process was started with; none if its environment cannot be read.
        pub(in super::super) fn of(pid: u32) -> Self {
            let mut environment = Vec::new();
            let read = File::open(format!("/proc/{pid}/environ"))
                .and_then(|file| file.take(ENVIRONMENT_BYTES).read_to_end(&mut environment));
            if read.is_err() { Self::default() } else { Self::read(&environment) }
        }

        pub(super) fn read(environment: &[u8]) -> Self {
            let bytes = |name: &'static str| values_of(environment, name);
            let values =
                |name| bytes(name).filter_map(|value| std::str::from_utf8(value).ok().map(str::to_owned));
            Self {
                tag: values(Tag::VARIABLE).find_map(|value| value.parse().ok()),
                record: values(RECORD_VARIABLE).next(),
                keep: values(KEEP_VARIABLE)
                    .find_map(|value| serde_json::from_str(&value).ok())
                    .unwrap_or_default(),
                lock: bytes(HOST_VARIABLE).next().map(|path| OsStr::from_bytes(path).into()),
            }
        }

        /// Whether the process with these marks is the host that it claims to be.
        pub(in super::super) fn is_host(&self, process: &ProcessIdentity) -> bool {
            let holder = self.lock.as_deref().and_then(holder);
            holder.is_some_and(|Holder { pid, started, boot }| {
                ProcessIdentity { pid, started, boot } == *process
            })
        }
    }

    /// The values of a variable.
    fn values_of<'e>(environment: &'e [u8], name: &'static str) -> impl Iterator<Item = &'e [u8]> {
        let entries = environment.split(|byte| *byte == 0);
        entries.filter_map(move |entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// The holder of a lock. Any process can name any path, so a pipe must not block here and relative paths are
    /// ignored.
    fn holder(lock: &Path) -> Option<Holder> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
        let lock = Some(lock).filter(|lock| lock.is_absolute())?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(lock).ok()?;
        let mut text = String::new();
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        file.take(LOCK_BYTES).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::model::ProcessIdentity;

    #[test]
    fn a_mark_is_the_variable_of_that_name_and_no_other() {
        let tag = Some("home:boot:3:1:2".parse().unwrap());
        let environment = concat!(
            "HOME=/\0ACPX_TAG=home:boot:3:1:2\0ACPX_RECORD=r\0PATH=/bin\0",
            "ACPX_KEEP=[\"firefox\"]\0ACPX_HOST=/h/host.lock\0"
        );
        let keep = vec!["firefox".to_owned()];
        assert_eq!(
            Marks::read(environment.as_bytes()),
            Marks { tag, record: Some("r".to_owned()), keep, lock: Some("/h/host.lock".into()) }
        );
        let others: [&[u8]; 5] = [
            b"MY_ACPX_TAG=home:boot:3:1:2\0ACPX_TAGS=home:boot:3:1:2\0X=ACPX_TAG=home:boot:3:1:2\0",
            b"ACPX_TAG=\xff:boot:3:1:2\0ACPX_TAG=\0ACPX_TAG\0",
            b"ACPX_KEEP=firefox\0ACPX_KEEP={}\0ACPX_KEEPS=[\"firefox\"]\0ACPX_KEEP\0",
            b"ACPX_RECORDS=r\0ACPX_RECORD=\xff\0ACPX_HOSTS=1\0ACPX_HOST\0",
            b"",
        ];
        for environment in others {
            assert_eq!(Marks::read(environment), Marks::default());
        }
    }

    #[test]
    fn process_is_a_host_only_if_its_lock_names_it() {
        let home = tempfile::tempdir().unwrap();
        let lock = home.path().join("host.lock");
        let (this, other) = (ProcessIdentity::of_this_process(), ProcessIdentity::of(1).unwrap());
        let marks = |lock| Marks { lock: Some(lock), ..Marks::default() };
        let said = |process: &ProcessIdentity| {
            let ProcessIdentity { pid, started, boot } = process;
            format!(r#"{{"pid":{pid},"started":{started},"boot":"{boot}","socket":"/s"}}"#)
        };
        let earlier = ProcessIdentity { started: this.started - 1, ..this.clone() };
        let (own, others, old) = (said(&this), said(&other), said(&earlier));
        for (text, expected) in
            [(own.as_str(), true), (&others, false), (&old, false), ("", false), ("1", false)]
        {
            std::fs::write(&lock, text).unwrap();
            assert_eq!(marks(lock.clone()).is_host(&this), expected, "{text}");
        }
        for lock in ["1".into(), "host.lock".into(), home.path().to_owned(), home.path().join("missing")] {
            assert!(!marks(lock).is_host(&this));
        }
        assert!(!Marks::default().is_host(&this));
    }
}
