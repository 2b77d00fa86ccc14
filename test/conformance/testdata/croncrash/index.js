// The first run uses all the memory of its process; the gate remembers that there was one.
export default {
  async scheduled(controller, env) {
    const calls = await (await fetch(`${env.GATE}/count/cron-crash`)).text();
    if (calls === "1") {
      const all = [];
      for (;;) all.push(new Array(3e7).fill(all.length));
    }
  },
};
