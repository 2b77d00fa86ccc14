import { describe } from "./describe.js";

const cycle = { name: "round" };
cycle.self = cycle;

const bodies = {
  JSON_: [
    [{ nested: { list: [1, 2.5, null, "ü🎉"] } }],
    [null],
    [0],
    [new Date(0)],
    [{ toJSON: () => "by toJSON" }],
    [new Map([["a", 1]]), { contentType: "json" }],
  ],
  TEXT: [["plain ü🎉", { contentType: "text" }], ["", { contentType: "text" }]],
  BYTES: [
    [new Uint8Array([0, 1, 255]), { contentType: "bytes" }],
    [new Uint16Array([1, 258]), { contentType: "bytes" }],
    [new Uint8Array(), { contentType: "bytes" }],
  ],
  V8: [
    [new Map([["a", new Set([1n])]]), { contentType: "v8" }],
    [cycle, { contentType: "v8" }],
    [new Date(0), { contentType: "v8" }],
    [[/a+/gi, undefined], { contentType: "v8" }],
    [new Uint16Array([1, 258]), { contentType: "v8" }],
  ],
};

export default {
  async fetch(request, env) {
    const binding = new URL(request.url).pathname.slice(1);
    for (const [body, options] of bodies[binding]) await env[binding].send(body, options);
    return Response.json([]);
  },

  async queue(batch) {
    console.log(
      JSON.stringify({
        queue: batch.queue,
        messages: batch.messages.map((m) => ({
          id: m.id,
          timestamp: m.timestamp.getTime(),
          attempts: m.attempts,
          body: { n: describe(m.body) },
        })),
      }),
    );
  },
};
