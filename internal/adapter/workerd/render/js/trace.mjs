// What the code that runs belongs to: set around its handler while traces are kept, and sent along by its producers.
import { default as asyncHooks } from "node-internal:async_hooks";
import { replace } from "runlot-internal:handler";

const invocation = new asyncHooks.AsyncLocalStorage();
const { stringify } = JSON;
const encoder = new TextEncoder();

// The longest that is sent along, in characters.
const MOST = 999;

// What a handler call says of itself. The host knows its span by that.
const said = {
  fetch: ([request]) => request?.headers?.get("traceparent"),
  queue: ([batch]) => batch?.messages?.[0] && `${batch.messages[0].id} ${batch.messages[0].attempts}`,
  scheduled: ([controller]) => `cron ${controller?.cron} ${controller?.scheduledTime}`,
};

// follow lets the handlers of a default export know what they belong to.
export function follow(entry) {
  for (const kind of Object.keys(said)) {
    entry = replace(
      entry,
      kind,
      (handler) =>
        function (...args) {
          return invocation.run(said[kind](args) ?? "", () => Reflect.apply(handler, this, args));
        },
    );
  }
  return entry;
}

// payload is what the native binding would send; nothing when only the native binding can tell.
function payload(type, body) {
  switch (type) {
    case "json": {
      const text = stringify(body);
      return typeof text === "string" ? encoder.encode(text) : undefined;
    }
    case "text":
      return typeof body === "string" && body.isWellFormed() ? encoder.encode(body) : undefined;
    case "bytes":
      if (body instanceof ArrayBuffer) return new Uint8Array(body);
      return ArrayBuffer.isView(body) ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : undefined;
  }
}

// framed puts a head in front of a message, which the host takes off again: the native binding has no other room for it.
function framed(env, body, options) {
  const context = invocation.getStore();
  const type = options?.contentType ?? env.format;
  let bytes;
  try {
    bytes = payload(type, body);
  } catch {
    // The native binding fails as well, in its own words.
  }
  if (!bytes || !context || context.length > MOST) return;
  const head = encoder.encode(`${env.trace}${type[0]}${String(context.length).padStart(3, "0")}${context}`);
  const message = new Uint8Array(head.length + bytes.length);
  message.set(head);
  message.set(bytes, head.length);
  return { body: message, contentType: "bytes", delaySeconds: options?.delaySeconds };
}

// send and batch are the arguments of the native calls for code that is traced.
export function send(env, [body, options, ...rest]) {
  const message = framed(env, body, options);
  if (!message) return [body, options, ...rest];
  return [message.body, { contentType: message.contentType, delaySeconds: message.delaySeconds }, ...rest];
}

export function batch(env, [messages, ...rest]) {
  if (!invocation.getStore() || typeof messages?.[Symbol.iterator] !== "function") return [messages, ...rest];
  return [Array.from(messages, (m) => framed(env, m?.body, m) ?? m), ...rest];
}
