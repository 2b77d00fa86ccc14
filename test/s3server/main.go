// Command s3server serves an S3 store for tests, with a bucket named "store", from an empty folder: s3server FOLDER. It prints
// its address, which is on this machine alone, and ends with its input. It is a module of its own, so that nothing of the
// server comes near the product.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
)

// What callers have to know.
const (
	access = "tester"
	secret = "secret-of-the-tester"
	region = "us-east-1"
	bucket = "store"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string) error {
	root, sidecar := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	for _, folder := range []string{root, sidecar} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	side, err := meta.NewSideCar(sidecar)
	if err != nil {
		return err
	}
	be, err := posix.New(root, side, posix.PosixOpts{SideCarDir: sidecar})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, bucket), 0o700); err != nil {
		return err
	}
	owner := auth.Account{Access: access, Secret: secret, Role: auth.RoleAdmin}
	server, err := s3api.New(be, middlewares.RootUserConfig{Access: access, Secret: secret}, region, auth.NewIAMServiceSingle(owner), nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithConcurrencyLimiter(1000, 1000), s3api.WithMpMaxParts(10_000))
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "s")
	ended := make(chan error, 1)
	go func() { ended <- server.ServeMultiPort([]string{socket}) }()
	// It does not tell which port it was given, so that it listens on a socket, and this program in front of it.
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go forward(front, socket)
	fmt.Println(front.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return <-ended
}

// forward hands connections on.
func forward(front net.Listener, socket string) {
	for {
		in, err := front.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("unix", socket)
			if err != nil {
				return
			}
			defer out.Close()
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.Close()
			}()
			_, _ = io.Copy(in, out)
		}()
	}
}
