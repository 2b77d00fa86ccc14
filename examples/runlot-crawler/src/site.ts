const PAGES: Record<string, string[]> = {
  "/site/": ["/site/queues", "/site/workers", "/site/broken"],
  "/site/queues": ["/site/", "/site/retries", "/site/dead-letters"],
  "/site/workers": ["/site/", "/site/queues"],
  "/site/retries": ["/site/queues"],
  "/site/dead-letters": ["/site/queues", "/site/retries"],
};

/** A site of five pages and one that always fails, so that there is something to crawl without a network. */
export function site(url: URL): Response {
  const links = PAGES[url.pathname];
  if (!links) return new Response("this page is broken on purpose\n", { status: 500 });
  const title = url.pathname.slice("/site/".length) || "start";
  const list = links.map((href) => `<li><a href="${href}">${href}</a></li>`).join("\n");
  return new Response(`<!doctype html><title>${title}</title><h1>${title}</h1><ul>\n${list}\n</ul>\n`, {
    headers: { "content-type": "text/html; charset=utf-8" },
  });
}
