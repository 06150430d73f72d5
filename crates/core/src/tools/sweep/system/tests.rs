//! Which processes a sweep selects, as far as this can be tested without processes.

use super::*;

fn of_home(runs: &[ProcessIdentity]) -> Sweep<'_> {
    Sweep { home: "home", holders: None, runs, keep: &[], boot: "boot", namespace: 3 }
}

#[test]
fn recorded_process_group_is_proven_by_leader_or_tag() {
    let run = |pid, started, boot: &str| ProcessIdentity { pid, started, boot: boot.to_owned() };
    let at =
        |pid, group, started| Stat { pid, name: String::new(), is_dead: false, parent: 1, group, started };
    let runs = [
        run(10, 100, "boot"),
        run(20, 100, "boot"),
        run(30, 100, "boot"),
        run(40, 100, "boot"),
        run(50, 100, "old"),
    ];
    // 10 is the recorded leader; pid 20 was reused; 30, 40 and 50 have exited and left one member each.
    let processes = [at(10, 10, 100), at(20, 20, 999), at(31, 30, 101), at(41, 40, 101), at(51, 50, 101)];
    let held = [
        HolderStatus::Untagged,
        HolderStatus::DeadHolder,
        HolderStatus::DeadHolder,
        HolderStatus::Untagged,
        HolderStatus::DeadHolder,
    ];
    let candidates: Vec<_> = processes.iter().zip(held).collect();
    assert_eq!(of_home(&runs).recorded_groups(&processes, &candidates), HashSet::from([10, 30]));
}

#[test]
fn sweep_targets_only_processes_of_dead_holders_of_this_home() {
    let living = ProcessIdentity::of(std::process::id()).unwrap();
    let dead = ProcessIdentity { started: living.started + 1, ..living.clone() };
    let tag = |home: &str, namespace, holder: &ProcessIdentity| {
        Some(Tag { home: home.to_owned(), namespace, holder: holder.clone() })
    };
    let cases = [
        ("of a dead holder", tag("home", 3, &dead), HolderStatus::DeadHolder),
        ("of a living holder", tag("home", 3, &living), HolderStatus::OtherHolder),
        ("of another home", tag("other", 3, &dead), HolderStatus::OtherHolder),
        ("without a tag", None, HolderStatus::Untagged),
        // The pid of a container's holder means nothing here, even if it is alive.
        ("of a holder in a container, which has left it", tag("home", 4, &dead), HolderStatus::OtherHolder),
    ];
    for (case, tag, expected) in cases {
        assert_eq!(of_home(&[]).held(tag.as_ref()), expected, "{case}");
    }
}
