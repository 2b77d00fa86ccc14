// Says what its bindings see, and writes through them: the other side of what tools do from outside.
export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const key = url.searchParams.get("key");
    const value = url.searchParams.get("value");
    switch (url.pathname) {
      case "/kv/put":
        await env.KV.put(key, value, { metadata: { by: "worker" } });
        return new Response("put");
      case "/kv/get":
        return Response.json(await env.KV.getWithMetadata(key));
      case "/kv/list":
        return Response.json((await env.KV.list()).keys.map((k) => [k.name, k.expiration > 0, k.metadata ?? null]));
      case "/r2/put":
        await env.FILES.put(key, value, { httpMetadata: { contentType: "text/x-worker" }, customMetadata: { By: "worker" } });
        return new Response("put");
      case "/r2/get": {
        const object = await env.FILES.get(key);
        return Response.json(object && { body: await object.text(), http: object.httpMetadata });
      }
      case "/r2/list":
        return Response.json((await env.FILES.list()).objects.map((o) => o.key));
    }
    return new Response("no such call", { status: 404 });
  },

  // Keeps the last event of each key.
  async queue(batch, env) {
    for (const { body } of batch.messages) await env.KV.put(`told/${body.object.key}`, `${body.action} ${body.bucket} ${body.object.size ?? "gone"}`);
  },
};
