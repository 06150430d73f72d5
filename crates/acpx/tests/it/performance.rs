//! The page on performance against the benchmark's own list of budgets.

use std::path::Path;

#[path = "../../benches/acpx/budgets.rs"]
mod budgets;

use budgets::BUDGETS;

#[test]
fn performance_page_has_every_budget_of_the_benchmark() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/performance.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.lines().skip_while(|line| !line.starts_with("| work ")).skip(2);
    let cells = table.map_while(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        Some((cells[0].to_owned(), cells[4].to_owned()))
    });
    let written: Vec<(String, String)> = cells.collect();
    let held: Vec<(String, String)> =
        BUDGETS.iter().map(|budget| (budget.work.to_owned(), budget.to_string())).collect();
    assert_eq!(written, held);
}
