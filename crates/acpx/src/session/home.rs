//! Where acpx keeps its files. Only this module reads these paths from the environment; callers pass them on.

use std::env;
use std::path::{Path, PathBuf};

use acpx_core::store::make_private_directory;

use crate::error::CliError;

/// `ACPX_HOME`, or `.acpx` in the user's home.
pub(crate) fn acpx_home() -> Result<PathBuf, CliError> {
    let set = env::var_os("ACPX_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = set.or_else(|| Some(user_home()?.join(".acpx"))).ok_or(CliError::NoHome)?;
    if home.is_absolute() { Ok(home) } else { Err(CliError::RelativeHome(home)) }
}

/// `HOME`, or the user's home in the password database: some editors start their agents without `HOME`.
pub(crate) fn user_home() -> Option<PathBuf> {
    env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Creates a directory that only its owner can read, with missing parents.
pub(crate) fn make_private(directory: &Path) -> Result<(), CliError> {
    make_private_directory(directory)
        .map_err(|source| CliError::System { doing: format!("make {}", directory.display()), source })
}
