// Conversations that begin in the agent's own program: acpx lists, reads, finds and continues them, and the agent's
// program continues them in turn. And what acpx says of a transcript that is damaged or gone.
//
// A way yields `{ step }` for each part that went well; what does not throws.

import assert from "node:assert/strict";
import { renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { model as words } from "../npm/words.mjs";
import { contentOf } from "./session.mjs";

/** An agent's list has to show a change that is later than this, for acpx to load what another program added. */
const LATE_STORE_MS = 2_500;

const PLEASE = { mine: "please RECALL", again: "again RECALL" };

/** A session of the agent's own program goes back and forth between it and acpx. */
export async function* native(place, { native: { name, begin, resume } }) {
  const cwd = place.work("native");
  const acpx = (...more) => place.run(cwd, place.home(...more));
  const json = async (...more) => JSON.parse(await acpx("--format", "json", ...more));
  const heard = [words.hello.say];
  const remembers = (answer) => {
    const bare = answer.replaceAll('"', "");
    assert.ok(bare.includes(`You said before: ${heard.join("; ")}`), answer);
  };

  await place.run(cwd, begin(words.hello.say));
  yield { step: "begin in the agent" };

  const [row, ...others] = await json("sessions", "list", "--all");
  assert.deepEqual(others, []);
  assert.deepEqual([row.origin, row.agentName, row.cwd, row.turns], ["transcript", name, cwd, 1], JSON.stringify(row));
  const id = row.nativeSessionId;
  yield { step: "list", note: row.title };

  const history = await acpx(name, "sessions", "history", id);
  assert.equal(texts(history, "user").join(), words.hello.say, history);
  yield { step: "read" };

  const { hits } = await json("search", "lab", "--role", "user");
  assert.deepEqual(
    hits.map((hit) => hit.nativeSessionId),
    [id],
  );
  assert.equal((await json("host", "status")).status, "stopped", "reading starts no host");
  yield { step: "search" };

  remembers(await acpx("--format", "quiet", name, "-s", id, PLEASE.mine));
  heard.push(PLEASE.mine);
  yield { step: "continue in acpx" };

  const { resumeCommand } = await json(name, "status", "-s", id);
  assert.ok(resumeCommand.includes(id), String(resumeCommand));
  await acpx("host", "stop");
  await pause(LATE_STORE_MS);
  remembers(await place.run(cwd, resume(id, PLEASE.again)));
  heard.push(PLEASE.again);
  yield { step: "continue in the agent", note: resumeCommand.join(" ") };

  remembers(await acpx("--format", "quiet", name, "-s", id, "third RECALL"));
  const whole = await acpx(name, "sessions", "history", id);
  const kept = texts(whole, "user");
  const all = [...heard, "third RECALL"];
  assert.deepEqual(
    all.filter((text) => text === PLEASE.again || kept.includes(text)),
    all,
    whole,
  );
  const once = await json("sessions", "list", "--all");
  assert.deepEqual(
    once.map(({ acpxRecordId, turns }) => [acpxRecordId, turns]),
    [[id, kept.length]],
  );
  // Only the agent's own list shows that another program has continued its session.
  yield kept.length === all.length
    ? { step: "continue in acpx again" }
    : { step: "continue in acpx again", seen: "its list does not show what its own program added" };

  await acpx("--with-recall", name, "sessions", "new", "--name", "recall");
  const found = await acpx("--format", "quiet", "--approve-all", name, "-s", "recall", "please SEARCH FOR lab");
  assert.match(found, /The tool said: [^]*hello from the lab/);
  yield { step: "agent calls acpx mcp" };
}

/** The transcript of a session is changed behind its agent, for each cause of a failed restore. */
export async function* causes(place, { native: { name } }) {
  for (const [cause, [change, words]] of Object.entries(CAUSES)) {
    const cwd = place.work(`cause-${cause}`);
    const json = async (...more) => JSON.parse(await place.run(cwd, place.home("--format", "json", ...more)));
    const { acpxRecordId: id } = await json(name, "sessions", "new");
    if (cause !== "unprompted") await place.run(cwd, place.home(name, "hello from the lab"));
    const { acpxSessionId: session } = await json(name, "status", "-s", id);
    await place.run(cwd, place.home("host", "stop"));
    // The file is listed while its record is unknown: in a home without one.
    const rows = await place.run(cwd, place.other("--format", "json", "sessions", "list", "--all"));
    const path = JSON.parse(rows).find((row) => row.nativeSessionId === session)?.path;
    if (path !== undefined && !path.endsWith(".jsonl")) return yield { step: cause, seen: "its transcripts are in one database" };
    change(path);
    const { lines, ended } = place.begin(cwd, place.home(name, "-s", id, "please RECALL"));
    const { code, err } = await ended;
    const all = [...lines, err].join("\n");
    const after = (await json(name, "status", "-s", id)).acpxSessionId;
    if (code === 0 && after === session) yield { step: cause, seen: "the agent restores it all the same" };
    else if (words.test(all)) yield { step: cause, note: `${code === 0 ? "a fresh session" : "an error"}: ${cause}` };
    else yield { step: cause, error: new Error(all) };
  }
}

/** What is done to a transcript, and what acpx then says of it. */
const CAUSES = {
  unprompted: [() => {}, /it writes one with the first prompt/],
  deleted: [(path) => rmSync(path), /its transcript was deleted/],
  empty: [(path) => truncateSync(path), /its transcript \S+ is empty/],
  torn: [
    (path) => writeFileSync(path, contentOf(path).slice(0, -20)),
    /its transcript \S+ ends in the middle of a line/,
  ],
  moved: [
    (path) => {
      const lines = contentOf(path).replaceAll(/"cwd":"[^"]*"/g, '"cwd":"/somewhere"');
      rmSync(path);
      writeFileSync(join(path, "..", "moved"), lines);
      renameSync(join(path, "..", "moved"), path);
    },
    /its transcript \S+ belongs to the directory \/somewhere/,
  ],
};

/** The texts of one role in `sessions history`; opencode's program puts what it is given into quotes. */
function texts(history, role) {
  const rows = history.split("\n").map((line) => line.split("\t"));
  return rows.filter(([, of]) => of === role).map(([, , text]) => text.replaceAll('"', ""));
}
