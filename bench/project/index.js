// A message of 200 bytes as JSON.
const body = { type: "crawl", url: "https://example.com/some/page?with=a&query=string", depth: 3, attempt: 0, pad: "" };
body.pad = "x".repeat(200 - JSON.stringify(body).length);
const hundred = Array.from({ length: 100 }, () => ({ body }));

// What this isolate's queue handler was given.
let delivered = 0;

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/batch":
        await env.JOBS.sendBatch(hundred);
        return new Response("100");
      case "/single": {
        // Twenty sends at a time, for as often as the caller asks.
        const times = Number(url.searchParams.get("times"));
        for (let i = 0; i < times; i++) {
          await Promise.all(Array.from({ length: 20 }, () => env.JOBS.send(body)));
        }
        return new Response(String(20 * times));
      }
      case "/ping":
        await env.PINGS.send({ back: url.searchParams.get("back") });
        return new Response("1");
      case "/delivered":
        return new Response(String(delivered));
      default:
        return new Response("not found", { status: 404 });
    }
  },

  async queue(batch) {
    if (batch.queue === "pings") {
      await Promise.all(batch.messages.map((message) => fetch(message.body.back)));
      return;
    }
    delivered += batch.messages.length;
  },
};
