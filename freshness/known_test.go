package freshness

import (
	"context"
	"errors"
	"testing"
)

// scripted answers one reading after the other, and then the last one for ever.
type scripted struct{ left []answer }

type answer struct {
	reading Reading
	err     error
}

func (s *scripted) Read(context.Context) (Reading, error) {
	now := s.left[0]
	if len(s.left) > 1 {
		s.left = s.left[1:]
	}
	return now.reading, now.err
}

// TestEvidence: what later readings have to agree with, and what they need not.
func TestEvidence(t *testing.T) {
	snapshot := grown(3)
	lost := snapshot.extended(30) // what we saw, and the restore lost
	long := lost
	for range MaxChain {
		long = long.extended(1000)
	}
	with := func(chain Chain) answer { return answer{reading: Reading{Revision: 9, Witness: chain.Encode()}} }
	term := func(member, term uint64) answer {
		return answer{reading: Reading{Revision: 9, ClusterID: 1, MemberID: member, RaftTerm: term}}
	}
	broken := answer{err: errors.New("no connection")}

	for _, test := range []struct {
		name    string
		answers []answer
		want    string // "" for none
	}{
		{"another cluster", []answer{{reading: Reading{Revision: 9, ClusterID: 1}}, {reading: Reading{Revision: 10, ClusterID: 2}}}, EvidenceCluster},
		{"a cluster that does not say", []answer{{reading: Reading{Revision: 9, ClusterID: 1}}, {reading: Reading{Revision: 9}}}, ""},
		{"the cluster of before it did not say", []answer{{reading: Reading{Revision: 9, ClusterID: 1}}, {reading: Reading{Revision: 9}}, {reading: Reading{Revision: 9, ClusterID: 2}}}, EvidenceCluster},

		{"a term twice below", []answer{term(1, 5), term(1, 2), term(1, 2)}, EvidenceTerm},
		{"terms below on two members", []answer{term(1, 5), term(2, 5), term(1, 2), term(2, 2)}, EvidenceTerm},
		{"a term once below", []answer{term(1, 5), term(1, 4), term(1, 5)}, ""},
		{"another member's term", []answer{term(1, 5), term(2, 3), term(2, 3)}, ""},
		{"a member that has just started", []answer{term(1, 5), term(1, 0), term(1, 0)}, ""},
		{"it started and had lost its term", []answer{term(1, 5), term(1, 0), term(1, 4), term(1, 4)}, EvidenceTerm},

		{"the chain went on", []answer{with(lost), with(lost.extended(40))}, ""},
		{"restored", []answer{with(lost), with(snapshot)}, EvidenceWitness},
		{"restored, and another server appended", []answer{with(lost), with(snapshot.extended(30).extended(50))}, EvidenceWitness},
		{"emptied", []answer{with(lost), with(Chain{})}, EvidenceWitness},
		{"no sentinel", []answer{with(lost), {reading: Reading{Revision: 9}}}, EvidenceMissing},
		{"no sentinel any more, made anew", []answer{with(lost), {reading: Reading{Revision: 9, Witness: grown(1).Encode(), Created: true}}}, EvidenceMissing},
		{"something else there", []answer{with(lost), {reading: Reading{Revision: 9, Witness: []byte("leader=a")}}}, EvidenceMissing},
		{"a sentinel where there was none", []answer{{reading: Reading{Revision: 9}}, with(lost)}, ""},
		{"made by the first read", []answer{{reading: Reading{Revision: 9, Witness: snapshot.Encode(), Created: true}}, with(lost)}, ""},
		{"a newer version keeps it", []answer{with(lost), {reading: Reading{Revision: 9, Witness: []byte("rvfloor\x02x")}}, with(snapshot)}, ""},

		{"cut off by its successors", []answer{with(lost), with(long)}, ""},
		{"cut off, after an error", []answer{with(lost), broken, broken, with(long)}, EvidenceWitness},
		{"there, after an error", []answer{with(lost), broken, broken, with(lost.extended(40))}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			source := &scripted{left: test.answers}
			var told []string
			floors := newFloors(t, source, Config{Hooks: Hooks{Rewound: func(err *RewoundError) { told = append(told, err.Evidence) }}})
			var err error
			for range len(test.answers) + 1 {
				_, err = floors.Next(t.Context())
			}
			rewound, ok := errors.AsType[*RewoundError](err)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("in the end: %v", err)
			case test.want != "" && (!ok || rewound.Evidence != test.want || len(told) != 1 || told[0] != test.want):
				t.Errorf("in the end: %v, want evidence %q; the hook was told %q", err, test.want, told)
			}
		})
	}
}

