// A consumer that does what its messages say: body.do[n] is what happens at delivery n+1, steps one after the other.
async function perform(step, message, batch, env, ctx) {
  const [verb, value] = step.split("=");
  const options = value === undefined ? undefined : { delaySeconds: Number(value) };
  switch (verb) {
    case "ack":
      return message.ack();
    case "retry":
      return message.retry(options);
    case "ackAll":
      return batch.ackAll();
    case "retryAll":
      return batch.retryAll(options);
    case "throw":
      throw new RangeError("thrown by " + message.body.n);
    case "swallow":
      try {
        throw new Error("nobody hears of this");
      } catch {
        return;
      }
    case "reject":
      return ctx.waitUntil(Promise.reject(new Error("rejected in waitUntil")));
    case "later":
      return ctx.waitUntil(fetch(`${env.GATE}/wait/${value}`));
    case "wait":
      return void (await (await fetch(`${env.GATE}/wait/${value}`)).text());
    case "leave":
      return void (await (await fetch(`${env.GATE}/count/${value}`)).text());
    case "thrice": {
      const calls = await (await fetch(`${env.GATE}/count/${value}`)).text();
      if (Number(calls) <= 3) throw new RangeError("one of three");
      return;
    }
    default:
      throw new Error("no such step: " + step);
  }
}

export default {
  // A request is a list of calls [binding, method, ...arguments], made one after the other.
  async fetch(request, env) {
    const answers = [];
    for (const [binding, method, ...args] of await request.json()) {
      try {
        answers.push({ value: await env[binding][method](...args) });
      } catch (error) {
        answers.push({ error: { name: error.name, message: error.message, code: error.code } });
      }
    }
    return Response.json(answers);
  },

  async queue(batch, env, ctx) {
    console.log(
      JSON.stringify({
        queue: batch.queue,
        metrics: batch.metadata.metrics,
        messages: batch.messages.map((m) => ({
          id: m.id,
          timestamp: m.timestamp.getTime(),
          attempts: m.attempts,
          body: m.body,
        })),
      }),
    );
    for (const message of batch.messages) {
      const plan = message.body.do?.[message.attempts - 1] ?? "";
      for (const step of plan.split(" ")) {
        if (step) await perform(step, message, batch, env, ctx);
      }
    }
  },
};
