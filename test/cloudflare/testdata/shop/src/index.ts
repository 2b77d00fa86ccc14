interface Order {
  item: string;
}

interface Env {
  ORDERS: Queue<Order>;
  DB: D1Database;
  GREETING: string;
  CONF: { lines: string[] };
  API_KEY?: string;
  BULK_A?: string;
  BULK_B?: string;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname === "/order") {
      await env.ORDERS.send({ item: url.searchParams.get("item") ?? "nothing" });
      return new Response("sent");
    }
    if (url.pathname === "/orders") {
      const { results } = await env.DB.prepare("SELECT item FROM orders ORDER BY item").all<Order>();
      return Response.json(results.map((one) => one.item));
    }
    return Response.json({
      greeting: env.GREETING, lines: env.CONF.lines, release: "RELEASE",
      key: env.API_KEY ?? null, bulk: [env.BULK_A ?? null, env.BULK_B ?? null],
    });
  },

  async queue(batch: MessageBatch<Order>, env: Env): Promise<void> {
    for (const message of batch.messages) {
      await env.DB.prepare("INSERT INTO orders (item) VALUES (?)").bind(message.body.item).run();
    }
  },

  async scheduled(): Promise<void> {},
};
