// A request is a list of calls, made one after the other: a method of an object that is named.
import { DurableObject } from "cloudflare:workers";

export class Room extends DurableObject {
  count() {
    this.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS calls (n INTEGER PRIMARY KEY)");
    this.ctx.storage.sql.exec("INSERT INTO calls DEFAULT VALUES");
    return this.ctx.storage.sql.exec("SELECT count(*) AS n FROM calls").one().n;
  }
  async many() {
    const before = (await this.ctx.storage.get("many")) ?? 0;
    await this.ctx.storage.put("many", before + 1);
    return before + 1;
  }
  async half() {
    try {
      this.ctx.storage.transactionSync(() => {
        this.ctx.storage.kv.put("half", 1);
        throw new Error("no");
      });
    } catch {
      return this.ctx.storage.kv.get("half");
    }
  }
  async ring(milliseconds) {
    await this.ctx.storage.setAlarm(Date.now() + milliseconds);
    while (!(await this.ctx.storage.get("rung"))) await scheduler.wait(10);
    return this.ctx.storage.getAlarm();
  }
  async alarm() {
    await this.ctx.storage.put("rung", true);
  }
  fail() {
    throw new RangeError("not so");
  }
  async fetch() {
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket, message) {
    socket.send(`echo ${message}`);
  }
}

export class Old extends DurableObject {
  async keep(value) {
    await this.ctx.storage.put("value", value);
    return [...(await this.ctx.storage.list())];
  }
  sql() {
    try {
      return this.ctx.storage.sql.exec("SELECT 1").one();
    } catch (error) {
      return error.message.startsWith("SQL is not enabled") ? "no SQL" : error.message;
    }
  }
}

async function one(env, { on, call, args }) {
  const stub = env[on ?? "ROOM"].getByName(args[0]);
  if (call === "together") return (await Promise.all(Array.from({ length: 20 }, () => stub.many()))).sort((a, b) => a - b).join();
  if (call === "socket") {
    const { webSocket } = await stub.fetch("http://room/", { headers: { Upgrade: "websocket" } });
    webSocket.accept();
    const heard = new Promise((resolve) => webSocket.addEventListener("message", (event) => resolve(event.data)));
    webSocket.send("hello");
    return heard;
  }
  return (await stub[call](...args.slice(1))) ?? null;
}

export default {
  async fetch(request, env) {
    const answers = [];
    for (const step of await request.json()) {
      try {
        answers.push({ value: await one(env, step) });
      } catch (error) {
        answers.push({ error: { name: error.name, message: error.message, isError: error instanceof Error } });
      }
    }
    return Response.json(answers);
  },
};
