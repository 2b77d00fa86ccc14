// Each message gives waitUntil a promise that the gate holds. One that has something to do throws afterwards.
export default {
  async queue(batch, env, ctx) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    const [{ body }] = batch.messages;
    const held = fetch(`${env.GATE}/wait/${batch.queue}`).then(() => {
      batch.retryAll();
      throw new Error("too late to fail the batch");
    });
    ctx.waitUntil(held);
    if (body.do) throw new RangeError("thrown before waitUntil has ended");
  },
};
