// Runs the project of a wrangler.jsonc (plain JSON) in Miniflare until it is told to end: node miniflare.mjs FOLDER. What the Worker
// logs goes to standard output; where it listens is written to file descriptor 3, as workerd's --control-fd does.
import { readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Log, LogLevel, Miniflare } from "miniflare";

const folder = process.argv[2];
const config = JSON.parse(readFileSync(join(folder, "wrangler.jsonc"), "utf8"));
const scriptPath = join(folder, config.main);
const { producers = [], consumers = [] } = config.queues ?? {};

const miniflare = new Miniflare({
  host: "127.0.0.1",
  port: 0,
  cf: false,
  log: new Log(LogLevel.NONE),
  handleRuntimeStdio(out, err) {
    out.pipe(process.stdout);
    err.pipe(process.stderr);
  },
  name: config.name,
  rootPath: folder,
  scriptPath,
  // A service worker has neither imports nor exports.
  modules: /^(import|export)\b/m.test(readFileSync(scriptPath, "utf8")),
  modulesRules: [{ type: "ESModule", include: ["**/*.js"] }],
  compatibilityDate: config.compatibility_date,
  bindings: config.vars,
  queueProducers: Object.fromEntries(
    producers.map((p) => [p.binding, { queueName: p.queue, deliveryDelay: p.delivery_delay }]),
  ),
  queueConsumers: Object.fromEntries(
    consumers.map((c) => [
      c.queue,
      {
        maxBatchSize: c.max_batch_size,
        maxBatchTimeout: c.max_batch_timeout,
        maxRetries: c.max_retries,
        deadLetterQueue: c.dead_letter_queue,
        retryDelay: c.retry_delay,
      },
    ]),
  ),
});

process.once("SIGTERM", async () => {
  await miniflare.dispose();
  process.exit(0);
});

const { port } = await miniflare.ready;
writeSync(3, JSON.stringify({ event: "listen", socket: "http", port: Number(port) }) + "\n");
