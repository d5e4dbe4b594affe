package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/httplab"
)

// site is an API server with several resources, over one etcd member.
type site struct {
	t         *testing.T
	url       string
	resources []*server // the first is the one that a condition afflicts
	key       key       // of the first
	cluster   *etcdlab.Cluster
	proxy     *etcdlab.Proxy      // of all that goes to etcd
	watches   *etcdlab.WatchDelay // before it; nil unless they are to be held
	etcd      *clientv3.Client    // past both
	open      *follower           // a watch of the first resource
	made      int                 // where the journal was when the site began
	began     int                 // and when the condition did
}

// siteConfig is what a condition needs that is not there by default.
type siteConfig struct {
	etcd      etcdlab.Config
	server    apiserver.Config
	resources int  // 0: two
	holds     bool // the watches of caches
}

// unhurried is a MaxWait that nothing but what is meant to wait gets to.
const unhurried = 2 * time.Second

func newSite(t *testing.T, cfg siteConfig) *site {
	t.Helper()
	s := &site{t: t, made: journal.len()}
	cfg.etcd.Token = "token"
	s.run(cfg.etcd)
	var err error
	if s.proxy, err = etcdlab.NewProxy(s.cluster.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.proxy.Close)
	endpoint := "http://" + s.proxy.Addr()
	if cfg.holds { // it has one connection to etcd for all
		if s.watches, err = etcdlab.NewWatchDelay(endpoint, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.watches.Close)
		endpoint = s.watches.Endpoint()
	}

	if cfg.server.MaxWait == 0 {
		cfg.server.MaxWait = unhurried
	}
	cfg.server.Registerer = prometheus.NewRegistry()
	backends, err := apiserver.New(cfg.server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backends.Close(); err != nil {
			t.Error(err)
		}
	})
	mux := http.NewServeMux()
	healthz.InstallReadyzHandler(mux, backends.HealthCheck())
	mux.Handle(apiserver.DebugPath, backends.DebugHandler())
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	s.url = web.URL
	for i := range max(cfg.resources, 2) {
		prefix := fmt.Sprintf("/pods%d", i)
		config := storagebackend.NewDefaultConfig("/registry", httplab.Codec)
		config.Transport.ServerList = []string{endpoint}
		if i == 0 {
			config.Transformer = &s.key
		}
		keys := func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix+"/", obj) }
		store, _, err := backends.StorageDecorator()(config.ForResource(example.Resource(prefix[1:])), prefix, keys,
			httplab.NewPod, httplab.NewPodList, httplab.PodAttrs, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &server{store: store, maxWait: cfg.server.MaxWait, url: s.url + prefix + httplab.PodsPath("default")}
		handler := httplab.NewHandler(store, httplab.Config{Prefix: prefix, Timeout: patience})
		mux.Handle(prefix+"/", http.StripPrefix(prefix, handler))
		s.resources = append(s.resources, r)
	}
	for _, r := range s.resources {
		await(t, func() bool { return r.store.ReadinessCheck() == nil })
		await(t, func() bool { return r.ask(t, plain) == "200" })
	}
	await(t, func() bool { return s.ready() == "ok" })
	s.put("a", "a")
	s.follow()
	return s
}

// run starts etcd.
func (s *site) run(cfg etcdlab.Config) {
	s.cluster = etcdlab.Run(s.t, cfg)
	s.etcd = etcdlab.Connect(s.t, s.cluster, etcdlab.ClientConfig{})
}

// restore replaces etcd by what it was when saved, and has it answer.
func (s *site) restore(file string) {
	s.proxy.Cut()
	if err := s.cluster.Close(); err != nil {
		s.t.Fatal(err)
	}
	cfg := etcdlab.Config{Dir: s.t.TempDir(), Token: "token"}
	if err := etcdlab.Restore(file, cfg, 0); err != nil {
		s.t.Fatal(err)
	}
	s.run(cfg)
	if err := s.proxy.Retarget(s.cluster.Endpoints()[0]); err != nil {
		s.t.Fatal(err)
	}
	s.proxy.Heal()
}

// put stores a pod of the first resource under a key that may be another one's, past the API
// server.
func (s *site) put(key, name string) {
	s.t.Helper()
	pod := &example.Pod{}
	pod.Namespace, pod.Name = "default", name
	text, err := runtime.Encode(httplab.Codec, pod)
	if err == nil {
		_, err = s.etcd.Put(s.t.Context(), "/registry/pods0/default/"+key, string(text))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func plain(*server) string { return "" }

// key is what the first resource is stored with, and can be taken away.
type key struct{ gone atomic.Bool }

func (k *key) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	if k.gone.Load() {
		return nil, false, errors.New("the key is gone")
	}
	return data, false, nil
}

func (*key) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return data, nil
}

// get is what the API server says at a path, and whether that is well.
func (s *site) get(path string) (text string, ok bool) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body), res.StatusCode == http.StatusOK
}

func (s *site) ready() string {
	if _, ok := s.get("/readyz"); !ok {
		return "fails"
	}
	return "ok"
}

// page has a text, in its JSON.
func (s *site) page(text string) bool {
	page, _ := s.get(apiserver.DebugPath)
	return strings.Contains(page, text)
}

// strategy is the present one.
func (s *site) strategy() decorator.Strategy {
	var page struct{ Backends []decorator.Status }
	text, _ := s.get(apiserver.DebugPath)
	if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Backends) != 1 {
		s.t.Fatalf("%v: %s", err, text)
	}
	return page.Backends[0].Strategy.Name
}

// told is where a text is found: in the debug page's JSON, and in what was logged since the
// condition began.
func (s *site) told(text string) string {
	if text == "" {
		return ""
	}
	var where []string
	if s.page(text) {
		where = append(where, "page")
	}
	if journal.since(s.began, text) > 0 {
		where = append(where, "log")
	}
	return fmt.Sprintf("%s: %q", strings.Join(where, ", "), text)
}

// follower is a watch over HTTP.
type follower struct {
	mu    sync.Mutex
	names []string // of the objects that it brought
	ended bool
}

// follow opens a watch of the first resource from its newest revision, which is N from now on.
func (s *site) follow() {
	s.t.Helper()
	var pods struct {
		Metadata struct{ ResourceVersion string }
	}
	text, ok := "", false
	await(s.t, func() bool {
		text, ok = s.get(strings.TrimPrefix(s.resources[0].url, s.url))
		return ok
	})
	if err := json.Unmarshal([]byte(text), &pods); err != nil {
		s.t.Fatal(err)
	}
	s.resources[0].seen = pods.Metadata.ResourceVersion
	url := s.resources[0].url + "?watch=1&resourceVersion=" + pods.Metadata.ResourceVersion
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	f := &follower{}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer res.Body.Close()
		decoder := json.NewDecoder(res.Body)
		for {
			var event struct {
				Object struct{ Metadata struct{ Name string } }
			}
			err := decoder.Decode(&event)
			f.mu.Lock()
			f.ended = err != nil
			f.names = append(f.names, event.Object.Metadata.Name)
			f.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	s.t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	s.open = f
}

// tell is what became of the watch: whether it has ended, and where not, whether it brings a
// name. Where that is not said, it is not waited for.
func (f *follower) tell(t *testing.T, name string) (word string) {
	await(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.ended:
			word = "ends"
		case name == "":
			word = "stays open"
		case slices.Contains(f.names, name):
			word = "goes on"
		}
		return word != ""
	})
	return word
}
