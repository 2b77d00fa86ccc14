import { crawl, type Page } from "./crawl";
import { Host } from "./host";

export { Host };

export interface Env {
	CRAWL: Queue<Page>;
	DB: D1Database;
	HOSTS: DurableObjectNamespace<Host>;
	CRAWL_DELAY_MS: string;
	MAX_DEPTH: string;
}

export default {
	// POST / with { "url": "https://…" } begins a crawl, GET /pages lists what was fetched.
	async fetch(request, env): Promise<Response> {
		const { pathname } = new URL(request.url);
		if (request.method === "GET" && pathname === "/pages") {
			const { results } = await env.DB.prepare("SELECT * FROM pages ORDER BY url LIMIT 1000").all();
			return Response.json(results);
		}
		if (request.method !== "POST" || pathname !== "/") {
			return new Response("POST a URL to /, or GET /pages\n", { status: 404 });
		}
		const { url } = await request.json<{ url?: string }>();
		if (!url || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
			return new Response('Send { "url": "https://…" }\n', { status: 400 });
		}
		await env.CRAWL.send({ url: new URL(url).href, depth: 0 });
		return new Response("queued\n", { status: 202 });
	},

	async queue(batch, env): Promise<void> {
		await Promise.all(
			batch.messages.map(async (message) => {
				const wait = await crawl(message.body, message.attempts, env);
				if (wait === 0) message.ack();
				else message.retry({ delaySeconds: wait });
			}),
		);
	},
} satisfies ExportedHandler<Env, Page>;
