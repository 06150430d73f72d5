//! Who is meant, as far as it can be said without processes.

use super::*;

fn stat(pid: u32, parent: u32) -> Stat {
    Stat { pid, name: String::new(), is_dead: false, parent, group: pid, started: 0 }
}

#[test]
fn the_tag_is_the_variable_of_that_name_and_no_other() {
    let tag: Tag = "home:boot:3:1:2".parse().unwrap();
    assert_eq!(tag_in(b"HOME=/\0ACPX_TAG=home:boot:3:1:2\0PATH=/bin\0"), Some(tag));
    assert_eq!(
        tag_in(b"MY_ACPX_TAG=home:boot:3:1:2\0ACPX_TAGS=home:boot:3:1:2\0X=ACPX_TAG=home:boot:3:1:2\0"),
        None
    );
    assert_eq!(tag_in(b"ACPX_TAG=\xff:boot:3:1:2\0ACPX_TAG=\0ACPX_TAG\0"), None);
    assert_eq!(tag_in(b""), None);
}

#[test]
fn this_process_and_its_ancestors_are_spared_even_if_they_seem_to_run_in_a_circle() {
    let this = std::process::id();
    let (parent, first, stranger) = (this + 1, this + 2, this + 3);
    let line = [stat(this, parent), stat(parent, first), stat(first, 0), stat(stranger, first)];
    assert_eq!(this_process_and_its_ancestors(&line), HashSet::from([this, parent, first, 0]));
    let circle = [stat(this, parent), stat(parent, this)];
    assert_eq!(this_process_and_its_ancestors(&circle), HashSet::from([this, parent]));
}

#[test]
fn a_recorded_group_is_believed_by_its_leader_or_by_a_tag_in_it() {
    let run = |pid, started, boot: &str| ProcessIdentity { pid, started, boot: boot.to_owned() };
    let at = |pid, group, started| Stat { group, started, ..stat(pid, 1) };
    let runs = [
        run(10, 100, "boot"),
        run(20, 100, "boot"),
        run(30, 100, "boot"),
        run(40, 100, "boot"),
        run(50, 100, "old"),
    ];
    let sweep = Sweep { home: "home", runs: &runs, boot: "boot", namespace: 3, met: Vec::new() };
    // 10 is the recorded leader; 20 is another process by now; 30, 40 and 50 are gone and left one member each.
    let processes = [at(10, 10, 100), at(20, 20, 999), at(31, 30, 101), at(41, 40, 101), at(51, 50, 101)];
    let held = [Held::Untold, Held::ByTheDead, Held::ByTheDead, Held::Untold, Held::ByTheDead];
    let candidates: Vec<_> = processes.iter().zip(held).collect();
    assert_eq!(sweep.recorded_groups(&processes, &candidates), HashSet::from([10, 30]));
}

#[test]
fn only_what_is_numbered_as_we_are_and_held_by_a_dead_process_of_this_home_is_meant() {
    let sweep = Sweep { home: "home", runs: &[], boot: "boot", namespace: 3, met: Vec::new() };
    let living = ProcessIdentity::of(std::process::id()).unwrap();
    let dead = ProcessIdentity { started: living.started + 1, ..living.clone() };
    let tag = |home: &str, namespace, holder: &ProcessIdentity| {
        Some(Tag { home: home.to_owned(), namespace, holder: holder.clone() })
    };
    let cases = [
        ("of a dead holder", Some(3), tag("home", 3, &dead), Held::ByTheDead),
        ("of a living holder", Some(3), tag("home", 3, &living), Held::ByOthers),
        ("of another home", Some(3), tag("other", 3, &dead), Held::ByOthers),
        ("without a tag", Some(3), None, Held::Untold),
        // The number of a container's holder is nobody's here, however much it lives.
        ("of a holder in a container, which is in it", Some(4), tag("home", 4, &dead), Held::ByOthers),
        ("of a holder in a container, which has left it", Some(3), tag("home", 4, &dead), Held::ByOthers),
        ("of ours, in a container", Some(4), tag("home", 3, &dead), Held::ByOthers),
        ("in a container without a tag", Some(4), None, Held::ByOthers),
        ("in nobody knows which namespace", None, tag("home", 3, &dead), Held::ByOthers),
    ];
    for (case, namespace, tag, expected) in cases {
        assert_eq!(sweep.held(namespace, tag.as_ref()), expected, "{case}");
    }
}
