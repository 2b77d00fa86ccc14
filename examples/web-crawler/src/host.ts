import { DurableObject } from "cloudflare:workers";

import type { Env } from "./index";

/** What a page may do now: be fetched after a wait in milliseconds, or nothing, since it was fetched before. */
export type Turn = { done: true } | { done: false; wait: number };

/**
 * One host: which of its pages are queued or fetched, and when it may be asked next. There is one object for each host,
 * so that all consumers see the same set and wait for each other.
 */
export class Host extends DurableObject<Env> {
	constructor(ctx: DurableObjectState, env: Env) {
		super(ctx, env);
		ctx.storage.sql.exec(`
			CREATE TABLE IF NOT EXISTS seen (url TEXT PRIMARY KEY, done INTEGER NOT NULL DEFAULT 0);
			CREATE TABLE IF NOT EXISTS turns (url TEXT PRIMARY KEY, at INTEGER NOT NULL);
			CREATE TABLE IF NOT EXISTS next (id INTEGER PRIMARY KEY CHECK (id = 0), at INTEGER NOT NULL);
		`);
	}

	/** Gives a page the next free turn, or tells it again of the one that it has. A turn is used up when it has come. */
	turn(url: string, soon: number): Turn {
		const { sql } = this.ctx.storage;
		if (sql.exec("SELECT 1 FROM seen WHERE url = ? AND done = 1", url).toArray().length > 0) return { done: true };
		const now = Date.now();
		let at = sql.exec<{ at: number }>("SELECT at FROM turns WHERE url = ?", url).toArray()[0]?.at;
		if (at === undefined) {
			at = Math.max(now, sql.exec<{ at: number }>("SELECT at FROM next").toArray()[0]?.at ?? 0);
			sql.exec("INSERT OR REPLACE INTO next (id, at) VALUES (0, ?)", at + Number(this.env.CRAWL_DELAY_MS));
		}
		const wait = Math.max(0, at - now);
		if (wait <= soon) sql.exec("DELETE FROM turns WHERE url = ?", url);
		else sql.exec("INSERT OR REPLACE INTO turns (url, at) VALUES (?, ?)", url, at);
		return { done: false, wait };
	}

	/** Returns those of the pages that nobody has queued yet. */
	unseen(urls: string[]): string[] {
		return urls.filter((url) => this.ctx.storage.sql.exec("SELECT 1 FROM seen WHERE url = ?", url).toArray().length === 0);
	}

	/** Remembers pages that are queued. Call it after the send: what a crash forgets is sent twice, and nothing is lost. */
	queued(urls: string[]): void {
		for (const url of urls) this.ctx.storage.sql.exec("INSERT OR IGNORE INTO seen (url) VALUES (?)", url);
	}

	/** Remembers that a page is fetched and stored. */
	done(url: string): void {
		this.ctx.storage.sql.exec("INSERT OR REPLACE INTO seen (url, done) VALUES (?, 1)", url);
	}
}
