//! Finds out whether a local socket was opened by a descendant of an agent of this home, or by another user. The first
//! acts for its agent, not for the user, and must not answer its agent's permission requests. The second must not use
//! the page, because browsers send its cookie to every port of this machine.
//!
//! Only Linux reveals the owner of a socket. A socket of another user does not belong to an agent, because agents run
//! as their user.

use std::net::SocketAddr;

/// The two addresses of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketAddresses {
    /// The client's address.
    pub(crate) theirs: SocketAddr,
    /// The server's address.
    pub(crate) ours: SocketAddr,
}

/// The kind of process that opened a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketOwner {
    /// A descendant of an agent of this home.
    Inside,
    /// Any other process, on this machine or a remote one.
    Outside,
    /// A local process of this user that cannot be identified.
    Hidden,
}

impl SocketAddresses {
    /// Whether both ends are on this machine.
    fn are_here(self) -> bool {
        let theirs = self.theirs.ip().to_canonical();
        theirs.is_loopback() || theirs == self.ours.ip().to_canonical()
    }

    /// The owner of the client's end, relative to the home with this name.
    pub(crate) fn owner(self, home: &str) -> SocketOwner {
        if self.are_here() { system::owner(self, home) } else { SocketOwner::Outside }
    }

    /// Whether a process of another user on this machine opened the client's end. Root is no other user.
    pub(crate) fn are_of_other_user(self) -> bool {
        system::are_of_other_user(self)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{SocketAddresses, SocketOwner};

    pub(super) fn owner(_: SocketAddresses, _: &str) -> SocketOwner {
        SocketOwner::Outside
    }

    pub(super) fn are_of_other_user(_: SocketAddresses) -> bool {
        false
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::path::PathBuf;

    use acpx_core::tools::is_inside;

    use super::{SocketAddresses, SocketOwner};

    /// The kernel's lists of TCP sockets.
    const LISTS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
    /// How often the lists are read for a socket that they lack: they can change while they are read.
    const READS: usize = 2;
    /// The state of an open socket in the lists.
    const ESTABLISHED: &str = "01";

    fn lists() -> String {
        LISTS.iter().filter_map(|list| fs::read_to_string(list).ok()).collect()
    }

    pub(super) fn owner(ends: SocketAddresses, home: &str) -> SocketOwner {
        let lists = lists();
        let mut found = Listed::between(&lists, ends.theirs, ends.ours);
        // A closed end has no inode.
        let Some(listed) = found.find(|listed| listed.inode != 0) else {
            return SocketOwner::Hidden;
        };
        if listed.user != rustix::process::getuid().as_raw() {
            return SocketOwner::Outside;
        }
        let mut owners = holders(listed.inode).peekable();
        if owners.peek().is_none() {
            return SocketOwner::Hidden;
        }
        if owners.any(|pid| is_inside(pid, home)) { SocketOwner::Inside } else { SocketOwner::Outside }
    }

    pub(super) fn are_of_other_user(ends: SocketAddresses) -> bool {
        let own = rustix::process::getuid().as_raw();
        let mut lists = (0..READS).map(|_| lists()).peekable();
        let is_readable = lists.peek().is_some_and(|list| !list.is_empty());
        let mut unlisted = true;
        for list in lists {
            if let Some(is_other) = is_of_other_user(&list, ends, own) {
                return is_other;
            }
            unlisted = Listed::between(&list, ends.ours, ends.theirs).all(|ours| ours.state != ESTABLISHED);
        }
        // An open connection whose other end is not listed comes from outside, such as from the host of a virtual
        // machine. If the server's end is not open either, the client has gone.
        is_readable && unlisted && ends.are_here()
    }

    /// Whether a client's end belongs to neither this user nor root; `None` if it is not listed.
    fn is_of_other_user(list: &str, ends: SocketAddresses, own: u32) -> Option<bool> {
        let listed = Listed::between(list, ends.theirs, ends.ours).next()?;
        // A closed end has no inode, and its user is not known any more.
        Some(listed.inode == 0 || ![own, 0].contains(&listed.user))
    }

    /// Processes that hold a socket, among those that can be inspected.
    fn holders(inode: u64) -> impl Iterator<Item = u32> {
        let wanted = PathBuf::from(format!("socket:[{inode}]"));
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(move |pid| {
            let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
            files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == wanted)
        })
    }

    /// A socket as the kernel lists it.
    #[derive(Debug, PartialEq, Eq)]
    struct Listed<'a> {
        state: &'a str,
        user: u32,
        inode: u64,
    }

