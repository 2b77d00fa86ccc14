// A message named "bad" keeps the thread of every process that handles it. The gate is told of every other.
export default {
  async queue(batch, env) {
    const queue = batch.queue.replace("-", " ");
    if (queue === "mire") while (batch.messages.some((m) => m.body.n === "bad"));
    for (const m of batch.messages) {
      await (await fetch(`${env.GATE}/count/${encodeURIComponent(`${queue} ${m.body.n} ${m.attempts}`)}`)).text();
    }
  },
};
