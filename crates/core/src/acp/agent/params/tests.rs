//! Which values a check receives, and which it never does.

use super::*;

#[test]
fn array_is_refused_at_its_first_bad_item() {
    let huge = format!("[0{}]", ",0".repeat(1_000_000));
    // This array breaks off within its second item: a check that read on would fail.
    for json in [huge.as_str(), "[0,fal"] {
        let params = ParamField { path: Path::Params, json };
        let mut checked = 0;
        let refused = params.items(|item| {
            checked += 1;
            item.string()
        });
        let problem = ParamProblem::new("params[0]", "must be a string, not the number 0");
        assert_eq!((refused, checked), (Err(problem), 1));
    }
}

#[test]
fn the_path_of_a_value_leads_through_members_and_items() {
    let params = ParamField::params(Some(r#"{"a":[[],[{"b":true}]]}"#));
    let [a] = params.members(["a"]).unwrap();
    let refused = a.required().unwrap().items(|list| {
        list.items(|item| {
            let [b] = item.members(["b"])?;
            b.required()?.string()
        })
    });
    assert_eq!(refused, Err(ParamProblem::new("a[1][0].b", "must be a string, not a boolean")));
}
