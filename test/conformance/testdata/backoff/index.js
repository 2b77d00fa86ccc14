export default {
  async fetch(request, env) {
    await env.JOBS.sendBatch((await request.json()).map((n) => ({ body: { n } })), { delaySeconds: 1 });
    return Response.json([]);
  },

  async queue(batch) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    throw new Error("on purpose");
  },
};
