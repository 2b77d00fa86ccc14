// The first call for the queue spin never lets go of the thread, while a call for its mate waits at the gate.
export default {
  async queue(batch, env) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    if (batch.queue === "spin") {
      const calls = await (await fetch(`${env.GATE}/count/spin`)).text();
      while (calls === "1");
    } else {
      await (await fetch(`${env.GATE}/wait/spin-mate`)).text();
    }
  },
};
