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
    }
    return new Response("no such call", { status: 404 });
  },
};
