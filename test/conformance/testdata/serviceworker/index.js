// Before 2024-03-18 a body without a content type is cloned, not turned into JSON.
addEventListener("fetch", (event) => {
  event.respondWith(
    JOBS.sendBatch([{ body: new Map([["a", 1]]) }, { body: new Date(0) }]).then(() => Response.json([])),
  );
});

addEventListener("queue", (event) => {
  const message = (m) => ({
    id: m.id,
    timestamp: m.timestamp.getTime(),
    attempts: m.attempts,
    body: { n: m.body.constructor.name },
  });
  console.log(JSON.stringify({ queue: event.queue, messages: event.messages.map(message) }));
  event.messages[0].retry({ delaySeconds: 3600 });
});
