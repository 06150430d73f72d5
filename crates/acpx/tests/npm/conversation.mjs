// What a client has been told, as one conversation, in either version of the protocol.
//
// The same conversation has one form however it was cut: live in many chunks, replayed in few. So what was heard live
// and what is replayed can be compared as whole values. What is no part of it (modes, commands, titles, usage) is left
// out, because an agent may tell it whenever it likes.

const SPEAKERS = {
  user_message_chunk: "user",
  user_message: "user",
  agent_message_chunk: "agent",
  agent_message: "agent",
  agent_thought_chunk: "thought",
  agent_thought: "thought",
};

/**
 * The conversation that these updates tell: `{ user }`, `{ agent }` and `{ thought }` with a text, and `{ tool }`.
 * What the `null` of a tool call's field means depends on the version: it clears the field, or leaves it as it is.
 */
export function conversation(updates, { nullClears }) {
  const said = new Said(nullClears);
  for (const update of updates) said.hear(update);
  return said.entries();
}

/** All that the agent says in a conversation. */
export function answer(entries) {
  return entries.flatMap((entry) => ("agent" in entry ? [entry.agent] : [])).join("");
}

/** The ids of the user's messages, each once, in their order. */
export function userMessageIds(updates) {
  const ids = updates.filter((update) => SPEAKERS[update.sessionUpdate] === "user").map((update) => update.messageId);
  return [...new Set(ids)];
}

class Said {
  #nullClears;
  #parts = [];
  #messages = new Map();
  #tools = new Map();

  constructor(nullClears) {
    this.#nullClears = nullClears;
  }

  hear(update) {
    const speaker = SPEAKERS[update.sessionUpdate];
    if (speaker !== undefined) this.#message(speaker, update);
    if (update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update") this.#tool(update);
    if (update.sessionUpdate === "tool_call_content_chunk") this.#toolOutput(update);
  }

  /** Messages that follow one another without a change of speaker count as one: version 1 need not tell them apart. */
  entries() {
    const joined = [];
    for (const part of this.#parts) {
      const last = joined.at(-1);
      if (part.tool !== undefined) joined.push({ tool: part.tool });
      else if (last !== undefined && part.speaker in last) last[part.speaker] += part.text;
      else if (part.text !== "") joined.push({ [part.speaker]: part.text });
    }
    return joined;
  }

  #message(speaker, update) {
    const part = this.#messageOf(speaker, update.messageId ?? undefined);
    if (update.sessionUpdate.endsWith("_chunk")) part.text += inWords(update.content);
    else if (update.content !== undefined) part.text = (update.content ?? []).map(inWords).join("");
  }

  #messageOf(speaker, id) {
    const key = `${speaker} ${id}`;
    const known = id === undefined ? this.#parts.at(-1) : this.#messages.get(key);
    if (known?.speaker === speaker) return known;
    const part = { speaker, text: "" };
    this.#parts.push(part);
    this.#messages.set(key, part);
    return part;
  }

  #tool({ sessionUpdate: _, _meta, ...fields }) {
    const tool = this.#toolOf(fields.toolCallId);
    for (const [name, value] of Object.entries(fields)) {
      if (value !== null) tool[name] = value;
      else if (this.#nullClears) delete tool[name];
    }
  }

  #toolOutput({ toolCallId, content }) {
    const tool = this.#toolOf(toolCallId);
    tool.content = [...(tool.content ?? []), content];
  }

  #toolOf(toolCallId) {
    if (!this.#tools.has(toolCallId)) {
      const tool = { toolCallId };
      this.#tools.set(toolCallId, tool);
      this.#parts.push({ tool });
    }
    return this.#tools.get(toolCallId);
  }
}

function inWords(content) {
  return content.type === "text" ? content.text : `[${content.type}]`;
}
