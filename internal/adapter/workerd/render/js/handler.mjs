// Marks each call of a queue handler in its trace with the first message, by which the host finds the delivery.
import "runlot-internal:setup";
import { default as diagnosticsChannel } from "node-internal:diagnostics_channel";

export function announce(batch) {
  const first = batch?.messages?.[0];
  if (first) diagnosticsChannel.publishToTracer("runlot:delivery", `${first.id} ${first.attempts}`);
}

// tell puts what a handler throws into its trace, where the runtime has it only when it waits for waitUntil.
function tell(error) {
  const frames = /(\n {4}at [^]*)?$/.exec(String(error?.stack ?? ""))[0].slice(1);
  const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
  diagnosticsChannel.publishToTracer("runlot:exception", { timestamp: Date.now(), name: String(name), message: String(message), stack: frames });
}

async function told(result) {
  try {
    return await result;
  } catch (error) {
    tell(error);
    throw error;
  }
}

// replace puts another function in the place of a handler of a default export, so that identity, private fields and every
// other handler stay as they are. What cannot be changed in place is copied when a copy behaves alike.
export function replace(entry, kind, wrap) {
  const owner = typeof entry === "function" ? entry.prototype : entry;
  const handler = owner?.[kind];
  if (typeof handler !== "function") return entry;
  const value = Object.defineProperty(wrap(handler), "name", { value: kind });
  const property = { value, writable: true, configurable: true, enumerable: true };
  if (Reflect.defineProperty(owner, kind, property)) return entry;
  const prototype = Object.getPrototypeOf(owner);
  if (owner === entry && (prototype === Object.prototype || prototype === null)) {
    return Object.create(prototype, { ...Object.getOwnPropertyDescriptors(owner), [kind]: property });
  }
  return entry;
}

// mark puts the announcement in front of the queue handler. With tells, it also tells what the handler throws.
export function mark(entry, tells) {
  if (entry === undefined) throw new TypeError("the app consumes a queue, but its main module has no default export");
  return replace(
    entry,
    "queue",
    (handler) =>
      function (...args) {
        announce(args[0]);
        if (!tells) return Reflect.apply(handler, this, args);
        return told((async () => Reflect.apply(handler, this, args))());
      },
  );
}

// tellsOf makes a queue listener tell what it throws.
function tellsOf(listener) {
  return function queue(event) {
    try {
      return typeof listener === "function" ? Reflect.apply(listener, this, [event]) : listener.handleEvent(event);
    } catch (error) {
      tell(error);
      throw error;
    }
  };
}

// The wrapped binding of a worker in service-worker syntax, which calls it before anything else: its listener has to be the
// first, since one that throws ends the event. With tells, the listeners that follow also tell what they throw.
export default ({ tells }) =>
  function announceEvents() {
    const add = globalThis.addEventListener;
    add("queue", announce);
    if (!tells) return;
    globalThis.addEventListener = function addEventListener(type, listener, ...rest) {
      return add(type, type === "queue" && listener ? tellsOf(listener) : listener, ...rest);
    };
  };
