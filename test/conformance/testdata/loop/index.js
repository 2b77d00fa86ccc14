// The first call of the handler never lets go of the thread; the gate remembers that there was one.
export default {
  async queue(batch, env) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    const calls = await (await fetch(`${env.GATE}/count/loop`)).text();
    while (calls === "1");
  },
};
