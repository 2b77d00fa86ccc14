// A message named "bad" kills the process that handles it, by all the memory it can get. The gate is told of every other.
export default {
  async queue(batch, env) {
    const queue = batch.queue.replace("-", " ");
    if (queue === "poison" && batch.messages.some((m) => m.body.n === "bad")) {
      const all = [];
      for (;;) all.push(new Array(3e7).fill(all.length));
    }
    for (const m of batch.messages) {
      await (await fetch(`${env.GATE}/count/${encodeURIComponent(`${queue} ${m.body.n} ${m.attempts}`)}`)).text();
    }
  },
};
