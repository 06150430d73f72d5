// The chat completions API of OpenAI, as far as agents use it.

/** Where requests for an answer go. */
export const path = "/v1/chat/completions";

/** What the request says. */
export function read({ messages = [], tools = [] }) {
  return {
    said: messages.flatMap(({ role, content }) => {
      if (role === "tool") return [{ result: textsOf(content).join("") }];
      return role === "user" ? textsOf(content).map((text) => ({ text })) : [];
    }),
    tools: tools.flatMap(({ function: tool }) => (tool === undefined ? [] : [tool])),
  };
}

function textsOf(content) {
  if (typeof content === "string") return [content];
  return (content ?? []).flatMap(({ type, text }) => (type === "text" ? [text] : []));
}

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };

/** The whole answer at once. */
export function whole(number, { model }, { say, call }) {
  const message = { role: "assistant", content: say.join("") };
  if (call !== undefined) message.tool_calls = [toolCall(number, call)];
  const choice = { index: 0, message, finish_reason: finishReason(call) };
  return { ...head(number, model), object: "chat.completion", choices: [choice], usage };
}

/** The answer as events, the text as it is said. */
export async function* stream(number, { model }, { call }, said) {
  const chunk = (fields) => event({ ...head(number, model), object: "chat.completion.chunk", ...fields });
  const delta = (delta, finish_reason = null) => chunk({ choices: [{ index: 0, delta, finish_reason }] });
  yield delta({ role: "assistant", content: "" });
  for await (const text of said) yield delta({ content: text });
  if (call !== undefined) yield delta({ tool_calls: [{ index: 0, ...toolCall(number, call) }] });
  yield delta({}, finishReason(call));
  yield chunk({ choices: [], usage });
  yield "data: [DONE]\n\n";
}

function head(number, model) {
  return { id: `chatcmpl-${number}`, created: 0, model };
}

function toolCall(number, call) {
  const called = { name: call.name, arguments: JSON.stringify(call.arguments) };
  return { id: `call_${number}`, type: "function", function: called };
}

function finishReason(call) {
  return call === undefined ? "stop" : "tool_calls";
}

function event(data) {
  return `data: ${JSON.stringify(data)}\n\n`;
}
