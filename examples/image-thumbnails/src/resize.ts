/** An image of four bytes a pixel: red, green, blue, and how opaque it is. */
export interface Image {
	width: number;
	height: number;
	pixels: Uint8Array;
}

/** Makes an image fit into a square: each pixel is the mean of those that it stands for. Smaller images stay as they are. */
export function fit(image: Image, size: number): Image {
	const scale = Math.min(1, size / Math.max(image.width, image.height));
	const width = Math.max(1, Math.round(image.width * scale));
	const height = Math.max(1, Math.round(image.height * scale));
	const pixels = new Uint8Array(width * height * 4);
	for (let y = 0; y < height; y++) {
		const [top, bottom] = span(y, height, image.height);
		for (let x = 0; x < width; x++) {
			const [left, right] = span(x, width, image.width);
			pixels.set(mean(image, left, right, top, bottom), (y * width + x) * 4);
		}
	}
	return { width, height, pixels };
}

/** The pixels from which one of fewer pixels is made. */
function span(at: number, few: number, many: number): [number, number] {
	const from = Math.floor((at * many) / few);
	return [from, Math.max(from + 1, Math.floor(((at + 1) * many) / few))];
}

/** The mean colour of a part of an image; what is transparent lends no colour. */
function mean(image: Image, left: number, right: number, top: number, bottom: number): number[] {
	let [red, green, blue, alpha] = [0, 0, 0, 0];
	for (let y = top; y < bottom; y++) {
		for (let x = left; x < right; x++) {
			const at = (y * image.width + x) * 4;
			const opaque = image.pixels[at + 3];
			red += image.pixels[at] * opaque;
			green += image.pixels[at + 1] * opaque;
			blue += image.pixels[at + 2] * opaque;
			alpha += opaque;
		}
	}
	if (alpha === 0) return [0, 0, 0, 0];
	return [red / alpha, green / alpha, blue / alpha, alpha / ((right - left) * (bottom - top))].map(Math.round);
}
