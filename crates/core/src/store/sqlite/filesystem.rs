//! Detects file systems on which a store cannot be. SQLite's locks and shared memory require a single kernel, so a
//! file on a network file system is refused before anything is created or opened there.
//!
//! FUSE and 9p are accepted: sandboxes and containers use them on one machine, and those uses cannot be distinguished
//! from others.

use std::path::Path;

/// The file system that contains a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// More than one kernel may write to it: it cannot hold a store.
    Shared(&'static str),
    /// Anything else, by its number where it has one.
    Local {
        /// The number that Linux gives it; 0 on other systems.
        number: u32,
    },
}

impl FileSystem {
    /// The file system that contains, or would contain, a path.
    pub fn of(path: &Path) -> Option<Self> {
        let stat = nearest(path)?;
        Some(kind_of(&stat).map_or_else(|| Self::Local { number: number_of(&stat) }, Self::Shared))
    }
}

/// The name of the network file system that contains, or would contain, a path.
pub(super) fn network_kind(path: &Path) -> Option<&'static str> {
    kind_of(&nearest(path)?)
}

/// The file and its directory need not exist yet; the nearest existing ancestor decides.
fn nearest(path: &Path) -> Option<rustix::fs::StatFs> {
    path.ancestors().find_map(|place| rustix::fs::statfs(place).ok())
}

#[cfg(target_os = "linux")]
fn kind_of(stat: &rustix::fs::StatFs) -> Option<&'static str> {
    kind_by_number(number_of(stat))
}

#[cfg(target_os = "linux")]
fn number_of(stat: &rustix::fs::StatFs) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the magic is 32 bits wide")]
    let number = stat.f_type as u32;
    number
}

#[cfg(target_os = "macos")]
fn number_of(_stat: &rustix::fs::StatFs) -> u32 {
    0
}

/// File systems that more than one kernel may write to, by the number Linux gives them: network and cluster file
/// systems, and the folders that a virtual machine shares with its host.
#[cfg(target_os = "linux")]
const SHARED: [(u32, &str); 20] = [
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x5346_414F, "afs"),
    (0x6B41_4653, "afs"),
    (0x00C3_6400, "ceph"),
    (0x7375_7245, "coda"),
    (0x564C, "ncp"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0xAAD7_AAEA, "panfs"),
    (0x2003_0528, "orangefs"),
    (0x7461_636F, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x6163_6673, "acfs"),
    (0x786F_4256, "vboxsf"),
    (0xBACB_ACBC, "vmhgfs"),
    (0x7C7C_6673, "prl_fs"),
];

#[cfg(target_os = "linux")]
fn kind_by_number(f_type: u32) -> Option<&'static str> {
    SHARED.iter().find(|(number, _)| *number == f_type).map(|(_, kind)| *kind)
}

#[cfg(target_os = "macos")]
fn kind_of(stat: &rustix::fs::StatFs) -> Option<&'static str> {
    let letters = stat.f_fstypename.iter().map(|letter| letter.cast_unsigned());
    let name: Vec<u8> = letters.take_while(|letter| *letter != 0).collect();
    ["nfs", "smbfs", "afpfs", "webdav"].into_iter().find(|kind| kind.as_bytes() == name)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_recognised_by_number() {
        let network = [0x6969, 0x517B, 0x0BD0_0BD0, 0x4750_4653, 0x1983_0326, 0x786F_4256, 0xBACB_ACBC];
        let expected = ["nfs", "smb", "lustre", "gpfs", "beegfs", "vboxsf", "vmhgfs"].map(Some);
        assert_eq!(network.map(kind_by_number), expected);
        // ext, btrfs, xfs, tmpfs, overlay, FUSE, 9p.
        let local = [0xEF53, 0x9123_683E, 0x5846_5342, 0x0102_1994, 0x794C_7630, 0x6573_5546, 0x0102_1997];
        assert_eq!(local.map(kind_by_number), [None; 7]);
    }

    #[test]
    fn missing_path_has_the_file_system_of_its_nearest_ancestor() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(network_kind(&directory.path().join("not/there/yet")), network_kind(directory.path()));
    }
}
