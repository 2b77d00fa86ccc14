import { connect } from "cloudflare:sockets";

async function tried(call) {
  try {
    return await call();
  } catch (error) {
    return "refused: " + error.message;
  }
}

// Answers whether the Worker reaches the gate, a server on a private address, by HTTP and by TCP.
export default {
  async fetch(_, env) {
    const { host } = new URL(env.GATE);
    return Response.json({
      http: await tried(async () => "reached: " + (await fetch(`${env.GATE}/count/outbound`)).status),
      tcp: await tried(async () => {
        const socket = connect(host);
        await socket.opened;
        await socket.close();
        return "reached";
      }),
    });
  },
};
