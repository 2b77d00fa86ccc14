import { type Job, crawl, pages } from "./crawl";
import { site } from "./site";

interface Env {
  JOBS: Queue<Job>;
  DATABASE: Hyperdrive;
}

export default {
  // GET /?u=URL puts a page on the queue, GET /pages shows what was crawled, GET /site/… is a small site to crawl.
  async fetch(request, env) {
    const url = new URL(request.url);
    if (url.pathname.startsWith("/site/")) return site(url);
    if (url.pathname === "/pages") return Response.json(await pages(env.DATABASE));

    const u = url.searchParams.get("u");
    if (!u) return new Response("Try /?u=/site/ and then /pages\n", { status: 400 });
    await env.JOBS.send({ url: new URL(u, url).href, depth: 3 });
    return new Response("queued\n");
  },

  async queue(batch, env) {
    for (const message of batch.messages) {
      try {
        const found = await crawl(message.body, env.DATABASE);
        console.log(`crawled ${message.body.url}: ${found} new links`);
        message.ack();
      } catch (error) {
        console.warn(`${message.body.url}: ${error} (attempt ${message.attempts})`);
        message.retry({ delaySeconds: 2 ** message.attempts });
      }
    }
  },
} satisfies ExportedHandler<Env, Job>;
