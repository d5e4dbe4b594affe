package probe

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rvfloor/rvfloor/decorator/strategy"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// shim starts two processes over one database, with a client of each.
func shim(t *testing.T, cfg fdbshim.Config, opts fdbshim.Options) []*clientv3.Client {
	t.Helper()
	store := fdbshim.NewStore(cfg)
	t.Cleanup(store.Close)
	clients := make([]*clientv3.Client, 2)
	for i := range clients {
		server, err := fdbshim.Serve(store, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		clients[i], err = clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { clients[i].Close() })
	}
	return clients
}

// TestShim: each misbehaviour is named, and nothing else is; with -count 10, ten times of ten.
func TestShim(t *testing.T) {
	const yes, no, unsure = strategy.VerdictYes, strategy.VerdictNo, strategy.VerdictUnsure
	etcd := fdbshim.Config{LikeEtcd: true}
	type verdicts map[string]strategy.Verdict // those that are not yes
	for name, test := range map[string]struct {
		cfg    fdbshim.Config
		faults fdbshim.Faults
		want   verdicts
		safe   strategy.Verdict
		first  strategy.Name // of the sound ones
	}{
		"like etcd":         {cfg: etcd, safe: yes, first: strategy.Request},
		"like FoundationDB": {want: verdicts{progressReaches: no}, safe: yes, first: strategy.Nudge},
		"NoProgress": {
			cfg: etcd, faults: fdbshim.Faults{NoProgress: true}, safe: yes, first: strategy.RangeProof,
			want: verdicts{progressAnswered: no, progressOrdered: unsure, progressReaches: unsure, writesMoveProgress: unsure, progressMonotonic: unsure},
		},
		"ProgressUnimplemented": {
			cfg: etcd, faults: fdbshim.Faults{ProgressUnimplemented: true}, safe: yes, first: strategy.RangeProof,
			want: verdicts{progressAnswered: no, progressOrdered: unsure, progressReaches: unsure, writesMoveProgress: unsure, progressMonotonic: unsure},
		},
		"ProgressBack":           {cfg: etcd, faults: fdbshim.Faults{ProgressBack: true}, want: verdicts{progressMonotonic: no}, safe: yes, first: strategy.Request},
		"ProgressAheadOfCatchUp": {cfg: etcd, faults: fdbshim.Faults{ProgressAheadOfCatchUp: true}, want: verdicts{progressOrdered: no}, safe: yes, first: strategy.RangeProof},
		"ProgressAheadOfLive":    {cfg: etcd, faults: fdbshim.Faults{ProgressAheadOfLive: true}, want: verdicts{progressOrdered: no}, safe: yes, first: strategy.RangeProof},
		"CreatedZero":            {cfg: etcd, faults: fdbshim.Faults{CreatedZero: true}, want: verdicts{createdRevision: no}, safe: yes, first: strategy.Request},
		"WatchesLag":             {cfg: etcd, faults: fdbshim.Faults{WatchesLag: true}, safe: yes, first: strategy.Request},
		"LoseEvents":             {cfg: etcd, faults: fdbshim.Faults{LoseEvents: true}, want: verdicts{everyEventDelivered: no}, safe: no, first: strategy.Direct},
		"ReadsLag": {
			cfg: etcd, faults: fdbshim.Faults{ReadsLag: true}, safe: no,
			want: verdicts{linearizableFloor: no, MissingKeyFloor: no},
		},
		"ReadsLagForOthers": {
			cfg: etcd, faults: fdbshim.Faults{ReadsLagForOthers: true}, safe: no,
			want: verdicts{linearizableFloor: no, MissingKeyFloor: no},
		},
		"MissingLags":       {cfg: etcd, faults: fdbshim.Faults{MissingLags: true}, want: verdicts{MissingKeyFloor: no}, safe: yes, first: strategy.Request},
		"NoFilters":         {faults: fdbshim.Faults{NoFilters: true}, want: verdicts{progressReaches: no, filtersWork: no}, safe: yes, first: strategy.Nudge},
		"NoSerializable":    {cfg: etcd, faults: fdbshim.Faults{NoSerializable: true}, safe: yes, first: strategy.Request},
		"OneWatchPerStream": {cfg: etcd, faults: fdbshim.Faults{OneWatchPerStream: true}, safe: yes, first: strategy.Request},
		"ZeroRevision": {cfg: etcd, faults: fdbshim.Faults{ZeroRevision: true}, want: verdicts{
			HeaderRevision: no, linearizableFloor: no, MissingKeyFloor: unsure, oneRevisionSpace: unsure, progressAnswered: unsure,
			progressOrdered: unsure, progressMonotonic: unsure, progressReaches: unsure, writesMoveProgress: unsure, filtersWork: unsure,
			everyEventDelivered: unsure, createdRevision: unsure,
		}, safe: no},
		"RevisionPerPrefix": {cfg: fdbshim.Config{LikeEtcd: true, RevisionPerPrefix: true}, want: verdicts{oneRevisionSpace: no}, safe: no},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := shim(t, test.cfg, fdbshim.Options{Faults: test.faults})
			report, err := Observe(t.Context(), Config{Clients: clients, Limit: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				want, ok := test.want[f.Property]
				if !ok {
					want = yes
				}
				if f.Verdict != want {
					t.Errorf("%s is %s, want %s: %s: %s", f.Property, f.Verdict, want, f.Seen, f.Example)
				}
			}
			if report.Safe() != test.safe || report.Problem != "" {
				t.Errorf("safe: %s, want %s; %s", report.Safe(), test.safe, report.Problem)
			}
			if test.first != "" && (len(report.Strategies) == 0 || report.Strategies[0] != test.first) || test.first == "" && report.Strategies != nil {
				t.Errorf("got strategies %v (%s), want %q first", report.Strategies, report.Reason, test.first)
			}
			t.Log(report.TookMillis, report.Writes, strings.TrimSpace(report.Reason))
		})
	}
}

// TestCountersApart: a counter of another prefix is told apart also where it is ahead, so
// that it is never seen to be behind a write.
func TestCountersApart(t *testing.T) {
	clients := shim(t, fdbshim.Config{LikeEtcd: true, RevisionPerPrefix: true}, fdbshim.Options{})
	for range 2000 { // more than a probe writes
		if _, err := clients[0].Put(t.Context(), "/registry/rvfloor-elsewhere/other", ""); err != nil {
			t.Fatal(err)
		}
	}
	report, err := Observe(t.Context(), Config{Clients: clients, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if f := report.Finding(oneRevisionSpace); f.Verdict != strategy.VerdictNo {
		t.Errorf("%s is %s: %s", f.Property, f.Verdict, f.Seen)
	}
}
