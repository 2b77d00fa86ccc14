export default {
  // Selects IDs and sends them to the queue, so that the handler does not run past its time.
  async scheduled(controller, env, ctx) {
    let after = 0;
    for (;;) {
      const { results } = await env.DB
        .prepare("SELECT id FROM users WHERE id > ? ORDER BY id LIMIT 100")
        .bind(after)
        .all();
      if (!results.length) break;
      await env.JOBS.sendBatch(
        results.map((u) => ({
          body: { type: "digest", userId: u.id, slot: controller.scheduledTime },
        })),
      );
      after = results.at(-1).id;
    }
  },

  async queue(batch, env, ctx) {
    for (const msg of batch.messages) {
      try {
        await handle(msg.body, env, msg.id);
        msg.ack();
      } catch (err) {
        console.error("job failed", batch.queue, msg.id, msg.attempts, err);
        msg.retry({ delaySeconds: Math.min(3600, 30 * 2 ** (msg.attempts - 1)) });
      }
    }
  },

  // GET / counts the users, the digests that were made for them, and the runs that they were made in.
  async fetch(request, env) {
    const counts = await env.DB
      .prepare("SELECT (SELECT count(*) FROM users) users, count(*) digests, count(DISTINCT slot) runs FROM digests")
      .first();
    return Response.json(counts);
  },
};

// A message can come twice, and so can a slot: the table takes each digest once.
async function handle(job, env, id) {
  await env.DB
    .prepare("INSERT OR IGNORE INTO digests (message_id, user_id, slot) VALUES (?, ?, ?)")
    .bind(id, job.userId, job.slot)
    .run();
}
