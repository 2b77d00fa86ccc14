import type { Env } from "./index";

export interface Page {
	url: string;
	/** How many links away from the first page. */
	depth: number;
}

/** The handler waits for a turn that comes within this time, in milliseconds; for a later one the message comes back. */
const SOON = 1000;

/** Fetches a page, stores it and queues its links. Returns 0, or after how many seconds to try again. */
export async function crawl(page: Page, attempts: number, env: Env): Promise<number> {
	const url = new URL(page.url);
	const host = env.HOSTS.getByName(url.host);

	const turn = await host.turn(page.url, SOON);
	if (turn.done) return 0;
	if (turn.wait > SOON) return Math.ceil(turn.wait / 1000);
	await scheduler.wait(turn.wait);

	const response = await fetch(page.url, { headers: { "user-agent": "web-crawler" }, redirect: "manual" }).catch((error) => {
		console.warn(`${page.url}: ${error}`);
		return null;
	});
	if (response === null || response.status === 429 || response.status >= 500) {
		await response?.body?.cancel();
		return pause(response?.headers.get("retry-after"), attempts);
	}

	const { title, links } = await read(response, url);
	if (page.depth < Number(env.MAX_DEPTH)) {
		const fresh = await host.unseen(links.filter((link) => new URL(link).host === url.host));
		for (let i = 0; i < fresh.length; i += 100) {
			await env.CRAWL.sendBatch(fresh.slice(i, i + 100).map((link) => ({ body: { url: link, depth: page.depth + 1 } })));
		}
		await host.queued(fresh);
	}
	await env.DB.prepare("INSERT OR REPLACE INTO pages (url, status, title, links, fetched_at) VALUES (?, ?, ?, ?, ?)")
		.bind(page.url, response.status, title, links.length, new Date().toISOString())
		.run();
	await host.done(page.url);
	return 0;
}

/** What the host asks for, or twice as long after each attempt, at most ten minutes. */
function pause(retryAfter: string | null | undefined, attempts: number): number {
	const asked = Number(retryAfter);
	return asked > 0 ? Math.min(asked, 86_400) : Math.min(2 ** (attempts - 1), 600);
}

/** Reads the title and the links of a page as it comes in. */
async function read(response: Response, base: URL): Promise<{ title: string; links: string[] }> {
	let title = "";
	const links = new Set<string>();
	const add = (target: string | null) => {
		if (!target || !URL.canParse(target, base)) return;
		const link = new URL(target, base);
		link.hash = "";
		if (/^https?:$/.test(link.protocol)) links.add(link.href);
	};
	add(response.headers.get("location"));
	await new HTMLRewriter()
		.on("title", { text: (text) => void (title += text.text) })
		.on("a[href]", { element: (element) => add(element.getAttribute("href")) })
		.transform(response)
		.arrayBuffer();
	return { title: title.trim(), links: [...links] };
}
