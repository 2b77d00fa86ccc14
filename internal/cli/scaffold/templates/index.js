/** @satisfies {ExportedHandler<Env, { path: string }>} */
const worker = {
  // Each request puts a job on the queue. The answer comes when the job is stored for good.
  async fetch(request, env) {
    await env.JOBS.send({ path: new URL(request.url).pathname });
    return new Response("queued\n");
  },

  // Each job comes at least once. One that fails comes again; after three retries it is in the dead-letter queue.
  async queue(batch) {
    for (const message of batch.messages) {
      console.log(`handled ${message.body.path}, attempt ${message.attempts}`);
      message.ack();
    }
  },
};

export default worker;
