//! Attempts to leave the roots, to block, or to use unbounded memory must fail.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;

/// A root with a file, next to a directory that is not a root.
struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for directory in ["root", "second", "outside"] {
            fs::create_dir(home.path().join(directory)).unwrap();
        }
        fs::write(home.path().join("root/file"), "one\ntwo\nthree\n").unwrap();
        fs::write(home.path().join("outside/secret"), "secret").unwrap();
        Self { home }
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.home.path().join(inner)
    }

    fn text(&self, inner: &str) -> String {
        self.path(inner).to_str().unwrap().to_owned()
    }

    fn roots(&self) -> Roots {
        ["root", "second"].map(|name| root(&self.path(name))).into_iter().collect()
    }

    fn read(&self, inner: &str) -> Result<String, FileError> {
        self.roots().locate(&self.text(inner))?.read(LineRange::default())
    }

    fn write(&self, inner: &str, text: &str) -> Result<(), FileError> {
        self.roots().locate(&self.text(inner))?.write(text)
    }

    /// Everything below a directory: names and file contents.
    fn below(&self, inner: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.path(inner)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{inner}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                all.extend(self.below(&name));
            } else if entry.file_type().unwrap().is_symlink() {
                all.push((name, "a link".to_owned()));
            } else {
                all.push((name.clone(), fs::read_to_string(self.path(&name)).unwrap()));
            }
        }
        all.sort();
        all
    }
}

fn root(path: &Path) -> Root {
    Root::find(&AbsolutePath::from_path(path).unwrap()).unwrap()
}

fn words(error: &FileError) -> String {
    error.to_string()
}

#[test]
fn line_range_starts_at_one_and_excludes_the_last_newline() {
    let place = Place::new();
    let located = place.roots().locate(&place.text("root/file")).unwrap();
    let cases = [
        (None, None, "one\ntwo\nthree\n"),
        (Some(1), None, "one\ntwo\nthree\n"),
        (Some(0), None, "one\ntwo\nthree\n"),
        (Some(2), None, "two\nthree\n"),
        (Some(2), Some(1), "two"),
        (None, Some(2), "one\ntwo"),
        (None, Some(3), "one\ntwo\nthree"),
        (None, Some(4), "one\ntwo\nthree\n"),
        (None, Some(0), ""),
        (Some(9), None, ""),
        (Some(u32::MAX), Some(u32::MAX), ""),
    ];
    for (first, count, expected) in cases {
        assert_eq!(located.read(LineRange { first, count }).unwrap(), expected, "{first:?} {count:?}");
    }
}

#[test]
fn no_path_leads_out_of_the_roots() {
    let place = Place::new();
    symlink(place.path("outside"), place.path("root/link")).unwrap();
    symlink("../outside/secret", place.path("root/relative")).unwrap();
    symlink(place.path("outside/new"), place.path("root/dangling")).unwrap();
    symlink("loop", place.path("root/loop")).unwrap();
    let outside = ["root/link/secret", "root/relative", "root/../outside/secret", "outside/secret"];
    for inner in outside {
        let expected = format!("path is outside the session's directories: {}", place.path(inner).display());
        assert_eq!(words(&place.read(inner).unwrap_err()), expected);
        assert_eq!(words(&place.write(inner, "x").unwrap_err()), expected);
    }
    for inner in ["root/dangling", "root/link/new", "root/link/new/newer"] {
        let expected = format!("path is outside the session's directories: {}", place.path(inner).display());
        assert_eq!(words(&place.write(inner, "x").unwrap_err()), expected);
    }
    assert!(matches!(place.read("root/loop"), Err(FileError::System { .. })));
    assert!(matches!(place.roots().locate("file"), Err(FileError::Relative { .. })));
    assert!(matches!(place.roots().locate(""), Err(FileError::Relative { .. })));
    assert!(matches!(place.roots().locate("/dev/zero"), Err(FileError::Outside { .. })));
    assert_eq!(place.below("outside"), [("outside/secret".to_owned(), "secret".to_owned())]);
}

