// What stands around the user's code in its isolate: the console shows values as a person reads them, and a rejected
// promise that nobody awaits is said.
import { formatWithOptions } from "node-internal:internal_inspect";

// The longest text of one line of the log, in characters.
const MAX_LINE = 1 << 16;

function format(values) {
  let text;
  try {
    text = formatWithOptions({}, ...values);
  } catch (error) {
    text = `[a value that cannot be shown: ${error}]`;
  }
  return text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)}… ${text.length - MAX_LINE} more characters` : text;
}

// The trace keeps values as JSON, which knows neither undefined nor a Map nor what an Error says.
for (const method of ["debug", "error", "info", "log", "warn"]) {
  const native = console[method];
  console[method] = { [method]: (...values) => native.call(console, format(values)) }[method];
}

const { warn } = console;
addEventListener("unhandledrejection", ({ reason }) => {
  warn("unhandled promise rejection (a missing await?): %s", format([reason]));
});
