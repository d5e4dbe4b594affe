package linear

import (
	"hash/maphash"
	"sync"
	"time"
)

// Config says what a Run may expect. The zero Config is strict.
type Config struct {
	// Prefix is what only the clients of this Run write below: any other write there is
	// a phantom. "" means all keys; a backend that is also written by others needs it.
	Prefix string
	// ZeroMayBeOld exempts reads at resourceVersion "0" from being fresh, not from being
	// right. It is for servers that were told to serve them as the stock server does.
	ZeroMayBeOld bool
	// Unordered is for a backend whose writes get their revisions before they take effect,
	// as kine's do over PostgreSQL: a read may then lack those at or below its revision that
	// had not been acknowledged when it began. In which order GETs see them only the second
	// opinion tells.
	Unordered bool
	// PassesOver lets a watch leave out an object that came and went before the next event
	// that it delivers, as strategy range-proof may.
	PassesOver bool
	// SecondOpinion names a few keys whose histories are also given to porcupine, which
	// knows nothing of revisions between keys and searches instead of sorting. A key of
	// which nothing was recorded makes the run fail.
	SecondOpinion []string
	// Hold bounds the items that are kept of answers that are wrong, or whose revision
	// the truth has not reached yet; default 1,000,000. What is beyond is judged all the
	// same, but a violation then cannot say which items were wrong.
	Hold int
	// Keep is how many violations of a kind are reported in full; default 10: one fault of
	// a server shows in many answers.
	Keep int
}

// Run records what clients did and saw, and judges it. All methods but Check may be
// called at once.
type Run struct {
	cfg  Config
	seed maphash.Seed
	now  func() int64 // monotonic, in nanoseconds; never 0

	mu        sync.Mutex
	clients   []*Client
	epochs    []*epoch // the last is in force, or will be when the restore is over
	restoring int64    // when the restore that is under way began; 0: none is
	held      []held   // answers ahead of the truth
	wrong     []held   // answers that the truth contradicts
	heldItems int      // of both
	watches   []*Watch
	projected map[string][]projection // for the second opinion, by key
	phases    []string
	faults    []Fault
	found     violations
}

// New returns a Run that begins now, in a phase without a name.
func New(cfg Config) *Run {
	if cfg.Hold == 0 {
		cfg.Hold = 1_000_000
	}
	if cfg.Keep == 0 {
		cfg.Keep = 10
	}
	start := time.Now()
	r := &Run{
		cfg:       cfg,
		seed:      maphash.MakeSeed(),
		now:       func() int64 { return int64(time.Since(start)) + 1 },
		projected: map[string][]projection{},
		phases:    []string{""},
		found:     violations{keep: cfg.Keep},
	}
	for _, key := range cfg.SecondOpinion {
		r.projected[key] = nil
	}
	r.epochs = []*epoch{{truth: newTruth(r.seed), until: forever}}
	return r
}

// Truth tells what the backend held: its revisions in ascending order, each whole.
// It says nothing about who wrote them. A revision without changes says only that
// the truth is known up to it. To tell several at once costs less. The error names a revision that came out of order.
func (r *Run) Truth(revisions ...Revision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, revision := range revisions {
		if err := r.inForceLocked().truth.append(revision); err != nil {
			return err
		}
	}
	r.judgeHeldLocked(false)
	return nil
}

// Phase begins a part of the run, such as a fault: the reads that begin in it are
// counted apart, and at least half of them must succeed. A name may come again.
func (r *Run) Phase(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phases = append(r.phases, name)
}

// Planned says that a fault is to happen once more before the run may pass.
func (r *Run) Planned(fault string) { r.countFault(fault, 1, 0) }

// Happened says that a fault was seen to happen once.
func (r *Run) Happened(fault string) { r.countFault(fault, 0, 1) }

func (r *Run) countFault(name string, planned, happened int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.faults {
		if r.faults[i].Name == name {
			r.faults[i].Planned += planned
			r.faults[i].Happened += happened
			return
		}
	}
	r.faults = append(r.faults, Fault{name, planned, happened})
}
