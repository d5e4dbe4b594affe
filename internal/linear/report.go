package linear

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind names what is wrong.
type Kind string

// The kinds of violations.
const (
	// An answer below a write that was acknowledged before the read began.
	BelowAcknowledged Kind = "below an acknowledged write"
	// An answer below that of a read that had ended before this one began.
	BackInTime Kind = "back in time"
	// An answer at a revision that did not exist yet.
	Future Kind = "in the future"
	// An answer below the revision that the reader named, or not at it.
	NotAsAsked Kind = "not as asked"
	// An answer of the history before a restore, though the read began after it.
	BeforeRestore Kind = "before the restore"

	// An answer that is not the state at its revision: it has a part of what one
	// revision changed; lacks an object; has one that is not there; has an older or a
	// newer version, another value, or an object twice.
	Torn       Kind = "torn revision"
	Missing    Kind = "missing object"
	Phantom    Kind = "phantom object"
	OldVersion Kind = "old version"
	NewVersion Kind = "new version"
	WrongValue Kind = "wrong value"
	Duplicate  Kind = "duplicate object"

	// The backend has no trace of a write that it acknowledged, or not that.
	LostWrite Kind = "lost write"
	// The backend holds what nobody wrote, or what it had refused.
	PhantomWrite Kind = "phantom write"
	// A write got a revision below that of one that was acknowledged before it began.
	WriteOrder Kind = "writes out of order"

	// A watch left out a change; delivered one again, or a bookmark that is below it;
	// delivered what never happened.
	WatchGap     Kind = "watch: gap"
	WatchBack    Kind = "watch: back"
	WatchPhantom Kind = "watch: phantom"

	// Porcupine finds no order for the history of a key, or could not tell in time.
	SecondOpinion Kind = "second opinion"
	Undecided     Kind = "undecided"
)

// Violation is one fault that was found. Its text names the client and the
// operation, and what was expected because of which other operation.
type Violation struct {
	Kind Kind
	// At is when the operation began, from the beginning of the Run; 0 where there is none.
	At   time.Duration
	Text string
	// Keys are those of which alone something wrong is said; nil: it is not of keys, as
	// where a LIST is too old.
	Keys []string
}

// Phase is a part of the run, and the reads and watches that began in it.
type Phase struct {
	Name            string
	Reads, Answered int // without watches
	Wrong           int // reads and watches with a violation
}

// Fault is a fault that was planned.
type Fault struct {
	Name              string
	Planned, Happened int
}

// Report is the judgement of a Run.
type Report struct {
	// Violations are the first of each kind; Counts has the numbers of all.
	Violations []Violation
	Counts     map[Kind]int
	Phases     []Phase
	Faults     []Fault
	// Operations and Revisions are how much was judged, Second how many operations
	// porcupine was given, by key.
	Operations, Revisions int
	Second                map[string]int
}

// Err returns nil for a run that passed: nothing is violated, of the reads of each
// phase at least half were answered (and there were some, also in a phase that has the
// name of a fault), each planned fault happened, and there was something to give to
// porcupine for each key.
func (r *Report) Err() error {
	var errs []error
	for _, v := range r.Violations {
		errs = append(errs, fmt.Errorf("%s (one of %d): %s", v.Kind, r.Counts[v.Kind], v.Text))
	}
	reads, of := 0, map[string]int{}
	for _, p := range r.Phases {
		reads += p.Reads
		of[p.Name] = p.Reads
		if 2*p.Answered < p.Reads {
			errs = append(errs, fmt.Errorf("phase %q: only %d of %d reads were answered", p.Name, p.Answered, p.Reads))
		}
	}
	if reads == 0 {
		errs = append(errs, errors.New("there was no read"))
	}
	for _, f := range r.Faults {
		if f.Happened < f.Planned {
			errs = append(errs, fmt.Errorf("fault %q happened %d times, and was planned %d times", f.Name, f.Happened, f.Planned))
		}
		if n, ok := of[f.Name]; ok && n == 0 {
			errs = append(errs, fmt.Errorf("no read began in phase %q", f.Name))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Second)) {
		if r.Second[key] == 0 {
			errs = append(errs, fmt.Errorf("no operation on %s for the second opinion", key))
		}
	}
	return errors.Join(errs...)
}

// violations keeps the first of each kind in full.
type violations struct {
	keep   int
	first  []Violation
	counts map[Kind]int
}

// room reports whether another violation of the kind would be kept in full.
func (v *violations) room(kind Kind) bool { return v.counts[kind] < v.keep }

// add counts a violation of the operation; o is nil where there is none.
func (v *violations) add(kind Kind, o *op, format string, args ...any) {
	v.addOf(o.keys(), kind, o, format, args...)
}

// addOf is add where something is wrong with these keys alone.
func (v *violations) addOf(keys []string, kind Kind, o *op, format string, args ...any) {
	if o != nil {
		o.wrong = true
	}
	if v.room(kind) {
		found := Violation{Kind: kind, Text: fmt.Sprintf(format, args...), Keys: keys}
		if o != nil {
			found.At, found.Text = time.Duration(o.begin), o.String()+": "+found.Text
		}
		v.first = append(v.first, found)
	}
	if v.counts == nil {
		v.counts = map[Kind]int{}
	}
	v.counts[kind]++
}

// keys are those that the operation says something of, unless that is a whole prefix.
func (o *op) keys() (keys []string) {
	switch {
	case o == nil:
	case o.kind == get:
		keys = []string{o.target}
	case o.kind == write:
		for _, change := range o.write.changes {
			keys = append(keys, change.Key)
		}
	}
	return keys
}

func (v *violations) byTime() []Violation {
	slices.SortStableFunc(v.first, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return v.first
}

// String describes the operation: who, what, when, and at which revision.
func (o *op) String() string {
	var b strings.Builder
	b.WriteString(o.client.name)
	switch {
	case o.kind == write:
		fmt.Fprintf(&b, ": %s of", o.write.kind)
		for _, change := range o.write.changes[:min(len(o.write.changes), 3)] {
			b.WriteString(" " + change.Key)
		}
		if more := len(o.write.changes) - 3; more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	case o.kind == watch:
		fmt.Fprintf(&b, ": WATCH %s after %d", o.target, o.asked)
	case o.exact:
		fmt.Fprintf(&b, ": LIST %s at just %d", o.target, o.asked)
	case o.kind == list:
		fmt.Fprintf(&b, ": LIST %s", o.target)
	default:
		fmt.Fprintf(&b, ": GET %s", o.target)
	}
	switch {
	case o.kind == watch:
	case o.zero:
		b.WriteString(` at "0"`)
	case o.asked > 0 && !o.exact:
		fmt.Fprintf(&b, " at %d or newer", o.asked)
	}
	end := "open"
	if o.end != forever {
		end = time.Duration(o.end).String()
	}
	fmt.Fprintf(&b, " [%v to %s]", time.Duration(o.begin), end)
	switch {
	case o.revision > 0:
		fmt.Fprintf(&b, ", revision %d", o.revision)
	case o.kind == get && o.outcome == done:
		b.WriteString(", not found")
	}
	return b.String()
}
