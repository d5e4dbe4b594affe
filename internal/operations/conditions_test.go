package operations

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apiserver/pkg/storage/cacher/consistency"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// condition is one after the other of its phases, each a row of the second table.
type condition struct {
	name   string
	cfg    siteConfig
	phases []phase
}

type phase struct {
	name string
	// begin makes it so, and returns the name of an object that the open watch is to bring,
	// if it goes on at all.
	begin func(*testing.T, *site) (written string)
	// others is a LIST of those who have no part in it; nil: of another resource.
	others func(*testing.T, *site) string
	told   string
}

var conditions = []condition{
	{name: "unfillable", phases: []phase{
		{name: "after a restore one cache cannot be filled", told: "the cache cannot be filled",
			begin: func(t *testing.T, s *site) string {
				file := filepath.Join(t.TempDir(), "snapshot")
				if err := s.cluster.Save(t.Context(), file); err != nil {
					t.Fatal(err)
				}
				s.put("lost", "lost")
				await(t, func() bool { return s.resources[0].ask(t, plain) == "200" })
				s.key.gone.Store(true)
				s.restore(file)
				await(t, func() bool { return s.resources[1].ask(t, plain) == "200" })
				await(t, func() bool { return s.page("the cache cannot be filled") })
				s.put("new", "new")
				return "new"
			}},
		{name: "it can again",
			begin: func(t *testing.T, s *site) string {
				s.key.gone.Store(false)
				await(t, func() bool { return s.resources[0].ask(t, plain) == "200" })
				for range 10 { // past what was lost, from where a watch gets 410 for a moment
					s.put("new", "new")
				}
				s.follow()
				s.put("newer", "newer")
				return "newer"
			}},
	}},
	{name: "misnamed", phases: []phase{
		{name: "the checker finds a cache wrong, and the next one too", told: "and so did the one before",
			begin: func(t *testing.T, s *site) string {
				s.put("z", "a")
				await(t, func() bool { return journal.since(s.began, "and so did the one before") > 0 })
				s.put("new", "new")
				return "new"
			}},
		{name: "it does so again and again", told: "it lacks",
			begin: func(t *testing.T, s *site) string {
				s.follow()
				before := journal.len()
				await(t, func() bool { return journal.since(before, "Cache consistency check failed") >= 3 })
				for _, never := range []string{"and so did the one before", "was built anew"} {
					if journal.since(s.began, never) > 0 {
						t.Errorf("it is said again: %s", never)
					}
				}
				s.put("newer", "newer")
				return "newer"
			}},
	}},
	{name: "outage", phases: []phase{
		{name: "etcd is down",
			begin: func(t *testing.T, s *site) string {
				s.proxy.Cut()
				return ""
			}},
		{name: "it is down for longer", told: "until it can, reads that need it fail at once",
			begin: func(t *testing.T, s *site) string {
				grown := retries(t, s)
				if len(grown) < 2 || !slices.IsSorted(grown) {
					t.Errorf("Retry-After grows like %v", grown)
				}
				return ""
			}},
		{name: "it is back", told: "can be read again",
			begin: func(t *testing.T, s *site) string {
				s.proxy.Heal()
				await(t, func() bool { return s.resources[0].ask(t, plain) == "200" })
				s.put("new", "new")
				return "new"
			}},
	}},
	{name: "streams", cfg: siteConfig{
		resources: 20,
		etcd:      etcdlab.Config{Tune: func(_ int, cfg *embed.Config) { cfg.MaxConcurrentStreams = 16 }},
	}, phases: []phase{
		{name: "20 resources where a connection allows 16 streams", told: "others are opened for them",
			begin: func(t *testing.T, s *site) string {
				s.began = s.made
				s.put("new", "new")
				return "new"
			}},
	}},
	{name: "direct", cfg: siteConfig{server: apiserver.Config{Strategy: decorator.StrategyDirect, MaxWait: patience / 2}}, phases: []phase{
		{name: "one user keeps 30 LISTs under way, strategy `direct`", others: besideMany,
			begin: func(t *testing.T, s *site) string {
				s.put("new", "new")
				return "new"
			}},
	}},
	stuck("caches are stuck", ""),
	stuck("caches are stuck, `Fail`", decorator.UnverifiedFail),
	stuck("caches are stuck, `Stale`", decorator.UnverifiedStale),
	// A strategy is left when somebody has waited for 2 s.
	{name: "stuck for longer", cfg: siteConfig{holds: true, server: apiserver.Config{MaxWait: patience / 2}}, phases: []phase{
		{name: "caches are stuck for 2 s", told: "requests for progress are not answered",
			begin: func(t *testing.T, s *site) string {
				s.watches.Hold()
				t.Cleanup(s.watches.Release)
				s.put("new", "new")
				await(t, func() bool {
					return s.resources[0].ask(t, plain) == "200" && s.strategy() == decorator.StrategyDirect
				})
				return ""
			}},
		{name: "they are not any more", told: "in another way",
			begin: func(t *testing.T, s *site) string {
				s.watches.Release()
				await(t, func() bool { // what failed is tried again while there are reads
					return s.resources[0].ask(t, plain) == "200" && s.strategy() == decorator.StrategyRequest
				})
				return "new"
			}},
	}},
}

