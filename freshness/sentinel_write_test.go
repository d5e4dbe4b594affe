package freshness

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

func TestNudge(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	client := connect(t, cluster, etcdlab.ClientConfig{})
	sentinel := NewSentinel(client, testKey)

	// Where there is no sentinel, creating it moves the revision.
	before := put(t, other, "/registry/a", "1")
	if err := sentinel.Nudge(soon(t)); err != nil {
		t.Fatal(err)
	}
	first := mustRead(t, sentinel)
	if first.Revision != before+1 {
		t.Errorf("nudged to %d from %d", first.Revision, before)
	}

	for range 3 {
		if err := sentinel.Nudge(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	last := mustRead(t, sentinel)
	if last.Revision != first.Revision+3 || !bytes.Equal(last.Witness, first.Witness) {
		t.Errorf("after three nudges: %+v; before: %+v", last, first)
	}

	// Another's write that comes between is as good, a deletion too.
	inner := client.KV
	var interference error
	for name, interfere := range map[string]func(){
		"write":    func() { interference = NewSentinel(other, testKey).Append(soon(t)) },
		"deletion": func() { _, interference = other.Delete(soon(t), testKey) },
	} {
		client.KV = inner
		if err := sentinel.Append(soon(t)); err != nil { // so that it exists
			t.Fatal(err)
		}
		before := mustRead(t, sentinel).Revision
		client.KV = &interfering{inner, interfere}
		if err := sentinel.Nudge(soon(t)); err != nil || interference != nil {
			t.Errorf("%s: %v, %v", name, err, interference)
		}
		client.KV = inner
		resp, err := other.Get(soon(t), "/registry/a")
		if err != nil || uint64(resp.Header.Revision) != before+1 {
			t.Errorf("%s: at %v from %d, %v: it was to add nothing", name, resp, before, err)
		}
	}
}

func TestAppend(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	sentinel := NewSentinel(connect(t, cluster, etcdlab.ClientConfig{}), testKey)

	// The chain begins with a link of its own; each later one names the revision
	// that it replaced, however that came about.
	var want []uint64
	for i := range MaxChain + 10 {
		if i == 0 {
			want = append(want, 0)
		} else {
			_, revision := valueOf(t, other, testKey)
			want = append(want, revision)
		}
		if err := sentinel.Append(soon(t)); err != nil {
			t.Fatal(err)
		}
		if i%50 == 7 {
			if err := sentinel.Nudge(soon(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	chain := mustParse(t, mustRead(t, sentinel).Witness)
	want = want[len(want)-MaxChain:]
	if len(chain) != MaxChain {
		t.Fatalf("%d links, want the newest %d", len(chain), MaxChain)
	}
	nonces := map[uint64]bool{}
	for i, link := range chain {
		if link.Prev != want[i] {
			t.Errorf("link %d follows revision %d, want %d", i, link.Prev, want[i])
		}
		nonces[link.Nonce] = true
	}
	if len(nonces) != MaxChain {
		t.Errorf("%d different nonces of %d", len(nonces), MaxChain)
	}
}

// TestAppendersKeepOneChain: whatever the interleaving, each value of the key is
// the one before with one link more.
func TestAppendersKeepOneChain(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	const appenders, each = 6, 20
	var writers sync.WaitGroup
	for range appenders {
		client := connect(t, cluster, etcdlab.ClientConfig{})
		writers.Go(func() {
			sentinel := NewSentinel(client, testKey)
			for range each {
				if err := sentinel.Append(soon(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()

	_, last := valueOf(t, other, testKey)
	var chain Chain
	var previous uint64
	for resp := range other.Watch(soon(t), testKey, clientv3.WithRev(1)) {
		for _, event := range resp.Events {
			next := mustParse(t, event.Kv.Value)
			if len(next) != len(chain)+1 {
				t.Fatalf("%d links after %d", len(next), len(chain))
			}
			for i, link := range chain {
				if next[i] != link {
					t.Fatalf("link %d changed", i)
				}
			}
			if added := next[len(chain)]; added.Prev != previous || chain.Has(added.Nonce) {
				t.Fatalf("link %v was added at %d to the value of %d", added, event.Kv.ModRevision, previous)
			}
			chain, previous = next, uint64(event.Kv.ModRevision)
		}
		if previous == last {
			break
		}
	}
	if len(chain) != appenders*each {
		t.Errorf("%d links of %d appends", len(chain), appenders*each)
	}
}

// TestAppendAfterADeletion: the key goes while it is being appended to.
func TestAppendAfterADeletion(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	client := connect(t, cluster, etcdlab.ClientConfig{})
	sentinel := NewSentinel(client, testKey)
	old := mustParse(t, mustRead(t, sentinel).Witness)

	var once sync.Once
	client.KV = &interfering{client.KV, func() {
		once.Do(func() {
			if _, err := other.Delete(soon(t), testKey); err != nil {
				t.Error(err)
			}
		})
	}}
	if err := sentinel.Append(soon(t)); err != nil {
		t.Fatal(err)
	}
	chain := mustParse(t, mustRead(t, sentinel).Witness)
	if len(chain) != 1 || !chain.Lost(old[0]) {
		t.Errorf("%v after %v: a new sentinel is a new history", chain, old)
	}
}

// TestStubbornBackend: an append that can never win ends with an error.
func TestStubbornBackend(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	client := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	sentinel := NewSentinel(client, testKey)
	before := mustRead(t, sentinel)
	client.KV = &stubborn{client.KV}
	for method, write := range map[string]func(context.Context) error{"Append": sentinel.Append, "Nudge": sentinel.Nudge} {
		if err := write(soon(t)); err == nil || !strings.Contains(err.Error(), testKey) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if after := mustRead(t, sentinel); after.Revision != before.Revision {
		t.Errorf("at %d from %d", after.Revision, before.Revision)
	}
}

// TestReadOnlyRole: a role that may read the key and not write it gets floors,
// is told what it lacks, and does not try again and again.
func TestReadOnlyRole(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	root, reader := withAuth(t, cluster)
	var counters etcdlab.Counters
	client := connectAs(t, cluster, "reader", &counters)
	sentinel := NewSentinel(client, testKey)
	writes := func() int64 { return counters.Snapshot().Txns }

	// The key is missing.
	for range 10 {
		want := put(t, root, "/registry/a", "1")
		if got := mustRead(t, sentinel); got.Revision != want || got.Witness != nil {
			t.Errorf("got %+v, want revision %d and no witness", got, want)
		}
	}
	if n := writes(); n != 1 {
		t.Errorf("tried to create it %d times", n)
	}
	if ok, err := sentinel.Writable(); ok || !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("Writable: %v, %v", ok, err)
	}

	// Somebody else creates it.
	if err := NewSentinel(root, testKey).Append(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, sentinel); len(mustParse(t, got.Witness)) != 1 {
		t.Errorf("got %+v", got)
	}
	for range 3 {
		for method, err := range map[string]error{"Nudge": sentinel.Nudge(soon(t)), "Append": sentinel.Append(soon(t))} {
			if !errors.Is(err, ErrReadOnly) || !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("%s: %v", method, err)
			}
		}
	}
	if n := writes(); n != 1 {
		t.Errorf("%d writes were sent", n)
	}

	// The right is granted; after a while it is used.
	grant(t, root, reader, clientv3.PermissionType(clientv3.PermReadWrite))
	sentinel.writes.retryAt = time.Time{}
	if err := sentinel.Append(soon(t)); err != nil {
		t.Error(err)
	}
	if ok, err := sentinel.Writable(); !ok || err != nil {
		t.Errorf("Writable: %v, %v", ok, err)
	}
}

// TestForbiddenRole: who may not read the key gets no floor, and is told what to
// grant.
func TestForbiddenRole(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	withAuth(t, cluster)
	floors := newFloors(t, NewSentinel(connectAs(t, cluster, "reader", nil), "/elsewhere"), Config{})
	if floor, err := floors.Next(soon(t)); !errors.Is(err, rpctypes.ErrPermissionDenied) || floor != (Floor{}) {
		t.Errorf("got %v, %v", floor, err)
	}
}

// TestOutOfSpace: etcd that takes no writes still answers reads, and so do we.
func TestOutOfSpace(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{Tune: func(_ int, cfg *embed.Config) { cfg.QuotaBackendBytes = 1 << 20 }})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	var err error
	for filler := string(make([]byte, 1<<19)); err == nil; {
		_, err = other.Put(soon(t), "/registry/a", filler)
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	sentinel := NewSentinel(connect(t, cluster, etcdlab.ClientConfig{}), testKey)
	if got := mustRead(t, sentinel); got.Revision == 0 || got.Witness != nil {
		t.Errorf("got %+v", got)
	}
	if ok, err := sentinel.Writable(); ok || !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("Writable: %v, %v", ok, err)
	}
}

// withAuth switches authentication on, and returns root's client and the name
// of a role that may read below /registry, which the user "reader" has. Each
// password is the name of its user.
func withAuth(t *testing.T, cluster *etcdlab.Cluster) (root *clientv3.Client, role string) {
	t.Helper()
	setUp := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	for _, name := range []string{"root", "reader"} {
		if _, err := setUp.UserAdd(soon(t), name, name); err != nil {
			t.Fatal(err)
		}
		if _, err := setUp.RoleAdd(soon(t), name); err != nil {
			t.Fatal(err)
		}
		if _, err := setUp.UserGrantRole(soon(t), name, name); err != nil {
			t.Fatal(err)
		}
	}
	grant(t, setUp, "reader", clientv3.PermissionType(clientv3.PermRead))
	if _, err := setUp.AuthEnable(soon(t)); err != nil {
		t.Fatal(err)
	}
	return connectAs(t, cluster, "root", nil), "reader"
}

func grant(t *testing.T, root *clientv3.Client, role string, right clientv3.PermissionType) {
	t.Helper()
	_, err := root.RoleGrantPermission(soon(t), role, "/registry/", clientv3.GetPrefixRangeEnd("/registry/"), right)
	if err != nil {
		t.Fatal(err)
	}
}

func connectAs(t *testing.T, cluster *etcdlab.Cluster, user string, counters *etcdlab.Counters) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: cluster.Endpoints(), Username: user, Password: user}
	if counters != nil {
		cfg.DialOptions = counters.DialOptions()
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
