// The scenario's moves in the draft of version 2: a prompt is answered when it is inserted, its turn ends when the
// session is idle again, and `session/resume` replays when it is told from where.

import assert from "node:assert/strict";
import { userMessageIds } from "./conversation.mjs";

/** Where the SDK has this version. */
export const entry = "@agentclientprotocol/sdk/experimental/v2";

/** In an update, `null` clears what was there. */
export const nullClears = true;

/** Greets the agent; gives its name. Everything the scenario uses must be advertised. */
export async function greet(link) {
  const answer = await link.request("initialize", {
    protocolVersion: 2,
    info: { name: "acpx-test", version: "1" },
    capabilities: {},
  });
  assert.equal(answer.protocolVersion, 2);
  assert.ok(answer.capabilities.session?.delete, "sessions can be deleted");
  return answer.info.name;
}

/** Runs a turn to its end. */
export async function prompt(link, sessionId, text) {
  const from = link.updates.length;
  const { messageId } = await link.request("session/prompt", words(sessionId, text));
  return ended(link, from, messageId);
}

/** Runs a turn that is cancelled when it has given this answer. */
export async function promptAndCancel(link, sessionId, text, answers) {
  const from = link.updates.length;
  const { messageId } = await link.request("session/prompt", words(sessionId, text));
  await link.untilAnswered(from, answers);
  await link.notify("session/cancel", { sessionId });
  return ended(link, from, messageId);
}

/** Restores a session with its whole conversation. */
export async function replay(link, sessionId, cwd) {
  const { before } = await link.exchange("session/resume", { sessionId, cwd, replayFrom: { type: "start" } });
  return before;
}

/** The session's state is told before the answer, replay or not, and this one has nothing to do. */
export function checkRestored(before) {
  const states = before.filter(({ sessionUpdate }) => sessionUpdate === "state_update");
  assert.equal(states.at(-1)?.state, "idle", "the last state before the answer");
}

/** A message of the user has the id that its prompt was answered with, however often it is told. */
export function checkMessageIds(updates, turns) {
  assert.deepEqual(
    userMessageIds(updates),
    turns.map(({ messageId }) => messageId),
  );
}

async function ended(link, from, messageId) {
  const began = await link.until("work on the prompt", from, (update) => isState(update, "running"));
  const idle = await link.until("the end of the turn", began, (update) => isState(update, "idle"));
  const updates = link.updates.slice(from, idle + 1);
  assert.deepEqual(userMessageIds(updates), [messageId], "the user's message is told with its id");
  return { stopReason: link.updates[idle].stopReason, updates, messageId };
}

function words(sessionId, text) {
  return { sessionId, prompt: [{ type: "text", text }] };
}

function isState(update, state) {
  return update.sessionUpdate === "state_update" && update.state === state;
}
