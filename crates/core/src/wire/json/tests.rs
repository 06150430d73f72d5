//! Reading and editing members of raw JSON.

use super::*;

const TEXT: &str = r#"{ "a" : {"b":"x"} , "\u0063":1e3, "n":null, "d":1, "d":2, "\ud800":0 }"#;

#[test]
fn get_finds_a_value_by_its_path() {
    assert_eq!(get(TEXT, &[]), Some(TEXT));
    assert_eq!(get(TEXT, &["a", "b"]), Some(r#""x""#));
    assert_eq!(get(TEXT, &["n"]), Some("null"));
    assert_eq!(get(TEXT, &["c"]), Some("1e3"));
}

#[test]
fn get_of_a_missing_or_duplicate_member_is_none() {
    for path in [&["d"][..], &["e"], &["a", "c"], &["c", "x"], &["n", "x"]] {
        assert_eq!(get(TEXT, path), None, "{path:?}");
    }
    for text in ["", "{", "{} {}", "[]", r#"{"a":1,}"#, r#"{"a":1"#] {
        assert_eq!(get(text, &["a"]), None, "{text}");
    }
}

#[test]
fn scan_reports_other_names_and_duplicates() {
    let found = scan(TEXT, &["d", "n", "z"]).unwrap();
    assert_eq!((found.values, found.repeated), ([Some("2"), Some("null"), None], [true, false, false]));
    assert!(found.has_others && found.has_bad_name && !found.is_plain());
    assert_eq!(scan(r#"{"d":1}"#, &["d"]).and_then(MemberScan::only), Some([Some("1")]));
    assert_eq!(scan(r#"{"d":1,"e":2}"#, &["d"]).and_then(MemberScan::only), None);
}

#[test]
fn duplicates_on_a_path_are_found_under_escaped_names() {
    let path = ["_meta", "acpx"];
    for json in [
        r#"{"_meta":{},"_meta":{"acpx":1}}"#,
        r#"{"_meta":{"acpx":1},"\u005fmeta":7}"#,
        r#"{"_meta":{"acpx":1,"x":2,"acpx":1}}"#,
    ] {
        assert!(is_duplicated(json, &path), "{json}");
    }
    for json in [r#"{"_meta":{"acpx":1,"x":2,"x":3}}"#, r#"{"_meta":7}"#, "{}", "7"] {
        assert!(!is_duplicated(json, &path), "{json}");
    }
}

#[test]
fn items_are_those_of_an_array_alone() {
    assert_eq!(items(r#" [ 1 ,[2], {"a":[]} ] "#), Some(vec!["1", "[2]", r#"{"a":[]}"#]));
    assert_eq!(items("[]"), Some(vec![]));
    assert_eq!(["{}", "1", "[1", "[1]x", ""].map(items), [const { None }; 5]);
    assert_eq!(array(["1", "{}"]), "[1,{}]");
}

#[test]
fn set_changes_one_member_and_keeps_every_other_byte() {
    let path = ["_meta", "acpx", "n"];
    let rows = [
        ("{}", r#"{"_meta":{"acpx":{"n":1}}}"#),
        (r#"{ "a" : 1.0e2 }"#, r#"{"_meta":{"acpx":{"n":1}}, "a" : 1.0e2 }"#),
        (r#"{"a":1,"_meta":{"b" :2}}"#, r#"{"a":1,"_meta":{"acpx":{"n":1},"b" :2}}"#),
        (r#"{"_meta":{"acpx":{ } } }"#, r#"{"_meta":{"acpx":{"n":1 } } }"#),
        (r#"{"_meta":null}"#, r#"{"_meta":{"acpx":{"n":1}}}"#),
        (r#"{"_meta":{"acpx":{"n":[0],"m":2}}}"#, r#"{"_meta":{"acpx":{"n":1,"m":2}}}"#),
        (r#"{"\u005fmeta":{"acpx":{"n":0}}}"#, r#"{"\u005fmeta":{"acpx":{"n":1}}}"#),
    ];
    for (json, expected) in rows {
        assert_eq!(set(json, &path, "1").as_deref(), Some(expected), "{json}");
    }
    for json in ["", "[]", "7", r#"{"_meta":7}"#, r#"{"_meta":{"acpx":[]}}"#, r#"{"_meta":{},"_meta":{}}"#] {
        assert_eq!(set(json, &path, "1"), None, "{json}");
    }
    assert_eq!(set("7", &[], "1").as_deref(), Some("1"));
}

#[test]
fn remove_cuts_the_comma_and_emptied_parents() {
    let path = ["_meta", "acpx", "seq"];
    let rows = [
        (r#"{"_meta":{"acpx":{"seq":1}},"a":2}"#, r#"{"a":2}"#),
        (r#"{"a":2 , "_meta":{"acpx":{"seq":1}} }"#, r#"{"a":2 }"#),
        (r#"{"_meta":{"acpx":{"seq":1}}}"#, "{}"),
        (r#"{"_meta":{"b":{} , "acpx":{"seq":1}}}"#, r#"{"_meta":{"b":{}}}"#),
        (r#"{"_meta":{"acpx":{"at":0,"seq":1,"x":2}}}"#, r#"{"_meta":{"acpx":{"at":0,"x":2}}}"#),
        (r#"{"_meta":{"acpx":{"seq":1, "x":2}}}"#, r#"{"_meta":{"acpx":{"x":2}}}"#),
    ];
    for (json, expected) in rows {
        assert_eq!(remove(json, &path).as_deref(), Some(expected), "{json}");
    }
    for json in
        ["", "[]", "{}", r#"{"_meta":7}"#, r#"{"_meta":{"acpx":{"s":1}}}"#, r#"{"_meta":{},"_meta":{}}"#]
    {
        assert_eq!(remove(json, &path), None, "{json}");
    }
}

#[test]
fn removal_of_several_members_equals_removing_each() {
    let path = ["_meta", "acpx"];
    let rows = [
        r#"{"_meta":{"acpx":{"seq":1,"at":2}},"a":2}"#,
        r#"{"a":2, "_meta":{"acpx":{"at":2 , "seq":1}, "b":0}}"#,
        r#"{"_meta":{"acpx":{"seq":1,"at":2,"x":3}}}"#,
        r#"{"_meta":{"acpx":{"x":3, "seq":1, "at":2}}}"#,
        r#"{"_meta":{"acpx":{"seq":1,"x":3,"at":2}}}"#,
        r#"{"_meta":{"acpx":{"seq":1,"x":3}}}"#,
        r#"{"_meta":{"acpx":{"at":1}}}"#,
    ];
    for json in rows {
        let cuts = RawObject::parse(json).unwrap().removal(json, &path, &["seq", "at"]).unwrap();
        let mut splice = Splice::new(json);
        for cut in cuts {
            splice.replace(cut, "").unwrap();
        }
        let first = remove(json, &["_meta", "acpx", "seq"]).unwrap_or_else(|| json.to_owned());
        let both = remove(&first, &["_meta", "acpx", "at"]).unwrap_or(first);
        assert_eq!(splice.finish(), both, "{json}");
    }
    assert_eq!(RawObject::new().removal("{}", &path, &["seq"]), None);
    let twice = r#"{"_meta":{"acpx":{"seq":1,"seq":1}}}"#;
    assert_eq!(RawObject::parse(twice).unwrap().removal(twice, &path, &["seq"]), None);
}

#[test]
fn unedited_members_keep_their_bytes_and_position() {
    let mut members = RawObject::parse(r#"{ "a": 1.0e2, "b":{"x" : [ ]}, "c":"\u0041" }"#).unwrap();
    members.rename("b", "d");
    members.set_text("e", "\"");
    assert_eq!(members.to_string(), r#"{"a":1.0e2,"d":{"x" : [ ]},"c":"\u0041","e":"\""}"#);
}

#[test]
fn set_path_keeps_other_members_and_replaces_null() {
    let mut members = RawObject::parse(r#"{"_meta":{"z":1,"acpx":{"y":2}}}"#).unwrap();
    members.set_path(&["_meta", "acpx", "status"], "3");
    assert_eq!(members.to_string(), r#"{"_meta":{"z":1,"acpx":{"y":2,"status":3}}}"#);
    let mut members = RawObject::parse(r#"{"_meta":null}"#).unwrap();
    members.set_path(&["_meta", "acpx", "status"], "3");
    assert_eq!(members.to_string(), r#"{"_meta":{"acpx":{"status":3}}}"#);
}

#[test]
fn the_last_duplicate_counts_and_all_are_removed() {
    let mut members = RawObject::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap();
    assert_eq!(members.get("a"), Some("3"));
    assert_eq!(members.remove("a").as_deref(), Some("3"));
    assert_eq!(members.to_string(), r#"{"b":2}"#);
}

#[test]
fn merge_sets_members_at_their_position_and_appends_the_others() {
    let mut members = RawObject::parse(r#"{"a":1,"b":2,"a":3,"\ud800":4}"#).unwrap();
    members.merge(&RawObject::parse(r#"{"x":1,"\u0061":5,"x":[ 2],"\ud800":6}"#).unwrap());
    assert_eq!(members.to_string(), r#"{"a":1,"b":2,"a":5,"\ud800":6,"x":[ 2]}"#);
}

#[test]
fn merge_of_very_large_objects_takes_linear_time() {
    let object = |from: u32| {
        let members = (from..from + 100_000).map(|n| format!(r#""{n}":{n}"#));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let (first, second) = (object(0), object(50_000));
    let mut members = RawObject::parse(&first).unwrap();
    let started = std::time::Instant::now();
    members.merge(&RawObject::parse(&second).unwrap());
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(members.len(), 150_000);
}