    impl<'a> Listed<'a> {
        /// Finds the sockets with these addresses.
        fn between(list: &'a str, near: SocketAddr, far: SocketAddr) -> impl Iterator<Item = Self> {
            let rows = list.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
            rows.filter_map(move |row| {
                let [_, its_near, its_far, state, _, _, _, user, _, inode, ..] = *row.as_slice() else {
                    return None;
                };
                let is_it = is(its_near, near) && is(its_far, far);
                is_it.then_some(Self { state, user: user.parse().ok()?, inode: inode.parse().ok()? })
            })
        }
    }

    /// Whether a listed address equals this one.
    fn is(written: &str, address: SocketAddr) -> bool {
        read(written).is_some_and(|(ip, port)| (ip, port) == (address.ip().to_canonical(), address.port()))
    }

    /// Parses an address of the list: hex words in native byte order, and the port.
    fn read(written: &str) -> Option<(IpAddr, u16)> {
        let (ip, port) = written.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
        let ip = match ip.len() {
            8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
            32 => {
                let mut bytes = [0; 16];
                for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
                    part.copy_from_slice(&word(index * 8)?);
                }
                IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
            }
            _ => return None,
        };
        Some((ip, port))
    }

    #[cfg(all(test, target_endian = "little"))]
    mod tests {
        use super::*;

        const LIST: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 20 4 0 10 -1
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 22 1 0 20 4 0 10 -1
   2: 0000000000000000FFFF00000100007F:C351 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1002        0 33 1 0
   3: 00000000000000000000000001000000:C352 00000000000000000000000001000000:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   4: 0100007F:C353 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 44 1 0 20 4 0 10 -1
   bad row";

        #[test]
        fn peer_of_a_socket_is_found_by_both_its_addresses() {
            let find = |theirs: &str, ours: &str| {
                let listed = Listed::between(LIST, theirs.parse().unwrap(), ours.parse().unwrap()).next();
                listed.map(|listed| (listed.user, listed.inode))
            };
            let cases = [
                ("127.0.0.1:50000", "127.0.0.1:8080", Some((1001, 22))),
                ("[::ffff:127.0.0.1]:50000", "127.0.0.1:8080", Some((1001, 22))),
                ("127.0.0.1:50001", "127.0.0.1:8080", Some((1002, 33))),
                ("127.0.0.1:50000", "127.0.0.1:8081", None),
                ("[::1]:50002", "[::1]:8080", Some((0, 0))),
            ];
            for (theirs, ours, expected) in cases {
                assert_eq!(find(theirs, ours), expected, "{theirs}");
            }
        }

        #[test]
        fn socket_of_another_user_is_neither_ours_nor_of_root() {
            let own = |theirs: &str, ours: &str, own: u32| {
                let ends = SocketAddresses { theirs: theirs.parse().unwrap(), ours: ours.parse().unwrap() };
                is_of_other_user(LIST, ends, own)
            };
            assert_eq!(own("127.0.0.1:50000", "127.0.0.1:8080", 1001), Some(false));
            assert_eq!(own("127.0.0.1:50000", "127.0.0.1:8080", 1000), Some(true));
            assert_eq!(own("127.0.0.1:50003", "127.0.0.1:8080", 1000), Some(false), "root");
            assert_eq!(own("[::1]:50002", "[::1]:8080", 1000), Some(true), "a closed end");
            assert_eq!(own("127.0.0.1:50009", "127.0.0.1:8080", 1000), None);
        }

        #[test]
        fn open_socket_of_this_user_is_of_no_other_user() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let ours = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(ours).unwrap();
            let (server, theirs) = listener.accept().unwrap();
            let ends = SocketAddresses { theirs, ours };
            assert!(!ends.are_of_other_user());
            drop(client);
            assert!(ends.are_of_other_user(), "its process is not known any more");
            drop(server);
            let elsewhere = SocketAddresses { theirs: "192.0.2.1:7".parse().unwrap(), ours };
            assert!(!elsewhere.are_of_other_user());
        }

        #[test]
        fn own_socket_is_outside_and_an_unowned_one_is_hidden() {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let ours = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(ours).unwrap();
            let theirs = client.local_addr().unwrap();
            let owner = |ends: SocketAddresses| ends.owner("the-home-of-nobody");
            assert_eq!(owner(SocketAddresses { theirs, ours }), SocketOwner::Outside);
            let elsewhere = SocketAddresses { theirs: "192.0.2.1:7".parse().unwrap(), ours };
            assert_eq!(owner(elsewhere), SocketOwner::Outside);
            let nobody = SocketAddresses { theirs: ours, ours };
            assert_eq!(owner(nobody), SocketOwner::Hidden);
        }
    }
}
