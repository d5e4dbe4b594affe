package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
)

// Running is a server that serves. Stop ends it.
type Running struct {
	// URL is where it serves, https://127.0.0.1:<port>.
	URL string
	// ClientConfig is for clients: it trusts the server's certificate, has the
	// token that may do everything (none behind kube-aggregator) and does not
	// limit the rate of requests.
	ClientConfig *rest.Config
	// Kubeconfig is a file that says the same to kubectl, "kubeconfig" in the
	// data folder or in a temporary one. Empty behind kube-aggregator.
	Kubeconfig string
	// LoopbackConfig is the server's own privileged client configuration, with a
	// certificate and a token of its own.
	LoopbackConfig *rest.Config
	// EtcdServers are the client URLs of the etcd below.
	EtcdServers []string

	wg     sync.WaitGroup
	done   chan struct{} // closed when serving has ended, runErr is set then
	runErr error

	closers  []func() error // what Stop closes, the newest first
	stopOnce sync.Once
	stopErr  error
}

// Start starts a server and returns when it is ready. ctx bounds only the
// starting; from then on the server runs until Stop. An error names the flag
// that Options documents where one is at fault.
func Start(ctx context.Context, o Options) (running *Running, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Running{done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.closeAll())
		}
	}()

	listener, err := net.Listen("tcp", net.JoinHostPort(o.bindAddress().String(), strconv.Itoa(o.Port)))
	if err != nil {
		return nil, fmt.Errorf("--port %d cannot be used, try another or 0: %w", o.Port, err)
	}
	r.onClose(func() error { return ignoreClosed(listener.Close()) })

	endpoints, stopEtcd, err := startEtcd(ctx, o)
	if err != nil {
		return nil, err
	}
	r.EtcdServers = endpoints
	r.onClose(stopEtcd)

	cfg, token, err := newConfig(listener, o)
	if err != nil {
		return nil, err
	}
	closeStorage, err := applyStorage(cfg, endpoints, o.verifiedReads())
	if err != nil {
		return nil, err
	}
	r.onClose(closeStorage)

	if err := r.describe(cfg, listener.Addr(), token); err != nil {
		return nil, err
	}
	if token != "" {
		file, remove, err := writeKubeconfig(o.DataDir, r.ClientConfig)
		if err != nil {
			return nil, err
		}
		r.Kubeconfig = file
		r.onClose(remove)
	}
	generic, err := cfg.Complete(nil).New("rvfloor-example", genericserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	// Destroy may be called twice; when serving began, its end calls it first.
	r.onClose(func() error { generic.Destroy(); return nil })

	groups, err := demo.NewAPIGroups(cfg.RESTOptionsGetter)
	if err != nil {
		return nil, fmt.Errorf("API groups: %w", err)
	}
	if err := generic.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("API groups: %w", err)
	}
	if err := addStorageReadiness(generic); err != nil {
		return nil, err
	}
	r.serve(generic)
	if err := r.waitReady(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// addStorageReadiness makes /readyz wait for the watch caches. The generic
// server collects the checks and leaves the hook to its user; without it the first
// reads of a new server can be answered with 429.
func addStorageReadiness(generic *genericserver.GenericAPIServer) error {
	return generic.AddPostStartHook("storage-readiness", func(ctx genericserver.PostStartHookContext) error {
		return generic.StorageReadinessHook.Hook(ctx)
	})
}

// describe fills the fields that callers read.
func (r *Running) describe(cfg *genericserver.Config, addr net.Addr, token string) error {
	if cfg.SecureServing == nil || cfg.SecureServing.Cert == nil {
		return errors.New("API server: no serving certificate")
	}
	cert, _ := cfg.SecureServing.Cert.CurrentCertKeyContent()
	r.URL = "https://" + addr.String()
	r.ClientConfig = &rest.Config{
		Host:            r.URL,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: cert},
		QPS:             -1, // no limit
	}
	r.LoopbackConfig = rest.CopyConfig(cfg.LoopbackClientConfig)
	return nil
}

// serve runs the prepared server on a goroutine that Stop joins.
func (r *Running) serve(generic *genericserver.GenericAPIServer) {
	ctx, cancel := context.WithCancel(context.Background())
	prepared := generic.PrepareRun()
	r.wg.Go(func() {
		defer close(r.done)
		r.runErr = prepared.RunWithContext(ctx)
	})
	r.onClose(func() error {
		cancel()
		r.wg.Wait()
		return r.runErr
	})
}

// waitReady asks the server's own /readyz, at the pace of a start that takes
// about a second, until it answers 200.
func (r *Running) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("API server: not ready within %v", readyTimeout))
	defer cancel()
	client, err := rest.HTTPClientFor(r.LoopbackConfig)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.LoopbackConfig.Host+"/readyz", nil)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.done:
			return fmt.Errorf("API server: ended while starting: %w", r.runErr)
		}
	}
}

// readyTimeout bounds the time between serving and being ready, in which the
// watch caches are filled. It takes well under a second; a minute is for slow
// disks and busy machines.
const readyTimeout = time.Minute

// Done is closed when the server has ended, by Stop or by itself.
func (r *Running) Done() <-chan struct{} { return r.done }

// Stop ends open watches, lets other requests finish, and stops the server,
// rvfloor and the embedded etcd in this order. It returns when all of it has
// stopped, with the first thing that went wrong; further calls return the same.
func (r *Running) Stop() error { return r.closeAll() }

func (r *Running) onClose(f func() error) { r.closers = append(r.closers, f) }

func (r *Running) closeAll() error {
	r.stopOnce.Do(func() {
		var errs []error
		for i := len(r.closers) - 1; i >= 0; i-- {
			errs = append(errs, r.closers[i]())
		}
		r.stopErr = errors.Join(errs...)
	})
	return r.stopErr
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
