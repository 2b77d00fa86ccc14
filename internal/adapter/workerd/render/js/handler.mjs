// Marks each call of a queue handler in its trace with the first message, by which the host finds the delivery.
import "runlot-internal:setup";
import { default as diagnosticsChannel } from "node-internal:diagnostics_channel";

export function announce(batch) {
  const first = batch?.messages?.[0];
  if (first) diagnosticsChannel.publishToTracer("runlot:delivery", `${first.id} ${first.attempts}`);
}

// mark puts the announcement in front of the queue handler of a default export, in place, so that identity, private
// fields and every other handler stay as they are. What cannot be changed in place is copied when a copy behaves alike.
export function mark(entry) {
  if (entry === undefined) throw new TypeError("the app consumes a queue, but its main module has no default export");
  const owner = typeof entry === "function" ? entry.prototype : entry;
  const handler = owner?.queue;
  if (typeof handler !== "function") return entry;
  const property = {
    value: function queue(...args) {
      announce(args[0]);
      return Reflect.apply(handler, this, args);
    },
    writable: true,
    configurable: true,
    enumerable: true,
  };
  if (Reflect.defineProperty(owner, "queue", property)) return entry;
  const prototype = Object.getPrototypeOf(owner);
  if (owner === entry && (prototype === Object.prototype || prototype === null)) {
    return Object.create(prototype, { ...Object.getOwnPropertyDescriptors(owner), queue: property });
  }
  return entry;
}

// The wrapped binding through which a worker in service-worker syntax reaches announce.
export default () => announce;
