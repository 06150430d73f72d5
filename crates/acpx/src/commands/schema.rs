//! `acpx schema`: prints the JSON Schemas of the objects that acpx prints.

use crate::cli::{OutputArgs, SchemaArgs, UsageError};
use crate::error::CliError;
use crate::output;
use crate::session::settings::LazyConfig;

/// Prints the schema of one object, or of all.
pub(super) fn run(args: &SchemaArgs, output: OutputArgs, config: &LazyConfig) -> Result<(), CliError> {
    let mut console = config.console(output)?;
    if output::schema(args.name.as_deref(), &mut console)? {
        return Ok(());
    }
    let name = args.name.clone().unwrap_or_default();
    Err(UsageError::UnknownSchema { name, names: output::schema_names().join(", ") }.into())
}