// stuck is that no watch of a cache brings anything, while floors are read.
func stuck(name string, policy decorator.OnUnverified) condition {
	return condition{name: name, cfg: siteConfig{holds: true, server: apiserver.Config{OnUnverified: policy, MaxWait: longest}}, phases: []phase{
		{name: name,
			begin: func(t *testing.T, s *site) string {
				s.watches.Hold()
				t.Cleanup(s.watches.Release)
				s.put("new", "new")
				return ""
			}},
	}}
}

// retries are the Retry-Afters of LISTs until the longest.
func retries(t *testing.T, s *site) (seconds []int) {
	await(t, func() bool {
		var code, retry int
		_, err := fmt.Sscanf(s.resources[0].ask(t, plain), "%d Timeout, %d s", &code, &retry)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(seconds, retry) {
			seconds = append(seconds, retry)
		}
		return retry == 10
	})
	return seconds
}

// besideMany is what one user's LISTs get while another keeps 30 under way, none equal to
// another, so that they share nothing.
func besideMany(t *testing.T, s *site) string {
	var stop atomic.Bool
	var busy sync.WaitGroup
	many, one := *s.resources[0], *s.resources[0]
	many.user, one.user = "many", "one"
	first := make(chan bool, 30)
	for i := range 30 {
		busy.Go(func() {
			for n := 0; !stop.Load(); n++ {
				many.ask(t, func(*server) string { return fmt.Sprintf("?labelSelector=x!%%3D%d", i) })
				if n == 0 {
					first <- true
				}
			}
		})
	}
	for range 30 {
		<-first
	}
	var answers []string
	for range 50 {
		answers = append(answers, one.ask(t, plain))
	}
	stop.Store(true)
	busy.Wait()
	slices.Sort(answers)
	return strings.Join(slices.Compact(answers), " or ")
}

// asked are those rows of the other table that are columns of this one.
var asked = []string{"LIST", "LIST not older than N", "GET at 0", "WATCH", "WATCH with initial events"}

// TestConditions produces every cell of the table of conditions in docs/operations.md.
func TestConditions(t *testing.T) {
	period := consistency.CheckPeriod
	t.Cleanup(func() { consistency.CheckPeriod = period })
	want := table(t, "condition")
	rows := 0
	for _, c := range conditions {
		rows += len(c.phases)
		t.Run(c.name, func(t *testing.T) {
			if consistency.CheckPeriod = period; c.name == "misnamed" {
				consistency.CheckPeriod = 200 * time.Millisecond
			}
			s := newSite(t, c.cfg)
			for _, p := range c.phases {
				s.began = journal.len()
				written := p.begin(t, s)
				for column, cell := range s.look(t, p, written) {
					if said, found := want[p.name][column]; !found || cell != said {
						t.Errorf("%s, %s: %q, and docs/operations.md says %q", p.name, column, cell, said)
					}
				}
			}
		})
	}
	if rows != len(want) {
		t.Errorf("docs/operations.md has %d rows of conditions, and %d were produced", len(want), rows)
	}
}

// look makes the cells of a row.
func (s *site) look(t *testing.T, p phase, written string) map[string]string {
	var mu sync.Mutex
	var asking sync.WaitGroup
	row := map[string]string{}
	set := func(column string, make func() string) {
		asking.Go(func() {
			cell := make()
			mu.Lock()
			defer mu.Unlock()
			row[column] = cell
		})
	}
	for _, call := range calls {
		if slices.Contains(asked, call.name) {
			set(call.name, func() string { return s.resources[0].wait(t, call.path) })
		}
	}
	set("LIST by others", func() string {
		if p.others != nil {
			return p.others(t, s)
		}
		var answers []string
		for _, r := range s.resources[1:] {
			answers = append(answers, r.wait(t, plain))
		}
		slices.Sort(answers)
		return strings.Join(slices.Compact(answers), " or ")
	})
	asking.Wait()
	row["`/readyz`"] = s.ready()
	row["open watch"] = s.open.tell(t, written)
	row["told"] = s.told(p.told)
	return row
}

// wait is answer, with whether it took all of MaxWait.
func (s *server) wait(t *testing.T, path func(*server) string) string {
	began := time.Now()
	answer := s.answer(t, path)
	if time.Since(began) >= s.maxWait {
		return "waits, then " + answer
	}
	return answer
}
