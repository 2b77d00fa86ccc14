// What fails in the first queue is looked at in its dead-letter queue.
function described(body) {
  if (ArrayBuffer.isView(body)) return `${body.constructor.name}(${[...body].join()})`;
  if (body instanceof Map) return `Map(${JSON.stringify([...body])})`;
  return typeof body + JSON.stringify(body);
}

export default {
  async fetch(_, env) {
    await env.LETTERS.sendBatch([
      { body: { json: ["ü"] }, contentType: "json" },
      { body: "ü", contentType: "text" },
      { body: new Uint8Array([0, 255]), contentType: "bytes" },
      { body: new Map([["a", 1n.toString()]]), contentType: "v8" },
    ]);
    return Response.json([]);
  },

  async queue(batch) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: { n: described(m.body) } });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    if (batch.queue === "letters") throw new Error("on purpose");
  },
};
