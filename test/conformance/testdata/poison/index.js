// A message named "bad" kills the process that handles it, by all the memory it can get.
export default {
  async fetch(request, env) {
    await env.JOBS.sendBatch((await request.json()).map((n) => ({ body: { n } })));
    return Response.json([]);
  },

  async queue(batch) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    if (batch.queue === "poison" && batch.messages.some((m) => m.body.n === "bad")) {
      const all = [];
      for (;;) all.push(new Array(3e7).fill(all.length));
    }
  },
};