// TestDoubt: after a disconnect the chain has to prove that the history is the same.
func TestDoubt(t *testing.T) {
	known := grown(3)
	long := known
	for range MaxChain {
		long = long.extended(1000)
	}
	witness := known
	floors := newFloors(t, sourceFunc(func(context.Context) (Reading, error) {
		return Reading{Revision: 9, Witness: witness.Encode()}, nil
	}), Config{})
	next := func() error {
		t.Helper()
		_, err := floors.Next(t.Context())
		return err
	}
	floors.Doubt() // the first connection
	if !floors.Doubted() || next() != nil || floors.Doubted() {
		t.Fatal("the first floor ends the doubt of the first connection")
	}
	floors.Doubt()
	if _, err := floors.Within(t.Context(), 1<<40); err != nil || floors.Doubted() {
		t.Errorf("Within answered %v, and left the doubt: %v", err, floors.Doubted())
	}
	witness = long
	if err := next(); err != nil {
		t.Fatalf("cut off, without a doubt: %v", err)
	}
	floors.Doubt()
	if err := next(); err != nil {
		t.Fatalf("the last link is there: %v", err)
	}
	for range MaxChain {
		witness = witness.extended(5000)
	}
	floors.Doubt()
	rewound, ok := errors.AsType[*RewoundError](next())
	if !ok || rewound.Evidence != EvidenceWitness || !floors.Doubted() {
		t.Errorf("got %v; doubted: %v", rewound, floors.Doubted())
	}
}

// TestRenew: an epoch ends once, and the next knows nothing of it.
func TestRenew(t *testing.T) {
	backend := &scripted{left: []answer{
		{reading: Reading{Revision: 100, ClusterID: 1, MemberID: 1, RaftTerm: 7, Witness: grown(3).Encode()}},
		{reading: Reading{Revision: 10, ClusterID: 2, MemberID: 1, RaftTerm: 2, Witness: grown(2).Encode()}},
	}}
	rewinds := 0
	floors := newFloors(t, backend, Config{Hooks: Hooks{Rewound: func(*RewoundError) { rewinds++ }}})
	old := floors.Epoch()
	if _, err := floors.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	floors.Renew(old)
	if floors.Epoch() != old {
		t.Fatal("an epoch that lasts was ended")
	}
	if _, err := floors.Next(t.Context()); err == nil {
		t.Fatal("the rewind was not seen")
	}
	<-old.Ended()
	floors.Renew(old)
	present := floors.Epoch()
	floors.Renew(old) // the second Store of the backend: nothing is left to do
	if floors.Epoch() != present || present == old {
		t.Fatal("it was renewed twice, or never")
	}
	if last, ok := floors.Last(); ok {
		t.Errorf("the new epoch has the floor %v", last)
	}
	old.Saw(100) // a cache of the old history that has not stopped yet
	if floor, err := floors.Next(t.Context()); err != nil || floor.Revision != 10 {
		t.Errorf("got %v, %v", floor, err)
	}
	if old.Rewound() == nil || present.Rewound() != nil || rewinds != 1 {
		t.Errorf("old: %v, present: %v, %d rewinds", old.Rewound(), present.Rewound(), rewinds)
	}
}
