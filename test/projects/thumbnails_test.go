//go:build linux

package projects_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"path/filepath"
	"testing"
)

// picture makes an image of two halves, in one of the forms that a PNG may have; which of the two is left tells images apart.
func picture(i, width, height int) (img image.Image, left, right color.NRGBA) {
	left, right = color.NRGBA{R: uint8(10 * i), G: 200, B: 40, A: 255}, color.NRGBA{R: 30, G: 60, B: uint8(255 - 10*i), A: 255}
	halves := []image.Rectangle{image.Rect(0, 0, width/2, height), image.Rect(width/2, 0, width, height)}
	bounds := image.Rect(0, 0, width, height)
	var canvas draw.Image
	switch i % 4 {
	case 0: // no transparency: three values a pixel
		canvas = image.NewRGBA(bounds)
	case 1: // four values a pixel
		canvas, right.A = image.NewNRGBA(bounds), 128
	case 2: // a palette
		canvas = image.NewPaletted(bounds, color.Palette{color.NRGBA{A: 255}, left, right})
	default: // gray
		left, right = color.NRGBA{R: 90, G: 90, B: 90, A: 255}, color.NRGBA{R: uint8(10 * i), G: uint8(10 * i), B: uint8(10 * i), A: 255}
		canvas = image.NewGray(bounds)
	}
	for h, c := range []color.NRGBA{left, right} {
		draw.Draw(canvas, halves[h], image.NewUniform(c), image.Point{}, draw.Src)
	}
	return canvas, left, right
}

// alike reports whether two colours are about the same.
func alike(a, b color.NRGBA) bool {
	near := func(x, y uint8) bool { return max(x, y)-min(x, y) <= 3 }
	return near(a.R, b.R) && near(a.G, b.G) && near(a.B, b.B) && near(a.A, b.A)
}

// at is a colour of an image, halfway down.
func at(img image.Image, x int) color.NRGBA {
	c, _ := color.NRGBAModel.Convert(img.At(x, img.Bounds().Dy()/2)).(color.NRGBA)
	return c
}

// thumbnails: each image that was uploaded gets its thumbnail, though celld is killed in the middle, and loses it with the
// image; what is no image ends as a dead letter.
func thumbnails(t *testing.T, n *node) {
	const app, pictures, width, height = "image-thumbnails", 20, 300, 200
	dir := n.project(app)
	edit(t, filepath.Join(dir, "wrangler.jsonc"), `"max_retries": 3`, `"max_retries": 1`)
	n.wrangler(dir, "", "queues", "create", "image-changes")
	n.wrangler(dir, "", "deploy")
	n.runlot("r2", "notification", "create", "images", "--state", n.data, "--queue", "image-changes",
		"--event-type", "object-create,object-delete", "--prefix", "originals/")

	becomes := func(status int, path string) (body []byte) {
		t.Helper()
		n.await(path, func() (string, bool) {
			got, answer, err := n.ask(app, "GET", path, nil)
			body = answer
			return fmt.Sprint(got, err), err == nil && got == status
		})
		return body
	}
	name := func(i int) string { return fmt.Sprintf("/holiday %d.png", i) }
	escaped := func(i int) string { return fmt.Sprintf("/holiday%%20%d.png", i) }
	for i := range pictures {
		img, _, _ := picture(i, width, height)
		var file bytes.Buffer
		if err := png.Encode(&file, img); err != nil {
			t.Fatal(err)
		}
		n.want(http.StatusNoContent, app, "PUT", escaped(i), file.Bytes(), "Content-Type", "image/png")
	}
	n.want(http.StatusNoContent, app, "PUT", "/notes.png", []byte("this is no image"))
	becomes(http.StatusOK, "/thumbnails"+escaped(0))
	n.want(http.StatusNoContent, app, "DELETE", escaped(pictures-1), nil)
	n.kill()
	n.start()

	n.settled("image-changes", "image-changes-dead", "notes.png")
	for i := range pictures - 1 {
		_, left, right := picture(i, width, height)
		small, err := png.Decode(bytes.NewReader(becomes(http.StatusOK, "/thumbnails"+escaped(i))))
		if err != nil {
			t.Errorf("%s: %v", name(i), err)
			continue
		}
		if small.Bounds() != image.Rect(0, 0, 64, 43) || !alike(at(small, 5), left) || !alike(at(small, 60), right) {
			t.Errorf("%s: %v, %v and %v, want %v and %v", name(i), small.Bounds(), at(small, 5), at(small, 60), left, right)
		}
	}
	becomes(http.StatusNotFound, "/thumbnails"+escaped(pictures-1))
	n.want(http.StatusNotFound, app, "GET", "/thumbnails/notes.png", nil)
	// A thumbnail raises no event, else there would be thumbnails of thumbnails.
	n.want(http.StatusNotFound, app, "GET", "/thumbnails/thumbnails"+escaped(0), nil)

	n.want(http.StatusNoContent, app, "DELETE", escaped(0), nil)
	becomes(http.StatusNotFound, "/thumbnails"+escaped(0))
}
