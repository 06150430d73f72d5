// The messages API of Anthropic, as far as agents use it.

/** Where requests for an answer go. */
export const path = "/v1/messages";

/** What the request says. */
export function read({ messages = [], tools = [] }) {
  const users = messages.filter(({ role }) => role === "user").flatMap(({ content }) => blocksOf(content));
  return {
    said: users.flatMap(({ type, text, content }) => {
      if (type === "tool_result") return [{ result: textOf(content) }];
      return type === "text" ? [{ text }] : [];
    }),
    tools: tools.map(({ name, input_schema: parameters }) => ({ name, parameters })),
  };
}

function blocksOf(content) {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

function textOf(content) {
  return blocksOf(content ?? [])
    .map(({ text }) => text ?? "")
    .join("");
}

const usage = { input_tokens: 1, output_tokens: 1 };

/** The whole answer at once. */
export function whole(number, { model }, { say, call }) {
  const content = [{ type: "text", text: say.join("") }];
  if (call !== undefined)
    content.push({ type: "tool_use", id: `toolu_${number}`, name: call.name, input: call.arguments });
  return { ...message(number, model), content, stop_reason: stopReason(call), usage };
}

/** The answer as events, the text as it is said. */
export async function* stream(number, { model }, { call }, said) {
  yield event({ type: "message_start", message: { ...message(number, model), content: [], usage } });
  yield event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
  for await (const text of said) {
    yield event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  }
  yield event({ type: "content_block_stop", index: 0 });
  if (call !== undefined) {
    const block = { type: "tool_use", id: `toolu_${number}`, name: call.name, input: {} };
    const delta = { type: "input_json_delta", partial_json: JSON.stringify(call.arguments) };
    yield event({ type: "content_block_start", index: 1, content_block: block });
    yield event({ type: "content_block_delta", index: 1, delta });
    yield event({ type: "content_block_stop", index: 1 });
  }
  yield event({ type: "message_delta", delta: { stop_reason: stopReason(call), stop_sequence: null }, usage });
  yield event({ type: "message_stop" });
}

function message(number, model) {
  return { id: `msg_${number}`, type: "message", role: "assistant", model, stop_reason: null, stop_sequence: null };
}

function stopReason(call) {
  return call === undefined ? "end_turn" : "tool_use";
}

function event(data) {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}
