const version = "one";

export default {
  async fetch(request, env) {
    await env.JOBS.send({ n: await request.json(), sender: version });
    return Response.json(version);
  },
};
