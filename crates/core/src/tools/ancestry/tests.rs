//! Chains of ancestors, as a system may show them.

use std::cell::Cell;

use super::super::stat::Stat;
use super::descends;

const HOLDER: u32 = 50;

/// A process by pid, parent and start.
type Shown = (u32, u32, u64);

/// Whether the first of these processes counts as inside.
fn is_inside(processes: &[Shown], tagged: &[u32]) -> bool {
    let look = |pid| {
        let (pid, parent, started) = *processes.iter().find(|(known, ..)| *known == pid)?;
        Some(stat(pid, parent, started))
    };
    descends(processes[0].0, HOLDER, look, |pid| tagged.contains(&pid))
}

fn stat(pid: u32, parent: u32, started: u64) -> Stat {
    Stat { pid, name: String::new(), is_dead: false, parent, group: pid, started }
}

#[test]
fn process_descends_from_an_agent_by_holder_or_tag() {
    let holder = (HOLDER, 1, 10);
    let cases: [(&str, &[Shown], &[u32], bool); 7] = [
        ("of the user's shell", &[(90, 80, 30), (80, 1, 20), (1, 0, 0)], &[], false),
        ("of the holder", &[(90, 80, 30), (80, HOLDER, 20), holder, (1, 0, 0)], &[], true),
        ("adopted by the holder", &[(90, HOLDER, 30), holder], &[], true),
        ("the holder itself", &[holder, (1, 0, 0)], &[], false),
        ("tagged", &[(90, 1, 30), (1, 0, 0)], &[90], true),
        ("of a tagged one", &[(90, 80, 30), (80, 1, 20), (1, 0, 0)], &[80], true),
        ("below somebody that is hidden", &[(90, 80, 30)], &[], false),
    ];
    for (case, processes, tagged, expected) in cases {
        assert_eq!(is_inside(processes, tagged), expected, "{case}");
    }
}

#[test]
fn a_process_that_cannot_be_looked_at_is_inside() {
    assert!(descends(90, HOLDER, |_| None, |_| false));
    // It existed and has exited with its parent.
    let looked = Cell::new(false);
    let look = |pid| (pid == 90 && !looked.replace(true)).then(|| stat(90, 80, 30));
    assert!(descends(90, HOLDER, look, |_| false));
}

#[test]
fn parent_that_exits_during_the_search_hides_no_ancestor() {
    // First its parent has exited, then its parent's pid was reused; each time the holder has adopted it.
    for successor in [None, Some(stat(80, 1, 99))] {
        let looks = Cell::new(0);
        let look = |pid| {
            looks.set(looks.get() + 1);
            match (pid, looks.get()) {
                (90, 1) => Some(stat(90, 80, 30)),
                (90, _) => Some(stat(90, HOLDER, 30)),
                _ => successor.clone(),
            }
        };
        assert!(descends(90, HOLDER, look, |_| false));
    }
}

#[test]
fn parents_without_end_are_inside() {
    assert!(descends(90, HOLDER, |pid| Some(stat(pid, pid + 1, 30)), |_| false));
}
