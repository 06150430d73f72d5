// The ways in which an agent is tried: from the shell, and as an editor in each version of the protocol.
//
// A way yields `{ step }` for each part that went well; what does not throws.

import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { model as words } from "../npm/words.mjs";
import { MADE } from "./model/plan.mjs";
import { contentOf } from "./session.mjs";

/** How often a condition is looked at. */
const LOOK_AGAIN_MS = 20;

const CLIENT = join(import.meta.dirname, "../npm/client.mjs");

/** From the shell: one prompt on its own, then a session that loses its agent and goes on. */
export async function* shell(place) {
  const cwd = place.work("shell");
  const acpx = (...more) => place.run(cwd, place.acpx(...more));
  const ask = async (verb, { say, answers }, ...flags) => {
    const answer = await acpx("--format", "quiet", ...flags, verb, say);
    assert.match(answer.trim(), answers);
  };

  await ask("exec", words.hello);
  yield { step: "exec" };

  await acpx("sessions", "new");
  yield { step: "sessions new" };

  await ask("prompt", words.hello);
  yield { step: "prompt" };

  await ask("prompt", words.permission, "--approve-all");
  yield { step: "prompt with a tool" };

  const agentPid = async () => JSON.parse(await acpx("--format", "json", "status")).pid;
  process.kill(await agentPid(), "SIGKILL");
  // A prompt that meets the dying agent ends with it; the next one restores the session.
  while ((await agentPid()) !== undefined) await pause(LOOK_AGAIN_MS);
  yield { step: "kill -9" };

  await ask("prompt", { say: words.recall.say, answers: /You said before: hello from the lab; please USE A TOOL/ });
  yield { step: "prompt again" };

  await acpx("sessions", "close");
  yield { step: "sessions close" };
}

/** As an editor that speaks `client`, with an agent that is spoken to in `agent`. */
export async function* editor(place, sdk, { client, agent }) {
  yield* lived(place, sdk, place.work(`editor-${client}-${agent}`), ["--protocol", String(client)], asking(agent));
}

/** The same with the official Rust SDK. */
export async function* rustEditor(place, program, { client, agent }) {
  const cwd = place.work(`rust-editor-${client}-${agent}`);
  const command = [program, String(client), "model", cwd, ...place.acpx(...asking(agent), "acp")];
  for await (const line of place.lines(cwd, command)) yield JSON.parse(line);
}

/** The flags that ask an agent for this version of the protocol. */
function asking(version) {
  return version === 1 ? [] : ["--protocol", String(version)];
}

/** As an editor that is asked, says no, cancels, and whose host is killed under it. */
export async function* askedEditor(place, sdk) {
  const cwd = place.work("editor-asked");
  for await (const step of lived(place, sdk, cwd, ["--protocol", "1", "--life", "asked"], [])) {
    assert.equal(contentOf(join(cwd, MADE.file)), undefined, "what was not allowed is not done");
    if (step.step === "kill -9 of the host") {
      const host = JSON.parse(await place.run(cwd, place.home("--format", "json", "host", "status")));
      process.kill(host.pid, "SIGKILL");
    }
    yield step;
  }
}

async function* lived(place, sdk, cwd, told, flags) {
  const client = [process.execPath, CLIENT, "--sdk", sdk, "--words", "model", "--cwd", cwd, ...told];
  let failed = "";
  try {
    for await (const line of place.lines(cwd, [...client, "--", ...place.acpx(...flags, "acp")])) {
      const { step, note, after, error, data = "" } = JSON.parse(line);
      if (error === undefined) yield { step, note };
      else failed = `after ${after}: ${error}\n${JSON.stringify(data)}\n`;
    }
  } catch (error) {
    throw new Error(`${failed}${error.message}`);
  }
}
