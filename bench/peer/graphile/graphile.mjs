// graphile-worker as its own performance page runs it fastest: jobs fetched in batches of 500 into a local queue and
// completed in batches, no-op tasks. "migrate" makes the schema. "work" says "ready", begins at the first line of its
// input, then prints the number of jobs done every 20 ms, and stops at the end of its input.
import { Logger, run, runMigrations } from "graphile-worker";

const [mode, connectionString] = process.argv.slice(2);
// Its lines at the start and the end of a run are not read by anybody; errors are.
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

if (mode === "migrate") {
  await runMigrations({ connectionString, logger });
  process.exit(0);
}

let done = 0;
const started = new Promise((resolve) => process.stdin.once("data", resolve));
const ended = new Promise((resolve) => process.stdin.once("end", resolve));
console.log("ready");
await started;
const runner = await run({
  noHandleSignals: true,
  logger,
  taskList: {
    noop() {
      done++;
    },
  },
  preset: {
    worker: {
      connectionString,
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
});
const ticker = setInterval(() => console.log(done), 20);
await ended;
clearInterval(ticker);
await runner.stop();
process.exit(0);
