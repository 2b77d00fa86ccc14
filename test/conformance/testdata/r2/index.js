// A request is a list of calls, made one after the other: a method of a bucket with its arguments. An upload in parts is one
// call. Objects are shown without what differs from run to run.
const special = {
  bytes: () => new Uint8Array([0, 1, 255]).subarray(1),
  stream: () => new Response("one two").body,
  long: () => new Date(1e12),
};

function made(value) {
  if (value === null || typeof value !== "object") return value;
  if (value.$) return special[value.$]();
  if (value.repeat) return "x".repeat(value.repeat);
  if (Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, made(v)]));
}

async function object(o) {
  const shown = { key: o.key, size: o.size, etag: o.etag };
  if (JSON.stringify(o.httpMetadata ?? {}) !== "{}") shown.http = o.httpMetadata;
  if (Object.keys(o.customMetadata ?? {}).length) shown.custom = o.customMetadata;
  if (o.range) shown.range = o.range;
  if (o.body) shown.text = (await o.text()).slice(0, 100);
  return shown;
}

async function parts(bucket, key, sizes) {
  const upload = await bucket.createMultipartUpload(key);
  const done = [];
  for (const [i, size] of sizes.entries()) done.push(await upload.uploadPart(i + 1, new Uint8Array(size).fill(i)));
  const { size, etag } = await upload.complete(done);
  return { size, etag };
}

let cursor;

async function one(env, { on, call, args }) {
  const bucket = env[on ?? "R2"];
  args = args.map(made);
  if (call === "parts") return parts(bucket, ...args);
  if (args[0]?.cursor === "last") args[0].cursor = cursor;
  const value = await bucket[call](...args);
  if (call !== "list") return value?.key ? object(value) : (value ?? null);
  cursor = value.cursor;
  return { keys: value.objects.map((o) => o.key), prefixes: value.delimitedPrefixes, more: value.truncated };
}

export default {
  async fetch(request, env) {
    const answers = [];
    for (const step of await request.json()) {
      try {
        answers.push({ value: await one(env, step) });
      } catch (error) {
        answers.push({ error: { name: error.name, message: error.message, isError: error instanceof Error } });
      }
    }
    return Response.json(answers);
  },
};
