import type { Image } from "./resize";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** The largest image that is read, in pixels: its four bytes a pixel are in memory twice. */
const MOST_PIXELS = 16_000_000;
/** How many values a pixel has, by the colour type of the PNG. */
const CHANNELS: Record<number, number> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

/** Reads a PNG of any kind that is not interlaced. */
export async function decode(file: Uint8Array): Promise<Image> {
	if (SIGNATURE.some((byte, i) => file[i] !== byte)) throw new TypeError("this is no PNG");
	const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
	const parts: Uint8Array[] = [];
	let [width, height, depth, type] = [0, 0, 0, 0];
	let palette = new Uint8Array();
	let transparency = new Uint8Array();
	for (let at = 8; at + 12 <= file.length; ) {
		const length = view.getUint32(at);
		const name = String.fromCharCode(...file.subarray(at + 4, at + 8));
		const body = file.slice(at + 8, at + 8 + length);
		if (name === "IHDR") {
			[width, height, depth, type] = [view.getUint32(at + 8), view.getUint32(at + 12), body[8], body[9]];
			if (body[12] !== 0 || !(type in CHANNELS)) throw new TypeError("this kind of PNG is not read");
			if (width * height > MOST_PIXELS) throw new RangeError(`an image of ${width} × ${height} pixels is too large`);
		}
		if (name === "PLTE") palette = body;
		if (name === "tRNS") transparency = body;
		if (name === "IDAT") parts.push(body);
		at += 12 + length;
	}
	const channels = CHANNELS[type];
	const stride = Math.ceil((width * channels * depth) / 8);
	const rows = unfilter(await pipe(parts, new DecompressionStream("deflate")), stride, height, Math.ceil((channels * depth) / 8));
	const pixels = new Uint8Array(width * height * 4);
	// A value of a row. Of 16 bits the upper 8 are enough; fewer than 8 share a byte.
	const value = (row: number, i: number): number => {
		if (depth === 8) return rows[row + i];
		if (depth === 16) return rows[row + i * 2];
		return (rows[row + ((i * depth) >> 3)] >> (8 - depth - ((i * depth) & 7))) & (2 ** depth - 1);
	};
	const gray = depth < 8 ? 255 / (2 ** depth - 1) : 1;
	for (let y = 0; y < height; y++) {
		for (let x = 0; x < width; x++) {
			const to = (y * width + x) * 4;
			const [first, row] = [x * channels, y * stride];
			if (type === 3) {
				const entry = value(row, first);
				pixels.set(palette.subarray(entry * 3, entry * 3 + 3), to);
				pixels[to + 3] = transparency[entry] ?? 255;
			} else {
				for (let i = 0; i < 3; i++) pixels[to + i] = value(row, channels < 3 ? first : first + i) * gray;
				pixels[to + 3] = channels % 2 === 0 ? value(row, first + channels - 1) : 255;
			}
		}
	}
	return { width, height, pixels };
}

/** Undoes what the filter of each row did: a byte is stored as its difference to its neighbours, a pixel away. */
function unfilter(data: Uint8Array, stride: number, height: number, pixel: number): Uint8Array {
	if (data.length < (stride + 1) * height) throw new TypeError("this PNG ends too early");
	const rows = new Uint8Array(stride * height);
	for (let y = 0; y < height; y++) {
		const filter = data[y * (stride + 1)];
		for (let x = 0; x < stride; x++) {
			const left = x >= pixel ? rows[y * stride + x - pixel] : 0;
			const up = y > 0 ? rows[(y - 1) * stride + x] : 0;
			const corner = x >= pixel && y > 0 ? rows[(y - 1) * stride + x - pixel] : 0;
			rows[y * stride + x] = data[y * (stride + 1) + 1 + x] + guess(filter, left, up, corner);
		}
	}
	return rows;
}

/** What a filter expects of a value, by what is left of it, above it, and left of that. */
function guess(filter: number, left: number, up: number, corner: number): number {
	switch (filter) {
		case 0:
			return 0;
		case 1:
			return left;
		case 2:
			return up;
		case 3:
			return (left + up) >> 1;
		case 4: {
			// The neighbour that is closest to left + up - corner.
			const a = Math.abs(up - corner);
			const b = Math.abs(left - corner);
			const c = Math.abs(left + up - 2 * corner);
			if (a <= b && a <= c) return left;
			return b <= c ? up : corner;
		}
		default:
			throw new TypeError("this PNG has an unknown filter");
	}
}

/** Writes a PNG of four channels, its rows unfiltered. */
export async function encode({ width, height, pixels }: Image): Promise<Uint8Array> {
	const rows = new Uint8Array((width * 4 + 1) * height);
	for (let y = 0; y < height; y++) rows.set(pixels.subarray(y * width * 4, (y + 1) * width * 4), y * (width * 4 + 1) + 1);
	const header = new Uint8Array(13);
	const view = new DataView(header.buffer);
	view.setUint32(0, width);
	view.setUint32(4, height);
	header.set([8, 6], 8);
	const parts = [
		new Uint8Array(SIGNATURE),
		chunk("IHDR", header),
		chunk("IDAT", await pipe([rows], new CompressionStream("deflate"))),
		chunk("IEND", new Uint8Array()),
	];
	return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function chunk(name: string, body: Uint8Array): Uint8Array {
	const out = new Uint8Array(12 + body.length);
	const view = new DataView(out.buffer);
	view.setUint32(0, body.length);
	out.set(new TextEncoder().encode(name), 4);
	out.set(body, 8);
	view.setUint32(8 + body.length, checksum(out.subarray(4, 8 + body.length)));
	return out;
}

/** The CRC-32 of a chunk. */
function checksum(bytes: Uint8Array): number {
	let sum = 0xffffffff;
	for (const byte of bytes) {
		sum ^= byte;
		for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
	}
	return (sum ^ 0xffffffff) >>> 0;
}

async function pipe(parts: Uint8Array[], through: CompressionStream | DecompressionStream): Promise<Uint8Array> {
	const stream = new Blob(parts).stream().pipeThrough(through);
	return new Uint8Array(await new Response(stream).arrayBuffer());
}
