//! Where the store may lie. SQLite's locks and shared memory need one kernel to look after them, so a file on
//! another machine is refused before anything is made or opened there.
//!
//! FUSE and 9p are let through: sandboxes and containers use them on one machine, and nothing tells those
//! uses from the others.

use std::path::Path;

/// The name of the network file system that a path lies on, or would lie on.
pub(super) fn network_kind(path: &Path) -> Option<&'static str> {
    // The file need not be there yet, nor its directory; whatever is nearest decides.
    path.ancestors().find_map(|place| rustix::fs::statfs(place).ok()).as_ref().and_then(kind_of)
}

#[cfg(target_os = "linux")]
fn kind_of(stat: &rustix::fs::StatFs) -> Option<&'static str> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the magic is 32 bits wide")]
    kind_by_number(stat.f_type as u32)
}

/// The name of a network file system, by the number Linux gives it.
#[cfg(target_os = "linux")]
fn kind_by_number(f_type: u32) -> Option<&'static str> {
    match f_type {
        0x6969 => Some("nfs"),
        0x517B => Some("smb"),
        0xFF53_4D42 => Some("cifs"),
        0xFE53_4D42 => Some("smb2"),
        0x5346_414F | 0x6B41_4653 => Some("afs"),
        0x00C3_6400 => Some("ceph"),
        0x7375_7245 => Some("coda"),
        0x564C => Some("ncp"),
        _ => None,
    }
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
    fn network_file_systems_are_told_by_their_number_and_local_ones_are_not() {
        let network =
            [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x5346_414F, 0x00C3_6400, 0x7375_7245, 0x564C];
        let names = network.map(kind_by_number);
        let expected = ["nfs", "smb", "cifs", "smb2", "afs", "ceph", "coda", "ncp"].map(Some);
        assert_eq!(names, expected);
        // ext, btrfs, xfs, tmpfs, overlay, FUSE, 9p.
        let local = [0xEF53, 0x9123_683E, 0x5846_5342, 0x0102_1994, 0x794C_7630, 0x6573_5546, 0x0102_1997];
        assert_eq!(local.map(kind_by_number), [None; 7]);
    }

    #[test]
    fn a_path_that_is_not_there_yet_is_judged_by_its_nearest_ancestor() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(network_kind(&directory.path().join("not/there/yet")), network_kind(directory.path()));
    }
}
