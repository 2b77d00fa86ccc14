// The same doors as the plan fixture, in TypeScript and the runlot dialect.
interface Env {
  GATE: string;
  [binding: string]: any;
}

interface Body {
  n: string;
  do?: string[];
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const answers: unknown[] = [];
    for (const [binding, method, ...args] of (await request.json()) as any[]) {
      try {
        answers.push({ value: await env[binding][method](...args) });
      } catch (error: any) {
        answers.push({ error: { name: error.name, message: error.message, code: error.code } });
      }
    }
    return Response.json(answers);
  },

  async queue(batch: MessageBatch<Body>, env: Env): Promise<void> {
    console.log(
      JSON.stringify({
        queue: batch.queue,
        messages: batch.messages.map((m) => ({
          id: m.id,
          timestamp: m.timestamp.getTime(),
          attempts: m.attempts,
          body: m.body,
        })),
      }),
    );
    for (const message of batch.messages) {
      switch (message.body.do?.[message.attempts - 1]) {
        case "ack":
          message.ack();
          break;
        case "throw":
          throw new Error("on purpose");
        case "hang":
          await fetch(`${env.GATE}/wait/${message.body.n}`);
      }
    }
  },
};
