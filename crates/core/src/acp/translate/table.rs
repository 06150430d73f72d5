//! What one version says and the other cannot, and what becomes of it: one row for each. The table is published in
//! `docs/protocol.md`, and a test compares the two.

use std::fmt::Write as _;

use crate::model::ProtocolVersion::{self, V1, V2};

/// One thing that is not the same in both versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The version it is said in.
    pub from: ProtocolVersion,
    /// What is said.
    pub feature: &'static str,
    /// What the other version is told.
    pub becomes: &'static str,
}

const fn v1(feature: &'static str, becomes: &'static str) -> Row {
    Row { from: V1, feature, becomes }
}

const fn v2(feature: &'static str, becomes: &'static str) -> Row {
    Row { from: V2, feature, becomes }
}

/// Every row, first what version 1 says.
pub const TABLE: &[Row] = &[
    v1(
        "`clientInfo`, `agentInfo` left out",
        "`info` with the name and version `unknown`, which version 2 wants",
    ),
    v1("capabilities as booleans", "`true` is `{}`; `false` is left out"),
    v1(
        "client capabilities `fs`, `terminal`, `session`",
        "left out: version 2 has no such methods, and takes notices, compaction and boolean options unasked",
    ),
    v1(
        "`loadSession`, `sessionCapabilities.list`, `resume`, `close`",
        "left out: `capabilities.session` promises them",
    ),
    v1("stdio MCP servers, which every agent takes", "`session.mcp.stdio` is said"),
    v1("`session/load`", "`session/resume` with `replayFrom` of the type `start`"),
    v1("MCP server without `type`", "`type` is `stdio`"),
    v1("MCP server of the type `sse`", "refused with `-32602`, server and transport named"),
    v1("chunk without `messageId`", "gets an id that is made from the record and the message's first event"),
    v1(
        "`tool_call`",
        "`tool_call_update`; a second one for the same call changes what it names and leaves the rest",
    ),
    v1(
        "`null` in a tool call, or as the cost of a usage",
        "left out: it means unchanged, where version 2 means cleared",
    ),
    v1(
        "diff with `oldText` and `newText`",
        "a change, with a Git patch that has the whole file as its one hunk",
    ),
    v1(
        "terminal in a tool call",
        "a text that names it: in version 1 it is the client's own, and version 2 has none of these",
    ),
    v1("`plan`", "`plan_update` of the plan `acpx.plan`"),
    v1(
        "`modes`, `current_mode_update`",
        "an option `acpx.mode` of the category `mode`, told with all options; if the agent has such an option of its own, that one",
    ),
    v1(
        "`session/set_mode`",
        "`session/set_config_option` of the option of the category `mode`; `-32602` if there is none",
    ),
    v1("option `id`, group `group`", "`configId`, `groupId`"),
    v1("command, and its input, without `type`", "`type` is `command`, and `text`"),
    v1("value of an option without `type`", "`type` is `id`"),
    v1(
        "permission for a `toolCall`",
        "its title is the question and the tool call the `subject`; without a title a general one is put",
    ),
    v1(
        "answer to `session/prompt`",
        "`state_update` idle, with its `stopReason` and `usage`; the prompt was answered with a `messageId` before",
    ),
    v1("login `id`, without `type`", "`methodId`; `type` is `agent`"),
    v1("environment of a terminal login as an object", "a list of names and values"),
    v1("`auth.logout`", "left out: whoever has logins has `auth/logout`"),
    v1("`authenticate`, `logout`", "`auth/login`, `auth/logout`"),
    v1("schema of a form without `type` or `properties`", "`type` is `object`, `properties` is `{}`"),
    v1("update of a kind that version 2 alone gave a meaning", "left out"),
    v1("update of any other unknown kind", "kept as it is"),
    v2("`capabilities.session`", "`loadSession`, and `list`, `resume`, `close` in `sessionCapabilities`"),
    v2("capabilities as objects", "`true` in the groups where version 1 has booleans"),
    v2(
        "what a client of version 2 takes unasked",
        "`session.notices`, `session.compaction` and `session.configOptions.boolean` are said",
    ),
    v2(
        "agent without `session.mcp.stdio`",
        "not said: a client of version 1 learns it when its server is refused",
    ),
    v2("`session/resume` with `replayFrom` of the type `start`", "`session/load`"),
    v2("`replayFrom` of another type", "refused with `-32602`; never another replay"),
    v2("`mcpServers`, `args`, `env`, `headers` left out", "an empty list, where version 1 wants one"),
    v2(
        "MCP server of another type than `stdio`, `http` and `acp`",
        "refused with `-32602`, server and transport named",
    ),
    v2(
        "whole message, `user_message`, `agent_message`, `agent_thought`",
        "chunks: of a message that only grew the rest, of one that changed all of it, under another id (`m#2`); what was shown before stays",
    ),
    v2("message that is cleared", "nothing; what it is told next has another id"),
    v2("`_meta` of a whole message", "in its first chunk; lost if there is none"),
    v2(
        "`tool_call_update`",
        "`tool_call` for the first of a call, with its `name` or nothing as a title if it has none; then `tool_call_update`",
    ),
    v2(
        "update of the kind `\"tool_call_content_chunk\"`",
        "`tool_call_update` with all of the content, at a pause, with the next update or at the end of the turn; of a call with more than 64 KiB the end, and a text that says so",
    ),
    v2(
        "`null` in a tool call",
        "what stands for nothing: an empty title or list, the kind `other`, the status `pending`; `name`, `rawInput`, `rawOutput` and `_meta` stay as they were",
    ),
    v2(
        "status `cancelled`, `paused`, or an unknown one",
        "`failed`, `in_progress`, or left out; the word is in `_meta.acpx.status`",
    ),
    v2(
        "`capabilities` of a tool call or a terminal, `tool_call/cancel`, `terminal/cancel`",
        "left out: a client of version 1 can cancel the turn only",
    ),
    v2(
        "diff with `changes` and a Git patch",
        "a diff for each hunk, with the texts of the hunk alone; a change that the patch does not show is a line of text",
    ),
    v2(
        "terminal of the agent",
        "its command, the last 32 KiB of its output and its exit as text, in the tool calls that refer to it; without one, nothing",
    ),
    v2(
        "content of an unknown kind, in an update",
        "a text that names the kind; the content is in `_meta.acpx.content`",
    ),
    v2("content of an unknown kind, in a prompt", "refused with `-32602`, the block named"),
    v2("several plans", "one plan: the entries of all, in the order in which the plans first came"),
    v2("plan that is no list of entries", "left out"),
    v2(
        "status `cancelled` of a plan's entry, unknown status or priority",
        "`completed`, `pending`, `medium`; the word is in `_meta.acpx`",
    ),
    v2(
        "option of the category `mode`",
        "`modes` and `current_mode_update` too, beside the option; groups of modes become one list",
    ),
    v2("option, or value of one, of an unknown type", "left out; as a request refused with `-32602`"),
    v2("`availableCommands` in an answer", "`available_commands_update` after it"),
    v2("command, or input of one, of an unknown type", "left out"),
    v2("`title` and `description` of a permission", "the title of the tool call, one line each"),
    v2(
        "permission for a `command`",
        "a tool call of the kind `execute` that shows the command and its directory",
    ),
    v2("permission for something else, or for nothing in particular", "a tool call with the title alone"),
    v2("option of a permission of an unknown kind", "left out"),
    v2("unknown outcome of a permission", "`cancelled`; never an approval"),
    v2("`state_update`", "nothing, but idle ends the turn: the prompt is answered"),
    v2("stop reason `error`", "the prompt is answered with the error"),
    v2("no stop reason, or an unknown one", "`end_turn`; the word is in `_meta.acpx.stopReason`"),
    v2("list of `background` work", "left out"),
    v2("login of an unknown type", "left out"),
    v2("`auth/login`, `auth/logout`", "`authenticate`, `logout`; `auth.logout` is said if there are logins"),
    v2("value in the answer to a form that is no text, number, boolean or list of texts", "left out"),
    v2("error `-32022`", "does not occur: a version is agreed on before anything is translated"),
    v2("update of any other unknown kind", "left out: version 1 can read no other than its own"),
];

/// The table, as it is published.
pub fn table() -> String {
    let mut text = String::new();
    for (from, to) in [(V1, V2), (V2, V1)] {
        // Writing to a text cannot fail.
        let _written = write!(
            text,
            "### From version {} to version {}\n\n| what is said | what becomes of it |\n|---|---|\n",
            from.number(),
            to.number()
        );
        for row in TABLE.iter().filter(|row| row.from == from) {
            let _written = writeln!(text, "| {} | {} |", row.feature, row.becomes);
        }
        text.push('\n');
    }
    text
}
