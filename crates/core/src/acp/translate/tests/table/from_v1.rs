//! Features of version 1 that version 2 does not have.

use super::rows::Row;
use super::rows::Shown::{By, Call, Updates};
use super::rows::v1;

pub(super) const ROWS: &[Row] = &[
    v1(
        "`clientInfo`, `agentInfo` left out",
        "`info` with name and version `unknown`, because version 2 requires it",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v1(
        "capabilities as booleans",
        "`true` is `{}`; `false` is left out",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v1(
        "`loadSession`, `sessionCapabilities.list`, `resume`, `close`",
        "left out: `capabilities.session` implies them",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v1(
        "stdio MCP servers, which every agent accepts",
        "`session.mcp.stdio` is advertised",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v1(
        "`session/load`",
        "`session/resume` with `replayFrom` of the type `start`",
        Call(
            ("session/load", r#"{"sessionId":"s","cwd":"/c","mcpServers":[]}"#),
            (
                "session/resume",
                r#"{"sessionId":"s","cwd":"/c","mcpServers":[],"replayFrom":{"type":"start"}}"#,
            ),
        ),
    ),
    v1(
        "MCP server without `type`",
        "`type` is `stdio`",
        Call(
            ("session/new", r#"{"cwd":"/c","mcpServers":[{"name":"a","command":"/a","args":[],"env":[]}]}"#),
            (
                "session/new",
                r#"{"cwd":"/c","mcpServers":[{"name":"a","command":"/a","args":[],"env":[],"type":"stdio"}]}"#,
            ),
        ),
    ),
    v1(
        "MCP server of the type `sse`",
        "refused with `-32602`, which names server and transport",
        By("untranslatable_request_is_refused_by_name"),
    ),
    v1(
        "chunk without `messageId`",
        "gets an id derived from the record and the message's first event",
        Updates(
            &[r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#],
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"made","content":{"type":"text","text":"a"}}"#,
            ],
        ),
    ),
    v1(
        "`tool_call`",
        "`tool_call_update`; a second one for the same call changes only the members it names",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}"#,
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"U"}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"U"}"#,
            ],
        ),
    ),
    v1(
        "`null` in a tool call, or as the cost of a usage",
        "left out: it means unchanged; in version 2 it means cleared",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":null,"status":"failed"}"#,
                r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":null}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed"}"#,
                r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#,
            ],
        ),
    ),
    v1(
        "diff with `oldText` and `newText`",
        "a change with a Git patch of one hunk for the whole file; no hunk if the file is new and empty",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"diff","path":"/f","oldText":"a\n","newText":"b\n"}]}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"diff","changes":[{"operation":"modify","path":"/f","fileType":"text"}],"patch":{"format":"git_patch","text":"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+b\n"}}]}"#,
            ],
        ),
    ),
    v1(
        "terminal in a tool call",
        "the same, with `terminal_update` and `terminal_output_chunk`, because acpx runs it; an unknown \
         terminal is a text that names it",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"terminal","terminalId":"x"}]}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"content","content":{"type":"text","text":"[terminal x]"}}]}"#,
            ],
        ),
    ),
    v1(
        "`plan`",
        "`plan_update` of the plan `acpx.plan`",
        Updates(
            &[r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"low","status":"pending"}]}"#],
            &[
                r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"acpx.plan","entries":[{"content":"a","priority":"low","status":"pending"}]}}"#,
            ],
        ),
    ),
    v1(
        "`modes`, `current_mode_update`",
        "an option `acpx.mode` of the category `mode`, sent with all options; the agent's own option if \
         it has one",
        By("modes_are_set_and_reported_as_a_v2_option"),
    ),
    v1(
        "`session/set_mode`",
        "`session/set_config_option` of the option of the category `mode`; `-32602` if there is none",
        By("set_mode_without_modes_and_unknown_value_types_are_refused"),
    ),
    v1(
        "`models`",
        "an option `acpx.model` of the category `model`, sent with all options; the agent's own option \
         if it has one",
        By("models_are_an_option_for_version_2_unless_the_agent_has_one"),
    ),
    v1(
        "option `id`, group `group`",
        "`configId`, `groupId`",
        By("modes_are_set_and_reported_as_a_v2_option"),
    ),
    v1(
        "command, and its input, without `type`",
        "`type` is `command`, and `text`",
        Updates(
            &[
                r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"c","description":"d","input":{"hint":"h"}}]}"#,
            ],
            &[
                r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command","name":"c","description":"d","input":{"type":"text","hint":"h"}}]}"#,
            ],
        ),
    ),
    v1(
        "value of an option without `type`",
        "`type` is `id`",
        Call(
            ("session/set_config_option", r#"{"sessionId":"s","configId":"c","value":"v"}"#),
            ("session/set_config_option", r#"{"sessionId":"s","configId":"c","value":"v","type":"id"}"#),
        ),
    ),
    v1(
        "permission for a `toolCall`",
        "its title becomes the title and the tool call the `subject`; a missing title becomes a general one",
        By("a_permission_is_asked_with_the_whole_question_in_either_version"),
    ),
    v1(
        "answer to `session/prompt`",
        "`state_update` idle with its `stopReason` and `usage`; the prompt was answered earlier, with a \
         `messageId`",
        By("a_turn_ends_for_the_reason_it_ended_for"),
    ),
    v1(
        "login `id`, without `type`",
        "`methodId`; `type` is `agent`",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v1(
        "environment of a terminal login as an object",
        "a list of names and values",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v1(
        "`auth.logout`",
        "left out: logins imply `auth/logout`; an agent that cannot log out answers `-32603` with \
         `NOT_OFFERED`",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v1(
        "`authenticate`, `logout`",
        "`auth/login`, `auth/logout`",
        Call(("authenticate", r#"{"methodId":"k"}"#), ("auth/login", r#"{"methodId":"k"}"#)),
    ),
    v1(
        "schema of a form without `type` or `properties`",
        "`type` is `object`, `properties` is `{}`",
        By("elicitation_form_gets_a_type_and_a_v1_readable_answer"),
    ),
    v1(
        "update of a kind that only version 2 defines",
        "left out",
        Updates(&[r#"{"sessionUpdate":"state_update","state":"idle"}"#], &[]),
    ),
    v1(
        "update of any other unknown kind",
        "forwarded unchanged",
        Updates(&[r#"{"sessionUpdate":"_ours","n":1}"#], &[r#"{"sessionUpdate":"_ours","n":1}"#]),
    ),
    v1(
        "value nested deeper than 96 levels, or half of a surrogate pair",
        "a text that says so, U+FFFD; between peers of one version both are forwarded unchanged",
        Updates(
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a\ud800b"}}"#,
            ],
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a\ufffdb"}}"#,
            ],
        ),
    ),
];
