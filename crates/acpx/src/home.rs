//! Where acpx keeps its files. Read from the environment here and passed on, so that nothing below reads it.

use std::env;
use std::path::PathBuf;

use crate::error::CliError;

/// `ACPX_HOME`, or `.acpx` in the user's home.
pub(crate) fn acpx_home() -> Result<PathBuf, CliError> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("ACPX_HOME").or_else(|| Some(set("HOME")?.join(".acpx"))).ok_or(CliError::NoHome)
}
