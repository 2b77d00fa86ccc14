// The first call of the handler acks a message and dies; the gate remembers that there was one.
export default {
  async queue(batch, env) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    batch.messages[0].ack();
    const calls = await (await fetch(`${env.GATE}/count/crash`)).text();
    if (calls === "1") {
      const all = [];
      for (;;) all.push(new Array(3e7).fill(all.length));
    }
  },
};
