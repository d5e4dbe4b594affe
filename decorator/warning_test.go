package decorator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/audit"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/client-go/rest"

	"github.com/rvfloor/rvfloor/internal/httplab"
)

// TestWarningReachesTheClient: who gets an answer that may be stale is told by
// client-go's warning handler, and so is the audit log; who gets one that is verified
// is not.
func TestWarningReachesTheClient(t *testing.T) {
	for verb, path := range map[string]string{
		"list": "", "get": "/a?resourceVersion=0", "watch": "?watch=1&timeoutSeconds=5", // MaxWait counts
	} {
		t.Run(verb, func(t *testing.T) {
			bubble(t, setup{cfg: Config{OnUnverified: UnverifiedStale}}, func(t *testing.T, r *rig) {
				events := make(chan *audit.Event, 1)
				warned := &warnings{}
				client := r.client(warned, func(e *audit.Event) { events <- e.DeepCopy() })
				get := func() *audit.Event {
					if err := client.Get().RequestURI(httplab.PodsPath("ns") + path).Do(t.Context()).Error(); err != nil {
						t.Fatal(err)
					}
					return <-events
				}
				r.put("a")
				event := get()
				if told := warned.told(); len(told) != 0 || event.Annotations[AuditOutcome] != "ok" {
					t.Fatalf("of a verified answer the client was told %q, the audit log %v", told, event.Annotations)
				}

				settled()
				old := r.applied()
				r.cached.Hold()
				newest := r.put("b")
				event = get()
				if told := warned.told(); len(told) != 1 || !strings.Contains(told[0], "stale") || !strings.Contains(told[0], formatRevision(old)) {
					t.Errorf("the client was told %q, want one warning that names revision %d", told, old)
				}
				if got := event.Annotations; got[AuditOutcome] != "stale" || got[AuditFloor] != formatRevision(newest) {
					t.Errorf("the audit log was told %v, want stale and the floor %d", got, newest)
				}
			})
		})
	}
}

// HandleWarningHeader is client-go's side of AddWarning.
func (w *warnings) HandleWarningHeader(_ int, agent, text string) { w.AddWarning(agent, text) }

// client is client-go's, of an API server that has r.store; what they say goes through
// pipes in memory.
func (r *rig) client(warned rest.WarningHandler, audited func(*audit.Event)) *rest.RESTClient {
	r.t.Helper()
	pipes := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: httplab.NewHandler(r.store, httplab.Config{Prefix: "/pods", Audit: audited})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipes) }()
	transport := &http.Transport{DialContext: pipes.dial}
	r.t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			r.t.Error(err)
		}
	})
	client, err := rest.RESTClientForConfigAndClient(&rest.Config{
		Host: "http://pods", APIPath: "/apis", QPS: -1, WarningHandler: warned,
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &examplev1.SchemeGroupVersion,
			NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
		},
	}, &http.Client{Transport: transport})
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

// pipes is a net.Listener.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, io.EOF
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
