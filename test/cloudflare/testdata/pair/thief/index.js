export default { queue() {}, fetch: () => new Response("thief") };
