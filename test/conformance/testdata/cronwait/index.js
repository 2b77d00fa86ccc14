// Returns at once, and leaves work behind.
export default {
  async scheduled(controller, env, ctx) {
    const { cron, scheduledTime } = controller;
    ctx.waitUntil(
      fetch(`${env.GATE}/wait/cron-later`).then(() => console.log(JSON.stringify({ cron, scheduledTime, type: "later" }))),
    );
  },
};
