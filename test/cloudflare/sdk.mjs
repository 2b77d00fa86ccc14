// Makes every call about queues of the npm package cloudflare, checks the answers, and prints the names of the calls.
import assert from "node:assert/strict";
import Cloudflare, { BadRequestError, NotFoundError } from "cloudflare";

const client = new Cloudflare();
const account_id = process.env.CLOUDFLARE_ACCOUNT_ID;
const { queues } = client;

async function all(pages) {
  const list = [];
  for await (const one of pages) list.push(one);
  return list;
}

// refused asserts that a call fails with a code of Cloudflare's and a text.
async function refused(call, kind, code, text) {
  await assert.rejects(call, (error) => {
    assert(error instanceof kind, error.constructor.name);
    assert.equal(error.errors[0].code, code);
    assert.match(error.errors[0].message, text);
    return true;
  });
}

const tests = {
  async create() {
    const made = await queues.create({ account_id, queue_name: "jobs" });
    assert.equal(made.queue_name, "jobs");
    assert.match(made.queue_id, /^[0-9a-f]{32}$/);
    await refused(queues.create({ account_id, queue_name: "jobs" }), BadRequestError, 11009, /jobs/);
    await refused(queues.create({ account_id, queue_name: "No Name" }), BadRequestError, 11003, /name/);
    dead = (await queues.create({ account_id, queue_name: "dead" })).queue_id;
    id = made.queue_id;
  },
  async list() {
    assert.deepEqual((await all(queues.list({ account_id }))).map((q) => q.queue_name), ["dead", "jobs"]);
  },
  async get() {
    const one = await queues.get(id, { account_id });
    assert.deepEqual([one.queue_name, one.producers_total_count, one.consumers_total_count], ["jobs", 0, 0]);
    assert.deepEqual(one.settings, { delivery_delay: 0, delivery_paused: false, message_retention_period: 345600 });
    await refused(queues.get("0".repeat(32), { account_id }), NotFoundError, 10104, /no queue/);
  },
  async edit() {
    const one = await queues.edit(id, { account_id, settings: { message_retention_period: 3600 } });
    assert.deepEqual(one.settings, { delivery_delay: 0, delivery_paused: false, message_retention_period: 3600 });
    await refused(queues.edit(id, { account_id, settings: { delivery_delay: -1 } }), BadRequestError, 100128, /delivery_delay/);
    await refused(queues.edit(id, { account_id, queue_name: "other" }), BadRequestError, 11003, /renamed/);
  },
  async update() {
    const one = await queues.update(id, { account_id, settings: { delivery_delay: 1 } });
    assert.deepEqual(one.settings, { delivery_delay: 1, delivery_paused: false, message_retention_period: 345600 });
    await queues.update(id, { account_id });
  },
  async "consumers.create"() {
    const made = await queues.consumers.create(id, { account_id, type: "http_pull", settings: { batch_size: 7, visibility_timeout_ms: 60000 } });
    assert.deepEqual([made.type, made.settings.batch_size, made.settings.visibility_timeout_ms], ["http_pull", 7, 60000]);
    consumer = made.consumer_id;
    await refused(queues.consumers.create(id, { account_id, type: "http_pull" }), BadRequestError, 11004, /consumer over HTTP already/);
  },
  async "consumers.list"() {
    assert.deepEqual((await all(queues.consumers.list(id, { account_id }))).map((c) => c.consumer_id), [consumer]);
  },
  async "consumers.get"() {
    assert.equal((await queues.consumers.get(consumer, { account_id, queue_id: id })).consumer_id, consumer);
  },
  async "consumers.update"() {
    const one = await queues.consumers.update(consumer, { account_id, queue_id: id, type: "http_pull", settings: { max_retries: 1 }, dead_letter_queue: "dead" });
    assert.deepEqual([one.settings.max_retries, one.settings.batch_size, one.dead_letter_queue], [1, 5, "dead"]);
  },
  async "messages.push"() {
    const { metadata } = await queues.messages.push(id, { account_id, body: { n: 1 } });
    assert.equal(metadata.metrics.backlog_count, 1);
  },
  async "messages.bulkPush"() {
    const { metadata } = await queues.messages.bulkPush(id, {
      account_id, messages: [{ body: "two", content_type: "text" }, { body: "three", content_type: "text" }, { body: "later", content_type: "text", delay_seconds: 3600 }],
    });
    assert.equal(metadata.metrics.backlog_count, 4);
  },
  async getMetrics() {
    const metrics = await queues.getMetrics(id, { account_id });
    assert.equal(metrics.backlog_count, 4);
    assert(metrics.backlog_bytes > 0);
  },
  async "messages.peek"() {
    const { messages } = await queues.messages.peek(id, { account_id, batch_size: 10 });
    assert.deepEqual(messages.map((m) => m.body).toSorted(), [btoa('{"n":1}'), "later", "three", "two"].toSorted());
    ref = messages.find((m) => m.body === "later").ref;
  },
  async "messages.purge"() {
    await queues.messages.purge(id, { account_id, refs: [{ ref }] });
    assert.equal((await queues.getMetrics(id, { account_id })).backlog_count, 3);
  },
  async "messages.pull"() {
    const { messages } = await queues.messages.pull(id, { account_id, batch_size: 10, visibility_timeout_ms: 600000 });
    assert.deepEqual(messages.map((m) => [m.body, m.attempts]).toSorted(), [[btoa('{"n":1}'), 1], ["three", 1], ["two", 1]].toSorted());
    assert.equal(messages.find((m) => m.body !== "two" && m.body !== "three").metadata["CF-Content-Type"], "json");
    leases = messages.map((m) => m.lease_id);
  },
  async "messages.ack"() {
    const done = await queues.messages.ack(id, { account_id, acks: leases.slice(1).map((lease_id) => ({ lease_id })), retries: [{ lease_id: leases[0], delay_seconds: 0 }] });
    assert.deepEqual([done.ackCount, done.retryCount, done.warnings], [2, 1, {}]);
    const again = await queues.messages.pull(id, { account_id });
    assert.deepEqual(again.messages.map((m) => m.attempts), [2]);
    await queues.messages.ack(id, { account_id, acks: again.messages.map((m) => ({ lease_id: m.lease_id })) });
    assert.equal((await queues.getMetrics(id, { account_id })).backlog_count, 0);
  },
  async "purge.start"() {
    await queues.messages.push(id, { account_id, body: "gone", content_type: "text" });
    assert.equal((await queues.purge.start(id, { account_id, delete_messages_permanently: true })).queue_name, "jobs");
  },
  async "purge.status"() {
    let status;
    do {
      status = await queues.purge.status(id, { account_id });
      assert(status.started_at);
      assert.match(status.completed, /^(true|false)$/);
    } while (status.completed === "false");
    assert.equal((await queues.getMetrics(id, { account_id })).backlog_count, 0);
  },
  async "consumers.delete"() {
    assert.equal((await queues.consumers.delete(consumer, { account_id, queue_id: id })).success, true);
    assert.deepEqual(await all(queues.consumers.list(id, { account_id })), []);
  },
  async "subscriptions.create"() {
    const made = await queues.subscriptions.create({
      account_id, name: "deaths", source: { type: "queues.queue", queue_id: dead }, destination: { type: "queues.queue", queue_id: id }, events: ["message.dead_lettered"],
    });
    assert.deepEqual([made.name, made.enabled, made.source, made.destination], ["deaths", true, { type: "queues.queue", queue_id: dead }, { type: "queues.queue", queue_id: id }]);
    subscription = made.id;
    await queues.subscriptions.create({ account_id, source: { type: "workers.script", script_tag: "shop" }, destination: { type: "queues.queue", queue_id: dead }, events: ["version.deployed"] });
    const make = (source, events, queue_id = id) => queues.subscriptions.create({ account_id, source, destination: { type: "queues.queue", queue_id }, events });
    await refused(make({ type: "r2" }, ["bucket.created"]), BadRequestError, 10001, /no event source "r2" here — the sources are queues\.queue, workers\.script/);
    await refused(make({ type: "workers.script" }, ["build.started"]), BadRequestError, 0, /Unrecognized event types: build\.started/);
    await refused(make({ type: "queues.queue", queue_id: id }, ["message.dead_lettered"]), BadRequestError, 10001, /its own dead letters/);
    await refused(make({ type: "workers.script" }, ["version.deployed"], "0".repeat(32)), NotFoundError, 10104, /no queue/);
  },
  async "subscriptions.list"() {
    const list = (query) => all(queues.subscriptions.list({ account_id, ...query }));
    assert.deepEqual((await list({ per_page: 1 })).map((s) => s.name), ["deaths", "dead workers.script"]);
    assert.deepEqual((await list({ order: "name", direction: "desc" })).map((s) => s.name), ["deaths", "dead workers.script"]);
    assert.deepEqual((await list({ queue_id: dead })).map((s) => s.source), [{ type: "workers.script", script_name: "shop" }]);
  },
  async "subscriptions.get"() {
    assert.equal((await queues.subscriptions.get(subscription, { account_id })).id, subscription);
    await refused(queues.subscriptions.get("none", { account_id }), NotFoundError, 10007, /no event subscription none/);
  },
  async "subscriptions.update"() {
    const one = await queues.subscriptions.update(subscription, { account_id, enabled: false, name: "off" });
    assert.deepEqual([one.name, one.enabled, one.events], ["off", false, ["message.dead_lettered"]]);
    assert(one.modified_at > one.created_at);
  },
  async "subscriptions.delete"() {
    assert.equal((await queues.subscriptions.delete(subscription, { account_id })).id, subscription);
    assert.equal((await all(queues.subscriptions.list({ account_id }))).length, 1);
  },
  async delete() {
    assert.equal((await queues.delete(id, { account_id })).success, true);
    await refused(queues.get(id, { account_id }), NotFoundError, 10104, /no queue/);
    assert.deepEqual((await all(queues.list({ account_id }))).filter((q) => q.queue_name === "jobs"), []);
  },
};

let id, dead, consumer, ref, leases, subscription;
for (const [name, test] of Object.entries(tests)) {
  await test();
  console.log(name);
}
