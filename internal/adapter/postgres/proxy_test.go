package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
)

// proxy stands between a store and PostgreSQL and breaks connections at chosen moments.
type proxy struct {
	dir      string
	server   string
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	// trigger is what a client's message has to contain for the fault to strike, once; struck is closed then.
	trigger []byte
	kind    breakage
	struck  chan struct{}
	refuse  bool
	frozen  chan struct{}
}

// breakage is how a connection breaks.
type breakage int

const (
	// lostRequest cuts the connection before the server sees the message.
	lostRequest breakage = iota + 1
	// lostReply lets the server answer, and cuts the connection instead of passing the answer on.
	lostReply
	// cutAtOnce passes the message on and cuts the client's side at once, while the server still works.
	cutAtOnce
)

// newProxy starts a proxy in front of d and returns it with d's owner URL through it.
func newProxy(t *testing.T, d *database) (*proxy, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "runlot-proxy-")
	clustertest.Must(t, err)
	u, err := url.Parse(d.access.OwnerURL())
	clustertest.Must(t, err)
	name := ".s.PGSQL." + strconv.Itoa(d.access.Port)
	p := &proxy{dir: dir, server: filepath.Join(d.access.SocketDir, name), conns: map[net.Conn]struct{}{}}
	p.listener, err = net.Listen("unix", filepath.Join(dir, name))
	clustertest.Must(t, err)
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.thaw()
		p.cutAll()
		p.work.Wait()
		_ = os.RemoveAll(dir)
	})
	query := u.Query()
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	return p, u.String()
}

// arm makes the next message that contains trigger break its connection.
func (p *proxy) arm(trigger string, f breakage) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trigger, p.kind, p.struck = []byte(trigger), f, make(chan struct{})
	return p.struck
}

// setRefuse makes the proxy refuse new connections, or accept them again.
func (p *proxy) setRefuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// freeze stops all traffic without closing anything; thaw lets it go on.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	if refuse {
		return
	}
	server, err := net.Dial("unix", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()
	var mu sync.Mutex
	var silent bool
	var both sync.WaitGroup
	both.Go(func() {
		defer client.Close()
		p.pump(server, client, func(b []byte) (pass, more bool) {
			mu.Lock()
			defer mu.Unlock()
			// What comes before the end of the reply, as the answer to the beginning of a COPY does, asks for the rest of the
			// request.
			return !silent, !silent || !readyForQuery(b)
		})
	})
	p.pump(client, server, func(b []byte) (pass, more bool) {
		switch p.strike(b) {
		case lostRequest:
			_ = server.Close()
			return false, false
		case lostReply:
			mu.Lock()
			silent = true
			mu.Unlock()
		case cutAtOnce:
			// The server's side stays open until the test ends: the server notices nothing.
			_, _ = server.Write(b)
			_ = client.Close()
			hold := make([]byte, 1)
			_, _ = io.ReadFull(server, hold)
			return false, false
		}
		return true, true
	})
	_ = server.Close()
	both.Wait()
}

// strike decides whether the armed fault strikes at this message.
func (p *proxy) strike(b []byte) breakage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trigger == nil || !bytes.Contains(b, p.trigger) {
		return 0
	}
	p.trigger = nil
	close(p.struck)
	return p.kind
}

// readyForQuery reports whether a server has nothing more to say until it is asked again.
func readyForQuery(b []byte) bool {
	const size = len("Z\x00\x00\x00\x05I")
	return len(b) >= size && bytes.HasPrefix(b[len(b)-size:], []byte("Z\x00\x00\x00\x05"))
}

// pump copies until one side ends; judge says of each piece whether it passes and whether more may follow.
func (p *proxy) pump(from, to net.Conn, judge func(b []byte) (pass, more bool)) {
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if n > 0 {
			pass, more := judge(buf[:n])
			if !more {
				return
			}
			if pass {
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}
