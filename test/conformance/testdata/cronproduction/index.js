export default {
  async fetch(request) {
    return new Response("the app sees " + new URL(request.url).pathname);
  },
  async scheduled() {},
};
