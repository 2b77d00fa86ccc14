// The tail: hands the logs and exceptions of each invocation to the host, and stays silent when there are none.

// One post stays under what the host reads: at most 4 bytes a character.
const MAX_CHARACTERS = 1 << 20;

// A log line is a list of parts: a text, or [text, stack] where an error was logged.
function parts({ message, errorInfo }) {
  const values = Array.isArray(message) ? message : [message];
  return values.map((value, i) => {
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
    const stack = errorInfo?.[i]?.stack;
    return stack ? [text, stack] : text;
  });
}

function describe(item) {
  const event = item.event ?? {};
  const mark = item.diagnosticsChannelEvents.find((e) => e.channel === "runlot:delivery");
  return {
    outcome: item.outcome,
    kind: "queue" in event ? "queue" : "cron" in event ? "scheduled" : "request" in event ? "fetch" : "",
    queue: event.queue,
    cron: event.cron,
    scheduledTime: event.scheduledTime === undefined ? undefined : Number(event.scheduledTime),
    mark: mark?.message,
    truncated: item.truncated,
    exceptions: item.exceptions.map(({ timestamp, name, message, stack }) => ({ timestamp, name, message, stack })),
    logs: item.logs.map((log) => ({ timestamp: log.timestamp, level: log.level, parts: parts(log) })),
  };
}

export default {
  async tail(items, env) {
    for (const item of items) {
      if (item.outcome === "ok" && item.logs.length === 0 && item.exceptions.length === 0) continue;
      const event = describe(item);
      if (event.kind === "fetch" && event.logs.length === 0 && event.exceptions.length === 0) continue;
      let body = JSON.stringify(event);
      if (body.length > MAX_CHARACTERS) {
        body = JSON.stringify({ ...event, logs: [], truncated: true });
      }
      await env.HOST.fetch("http://host/", { method: "POST", body });
    }
  },
};
