// A request is a list of steps, made one after the other: SQL with its values and how it is called, a batch of such, or a
// call of the database itself. Values that JSON cannot carry are made here: {"$": "undefined"} and its like.
const special = {
  undefined: () => undefined,
  bigint: () => 1n,
  function: () => () => 1,
  date: () => new Date(0),
  object: () => ({ a: 1 }),
  nan: () => NaN,
  infinity: () => Infinity,
  buffer: () => new Uint8Array([0, 1, 255]).buffer,
  bytes: () => new Uint8Array([0, 1, 255]).subarray(1),
  words: () => new Uint16Array([1, 256, 65535]),
  empty: () => new ArrayBuffer(0),
};

function made(value) {
  if (value === null || typeof value !== "object") return value;
  if (value.repeat) return "x".repeat(value.repeat);
  return value.$ ? special[value.$]() : value;
}

function statement(db, { sql, bind }) {
  const prepared = db.prepare(typeof sql === "object" ? `SELECT '${"x".repeat(sql.repeat)}' x` : sql);
  return bind ? prepared.bind(...bind.map(made)) : prepared;
}

async function one(env, step) {
  let db = env[step.db ?? "DB"];
  if (step.session !== undefined) db = db.withSession(step.session);
  if (step.batch) return (await db.batch(step.batch.map((s) => statement(db, s)))).map(({ results }) => results);
  if (step.exec !== undefined) return (await db.exec(step.exec)).count;
  if (step.dump) return db.dump();
  const value = await statement(db, step)[step.call ?? "all"](...(step.args ?? []));
  return step.session === undefined ? value : { value, bookmark: /^[0-9a-f]{16}$/.test(db.getBookmark()) };
}

// What a clock says differs from run to run.
function timeless(value) {
  for (const item of [value].flat()) {
    const meta = item?.meta;
    if (!meta) continue;
    if (!(meta.duration >= 0 && meta.timings.sql_duration_ms >= 0)) throw new Error("no duration");
    delete meta.duration;
    delete meta.timings;
  }
  return value;
}

export default {
  async fetch(request, env) {
    const answers = [];
    for (const step of await request.json()) {
      try {
        answers.push({ value: timeless(await one(env, step)) });
      } catch (error) {
        answers.push({ error: { name: error.name, message: error.message, isError: error instanceof Error } });
      }
    }
    return Response.json(answers);
  },
};
