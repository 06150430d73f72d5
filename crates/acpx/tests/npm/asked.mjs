// An editor that is asked, in version 1 of the protocol: it says no, it cancels instead of an answer, and then it loses
// what is behind its connection in the middle of a turn. Whoever reads the steps kills the host at the one of that name.

import assert from "node:assert/strict";
import { ofKind } from "./link.mjs";
import { answer, conversation } from "./conversation.mjs";

/** Lives it and yields `{ step, … }` for each part; what it is given is what the whole life is given. */
export async function* asked({ open, version, words, cwd }) {
  const { link } = await open();
  const { sessionId } = await link.request("session/new", { cwd, mcpServers: [] });
  const prompt = (text) => link.exchange("session/prompt", { sessionId, prompt: [{ type: "text", text }] });

  link.choose = ofKind("reject_once");
  const refused = await prompt(words.permission.say);
  assert.equal(link.asked.length, 1, "permission was asked for once");
  yield { step: "refuse", note: `the turn ends with ${refused.result.stopReason}` };

  link.choose = () => new Promise(() => {});
  const unanswered = prompt(words.permission.say);
  await link.untilAsked(2);
  const since = performance.now();
  await link.notify("session/cancel", { sessionId });
  assert.equal((await unanswered).result.stopReason, "cancelled");
  yield { step: "cancel while asked", note: `cancelled after ${Math.round(performance.now() - since)} ms` };

  const from = link.updates.length;
  const slow = prompt(words.slow.say).then(
    () => assert.fail("the turn was to be interrupted"),
    (error) => error,
  );
  await link.untilAnswered(from, words.slow.answers);
  yield { step: "kill -9 of the host" };
  const error = await slow;
  assert.match(error.data.details, /was interrupted/);
  yield { step: "interrupted" };

  const { before, result } = await prompt(words.recall.say);
  assert.equal(result.stopReason, "end_turn");
  assert.match(answer(conversation(before, version)), /You said before: .*please GO SLOWLY/);
  yield { step: "prompt again" };

  await link.request("session/delete", { sessionId });
  await link.leave();
  yield { step: "leave" };
}
