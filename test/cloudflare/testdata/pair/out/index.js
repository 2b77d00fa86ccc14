export default {
  async fetch(request, env) {
    await env.JOBS.send(new URL(request.url).searchParams.get("job"));
    return new Response("sent");
  },
};
