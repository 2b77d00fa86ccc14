package tail

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

func TestAccept(t *testing.T) {
	if got := accept("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" { // of the standard
		t.Error(got)
	}
}

func TestFramesComeBack(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 65535, queue.TailFrame} {
		want := strings.Repeat("x", size)
		op, got, err := readFrame(bufio.NewReader(bytes.NewReader(frame(opText, []byte(want)))))
		if op != opText || string(got) != want || err != nil {
			t.Errorf("%d bytes: %d, %d bytes, %v", size, op, len(got), err)
		}
	}
	if op, got, err := readFrame(bufio.NewReader(strings.NewReader("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"))); op != opText || string(got) != "Hello" || err != nil {
		t.Errorf("a frame with a mask: %d %q %v", op, got, err)
	}
	long := closing(closeAway, strings.Repeat("y", 200))
	if op, got, err := readFrame(bufio.NewReader(bytes.NewReader(long))); op != opClose || len(got) != maxControl || err != nil {
		t.Errorf("a long reason: %d %q %v", op, got, err)
	}
	for text, want := range map[string]error{
		"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x01": errLarge, "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff": errLarge, "\x89\x7e\x00\x7e": errControl, "\x09\x00": errControl,
	} {
		if _, _, err := readFrame(bufio.NewReader(strings.NewReader(text))); err != want { //nolint:errorlint // these are never wrapped
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, seed := range []string{"", "\x81", "\x81\x7e\x00", "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "\x89\x00", "\x88\x02\x03\xe8"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, payload, err := readFrame(bufio.NewReader(bytes.NewReader(b))); err == nil && len(payload) > len(b) {
			t.Errorf("%d bytes came out of %d", len(payload), len(b))
		}
	})
}
