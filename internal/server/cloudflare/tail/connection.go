package tail

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// protocol is the one that a client of Cloudflare's tail insists on.
const protocol = "trace-v1"

// errGone ends a tail whose client went away.
var errGone = &ending{closeNormal, ""}

// connect serves the WebSocket of a tail until it ends.
func (t *Tails) connect(w http.ResponseWriter, c *wire.Call) error {
	key := c.Header.Get("Sec-WebSocket-Key")
	if key == "" || !strings.EqualFold(c.Header.Get("Upgrade"), "websocket") {
		return fault.New(fault.Invalid, "tail_upgrade", "the address of a tail is for a WebSocket")
	}
	one, err := t.take(c.PathValue("secret"))
	if err != nil {
		return err
	}
	defer t.forget(one)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fault.New(fault.Invalid, "tail_upgrade", "this connection cannot become a WebSocket").WithHint("use HTTP/1.1").WithCause(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{}) // a connection without deadlines needs no such care
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept(key) + "\r\n"
	if strings.Contains(c.Header.Get("Sec-WebSocket-Protocol"), protocol) {
		answer += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	s := &socket{conn: conn}
	if err := s.write([]byte(answer + "\r\n")); err != nil {
		return nil // nobody is there whom an error could be told
	}
	t.serve(one, s, buffered.Reader)
	return nil
}

// socket is a connection that several may write to.
type socket struct {
	conn net.Conn
	mu   sync.Mutex
}

func (s *socket) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(queue.TailWrite)); err != nil {
		return err
	}
	_, err := s.conn.Write(b)
	return err
}

func (s *socket) send(e *event) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write an event of a tail: %w", err)
	}
	return s.write(frame(opText, text))
}

// serve sends events until the tail ends, and says why.
func (t *Tails) serve(one *one, s *socket, r *bufio.Reader) {
	ctx, cancel := context.WithDeadlineCause(one.life, one.expires, &ending{closeNormal, "this tail is over after its time"})
	defer cancel()
	follower := t.o.Hub.Follow(ctx, one.app, one.wants)
	defer follower.Close(ctx)
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		one.end(s.read(r))
	}()
	t.o.Log.Info("a script is followed", "app", one.app, "by", one.token.Name)
	ping := time.NewTicker(queue.TailPing)
	defer ping.Stop()
	var err error
	for err == nil {
		select {
		case i := <-follower.Invocations():
			if n := follower.Missed(); n > 0 {
				err = s.send(left(one.app, n))
			}
			if err == nil {
				err = s.send(shape(i))
			}
		case <-ping.C:
			if err = s.write(frame(opPing, nil)); err == nil {
				err = t.allowed(ctx, one)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	end, ok := errors.AsType[*ending](err)
	switch {
	case !ok:
		t.o.Log.Warn("a tail is ended: its client does not take what it is sent", "app", one.app, "by", one.token.Name, "error", err)
	case end.text != "":
		_ = s.write(closing(end.code, end.text)) // who is gone need not know
	}
	t.o.Log.Info("a script is not followed any more", "app", one.app, "by", one.token.Name)
	_ = s.conn.Close()
	<-reading
}

// allowed ends the tail of a token that is not good any more. What cannot be asked at this moment is asked again.
func (t *Tails) allowed(ctx context.Context, one *one) error {
	if err := t.o.Access.Valid(ctx, one.token.ID); fault.KindOf(err) == fault.NotFound {
		return &ending{closePolicy, "the token of this tail is not valid any more"}
	}
	return nil
}

// read reads what the client sends until it is gone, and answers its pings. Nothing else of it is looked at.
func (s *socket) read(r *bufio.Reader) error {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(queue.TailSilence)); err != nil {
			return errGone
		}
		op, payload, err := readFrame(r)
		switch {
		case errors.Is(err, errLarge), errors.Is(err, errControl):
			return &ending{closeLarge, err.Error()}
		case err != nil:
			return errGone
		case op == opPing:
			if s.write(frame(opPong, payload)) != nil {
				return errGone
			}
		case op == opClose:
			return &ending{closeNormal, "the client ended this tail"}
		}
	}
}