#[test]
fn symlink_between_roots_is_followed() {
    let place = Place::new();
    fs::write(place.path("second/other"), "other").unwrap();
    symlink(place.path("second/other"), place.path("root/link")).unwrap();
    symlink("new", place.path("root/dangling")).unwrap();
    assert_eq!(place.read("root/link").unwrap(), "other");
    place.write("root/link", "changed").unwrap();
    place.write("root/dangling", "made").unwrap();
    assert_eq!(fs::read_to_string(place.path("second/other")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(place.path("root/new")).unwrap(), "made");
    assert!(place.path("root/link").is_symlink() && place.path("root/dangling").is_symlink());
    // A root that is reached by a symlink is the same root.
    symlink(place.path("root"), place.path("alias")).unwrap();
    assert_eq!(place.read("alias/file").unwrap(), "one\ntwo\nthree\n");
    let through = Roots(vec![root(&place.path("alias"))]).locate(&place.text("root/file")).unwrap();
    assert_eq!(through.read(LineRange::default()).unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn a_write_makes_directories_keeps_the_mode_and_leaves_nothing_else() {
    let place = Place::new();
    place.write("root/a/b/c", "deep").unwrap();
    fs::set_permissions(place.path("root/file"), fs::Permissions::from_mode(0o751)).unwrap();
    place.write("root/file", "changed").unwrap();
    let mode = fs::metadata(place.path("root/file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    let expected = [("root/a/b/c", "deep"), ("root/file", "changed")];
    assert_eq!(place.below("root"), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
}

#[test]
fn irregular_file_is_neither_read_nor_replaced() {
    let place = Place::new();
    let pipe = place.path("root/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    symlink("/dev/zero", place.path("root/zero")).unwrap();
    fs::create_dir(place.path("root/directory")).unwrap();
    for inner in ["root/pipe", "root/directory", "root", "root/file/below"] {
        assert!(matches!(place.read(inner), Err(FileError::NotAFile { .. })), "{inner}");
        assert!(matches!(place.write(inner, "x"), Err(FileError::NotAFile { .. })), "{inner}");
    }
    assert!(matches!(place.read("root/zero"), Err(FileError::Outside { .. })));
    assert!(matches!(place.write("root/zero", "x"), Err(FileError::Outside { .. })));
    assert!(matches!(place.read("root/none"), Err(FileError::Missing { .. })));
    assert!(matches!(place.read("root/none/below"), Err(FileError::Missing { .. })));
}

#[test]
fn too_large_and_binary_files_are_errors_but_line_ranges_work() {
    let place = Place::new();
    fs::write(place.path("root/binary"), [0xff, 0xfe]).unwrap();
    assert!(matches!(place.read("root/binary"), Err(FileError::NotText { .. })));
    let large = "line\n".repeat(MAX_TEXT_BYTES / 5 + 1);
    fs::write(place.path("root/large"), &large).unwrap();
    let error = place.read("root/large").unwrap_err();
    assert_eq!(words(&error), format!("larger than {MAX_TEXT_BYTES} bytes: {}", place.text("root/large")));
    let located = place.roots().locate(&place.text("root/large")).unwrap();
    assert_eq!(located.read(LineRange { first: Some(1_000_000), count: Some(2) }).unwrap(), "line\nline");
    assert!(matches!(place.write("root/new", &large), Err(FileError::TooLarge { .. })));
    assert!(!place.path("root/new").exists());
}

#[test]
fn file_access_denied_by_the_system_is_an_error() {
    let place = Place::new();
    fs::set_permissions(place.path("root/file"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(place.path("root/file")).is_ok() {
        // A superuser is denied nothing, so there is nothing to test.
        return;
    }
    assert!(matches!(place.read("root/file"), Err(FileError::Forbidden { .. })));
    assert!(matches!(place.write("root/file", "x"), Err(FileError::Forbidden { .. })));
    fs::set_permissions(place.path("second"), fs::Permissions::from_mode(0o500)).unwrap();
    assert!(matches!(place.write("second/new", "x"), Err(FileError::Forbidden { .. })));
}

#[test]
fn symlink_swapped_in_after_the_check_does_not_escape() {
    let place = Place::new();
    fs::create_dir(place.path("root/way")).unwrap();
    fs::write(place.path("root/way/secret"), "harmless").unwrap();
    let located = place.roots().locate(&place.text("root/way/secret")).unwrap();
    fs::rename(place.path("root/way"), place.path("root/away")).unwrap();
    symlink(place.path("outside"), place.path("root/way")).unwrap();
    assert!(matches!(located.read(LineRange::default()), Err(FileError::Outside { .. })));
    assert!(matches!(located.write("x"), Err(FileError::Outside { .. })));
    fs::remove_file(place.path("root/way")).unwrap();
    symlink("../outside", place.path("root/way")).unwrap();
    assert!(matches!(located.read(LineRange::default()), Err(FileError::Outside { .. })));
    assert!(matches!(located.write("x"), Err(FileError::Outside { .. })));
    assert_eq!(place.below("outside"), [("outside/secret".to_owned(), "secret".to_owned())]);
}

#[test]
fn symlink_replacing_a_root_or_its_parent_does_not_escape() {
    let place = Place::new();
    fs::create_dir_all(place.path("above/deep")).unwrap();
    fs::write(place.path("above/deep/secret"), "harmless").unwrap();
    fs::write(place.path("second/secret"), "harmless").unwrap();
    symlink(place.path("above"), place.path("alias")).unwrap();
    let names = ["second", "missing", "alias/deep"];
    let roots: Roots = names.iter().map(|name| root(&place.path(name))).collect();
    let [before, above] =
        ["second/secret", "alias/deep/secret"].map(|inner| roots.locate(&place.text(inner)).unwrap());
    fs::rename(place.path("second"), place.path("root/away")).unwrap();
    fs::rename(place.path("above"), place.path("root/above")).unwrap();
    fs::create_dir(place.path("outside/deep")).unwrap();
    fs::write(place.path("outside/deep/secret"), "secret").unwrap();
    let outside = place.below("outside");
    for name in ["second", "missing", "above"] {
        symlink(place.path("outside"), place.path(name)).unwrap();
    }
    for located in [before, above] {
        assert!(matches!(located.read(LineRange::default()), Err(FileError::Outside { .. })), "{located:?}");
        assert!(matches!(located.write("x"), Err(FileError::Outside { .. })), "{located:?}");
    }
    for inner in ["second/secret", "missing/secret", "missing/new", "alias/deep/secret", "above/deep/new"] {
        let expected = format!("path is outside the session's directories: {}", place.path(inner).display());
        assert_eq!(words(&roots.locate(&place.text(inner)).unwrap_err()), expected);
    }
    assert_eq!(place.below("outside"), outside);
}

#[test]
fn root_created_later_or_recreated_is_the_same_root() {
    let place = Place::new();
    let roots: Roots = ["second", "missing"].iter().map(|name| root(&place.path(name))).collect();
    fs::remove_dir(place.path("second")).unwrap();
    for name in ["second", "missing"] {
        let located = roots.locate(&place.text(&format!("{name}/new"))).unwrap();
        assert!(matches!(located.write("made"), Err(FileError::Missing { .. })), "{name}");
        fs::create_dir(place.path(name)).unwrap();
        located.write("made").unwrap();
        assert_eq!(located.read(LineRange::default()).unwrap(), "made");
    }
}

#[test]
fn nothing_outside_roots_is_touched_while_symlinks_are_swapped() {
    let place = Place::new();
    fs::create_dir(place.path("root/real")).unwrap();
    fs::write(place.path("root/real/secret"), "harmless").unwrap();
    symlink("real", place.path("root/inside")).unwrap();
    symlink(place.path("outside"), place.path("root/out")).unwrap();
    fs::rename(place.path("root/inside"), place.path("root/way")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for target in [PathBuf::from("real"), place.path("outside")] {
                    symlink(target, place.path("root/next")).unwrap();
                    fs::rename(place.path("root/next"), place.path("root/way")).unwrap();
                }
            }
        });
        for _ in 0..2_000 {
            match place.read("root/way/secret") {
                Ok(text) => assert_ne!(text, "secret"),
                Err(FileError::Outside { .. } | FileError::Missing { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            match place.write("root/way/secret", "written") {
                Ok(()) | Err(FileError::Outside { .. } | FileError::Missing { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(place.below("outside"), [("outside/secret".to_owned(), "secret".to_owned())]);
}

proptest! {
    #[test]
    fn whatever_a_path_is_made_of_nothing_outside_is_read_or_written(
        parts in prop::collection::vec(
            prop::sample::select(vec!["..", ".", "", "root", "second", "outside", "secret", "file", "out", "in", "new", "\0"]),
            0..8,
        ),
        begins_at_home: bool,
    ) {
        let place = Place::new();
        symlink(place.path("outside"), place.path("root/out")).unwrap();
        symlink("../root", place.path("second/in")).unwrap();
        let begin = if begins_at_home { place.text("root") } else { String::new() };
        let path = parts.iter().fold(begin, |path, part| format!("{path}/{part}"));
        if let Ok(located) = place.roots().locate(&path) {
            let real = located.real_path();
            let home = place.home.path().canonicalize().unwrap();
            prop_assert!(real.starts_with(home.join("root")) || real.starts_with(home.join("second")));
            if let Ok(text) = located.read(LineRange::default()) {
                prop_assert_ne!(text, "secret");
            }
            drop(located.write("written"));
        }
        prop_assert_eq!(place.below("outside"), [("outside/secret".to_owned(), "secret".to_owned())]);
    }

    #[test]
    fn any_text_is_read_as_it_was_written(text in any::<String>()) {
        let place = Place::new();
        place.write("root/text", &text).unwrap();
        prop_assert_eq!(place.read("root/text").unwrap(), text);
    }
}
