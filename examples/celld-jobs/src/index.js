export default {
  // POST / with a JSON body puts a job on the queue; ?count=N sends it N times, in batches.
  async fetch(request, env) {
    const url = new URL(request.url);
    const count = Math.min(1000, Number(url.searchParams.get("count") ?? 1));
    const body = request.method === "POST" ? await request.json() : { type: "welcome", userId: 1 };
    for (let sent = 0; sent < count; sent += 100) {
      await env.JOBS.sendBatch(Array.from({ length: Math.min(100, count - sent) }, () => ({ body })));
    }
    return new Response(`queued ${count}\n`);
  },

  async queue(batch, env) {
    for (const msg of batch.messages) {
      try {
        await handle(msg.body);
        msg.ack();
      } catch (err) {
        console.error("job failed", batch.queue, msg.id, msg.attempts, err);
        msg.retry({ delaySeconds: Math.min(3600, 30 * 2 ** (msg.attempts - 1)) });
      }
    }
  },
};

async function handle(job) {
  if (typeof job?.type !== "string") throw new TypeError("a job has a type");
  if (job.type === "fail") throw new Error("this job fails on purpose");
  console.log("did", job.type, job.userId);
}
