//! `acpx --skill`: lists, prints and exports the skill that teaches agents to use acpx.

use acpx_core::model::sha256_hex;
use serde_json::json;

use crate::cli::{SkillAction, UsageError};
use crate::error::CliError;
use crate::output;

const ID: &str = "acpx";
const TEXT: &str = include_str!("../../skills/acpx/SKILL.md");
/// The size of a block of a tar archive.
const BLOCK: usize = 512;
const HELP: &str = "\
acpx --skill list [--json]    list the skills
acpx --skill show acpx        print its text
acpx --skill export acpx      write it as a tar archive to stdout

To install it for claude in this directory:
  mkdir -p .claude/skills && acpx --skill export acpx | tar -x -C .claude/skills
";

/// Does what was asked.
pub(crate) fn run(action: &SkillAction) -> Result<(), CliError> {
    let bytes = match action {
        SkillAction::List { json: false } => format!("{ID}\t{}\n", summary()).into_bytes(),
        SkillAction::List { json: true } => {
            let digest = sha256_hex(&archive());
            let skill =
                json!({ "id": ID, "digest": format!("sha256:{digest}"), "files": 1, "summary": summary() });
            format!("{}\n", json!({ "skillflag_version": "0.1", "skills": [skill] })).into_bytes()
        }
        SkillAction::Show(id) => known(id).map(|()| TEXT.as_bytes().to_vec())?,
        SkillAction::Export(id) => known(id).map(|()| archive())?,
        SkillAction::Help => HELP.as_bytes().to_vec(),
    };
    // The archive of a text is text too.
    output::print(&String::from_utf8_lossy(&bytes))?;
    Ok(())
}

fn known(id: &str) -> Result<(), UsageError> {
    if id == ID { Ok(()) } else { Err(UsageError::Skill { problem: format!("there is no skill {id:?}") }) }
}

/// The skill's description.
fn summary() -> &'static str {
    TEXT.lines().find_map(|line| line.strip_prefix("description: ")).unwrap_or_default()
}

/// The skill's folder as a tar archive. It is the same for every user and time, so that its digest is.
fn archive() -> Vec<u8> {
    let mut archive = header(&format!("{ID}/"), 0o755, 0, b'5');
    archive.extend(header(&format!("{ID}/SKILL.md"), 0o644, TEXT.len(), b'0'));
    archive.extend(TEXT.as_bytes());
    // The end is two empty blocks, after a file that fills its last block.
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

/// The header of an entry, in the ustar format.
fn header(name: &str, mode: u32, size: usize, kind: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, b"00000000000");
    // The sum is taken with blanks in its own place.
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
