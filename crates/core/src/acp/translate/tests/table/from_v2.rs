//! Features of version 2 that version 1 does not have.

use super::rows::Row;
use super::rows::Shown::{By, ByNature, Call, Updates};
use super::rows::v2;

pub(super) const ROWS: &[Row] = &[
    v2(
        "`capabilities.session`",
        "`loadSession`, and `list`, `resume`, `close` in `sessionCapabilities`",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v2(
        "capabilities as objects",
        "`true` in the groups where version 1 has booleans",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v2(
        "agent without `session.mcp.stdio`",
        "not advertised: a client of version 1 notices when its server is refused",
        By("agent_capabilities_are_translated_between_versions"),
    ),
    v2(
        "`session/resume` with `replayFrom` of the type `start`",
        "`session/load`",
        Call(
            (
                "session/resume",
                r#"{"sessionId":"s","cwd":"/c","mcpServers":[],"replayFrom":{"type":"start"}}"#,
            ),
            ("session/load", r#"{"sessionId":"s","cwd":"/c","mcpServers":[]}"#),
        ),
    ),
    v2(
        "`replayFrom` of another type",
        "refused with `-32602`; no other replay is sent instead",
        By("load_is_a_v2_resume_with_replay_from_the_start"),
    ),
    v2(
        "`session/set_config_option` of `acpx.model`",
        "`session/set_model`; other clients of version 1 see the choice in their next setup response",
        Call(
            (
                "session/set_config_option",
                r#"{"sessionId":"s","configId":"acpx.model","type":"id","value":"m"}"#,
            ),
            ("session/set_model", r#"{"sessionId":"s","modelId":"m"}"#),
        ),
    ),
    v2(
        "`mcpServers`, `args`, `env`, `headers` left out",
        "an empty list, because version 1 requires one",
        Call(
            ("session/new", r#"{"cwd":"/c","mcpServers":[{"type":"stdio","name":"a","command":"/a"}]}"#),
            ("session/new", r#"{"cwd":"/c","mcpServers":[{"name":"a","command":"/a","args":[],"env":[]}]}"#),
        ),
    ),
    v2(
        "MCP server of another type than `stdio` and `http`",
        "refused with `-32602`, which names server and transport",
        By("untranslatable_request_is_refused_by_name"),
    ),
    v2(
        "whole message, `user_message`, `agent_message`, `agent_thought`",
        "chunks: the rest of a message that grew, all of one that changed, under another id (`m#2`); \
         earlier text stays",
        Updates(
            &[
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"ab"}]}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"x"}]}"#,
            ],
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"b"}}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m#2","content":{"type":"text","text":"x"}}"#,
            ],
        ),
    ),
    v2(
        "message of the prompt, with other content or members of its own",
        "nothing: the client has the prompt, and version 1 cannot change it",
        By("changed_prompt_keeps_its_message_id_in_every_turn"),
    ),
    v2(
        "message that is cleared",
        "nothing; its next content has another id",
        Updates(
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":null}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"b"}}"#,
            ],
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m#2","content":{"type":"text","text":"b"}}"#,
            ],
        ),
    ),
    v2(
        "`_meta` of a whole message",
        "in its first chunk; lost if there is none",
        Updates(
            &[
                r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"_meta":{"k":1}}"#,
                r#"{"sessionUpdate":"agent_message","messageId":"n","content":[],"_meta":{"k":1}}"#,
            ],
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"},"_meta":{"k":1}}"#,
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"b"}}"#,
            ],
        ),
    ),
    v2(
        "`tool_call_update`",
        "`tool_call` for the first one of a call, with `name` or an empty text for a missing title; then \
         `tool_call_update`",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","name":"run"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","name":"run","title":"run"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}"#,
            ],
        ),
    ),
    v2(
        "update of the kind `\"tool_call_content_chunk\"`",
        "`tool_call_update` with the whole content at a pause, the next update or the end of the turn; \
         over 64 KiB, the end",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}"#,
                r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"a"}}}"#,
                r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"b"}}}"#,
                r#"{"sessionUpdate":"state_update","state":"idle"}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"content","content":{"type":"text","text":"a"}},{"type":"content","content":{"type":"text","text":"b"}}]}"#,
            ],
        ),
    ),
    v2(
        "`null` in a tool call",
        "empty title or list, kind `other`, status `pending`; `name`, `rawInput`, `rawOutput` and \
         `_meta` do not change",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":null,"kind":null,"status":null,"content":null,"locations":null,"rawInput":null,"name":null,"rawOutput":null,"_meta":null}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"","kind":"other","status":"pending","content":[],"locations":[]}"#,
            ],
        ),
    ),
    v2(
        "status `cancelled`, `paused`, or an unknown one",
        "`failed`, `in_progress`, or left out; the original is in `_meta.acpx.status`",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","status":"cancelled"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"paused"}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"_odd"}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","status":"failed","_meta":{"acpx":{"status":"cancelled"}}}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","_meta":{"acpx":{"status":"paused"}}}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","_meta":{"acpx":{"status":"_odd"}}}"#,
            ],
        ),
    ),
    v2(
        "`capabilities` of a tool call or a terminal, `tool_call/cancel`, `terminal/cancel`",
        "left out: a client of version 1 can only cancel the turn",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","capabilities":{"cancel":{}}}"#,
            ],
            &[r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}"#],
        ),
    ),
    v2(
        "diff with `changes` and a Git patch",
        "a diff for each hunk, with its texts only; a change without a patch is a line of text",
        Updates(
            &[
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","content":[{"type":"diff","changes":[{"operation":"modify","path":"/f"},{"operation":"delete","path":"/g"}],"patch":{"format":"git_patch","text":"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+b\n"}}]}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":[{"type":"diff","path":"/f","oldText":"a\n","newText":"b\n"},{"type":"content","content":{"type":"text","text":"deleted /g"}}]}"#,
            ],
        ),
    ),
    v2(
        "terminal of the agent",
        "command, last 32 KiB of output and exit, as text in the tool calls that refer to it; nothing \
         without one",
        Updates(
            &[
                r#"{"sessionUpdate":"terminal_update","terminalId":"x","command":"ls","output":{"data":"YQo="},"exitStatus":{"exitCode":0}}"#,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","content":[{"type":"terminal","terminalId":"x"}]}"#,
                r#"{"sessionUpdate":"terminal_update","terminalId":"y","command":"ls"}"#,
            ],
            &[
                r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":[{"type":"content","content":{"type":"text","text":"$ ls\na\n[exit code 0]"}}]}"#,
            ],
        ),
    ),
    v2(
        "content of an unknown kind, in an update",
        "a text that names the kind; the content is in `_meta.acpx.content`",
        Updates(
            &[r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"_x"}}"#],
            &[
                r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"[content of the kind _x]","_meta":{"acpx":{"content":{"type":"_x"}}}}}"#,
            ],
        ),
    ),
    v2(
        "content of an unknown kind, in a prompt",
        "refused with `-32602`, which names the block",
        By("untranslatable_request_is_refused_by_name"),
    ),
    v2(
        "several plans",
        "one plan with the entries of all, in the order of the plans",
        Updates(
            &[
                r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"a","priority":"low","status":"pending"}]}}"#,
                r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"q","entries":[{"content":"b","priority":"low","status":"pending"}]}}"#,
            ],
            &[
                r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"low","status":"pending"}]}"#,
                r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"low","status":"pending"},{"content":"b","priority":"low","status":"pending"}]}"#,
            ],
        ),
    ),
    v2(
        "plan that is no list of entries",
        "left out",
        Updates(
            &[r#"{"sessionUpdate":"plan_update","plan":{"type":"markdown","planId":"q","content":"x"}}"#],
            &[],
        ),
    ),
    v2(
        "status `cancelled` of a plan's entry, unknown status or priority",
        "`completed`, `pending`, `medium`; the original is in `_meta.acpx`",
        Updates(
            &[
                r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"a","priority":"_odd","status":"cancelled"}]}}"#,
            ],
            &[
                r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"medium","status":"completed","_meta":{"acpx":{"status":"cancelled","priority":"_odd"}}}]}"#,
            ],
        ),
    ),
    v2(
        "option of the category `mode`",
        "`modes` and `current_mode_update` in addition to the option; groups of modes become one list",
        By("v2_mode_option_becomes_modes_and_commands_follow_the_reply"),
    ),
    v2(
        "option, or value of one, of an unknown type",
        "left out; in a request refused with `-32602`",
        By("v2_mode_option_becomes_modes_and_commands_follow_the_reply"),
    ),
    v2(
        "`availableCommands` in an answer",
        "`available_commands_update` after it",
        By("v2_mode_option_becomes_modes_and_commands_follow_the_reply"),
    ),
    v2(
        "command, or input of one, of an unknown type",
        "left out",
        Updates(
            &[
                r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"_odd","name":"c","description":"d"}]}"#,
            ],
            &[r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#],
        ),
    ),
    v2(
        "`title` and `description` of a permission",
        "the title of the tool call, one line each",
        By("a_permission_is_asked_with_the_whole_question_in_either_version"),
    ),
    v2(
        "permission for a `command`",
        "a tool call of the kind `execute` that shows the command and its directory",
        By("a_permission_is_asked_with_the_whole_question_in_either_version"),
    ),
    v2(
        "permission for something else, or for nothing in particular",
        "a tool call with the title alone",
        By("a_permission_is_asked_with_the_whole_question_in_either_version"),
    ),
    v2(
        "option of a permission of an unknown kind",
        "left out; if none remains, version 1 clients are not asked, and it is `cancelled` unless \
         another client can answer",
        By("a_permission_is_asked_with_the_whole_question_in_either_version"),
    ),
    v2(
        "unknown outcome of a permission",
        "`cancelled`, also between version 1 peers; never an approval or a refusal that no client chose",
        By("an_outcome_that_is_not_known_is_never_an_approval"),
    ),
    v2(
        "`state_update`",
        "nothing; idle ends the turn, and the prompt is answered",
        Updates(&[r#"{"sessionUpdate":"state_update","state":"running"}"#], &[]),
    ),
    v2(
        "`_meta` of the state that ends a turn",
        "in the answer to the prompt",
        By("meta_of_an_idle_state_is_read_unchanged"),
    ),
    v2(
        "stop reason `error`",
        "the prompt is answered with the error",
        By("unknown_state_update_is_never_idle"),
    ),
    v2(
        "no stop reason, or an unknown one",
        "`end_turn`; the original is in `_meta.acpx.stopReason`",
        By("a_turn_ends_for_the_reason_it_ended_for"),
    ),
    v2(
        "list of `background` work",
        "left out",
        Updates(&[r#"{"sessionUpdate":"state_update","state":"idle","background":[]}"#], &[]),
    ),
    v2("login of an unknown type", "left out", By("agent_capabilities_are_translated_between_versions")),
    v2(
        "`auth/login`, `auth/logout`",
        "`authenticate`, `logout`; `auth.logout` is advertised if there are logins",
        Call(("auth/login", r#"{"methodId":"k"}"#), ("authenticate", r#"{"methodId":"k"}"#)),
    ),
    v2(
        "value in the answer to a form that is no text, number, boolean or list of texts",
        "left out",
        By("elicitation_form_gets_a_type_and_a_v1_readable_answer"),
    ),
    v2(
        "error `-32022`",
        "does not occur: the version is negotiated before anything is translated",
        ByNature("nothing is translated before a version is agreed on"),
    ),
    v2(
        "update of any other unknown kind",
        "left out: version 1 accepts only its own kinds",
        Updates(&[r#"{"sessionUpdate":"_ours","n":1}"#], &[]),
    ),
    v2(
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
