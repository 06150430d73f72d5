//! Checks the content blocks of a prompt. Both versions define the same kinds. Version 2 allows further ones, which are
//! forwarded unchecked if the agent advertises them.

use super::NegotiatedOffer;
use crate::acp::agent::offer::Feature;
use crate::acp::agent::params::{ParamField, ParamProblem};

/// Checks a content block and returns the text of a text block.
pub(super) fn text(
    block: &ParamField<'_>,
    terms: NegotiatedOffer<'_>,
) -> Result<Option<String>, ParamProblem> {
    let [kind] = block.members(["type"])?;
    let kind = kind.required()?;
    let offered = |feature| {
        if terms.offer.has(feature) {
            return Ok(());
        }
        Err(kind.problem(terms.not_offered(&format!("is {}", kind.json()), feature)))
    };
    match kind.string()?.as_str() {
        "text" => {
            let [text] = block.members(["text"])?;
            return Ok(Some(text.required()?.string()?));
        }
        "resource_link" => strings(block, ["name", "uri"])?,
        "image" => offered(Feature::Image).and_then(|()| strings(block, ["data", "mimeType"]))?,
        "audio" => offered(Feature::Audio).and_then(|()| strings(block, ["data", "mimeType"]))?,
        "resource" => offered(Feature::EmbeddedContext).and_then(|()| embedded(block))?,
        other if terms.offer.takes_content(other) => {}
        other => {
            let version = terms.version.number();
            return Err(kind.problem(format!("is {other:?}, which is no content type of ACP v{version}")));
        }
    }
    Ok(None)
}

fn strings(object: &ParamField<'_>, names: [&'static str; 2]) -> Result<(), ParamProblem> {
    let members = object.members(names)?;
    members.iter().try_for_each(|member| member.required()?.string().map(drop))
}

fn embedded(block: &ParamField<'_>) -> Result<(), ParamProblem> {
    let [resource] = block.members(["resource"])?;
    let resource = resource.required()?;
    let [uri, text, blob] = resource.members(["uri", "text", "blob"])?;
    uri.required()?.string()?;
    match text.optional().or_else(|| blob.optional()) {
        Some(content) => content.string().map(drop),
        None => Err(resource.problem("must have a text or a blob")),
    }
}
