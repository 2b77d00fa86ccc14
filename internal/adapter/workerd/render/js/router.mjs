// The router: the host's way to the worker's queue and scheduled handlers, so that the events are native ones.

const BYTES = 2;
const V8 = 3;

const fromBase64 = Uint8Array.fromBase64
  ? (text) => Uint8Array.fromBase64(text)
  : (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

// A message of the envelope is [id, milliseconds, attempts, kind, body].
function message([id, timestamp, attempts, kind, body]) {
  switch (kind) {
    case BYTES:
      return { id, timestamp, attempts, body: fromBase64(body) };
    case V8:
      return { id, timestamp, attempts, serializedBody: fromBase64(body) };
    default:
      return { id, timestamp, attempts, body };
  }
}

async function deliver(request, env) {
  let envelope;
  try {
    envelope = await request.json();
  } catch {
    return new Response(null, { status: 422 });
  }
  const { queue, metrics } = envelope;
  const metadata = { metrics };
  const messages = envelope.messages.map(message);
  let result = await env.WORKER.queue(queue, messages, metadata);
  if (result.outcome !== "ok" && messages.some((m) => m.serializedBody)) {
    // One body that cannot be deserialized fails the whole batch before the handler runs. Find it, and deliver the rest.
    const undecodable = [];
    const rest = [];
    for (const m of messages) {
      const bad = m.serializedBody && (await env.CHECK.queue(queue, [m])).outcome !== "ok";
      (bad ? undecodable : rest).push(bad ? m.id : m);
    }
    if (undecodable.length > 0) {
      if (rest.length > 0) {
        result = await env.WORKER.queue(queue, rest, metadata);
      }
      result.undecodable = undecodable;
    }
  }
  return Response.json(result);
}

// check takes one message and reads its body: its outcome tells whether the body can be deserialized.
export const check = {
  queue(batch) {
    return void batch.messages[0].body;
  },
};

export default {
  async fetch(request, env) {
    try {
      switch (new URL(request.url).pathname) {
        case "/queue":
          return await deliver(request, env);
        case "/scheduled":
          return Response.json(await env.WORKER.scheduled(await request.json()));
        case "/watch":
        case "/unwatch":
          return await env.TAIL.fetch(request);
        default:
          return new Response();
      }
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  },
};
