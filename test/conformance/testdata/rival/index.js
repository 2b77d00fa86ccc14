export default {
  async queue(batch) {
    const message = (m) => ({ id: m.id, timestamp: m.timestamp.getTime(), attempts: m.attempts, body: m.body });
    console.log(JSON.stringify({ queue: batch.queue, version: "rival", messages: batch.messages.map(message) }));
  },
};
