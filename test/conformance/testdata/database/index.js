// An order is a row of the app's own and a message, both in one transaction or neither.
import { Client } from "pg";
import postgres from "postgres";

// Requests make the table one after the other: two that do it at once would collide.
const table = "select pg_advisory_xact_lock(1); create table if not exists orders (name text primary key)";

async function withPostgres(env, name, last) {
  const sql = postgres(env.DATABASE.connectionString, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    await sql.unsafe(table);
    await sql.begin(async (tx) => {
      await tx`insert into orders values (${name})`;
      await tx`select runlot_queue.send('orders', ${tx.json({ n: name })})`;
      if (last === "rollback") throw new Error("rolled back");
    });
    return "committed";
  } catch (error) {
    return error.message;
  } finally {
    await sql.end();
  }
}

async function withPg(env, name, last) {
  const { host, port, user, password, database } = env.DATABASE;
  const client = new Client({ host, port, user, password, database });
  await client.connect();
  try {
    await client.query(table);
    await client.query("begin");
    await client.query("insert into orders values ($1)", [name]);
    await client.query("select runlot_queue.send('orders', $1)", [{ n: name }]);
    await client.query(last);
    return last === "commit" ? "committed" : "rolled back";
  } finally {
    await client.end();
  }
}

async function state(env) {
  const sql = postgres(env.DATABASE.connectionString, { max: 1, fetch_types: false });
  try {
    const orders = await sql`select name from orders order by name`;
    const waiting = await sql`select body->>'n' as n from runlot_queue.messages order by 1`;
    const [me] = await sql`select rolsuper or rolcreaterole or rolcreatedb as mighty from pg_roles where rolname = current_user`;
    const denied = await sql`delete from runlot_queue.message`.then(() => "", (error) => error.message);
    return { orders: orders.map((o) => o.name), waiting: waiting.map((w) => w.n), mighty: me.mighty, denied };
  } finally {
    await sql.end();
  }
}

export default {
  async fetch(request, env) {
    const [, client, name, last] = new URL(request.url).pathname.split("/");
    switch (client) {
      case "postgres":
        return Response.json(await withPostgres(env, name, last));
      case "pg":
        return Response.json(await withPg(env, name, last));
      default:
        return Response.json(await state(env));
    }
  },

  async queue(batch) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, messages: batch.messages.map(message) }));
  },
};
