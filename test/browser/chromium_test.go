package browser

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// program is a Chromium with what it needs.
type program struct {
	path string
	env  []string
}

// errNoChromium is that there is none on this machine.
var errNoChromium = errors.New("there is no Chromium; `make deps` brings one on Linux x64, elsewhere name one with RUNLOT_CHROMIUM")

// find looks for a Chromium: the one that RUNLOT_CHROMIUM names, one on the PATH, or the one of the npm packages.
func find() (program, error) {
	if path := os.Getenv("RUNLOT_CHROMIUM"); path != "" {
		return program{path: path}, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return program{path: path}, nil
		}
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return program{}, errNoChromium
	}
	modules, err := filepath.Abs("../../node_modules")
	if err != nil {
		return program{}, err
	}
	// A link leads to a place that others use too, and the fonts are named by their place.
	if modules, err = filepath.EvalSymlinks(modules); err != nil {
		return program{}, errNoChromium
	}
	packed := filepath.Join(modules, "@sparticuz", "chromium")
	text, err := os.ReadFile(filepath.Join(packed, "package.json"))
	if err != nil {
		return program{}, errNoChromium
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return program{}, err
	}
	for _, cache := range []string{filepath.Join(modules, ".cache"), os.TempDir()} {
		dir := filepath.Join(cache, "runlot-chromium-"+about.Version)
		if err = unpack(filepath.Join(packed, "bin"), dir); err == nil {
			return program{filepath.Join(dir, "chromium"), []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "lib"), "FONTCONFIG_FILE=" + filepath.Join(dir, "fonts.conf")}}, nil
		}
	}
	return program{}, err
}

// fonts gives every machine the same fonts.
const fonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>%[1]s/fonts</dir><dir>/usr/share/fonts</dir>
<cachedir>%[1]s/font-cache</cachedir><alias binding="strong"><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
<alias binding="strong"><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias></fontconfig>`

// unpack makes a folder with a Chromium, once: what is there is whole.
func unpack(packed, dir string) error {
	whole := func() bool {
		_, err := os.Stat(filepath.Join(dir, "chromium"))
		return err == nil
	}
	if whole() {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "unpacking-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	// Node is there wherever its packages are, and knows Brotli.
	inflate := func(name string) ([]byte, error) {
		code := `process.stdout.write(require("node:zlib").brotliDecompressSync(require("node:fs").readFileSync(process.argv[1])))`
		return exec.Command("node", "-e", code, filepath.Join(packed, name)).Output()
	}
	chromium, err := inflate("chromium.br")
	if err == nil {
		err = os.WriteFile(filepath.Join(fresh, "chromium"), chromium, 0o755)
	}
	for _, name := range []string{"al2023.tar.br", "fonts.tar.br"} {
		if err != nil {
			return err
		}
		var files []byte
		if files, err = inflate(name); err == nil {
			err = untar(files, fresh)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(fresh, "fonts.conf"), fmt.Appendf(nil, fonts, dir), 0o644)
	}
	if err == nil {
		err = os.Chmod(fresh, 0o755)
	}
	// What is there without a Chromium is of no use.
	if err == nil && !whole() {
		err = errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir))
	}
	if err != nil && whole() {
		return nil // somebody else was faster
	}
	return err
}

func untar(text []byte, dir string) error {
	archive := tar.NewReader(bytes.NewReader(text))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.Clean("/"+header.Name))
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o755))
			}
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, path)
		}
		if err != nil {
			return err
		}
	}
}

// browser is the one Chromium of the package.
var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func stopBrowser() {
	if browser.stop != nil {
		browser.stop()
	}
}

func startBrowser() {
	p, err := find()
	if err != nil {
		browser.err = err
		return
	}
	data, err := os.MkdirTemp("", "runlot-browser-")
	if err != nil {
		browser.err = err
		return
	}
	allocated, stopAllocator := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(p.path), chromedp.Env(append([]string{"LC_ALL=en_US.UTF-8"}, p.env...)...), chromedp.UserDataDir(data), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("no-default-browser-check", true), chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("lang", "en"), chromedp.Flag("hide-scrollbars", true),
	)
	ctx, stopContext := chromedp.NewContext(allocated)
	browser.ctx = ctx //nolint:fatcontext // it is the browser's, for all tests
	browser.stop = func() {
		stopContext()
		stopAllocator()
		_ = os.RemoveAll(data)
	}
	browser.err = chromedp.Do(ctx, chromedp.Navigate("about:blank"))
}

// tab is a view of the page, with what its console said.
type tab struct {
	t   *testing.T
	ctx context.Context
	w   *world

	mu   sync.Mutex
	said []string
	// quiet says that the browser is expected to report answers that are errors.
	quiet bool
}

// expectErrors has the console say that a request was refused without failing the test.
func (b *tab) expectErrors() { b.quiet = true }

// open opens a tab with cookies of its own, or skips the test where there is no browser.
func (w *world) open() *tab {
	w.t.Helper()
	browser.once.Do(startBrowser)
	if err := browser.err; err != nil {
		if errors.Is(err, errNoChromium) && os.Getenv("CI") == "" {
			w.t.Skip(err)
		}
		w.t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	tab := &tab{t: w.t, ctx: ctx, w: w}
	// The first call opens the tab, which would end with a context of its own.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900)); err != nil {
		cancel()
		w.t.Fatal(err)
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for message, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			tab.mu.Lock()
			tab.said = append(tab.said, fmt.Sprint(message))
			tab.mu.Unlock()
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-listening
		tab.mu.Lock()
		defer tab.mu.Unlock()
		for _, line := range tab.said {
			// Somebody who types fast enough has the focus before the page gives it.
			if strings.Contains(line, "Autofocus processing was blocked") || tab.quiet && (strings.Contains(line, "the server responded with a status of 4") || strings.Contains(line, "net::ERR")) {
				continue
			}
			w.t.Errorf("the console said: %s", line)
		}
	})
	return tab
}

func (b *tab) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, waitTime)
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.dump())
	}
}

func (b *tab) dump() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText.slice(0, 1500)`))
	return text
}

// eval evaluates an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", expression, err, b.dump())
	}
	return value
}

// until waits for an expression to be true.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	for {
		// While a page is being loaded there is nothing to evaluate in.
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")")); err == nil && ok {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			b.t.Fatalf("waited for %s\n%s", expression, b.dump())
		}
	}
}

// visit opens a path of the page.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.w.url + path))
}

// signIn signs in with a token and waits for what the sign-in leads to.
func (b *tab) signIn(token, path string) {
	b.t.Helper()
	b.visit(path)
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("form .primary")))
	b.until(`document.querySelector("header.top") !== null && location.pathname + location.search === ` + quoted(path))
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// text is what an element says, with single spaces.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return strings.Join(strings.Fields(eval[string](b, "document.querySelector("+quoted(selector)+").innerText")), " ")
}
