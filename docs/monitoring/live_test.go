package monitoring

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// TestLive: what an API server serves at /metrics, over an etcd, has every family from
// the first read on, says that the cache is not behind, and is clean for promtool.
func TestLive(t *testing.T) {
	lab, err := sides.Start(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	store, end, err := sides.Open(t.Context(), sides.RVFloor, lab.Ports[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	opts := sides.Everything("")
	if err := store.GetList(t.Context(), sides.PodPrefix, opts, &example.PodList{}); err != nil {
		t.Fatal(err)
	}
	w, err := store.Watch(t.Context(), sides.PodPrefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()

	served := scrape(t)
	for name := range families(t) {
		if !strings.Contains(served, "\n# TYPE "+name+" ") {
			t.Errorf("%s is not served", name)
		}
	}
	for _, line := range []string{
		`rvfloor_lag_revisions{group="",resource="pods"} 0`,
		`rvfloor_waiters{group="",resource="pods"} 0`,
		`rvfloor_wait_duration_seconds_count{group="",resource="pods",verb="watch"} 1`, // a watcher's initial wait
		`rvfloor_breaches_total{group="",resource="pods"} 0`,
	} {
		if !strings.Contains(served, "\n"+line+"\n") {
			t.Errorf("not served: %s", line)
		}
	}

	check := exec.CommandContext(t.Context(), promtool(t), "check", "metrics")
	check.Stdin = strings.NewReader(served)
	if out, err := check.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// scrape is what is served of rvfloor: the server's other metrics are not ours to
// judge.
func scrape(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(legacyregistry.Handler())
	defer server.Close()
	res, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var ours strings.Builder
	ours.WriteString("\n")
	for line := range strings.Lines(string(all)) {
		if strings.HasPrefix(line, "rvfloor_") || strings.HasPrefix(line, "# HELP rvfloor_") || strings.HasPrefix(line, "# TYPE rvfloor_") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}
