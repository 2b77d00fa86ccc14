import { decode, encode } from "./png";
import { fit } from "./resize";

interface Env {
	IMAGES: R2Bucket;
	SIZE: string;
}

/** What R2 says of a change: https://developers.cloudflare.com/r2/buckets/event-notifications/ */
interface Change {
	action: string;
	bucket: string;
	object: { key: string; size?: number; eTag?: string };
	eventTime: string;
}

const ORIGINALS = "originals/";
const THUMBNAILS = "thumbnails/";

export default {
	// PUT and DELETE /NAME change an image, GET /NAME shows it, GET /thumbnails/NAME what was made of it.
	async fetch(request, env): Promise<Response> {
		const path = decodeURIComponent(new URL(request.url).pathname.slice(1));
		if (path === "") return new Response("PUT a PNG to /NAME\n", { status: 400 });
		const key = path.startsWith(THUMBNAILS) ? path : ORIGINALS + path;
		switch (request.method) {
			case "GET": {
				const object = await env.IMAGES.get(key);
				if (object === null) return new Response("there is no such image\n", { status: 404 });
				const headers = new Headers({ etag: object.httpEtag });
				object.writeHttpMetadata(headers);
				return new Response(object.body, { headers });
			}
			case "PUT":
			case "DELETE":
				if (key === path) return new Response("thumbnails are made of images\n", { status: 405 });
				if (request.method === "DELETE") await env.IMAGES.delete(key);
				else await env.IMAGES.put(key, request.body, { httpMetadata: { contentType: request.headers.get("content-type") ?? "image/png" } });
				return new Response(null, { status: 204 });
			default:
				return new Response("GET, PUT or DELETE\n", { status: 405 });
		}
	},

	async queue(batch, env): Promise<void> {
		for (const message of batch.messages) {
			const { key } = message.body.object;
			try {
				await follow(key, env);
				message.ack();
			} catch (error) {
				console.error(`${message.body.action} of ${key}: ${error}`);
				message.retry();
			}
		}
	},
} satisfies ExportedHandler<Env, Change>;

/**
 * Makes the thumbnail of an image what it has to be now. Events may come twice and in another order than the changes, so
 * the bucket says what is true, not the event.
 */
async function follow(key: string, env: Env): Promise<void> {
	const derived = THUMBNAILS + key.slice(ORIGINALS.length);
	const original = await env.IMAGES.get(key);
	if (original === null) {
		await env.IMAGES.delete(derived);
		return;
	}
	const image = await decode(new Uint8Array(await original.arrayBuffer()));
	const thumbnail = await encode(fit(image, Number(env.SIZE)));
	await env.IMAGES.put(derived, thumbnail, {
		httpMetadata: { contentType: "image/png" },
		customMetadata: { original: original.etag },
	});
	// A change in between has an event of its own, which may have been handled first.
	if ((await env.IMAGES.head(key))?.etag !== original.etag) throw new Error("the image changed meanwhile");
}
