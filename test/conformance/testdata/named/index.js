import { WorkerEntrypoint } from "cloudflare:workers";

// A default export by name, beside other entrypoints that have a queue handler of their own.
class Jobs extends WorkerEntrypoint {
  async fetch() {
    await this.env.JOBS.send("hello");
    return Response.json([]);
  }

  async queue(batch) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: { n: [this.constructor.name, m.body].join() } });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
    batch.messages[0].ack();
    throw new RangeError("after the ack");
  }
}

export class Other extends WorkerEntrypoint {
  async queue() {
    throw new Error("this is not the default export");
  }
}

export const plain = {
  async queue() {
    throw new Error("neither is this");
  },
};

export { Jobs as default, Jobs };
