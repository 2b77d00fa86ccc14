import { WorkerEntrypoint } from "cloudflare:workers";

export default class Jobs extends WorkerEntrypoint {
  #private = "kept";

  async fetch() {
    await this.env.JOBS.sendBatch([{ body: "one" }, { body: "two" }]);
    return Response.json([]);
  }

  async queue(batch) {
    const message = (m) => ({
      id: m.id,
      timestamp: m.timestamp.getTime(),
      attempts: m.attempts,
      body: { n: [m.body, this.#private, this.env.GREETING, this.env.LIST[1].two, typeof this.ctx.waitUntil].join() },
    });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    batch.messages[0].ack();
    batch.messages[1].retry({ delaySeconds: 3600 });
  }
}
