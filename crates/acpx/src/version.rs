//! The version of the program and the commit that it was built from.

/// The version alone, as hosts and editors compare it.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `acpx --version` prints: name, version, and the commit if it is known.
pub(crate) const VERSION_LINE: &str = env!("ACPX_VERSION_LINE");

/// The commit and its date, if the program was built in its repository.
pub(crate) fn build() -> Option<&'static str> {
    Some(env!("ACPX_BUILD")).filter(|build| !build.is_empty())
}

/// A version with its commit, as people read it.
pub(crate) fn with_build(version: &str, build: Option<&str>) -> String {
    build.map_or_else(|| version.to_owned(), |build| format!("{version} ({build})"))
}
