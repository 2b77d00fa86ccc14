// Each cron comes every minute and does something else.
export default {
  async fetch(request) {
    return new Response("the app sees " + new URL(request.url).pathname);
  },

  async scheduled(controller, env, ctx) {
    const { cron, scheduledTime } = controller;
    console.log(
      JSON.stringify({
        cron,
        scheduledTime,
        type: typeof scheduledTime,
        env: env.GREETING,
        noRetry: typeof controller.noRetry,
        waitUntil: typeof ctx.waitUntil,
      }),
    );
    switch (cron) {
      case "*/1 * * * *": {
        const call = await (await fetch(`${env.GATE}/count/cron-retry-${scheduledTime}`)).text();
        if (call !== "3") throw new RangeError("call " + call);
        return;
      }
      case "0-59 * * * *":
        controller.noRetry();
        throw new Error("once is enough");
      case "* 0-23 * * *":
        return ctx.waitUntil(Promise.reject(new Error("rejected in waitUntil")));
    }
  },
};
