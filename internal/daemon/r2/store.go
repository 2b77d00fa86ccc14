package r2

import (
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/runlot/runlot/internal/adapter/s3"
	"github.com/runlot/runlot/internal/core/fault"
)

// Store is an S3 store in which buckets are kept, in place of a folder.
type Store struct {
	place s3.Place
	keys  s3.Credentials
}

// amazon is where a URL means that names no endpoint.
const amazon = "https://s3.amazonaws.com"

// ReadStore reads s3://BUCKET/PREFIX?endpoint=URL&region=NAME, whose prefix and parameters may be left out, and takes the keys
// from a file in the form of AWS's credentials file, or without one from AWS's variables of the environment.
func ReadStore(text, file string) (*Store, error) {
	invalid := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "r2_url", format, args...).WithHint("it looks like s3://BUCKET/PREFIX?endpoint=https://s3.example.com&region=eu-central-1")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Fragment != "" {
		return nil, invalid("--r2-url is no address of a bucket in an S3 store")
	}
	if u.User != nil {
		return nil, fault.New(fault.Invalid, "r2_url", "--r2-url holds keys, which every user of this machine could read").
			WithHint("put them into a file, and name that with --r2-credentials")
	}
	s := &Store{place: s3.Place{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}}
	if s.place.Prefix != "" {
		s.place.Prefix += "/"
	}
	where := amazon
	for name, values := range u.Query() {
		switch {
		case len(values) != 1:
			return nil, invalid("--r2-url names %s twice", name)
		case name == "endpoint":
			where = values[0]
		case name == "region":
			s.place.Region = values[0]
		default:
			return nil, invalid("--r2-url has no parameter %q", name)
		}
	}
	endpoint, err := url.Parse(where)
	if err != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" || strings.Trim(endpoint.Path, "/") != "" || endpoint.User != nil || endpoint.RawQuery != "" {
		return nil, invalid("the endpoint of --r2-url is no address of a server, like https://s3.example.com")
	}
	s.place.Endpoint, s.place.Secure = endpoint.Host, endpoint.Scheme == "https"
	return s, s.read(file)
}

// read reads the keys.
func (s *Store) read(file string) error {
	var from credentials.Provider = &credentials.EnvAWS{}
	where := "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment"
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return fault.New(fault.Environment, "r2_credentials", "the credentials in %s cannot be read", file).WithHint("check that it exists and may be read").WithCause(err)
		}
		from, where = &credentials.FileAWSCredentials{Filename: file}, file
	}
	keys, err := from.RetrieveWithCredContext(nil)
	if err != nil || keys.AccessKeyID == "" || keys.SecretAccessKey == "" {
		return fault.New(fault.Invalid, "r2_credentials", "there are no keys for the S3 store in %s", where).
			WithHint("--r2-credentials names a file with [default], aws_access_key_id = … and aws_secret_access_key = …").WithCause(err)
	}
	s.keys = s3.Credentials{ID: keys.AccessKeyID, Secret: keys.SecretAccessKey, Token: keys.SessionToken}
	return nil
}
