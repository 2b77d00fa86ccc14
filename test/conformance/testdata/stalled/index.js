// A request is a list of calls [method, argument].
export default {
  async fetch(request, env) {
    const answers = [];
    for (const [method, argument] of await request.json()) {
      try {
        answers.push({ value: await env.JOBS[method](argument) });
      } catch (error) {
        answers.push({ error: { name: error.name, message: error.message, code: error.code, isError: error instanceof Error } });
      }
    }
    return Response.json(answers);
  },
};
