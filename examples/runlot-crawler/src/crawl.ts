import postgres from "postgres";

export interface Job {
  url: string;
  /** How many links further the crawl may go. */
  depth: number;
}

const MAX_PAGE_BYTES = 1 << 20;

/**
 * Fetches a page, and in one transaction stores it and enqueues the links that nobody has seen yet. Either both happen
 * or neither does, so a crash in between loses no link and visits no page twice. Returns the number of new links.
 */
export async function crawl(job: Job, database: Hyperdrive): Promise<number> {
  const response = await fetch(job.url, { headers: { "user-agent": "runlot-crawler" } });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const html = (await response.text()).slice(0, MAX_PAGE_BYTES);
  const title = /<title[^>]*>([^<]*)<\/title>/i.exec(html)?.[1]?.trim() ?? "";
  const links = job.depth > 0 ? sameSiteLinks(html, job.url) : [];

  return withDatabase(database, (sql) =>
    sql.begin(async (tx) => {
      await tx`insert into pages (url, title, bytes, crawled_at) values (${job.url}, ${title}, ${html.length}, now())
               on conflict (url) do update set title = excluded.title, bytes = excluded.bytes, crawled_at = excluded.crawled_at`;
      if (links.length === 0) return 0;
      const fresh = await tx`insert into pages ${tx(links.map((url) => ({ url })))} on conflict (url) do nothing returning url`;
      for (const { url } of fresh) {
        await tx`select runlot_queue.send('jobs', ${tx.json({ url, depth: job.depth - 1 })})`;
      }
      return fresh.length;
    }),
  );
}

/** The pages seen so far, newest first. */
export async function pages(database: Hyperdrive): Promise<unknown> {
  return withDatabase(database, (sql) => sql`select url, title, bytes, crawled_at from pages order by crawled_at desc nulls last limit 100`);
}

function sameSiteLinks(html: string, base: string): string[] {
  const links = new Set<string>();
  for (const [, href] of html.matchAll(/<a\s[^>]*href="([^"#]+)/gi)) {
    const url = URL.canParse(href, base) ? new URL(href, base) : null;
    if (url && url.origin === new URL(base).origin) links.add(url.href);
  }
  return [...links].slice(0, 50);
}

async function withDatabase<T>(database: Hyperdrive, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(database.connectionString, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    await sql`create table if not exists pages (url text primary key, title text, bytes int, crawled_at timestamptz)`;
    return await work(sql);
  } finally {
    await sql.end();
  }
}
