interface Job {
  n: number;
}

interface Env {
  JOBS: Queue<Job>;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/boom") throw new TypeError("boom");
    const n = Number(searchParams.get("n"));
    if (pathname === "/send") await env.JOBS.send({ n });
    console.log(...(pathname === "/order" ? [`order ${n}`] : ["hello", { path: pathname }]));
    return new Response("ok");
  },

  async queue(batch: MessageBatch<Job>): Promise<void> {
    for (const message of batch.messages) console.warn("job", message.body.n);
  },

  async scheduled(): Promise<void> {},
};
