// Sends what it is told to, and reports each delivery to the collector of the test before it settles anything.
export default {
  async fetch(request, env) {
    switch (new URL(request.url).pathname) {
      case "/backlog": {
        const [jobs, dead] = await Promise.all([env.JOBS.metrics(), env.DEAD.metrics()]);
        return Response.json(jobs.backlogCount + dead.backlogCount);
      }
      case "/send": {
        await env.JOBS.send(await request.json());
        return new Response("sent");
      }
      case "/batch": {
        await env.JOBS.sendBatch((await request.json()).map((body) => ({ body })));
        return new Response("sent");
      }
    }
    return new Response("no such path", { status: 404 });
  },

  // A message fails on purpose as long as it has not been delivered more often than it says; as a dead letter it is done.
  async queue(batch, env) {
    const messages = batch.messages.map(({ id, timestamp, attempts, body }) => ({ id, timestamp, attempts, body }));
    const response = await fetch(env.COLLECTOR, { method: "POST", body: JSON.stringify({ queue: batch.queue, messages }) });
    if (!response.ok) throw new Error(`the collector answers ${response.status}`);
    await scheduler.wait(Math.random() * 10);
    let thrown = false;
    for (const message of batch.messages) {
      const { fails, how } = message.body;
      if (batch.queue === "jobs-dead" || message.attempts > fails) message.ack();
      else if (how === "throw") thrown = true;
      else if (how === "later") message.retry({ delaySeconds: 1 });
      else message.retry();
    }
    if (thrown) throw new Error("on purpose");
  },
};
