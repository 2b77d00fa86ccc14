// A request is a list of calls, made one after the other: a method of a namespace with its arguments. Values that JSON
// cannot carry are made here, {"$": "bytes"} and its like, and are shown as what they hold.
const special = {
  bytes: () => new Uint8Array([0, 1, 255]).subarray(1),
  buffer: () => new Uint8Array([0, 255]).buffer,
  stream: () => new Response("one two").body,
  hour: () => ({ expirationTtl: 3600 }),
};

function made(value) {
  if (value === null || typeof value !== "object") return value;
  if (value.repeat) return "x".repeat(value.repeat);
  if (typeof value.keys === "number") return Array.from({ length: value.keys }, (_, i) => "many" + i);
  return value.$ ? special[value.$]() : value;
}

async function shown(value) {
  if (value instanceof ArrayBuffer) return [...new Uint8Array(value)];
  if (value instanceof Map) return { map: [...value] };
  if (value instanceof ReadableStream) return { stream: await new Response(value).text() };
  return value ?? null;
}

let cursor;

async function one(env, { on, call, args }) {
  args = (args ?? []).map(made);
  if (args[0]?.cursor === "last") args[0].cursor = cursor;
  const value = await env[on ?? "KV"][call](...args);
  if (call === "list") {
    cursor = value.cursor;
    if (cursor) value.cursor = typeof cursor;
    for (const key of value.keys) if (key.expiration) key.expiration = Math.round((key.expiration * 1000 - Date.now()) / 600_000);
  }
  return shown(value);
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
