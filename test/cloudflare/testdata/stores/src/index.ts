import { DurableObject } from "cloudflare:workers";
import text from "./note.txt";

interface Env {
  KV: KVNamespace;
  FILES: R2Bucket;
  COUNTER: DurableObjectNamespace<Counter>;
}

export class Counter extends DurableObject<Env> {
  async next(): Promise<number> {
    const n = ((await this.ctx.storage.get<number>("n")) ?? 0) + 1;
    await this.ctx.storage.put("n", n);
    return n;
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const n = await env.COUNTER.getByName("one").next();
    await env.KV.put("n", String(n));
    await env.FILES.put("n", String(n));
    const file = await env.FILES.get("n");
    return Response.json({ n, kv: await env.KV.get("n"), r2: await file?.text(), text: text.trim() });
  },
};
