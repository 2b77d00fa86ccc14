// Makes every call about KV and R2 of the npm package cloudflare, checks the answers, and prints what is done.
import assert from "node:assert/strict";
import Cloudflare, { BadRequestError, NotFoundError } from "cloudflare";

const client = new Cloudflare();
const account_id = process.env.CLOUDFLARE_ACCOUNT_ID;

async function all(pages) {
  const list = [];
  for await (const one of pages) list.push(one);
  return list;
}

// refused asserts that a call fails with a code of Cloudflare's.
async function refused(call, kind, code) {
  await assert.rejects(call, (error) => {
    assert(error instanceof kind, error.constructor.name);
    assert.equal(error.errors[0].code, code);
    return true;
  });
}

async function kv() {
  const { namespaces } = client.kv;
  const made = await namespaces.create({ account_id, title: "made" });
  await refused(namespaces.create({ account_id, title: "made" }), BadRequestError, 10014);
  assert.equal((await namespaces.get(made.id, { account_id })).title, "made");
  assert.equal((await namespaces.update(made.id, { account_id, title: "other" })).title, "other");
  assert.deepEqual((await all(namespaces.list({ account_id, per_page: 1 }))).map((n) => n.title), ["cache", "other"]);
  await namespaces.delete(made.id, { account_id });
  await refused(namespaces.get(made.id, { account_id }), NotFoundError, 10013);

  const of = { account_id, namespace_id: "cache" };
  await namespaces.values.update("a/sdk", { ...of, value: "from the SDK", metadata: JSON.stringify({ n: 1 }) });
  assert.equal(await (await namespaces.values.get("a/sdk", of)).text(), "from the SDK");
  assert.deepEqual(await namespaces.metadata.get("a/sdk", of), { n: 1 });
  await refused(namespaces.values.get("none", of), NotFoundError, 10009);
  await refused(namespaces.values.update("x", { ...of, value: "v", metadata: { n: 1 } }), BadRequestError, 10001);
  const put = await namespaces.bulkUpdate("cache", { account_id, body: [1, 2, 3].map((n) => ({ key: `s${n}`, value: String(n), expiration_ttl: 3600 })) });
  assert.deepEqual(put, { successful_key_count: 3, unsuccessful_keys: [] });
  assert.deepEqual((await all(namespaces.keys.list("cache", { account_id, prefix: "s", limit: 2 }))).map((k) => k.name), ["s1", "s2", "s3"]);
  assert.deepEqual((await namespaces.bulkGet("cache", { account_id, keys: ["s1", "none"] })).values, { s1: "1", none: null });
  assert.equal((await namespaces.bulkDelete("cache", { account_id, body: ["s1", "s2"] })).successful_key_count, 2);
  await namespaces.values.delete("s3", of);
  assert.deepEqual(await all(namespaces.keys.list("cache", { account_id, prefix: "s" })), []);
}

async function r2() {
  const { buckets } = client.r2;
  const made = await buckets.create({ account_id, name: "sdk-made" });
  assert.equal(made.storage_class, "Standard");
  await refused(buckets.create({ account_id, name: "sdk-made" }), BadRequestError, 10004);
  assert.deepEqual((await buckets.list({ account_id })).buckets.map((b) => b.name), ["files", "sdk-made"]);
  assert.equal((await buckets.get("sdk-made", { account_id })).name, "sdk-made");
  await buckets.delete("sdk-made", { account_id });
  await refused(buckets.get("sdk-made", { account_id }), NotFoundError, 10006);

  const of = { account_id, bucket_name: "files" };
  await buckets.objects.upload("a/sdk?", new TextEncoder().encode("from the SDK"), of);
  assert.equal(await (await buckets.objects.get("a/sdk?", of)).text(), "from the SDK");
  const found = await all(buckets.objects.list("files", { account_id, prefix: "a/", per_page: 1 }));
  assert.deepEqual(found.map((o) => [o.key, o.size]), [["a/sdk?", 12]]);
  await refused(buckets.objects.get("none", of), NotFoundError, 10007);
  await buckets.objects.upload("gone", new TextEncoder().encode("x"), of);
  await buckets.objects.delete("gone", of);

  const [queue] = (await all(client.queues.list({ account_id }))).filter((q) => q.queue_name === "changes");
  const { eventNotifications } = buckets;
  await eventNotifications.update(queue.queue_id, { ...of, rules: [{ actions: ["PutObject"], prefix: "x" }] });
  const { rules } = await eventNotifications.get(queue.queue_id, of);
  assert.deepEqual(rules.map((r) => [r.actions, r.prefix]), [[["PutObject"], "x"]]);
  assert.equal((await eventNotifications.list("files", { account_id })).queues[0].queueName, "changes");
  await eventNotifications.delete(queue.queue_id, of);
  assert.deepEqual((await eventNotifications.list("files", { account_id })).queues, []);
}

for (const [name, test] of Object.entries({ kv, r2 })) {
  await test();
  console.log(name);
}
