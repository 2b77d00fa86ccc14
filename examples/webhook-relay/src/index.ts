interface Env {
	WEBHOOKS: Queue<Webhook>;
	/** The secret that the sender signs with: wrangler secret put WEBHOOK_SECRET */
	WEBHOOK_SECRET: string;
}

/** What is queued, and what the consumer forwards. */
interface Webhook {
	path: string;
	headers: Record<string, string>;
	body: string;
}

/** The largest webhook that is taken, in bytes: a message has at most 128 KB. */
const MOST_BYTES = 100_000;
/** The headers that are passed on. */
const KEPT = ["content-type", "user-agent", "x-github-event", "x-github-delivery", "x-hub-signature-256"];

export default {
	// POST /hooks/… takes a webhook that is signed as GitHub signs its own.
	async fetch(request, env): Promise<Response> {
		const { pathname } = new URL(request.url);
		if (request.method !== "POST" || !pathname.startsWith("/hooks/")) return new Response("POST to /hooks/…\n", { status: 404 });
		const bytes = await request.arrayBuffer();
		if (bytes.byteLength > MOST_BYTES) return new Response("this webhook is too large\n", { status: 413 });
		if (!(await signed(bytes, request.headers.get("x-hub-signature-256"), env.WEBHOOK_SECRET))) {
			return new Response("the signature is wrong\n", { status: 401 });
		}
		const headers: Record<string, string> = {};
		for (const name of KEPT) {
			const value = request.headers.get(name);
			if (value !== null) headers[name] = value;
		}
		// Once this returns, the webhook cannot be lost: now the sender may be told.
		await env.WEBHOOKS.send({ path: pathname.slice("/hooks".length), headers, body: new TextDecoder().decode(bytes) });
		return new Response("accepted\n", { status: 202 });
	},
} satisfies ExportedHandler<Env>;

/** Checks "sha256=…", in a time that does not depend on where it is wrong. */
async function signed(bytes: ArrayBuffer, header: string | null, secret: string): Promise<boolean> {
	const hex = /^sha256=([0-9a-f]{64})$/.exec(header ?? "")?.[1];
	if (!hex) return false;
	const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
	return crypto.subtle.verify("HMAC", key, Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16)), bytes);
}
