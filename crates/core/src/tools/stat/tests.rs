//! Lines of `/proc/<pid>/stat` with unusual process names.

use proptest::prelude::*;

use super::*;

fn line(pid: u32, name: &[u8], facts: &str) -> Vec<u8> {
    [pid.to_string().as_bytes(), b" (", name, b") ", facts.as_bytes(), b"\n"].concat()
}

#[test]
fn a_line_is_read_as_the_system_writes_it() {
    let facts = "S 8738 8730 5135 0 -1 4194304 101 0 1 0 0 0 0 0 20 0 1 0 1178657 2998272 394";
    let expected = Stat {
        pid: 8742,
        name: "a) R 1 (b".to_owned(),
        is_dead: false,
        parent: 8738,
        group: 8730,
        started: 1_178_657,
    };
    assert_eq!(Stat::parse(&line(8742, b"a) R 1 (b", facts)), Some(expected));
}

#[test]
fn this_process_is_among_all_and_is_what_the_system_says() {
    let found = Stat::of(std::process::id()).unwrap();
    assert_eq!(
        (found.pid, found.is_dead, found.parent),
        (std::process::id(), false, std::os::unix::process::parent_id())
    );
    assert!(Stat::all().unwrap().iter().any(|stat| stat.pid == found.pid && stat.started == found.started));
}

proptest! {
    #[test]
    fn no_name_hides_what_follows_it(
        name in prop::collection::vec(any::<u8>(), 0..64),
        numbers in any::<(u32, u32, u32, u64)>(),
        state in prop::sample::select(vec!["R", "S", "D", "T", "t", "I", "Z", "X"]),
    ) {
        let (pid, parent, group, started) = numbers;
        let facts = format!("{state} {parent} {group} 3 0 -1 5 6 7 8 9 10 11 12 13 20 0 1 0 {started} 1 2 3");
        let expected = Stat {
            pid,
            name: String::from_utf8_lossy(&name).into_owned(),
            is_dead: matches!(state, "Z" | "X"),
            parent,
            group,
            started,
        };
        prop_assert_eq!(Stat::parse(&line(pid, &name, &facts)), Some(expected));
    }

    #[test]
    fn any_bytes_are_a_line_or_not_and_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        drop(Stat::parse(&bytes));
    }
}
