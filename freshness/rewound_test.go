package freshness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRewoundIsSticky: once a read answers below what was seen before it was
// sent, nobody gets a floor any more, and nothing is read.
func TestRewoundIsSticky(t *testing.T) {
	for name, see := range map[string]func(*Floors){
		"a floor":    func(*Floors) {},                       // the 7 of the first read
		"seen by us": func(f *Floors) { f.Saw(9); f.Saw(8) }, // never goes down
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := at(7)
				var infos []ReadInfo
				var told []*RewoundError
				floors := newFloors(t, backend, Config{Hooks: Hooks{
					Read:    func(info ReadInfo) { infos = append(infos, info) },
					Rewound: func(err *RewoundError) { told = append(told, err) },
				}})
				if _, err := floors.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := floors.Rewound(); err != nil {
					t.Fatal(err)
				}
				see(floors)
				want := RewoundError{Seen: 7, Read: 6, Evidence: EvidenceRevision}
				if name == "seen by us" {
					want = RewoundError{Seen: 9, Read: 8, Evidence: EvidenceRevision}
				}
				backend.revision.Store(want.Read)

				// Two batches: one whose read finds it out, one that waits for its turn.
				var callers sync.WaitGroup
				for range 2 {
					for range 10 {
						callers.Go(func() {
							_, err := floors.Next(t.Context())
							if rewound, ok := errors.AsType[*RewoundError](err); !ok || *rewound != want {
								t.Errorf("got %v", err)
							}
						})
					}
					synctest.Wait()
				}
				callers.Wait()
				if n := backend.reads.Load(); n != 2 {
					t.Errorf("%d reads, want 2: the first, and the one that found it out", n)
				}

				backend.revision.Store(100) // the new history has passed the old one
				start := time.Now()
				for range 3 {
					if floor, err := floors.Next(t.Context()); err != error(floors.Rewound()) || floor != (Floor{}) {
						t.Errorf("Next: %v, %v", floor, err)
					}
					if floor, err := floors.Within(t.Context(), time.Hour); err != error(floors.Rewound()) || floor != (Floor{}) {
						t.Errorf("Within: %v, %v", floor, err)
					}
				}
				if took := time.Since(start); took != 0 || backend.reads.Load() != 2 {
					t.Errorf("took %v and %d reads", took, backend.reads.Load())
				}
				if len(told) != 1 || told[0] != floors.Rewound() || *told[0] != want {
					t.Errorf("the hook was told %v", told)
				}
				if len(infos) != 2 || infos[1].Outcome != OutcomeRewound || infos[1].Err != error(told[0]) || infos[1].Revision != want.Read {
					t.Errorf("hook: %+v", infos)
				}
			})
		})
	}
}

// TestSawDuringARead: what is seen only after a read was sent says nothing
// about its answer.
func TestSawDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := at(5)
		floors := newFloors(t, backend, Config{})
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if floor, err := floors.Next(t.Context()); err != nil || floor.Revision != 5 {
				t.Errorf("got %v, %v", floor, err)
			}
		}()
		synctest.Wait()
		floors.Saw(6)
		<-answered
		backend.revision.Store(6)
		if floor, err := floors.Next(t.Context()); err != nil || floor.Revision != 6 {
			t.Errorf("then: %v, %v", floor, err)
		}
		if floors.Rewound() != nil {
			t.Error(floors.Rewound())
		}
	})
}

// TestSourceFindsTheRewind: a source may have evidence of its own.
func TestSourceFindsTheRewind(t *testing.T) {
	found := &RewoundError{Seen: 3, Read: 4, Evidence: "cluster"}
	floors := newFloors(t, SourceFunc(func(context.Context) (uint64, error) {
		return 0, fmt.Errorf("source: %w", found)
	}), Config{})
	for range 2 {
		if _, err := floors.Next(t.Context()); err != error(found) {
			t.Errorf("got %v", err)
		}
	}
	if floors.Rewound() != found {
		t.Errorf("Rewound: %v", floors.Rewound())
	}
}

// TestWrote: a write ends the epoch that it shows to be over, once, and no other.
func TestWrote(t *testing.T) {
	var rewinds int
	floors := newFloors(t, at(10), Config{Hooks: Hooks{Rewound: func(*RewoundError) { rewinds++ }}})
	first := floors.Epoch()
	first.Saw(5)
	floors.Wrote(first, first.Seen(), 6)
	floors.Wrote(first, 4, 5) // was sent before 5 was seen
	if first.Seen() != 6 || first.Rewound() != nil {
		t.Fatalf("seen %d, rewound %v", first.Seen(), first.Rewound())
	}
	floors.Wrote(first, 6, 6)
	floors.Wrote(first, 6, 3)
	want := RewoundError{Seen: 6, Read: 6, Evidence: EvidenceRevision}
	if rewound := first.Rewound(); rewound == nil || *rewound != want || rewinds != 1 {
		t.Errorf("rewound %v, told %d times", rewound, rewinds)
	}
	<-first.Ended()
	floors.Renew(first)
	floors.Wrote(first, 6, 2)
	if _, err := floors.Next(t.Context()); err != nil || floors.Rewound() != nil || rewinds != 1 {
		t.Errorf("the epoch after it: %v", err)
	}
}
