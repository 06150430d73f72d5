//! Tags as text.

use proptest::prelude::*;

use super::*;

fn tag() -> impl Strategy<Value = Tag> {
    (".*", any::<u64>(), "[0-9a-f-]*", any::<u32>(), any::<u64>()).prop_map(
        |(home, namespace, boot, pid, started)| Tag {
            home,
            namespace,
            holder: ProcessIdentity { pid, started, boot },
        },
    )
}

#[test]
fn a_tag_names_home_boot_namespace_pid_and_start() {
    let holder = ProcessIdentity { pid: 42, started: 1_178_657, boot: "ea83b2c4-4d9f".to_owned() };
    let tag = Tag { home: "c0ffee".to_owned(), namespace: 4_026_531_836, holder };
    assert_eq!(tag.to_string(), "c0ffee:ea83b2c4-4d9f:4026531836:42:1178657");
    assert_eq!(tag.to_string().parse(), Ok(tag));
}

#[test]
fn invalid_tag_is_refused() {
    for text in [
        "",
        "home",
        "home:boot:3:1",
        "home:boot:x:1:1",
        "home:boot:3:x:1",
        "home:boot:3:1:",
        "home:boot:3:-1:1",
        "home:boot:3:1:1 ",
    ] {
        assert_eq!(text.parse::<Tag>(), Err(InvalidTag(text.to_owned())));
    }
}

proptest! {
    #[test]
    fn every_tag_is_read_as_it_was_written(tag in tag()) {
        prop_assert_eq!(tag.to_string().parse(), Ok(tag));
    }

    #[test]
    fn any_text_is_a_tag_or_not_and_nothing_panics(text in ".*") {
        drop(text.parse::<Tag>());
    }
}
