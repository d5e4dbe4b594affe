package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// call is what a server can tell about the client behind a call.
type call struct {
	Method      string
	Authority   string
	UserAgent   string
	Traceparent string
	Metadata    int // keys
	ClientCN    string
	TLSVersion  uint16
	ALPN        string
}

// recorder is a gRPC server with no service: it notes each call and refuses it for good, so that no client retries.
type recorder struct {
	addr string
	grpc *grpc.Server

	mu    sync.Mutex
	calls []call
}

func startRecorder(t *testing.T, tlsConfig *tls.Config) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &recorder{addr: listener.Addr().String()}
	options := []grpc.ServerOption{grpc.UnknownServiceHandler(r.handle)}
	if tlsConfig != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	r.grpc = grpc.NewServer(options...)
	var serving sync.WaitGroup
	serving.Go(func() { _ = r.grpc.Serve(listener) })
	t.Cleanup(func() {
		r.grpc.Stop()
		serving.Wait()
	})
	return r
}

func (r *recorder) handle(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	md, _ := metadata.FromIncomingContext(ctx)
	first := func(key string) string {
		if v := md.Get(key); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	method, _ := grpc.MethodFromServerStream(stream)
	refused := status.Error(codes.PermissionDenied, "this server only records")
	if read := (&pb.RangeRequest{}); method == rangeMethod {
		if err := stream.RecvMsg(read); err != nil || string(read.Key) == "compact_rev_key" {
			return refused // of upstream's compactor, in its own time
		}
	}
	c := call{Method: method, Authority: first(":authority"), UserAgent: first("user-agent"), Traceparent: first("traceparent"), Metadata: len(md)}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			c.TLSVersion, c.ALPN = info.State.Version, info.State.NegotiatedProtocol
			if certs := info.State.PeerCertificates; len(certs) > 0 {
				c.ClientCN = certs[0].Subject.CommonName
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	return refused
}

// last answers the newest call of a method. The feature check of etcd3 calls others, in its own time.
func (r *recorder) last(method string) (call, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.calls) - 1; i >= 0; i-- {
		if r.calls[i].Method == method {
			return r.calls[i], true
		}
	}
	return call{}, false
}

// authority is a CA in memory that issues pairs into files.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	a := &authority{cert: cert, key: key, dir: t.TempDir()}
	writePEM(t, a.caFile(), "CERTIFICATE", der)
	return a
}

func (a *authority) caFile() string { return filepath.Join(a.dir, "ca.crt") }

// issue writes a certificate for both sides to <file>.crt and its key to <file>.key, over what was there.
func (a *authority) issue(t *testing.T, file, commonName string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: commonName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(a.dir, file+".crt"), filepath.Join(a.dir, file+".key")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "EC PRIVATE KEY", keyDER)
	return certFile, keyFile
}

// serverConfig is TLS for a server that insists on a client certificate of this CA.
func (a *authority) serverConfig(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.issue(t, "server", "server"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert}
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// dialed notes what an egress dialer was asked, and dials.
type dialed struct {
	mu    sync.Mutex
	asked []string
	conns []net.Conn
}

func (d *dialed) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, network+" "+addr)
	if err == nil {
		d.conns = append(d.conns, conn)
	}
	return conn, err
}

func (d *dialed) distinct() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	set := map[string]bool{}
	for _, s := range d.asked {
		set[s] = true
	}
	return set
}

// cut closes every connection that was dialed so far.
func (d *dialed) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		_ = conn.Close()
	}
	d.conns = nil
}
