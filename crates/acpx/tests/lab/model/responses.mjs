// The responses API of OpenAI, as far as agents use it.

/** Where requests for an answer go. */
export const path = "/v1/responses";

/** What the request says. */
export function read({ input = [], tools = [] }) {
  const items = typeof input === "string" ? [{ role: "user", content: input }] : input;
  return {
    said: items.flatMap(({ type = "message", role, content, output }) => {
      if (type.endsWith("_call_output")) return [{ result: textsOf(output).join("") }];
      return type === "message" && role === "user" ? textsOf(content).map((text) => ({ text })) : [];
    }),
    // Tools may come in groups, and a call then names the group.
    tools: tools
      .flatMap((tool) => tool.tools?.map((one) => ({ ...one, namespace: tool.name })) ?? [tool])
      .filter(({ name }) => name !== undefined),
  };
}

function textsOf(content) {
  if (typeof content === "string") return [content];
  return (content ?? []).flatMap(({ text }) => (text === undefined ? [] : [text]));
}

const usage = {
  input_tokens: 1,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 1,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 2,
};

/** The whole answer at once. */
export function whole(number, request, { say, call }) {
  return response(number, request, "completed", output(number, say.join(""), call));
}

/** The answer as events, the text as it is said. */
export async function* stream(number, request, { call }, said) {
  let sequence_number = 0;
  const event = (type, fields) => {
    const data = { type, sequence_number, ...fields };
    sequence_number += 1;
    return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
  };
  const within = { item_id: `msg_${number}`, output_index: 0, content_index: 0 };
  yield event("response.created", { response: response(number, request, "in_progress", []) });
  const [empty] = output(number, "", undefined);
  const begun = { ...empty, status: "in_progress", content: [] };
  yield event("response.output_item.added", { output_index: 0, item: begun });
  yield event("response.content_part.added", { ...within, part: empty.content[0] });
  let text = "";
  for await (const delta of said) {
    text += delta;
    yield event("response.output_text.delta", { ...within, delta });
  }
  const items = output(number, text, call);
  yield event("response.output_text.done", { ...within, text });
  yield event("response.content_part.done", { ...within, part: items[0].content[0] });
  yield event("response.output_item.done", { output_index: 0, item: items[0] });
  if (call !== undefined) {
    yield event("response.output_item.added", { output_index: 1, item: { ...items[1], status: "in_progress" } });
    yield event("response.output_item.done", { output_index: 1, item: items[1] });
  }
  yield event("response.completed", { response: response(number, request, "completed", items) });
}

function response(number, { model }, status, items) {
  return { id: `resp_${number}`, object: "response", created_at: 0, status, model, output: items, usage };
}

function output(number, text, call) {
  const content = [{ type: "output_text", text, annotations: [] }];
  const message = { type: "message", id: `msg_${number}`, role: "assistant", status: "completed", content };
  if (call === undefined) return [message];
  const { name, namespace } = call;
  const called = { call_id: `call_${number}`, name, namespace, arguments: JSON.stringify(call.arguments) };
  return [message, { type: "function_call", id: `fc_${number}`, status: "completed", ...called }];
}
