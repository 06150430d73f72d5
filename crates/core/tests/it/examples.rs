//! The examples that tests start as programs.

use std::path::PathBuf;

/// Where an example is. Examples lie beside the directory of test binaries.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    let missing = "is missing: run cargo build -p acpx-core --examples first";
    assert!(program.exists(), "{} {missing}", program.display());
    program
}
