//! `docs/internals/requirements.md` is true: every statement is there once, and every test it names exists.

use std::collections::BTreeMap;

use crate::workspace;

/// How many statements each group has.
const GROUPS: [(&str, usize); 5] = [("L", 32), ("N", 17), ("S", 39), ("R", 12), ("I", 41)];
const AREAS: [&str; 4] = ["host and CLI", "editors and v2", "agents' side", "import"];

#[derive(Debug)]
struct Statement<'a> {
    id: &'a str,
    status: Status<'a>,
    tests: Vec<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
enum Status<'a> {
    Shown,
    Planned(&'a str),
    DoesNotBind,
}

fn statements(page: &str) -> Vec<Statement<'_>> {
    page.lines().filter_map(statement).collect()
}

/// A row of a table, if its first cell is an id.
fn statement(line: &str) -> Option<Statement<'_>> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let id = *cells.first().filter(|cell| is_id(cell))?;
    match cells[..] {
        [_, _why] => Some(Statement { id, status: Status::DoesNotBind, tests: Vec::new() }),
        [_, _what, status, tests] => {
            let status = match status.split_once(": ") {
                None if status == "shown" => Status::Shown,
                Some(("planned", area)) => Status::Planned(area),
                _ => panic!("{id} has the status {status:?}"),
            };
            Some(Statement { id, status, tests: workspace::quoted(tests) })
        }
        _ => panic!("{id} has {} cells", cells.len()),
    }
}

fn is_id(cell: &str) -> bool {
    let number = GROUPS.iter().find_map(|(group, _)| cell.strip_prefix(group));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[test]
fn every_statement_has_exactly_one_requirement_row() {
    let page = workspace::read("docs/internals/requirements.md");
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for statement in statements(&page) {
        *found.entry(statement.id).or_default() += 1;
    }
    let ids = GROUPS.iter().flat_map(|(group, count)| (1..=*count).map(move |n| format!("{group}{n}")));
    let ids: Vec<String> = ids.collect();
    let expected: BTreeMap<&str, usize> = ids.iter().map(|id| (id.as_str(), 1)).collect();
    assert_eq!((ids.len(), found), (141, expected));
}

#[test]
fn every_test_that_the_requirements_name_exists() {
    let (page, tests) = (workspace::read("docs/internals/requirements.md"), workspace::tests());
    let missing: Vec<(&str, &str)> = statements(&page)
        .iter()
        .flat_map(|statement| statement.tests.iter().map(|test| (statement.id, *test)))
        .filter(|(_, test)| !tests.contains(*test))
        .collect();
    assert_eq!(missing, []);
}

#[test]
fn shown_requirement_names_its_test_and_a_planned_one_its_area() {
    let page = workspace::read("docs/internals/requirements.md");
    for Statement { id, status, tests } in statements(&page) {
        match status {
            Status::Shown => assert!(!tests.is_empty(), "{id} is shown by nothing"),
            Status::Planned(area) => assert!(AREAS.contains(&area), "{id} is planned in {area:?}"),
            Status::DoesNotBind => {}
        }
    }
}
