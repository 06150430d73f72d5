//! What the environment of a process says of it: who holds it and what that one keeps, which record it was started for,
//! whether it is a host.
//!
//! A process is shown with the environment that it was started with. One that clears it says nothing, and has to be
//! known in another way.

/// The variable that names the record an agent was started for. Whatever the agent starts inherits it.
pub const RECORD_VARIABLE: &str = "ACPX_RECORD";

/// The variable that lists the programs which the holder of a process does not end, as JSON. Whoever sweeps after the
/// holder keeps them too: its own settings may be others by then, and a login keeps more than a turn does.
pub const KEEP_VARIABLE: &str = "ACPX_KEEP";

/// The variable that a host carries. It is nobody's, whoever has started it.
pub const HOST_VARIABLE: &str = "ACPX_HOST";

#[cfg(target_os = "linux")]
pub(super) use system::Marks;

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io::Read;

    use super::super::tag::Tag;
    use super::{HOST_VARIABLE, KEEP_VARIABLE, RECORD_VARIABLE};

    /// How much of an environment is read. The kernel lets a program start with less.
    const ENVIRONMENT_BYTES: u64 = 8 << 20;

    /// What is said of one process.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub(in super::super) struct Marks {
        pub(in super::super) tag: Option<Tag>,
        pub(in super::super) record: Option<String>,
        pub(in super::super) keep: Vec<String>,
        pub(in super::super) is_host: bool,
    }

    impl Marks {
        /// What a process was started with. One that may not be looked at says nothing.
        pub(in super::super) fn of(pid: u32) -> Self {
            let mut environment = Vec::new();
            let read = File::open(format!("/proc/{pid}/environ"))
                .and_then(|file| file.take(ENVIRONMENT_BYTES).read_to_end(&mut environment));
            if read.is_err() { Self::default() } else { Self::read(&environment) }
        }

        pub(super) fn read(environment: &[u8]) -> Self {
            let values = |name: &'static str| {
                let value = move |entry: &'_ [u8]| {
                    let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                    std::str::from_utf8(value).ok().map(str::to_owned)
                };
                environment.split(|byte| *byte == 0).filter_map(value)
            };
            Self {
                tag: values(Tag::VARIABLE).find_map(|value| value.parse().ok()),
                record: values(RECORD_VARIABLE).next(),
                keep: values(KEEP_VARIABLE)
                    .find_map(|value| serde_json::from_str(&value).ok())
                    .unwrap_or_default(),
                is_host: values(HOST_VARIABLE).next().is_some(),
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_variable_of_that_name_and_no_other() {
        let tag = Some("home:boot:3:1:2".parse().unwrap());
        let environment = concat!(
            "HOME=/\0ACPX_TAG=home:boot:3:1:2\0ACPX_RECORD=r\0PATH=/bin\0",
            "ACPX_KEEP=[\"firefox\"]\0ACPX_HOST=1\0"
        );
        let keep = vec!["firefox".to_owned()];
        assert_eq!(
            Marks::read(environment.as_bytes()),
            Marks { tag, record: Some("r".to_owned()), keep, is_host: true }
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
}
