// The scenario's moves in version 1: the answer to a prompt ends its turn, and `session/load` replays.

import assert from "node:assert/strict";

/** Where the SDK has this version. */
export const entry = "@agentclientprotocol/sdk";

/** In an update, `null` is as good as absent. */
export const nullClears = false;

/** Greets the agent; gives its name. Everything the scenario uses must be advertised. */
export async function greet(link) {
  const answer = await link.request("initialize", {
    protocolVersion: 1,
    clientInfo: { name: "acpx-test", version: "1" },
    clientCapabilities: {},
  });
  const { loadSession, sessionCapabilities } = answer.agentCapabilities;
  const advertised = ["list", "resume", "close", "delete"].filter((name) => sessionCapabilities?.[name]);
  assert.deepEqual(
    { version: answer.protocolVersion, loadSession, advertised },
    { version: 1, loadSession: true, advertised: ["list", "resume", "close", "delete"] },
  );
  return answer.agentInfo.name;
}

/** Runs a turn to its end. */
export async function prompt(link, sessionId, text) {
  const { result, before } = await link.exchange("session/prompt", words(sessionId, text));
  return { stopReason: result.stopReason, updates: before };
}

/** Runs a turn that is cancelled when it has given this answer. */
export async function promptAndCancel(link, sessionId, text, answers) {
  const from = link.updates.length;
  const turn = link.exchange("session/prompt", words(sessionId, text));
  // A turn that fails at once is told by the turn, not by what is waited for.
  await Promise.race([
    link.untilAnswered(from, answers),
    turn.then(() => assert.fail("the turn ended before it was cancelled")),
  ]);
  await link.notify("session/cancel", { sessionId });
  const { result, before } = await turn;
  return { stopReason: result.stopReason, updates: before };
}

/** Restores a session with its whole conversation. */
export async function replay(link, sessionId, cwd) {
  const { before } = await link.exchange("session/load", { sessionId, cwd, mcpServers: [] });
  return before;
}

/** Nothing but the conversation is told of a session that is restored. */
export function checkRestored() {}

/** The ids of messages are the agent's own business. */
export function checkMessageIds() {}

function words(sessionId, text) {
  return { sessionId, prompt: [{ type: "text", text }] };
}
