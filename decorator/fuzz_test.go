package decorator

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// What fuzzed is read from. The caches are filled at fuzzFilled, so that what is
// older is in the storage alone; up to fuzzCompacted it is nowhere. The backend is at
// fuzzFloor and no cache has heard of the last step.
const (
	fuzzCompacted = 4
	fuzzFilled    = 6
	fuzzFloor     = 9
)

func fuzzBefore(r *rig) {
	a, b, c := pod("ns", "a"), pod("ns", "b"), pod("other", "c")
	b.Labels, c.Labels = map[string]string{"app": "x"}, map[string]string{"app": "y"}
	c.Spec.NodeName = "n1"
	for _, p := range []*example.Pod{a, b, c, a, b} { // at 2 to 6
		r.txn(memstorage.Put(podKey(p), p))
	}
	if err := r.memory.Compact(fuzzCompacted); err != nil {
		r.t.Fatal(err)
	}
}

// fuzzed is one call with any options.
type fuzzed struct {
	verb    uint8
	key     string
	rv      string
	match   string
	limit   int64
	token   string
	label   string
	field   string
	single  bool  // not recursive
	initial uint8 // SendInitialEvents: nil, false, true
	marks   bool  // AllowWatchBookmarks
	policy  uint8
}

// FuzzOptions compares a Store with upstream's own cache over the same data, whatever
// is asked: no answer is below the floor where section 5 promises one, none panics,
// and each is of stock's class, but for what section 5 changes on purpose.
func FuzzOptions(f *testing.F) {
	for verb := range uint8(3) {
		for _, rv := range []string{"", "0", "00", "3", "5", "7", "8", "9", "10", "09", "-1", "+9", " 9", "nine", "18446744073709551615", "18446744073709551616"} {
			f.Add(verb, "/pods/", rv, "", int64(0), "", "", "", false, uint8(0), false, uint8(0))
			f.Add(verb, "/pods/ns/a", rv, "NotOlderThan", int64(2), "", "", "", true, uint8(2), true, uint8(1))
			f.Add(verb, "/pods/ns/", rv, "Exact", int64(1), "", "app=x", "", false, uint8(1), true, uint8(2))
		}
	}
	f.Add(uint8(0), "/pods", "0", "Exact", int64(1), "", "", "", false, uint8(1), true, uint8(0))
	for _, t := range []string{tokenNewest, token(8), token(5), token(2), token(10), token(math.MinInt64), "garbage", "e30"} {
		for _, rv := range []string{"", "0", "5"} {
			f.Add(uint8(0), "/pods/", rv, "", int64(1), t, "", "spec.nodeName=n1", false, uint8(0), false, uint8(0))
			f.Add(uint8(0), "/pods/", rv, "NotOlderThan", int64(2), t, "", "", rv == "0", uint8(0), false, uint8(0))
			f.Add(uint8(0), "/pods/ns", rv, "Newest", int64(0), t, "app!=x", "", true, uint8(0), false, uint8(3))
		}
	}
	for _, key := range []string{"", "/", "/pods", "/pods/../x", "/nodes/", "/pods/ns/missing", "/pods/%rvfloor", "pods"} {
		f.Add(uint8(1), key, "0", "", int64(0), "", "", "", false, uint8(0), false, uint8(0))
		f.Add(uint8(2), key, "", "", int64(0), "", "", "metadata.name=a", true, uint8(2), true, uint8(0))
	}
	f.Fuzz(func(t *testing.T, verb uint8, key, rv, match string, limit int64, token, label, field string,
		single bool, initial uint8, marks bool, policy uint8) {
		fuzzed{verb % 3, key, rv, match, limit, token, label, field, single, initial % 3, marks, policy % 4}.check(t)
	})
}

func (z fuzzed) check(t *testing.T) {
	cfg := Config{CachedGets: z.policy&1 != 0, ZeroVersion: ZeroVerified}
	if z.policy&2 != 0 {
		cfg.ZeroVersion = ZeroAsIs
	}
	bubble(t, setup{cfg: cfg, before: fuzzBefore}, func(t *testing.T, r *rig) {
		raw, stock := r.stock()
		b := pod("ns", "b")
		r.txn(memstorage.Put(podKey(b), b), memstorage.Delete("/pods/other/c"))
		r.put("a")
		for _, s := range []*memstorage.Storage{raw, r.cached} {
			s.SendProgress(fuzzFloor - 1)
		}
		settled()
		if r.memory.Bump() != fuzzFloor {
			t.Fatalf("the floor is at %d", r.memory.Revision())
		}
		start := time.Now()
		ours, err := z.read(t, r.store)
		if (z.futureByNumber() || z.futureByToken()) && time.Since(start) != 0 {
			t.Errorf("%+v: a revision to come was waited for", z)
		}
		theirs, stockErr := z.read(t, stock)
		got, want := class(err), class(stockErr)
		if z.refusedOnPurpose() {
			want = "too large"
		}
		if got != want {
			t.Errorf("%+v: got %s (%v), stock %s (%v)", z, got, err, want, stockErr)
		}
		if err != nil || got != want {
			return
		}
		if truth, known := z.truth(t, r); known && !maps.Equal(ours.state, truth) {
			t.Errorf("%+v: got %v, and the backend holds %v", z, ours.state, truth)
		}
		if z.floored() && ours.revision < fuzzFloor {
			t.Errorf("%+v: answered at %d, below the floor", z, ours.revision)
		}
		if stockErr == nil && ours.token == "" != (theirs.token == "") {
			t.Errorf("%+v: token %q, stock's is %q", z, ours.token, theirs.token)
		}
	})
}

// answer is what a read came to.
type answer struct {
	state    state
	revision uint64 // of a list
	token    string
}

func (z fuzzed) options() storage.ListOptions {
	opts := everything(z.rv)
	opts.ResourceVersionMatch = metav1.ResourceVersionMatch(z.match)
	opts.Recursive = !z.single
	opts.Predicate = selecting("", "")
	if selector, err := labels.Parse(z.label); err == nil {
		opts.Predicate.Label = selector
	}
	if selector, err := fields.ParseSelector(z.field); err == nil {
		opts.Predicate.Field = selector
	}
	opts.Predicate.Limit, opts.Predicate.Continue, opts.Predicate.AllowWatchBookmarks = z.limit, z.token, z.marks
	if z.initial > 0 {
		opts.SendInitialEvents = new(z.initial == 2)
	}
	return opts
}

func (z fuzzed) read(t *testing.T, s storage.Interface) (answer, error) {
	a := answer{state: state{}}
	switch z.verb {
	case 0:
		pods, err := listUnder(t.Context(), s, z.key, z.options())
		if err != nil {
			return a, err
		}
		a.state, a.token = stateOf(pods), pods.Continue
		a.revision, err = s.Versioner().ParseResourceVersion(pods.ResourceVersion)
		return a, err
	case 1:
		var p example.Pod
		err := s.Get(t.Context(), z.key, storage.GetOptions{ResourceVersion: z.rv}, &p)
		if err == nil {
			a.state[podKey(&p)] = p.ResourceVersion
		}
		return a, err
	}
	w, err := s.Watch(t.Context(), z.key, z.options())
	if err != nil {
		return a, err
	}
	events := make(chan watch.Event)
	go func() { // a watch with room for few events must be read
		defer close(events)
		for event := range w.ResultChan() {
			events <- event
		}
	}()
	defer func() {
		w.Stop()
		for range events {
		}
	}()
	quiet := time.After(10 * time.Second)
	for {
		select {
		case event, open := <-events:
			if !open {
				return a, nil
			}
			if err := failureOf(event); err != nil {
				return a, err
			}
			a.state.apply(event)
		case <-quiet:
			return a, nil
		}
	}
}

// number is the resourceVersion as upstream reads it.
func (z fuzzed) number() (uint64, bool) {
	n, err := storage.APIObjectVersioner{}.ParseResourceVersion(z.rv)
	return n, err == nil
}

func (z fuzzed) goodKey() bool {
	_, err := storage.PrepareKey("/pods/", z.key, !z.single && z.verb != 1)
	return err == nil
}

// futureByNumber: a call that names a revision to come, in words that upstream takes.
func (z fuzzed) futureByNumber() bool {
	n, ok := z.number()
	known := z.match == "" || z.match == string(notOlderThan) || z.match == string(exactly)
	return ok && n > fuzzFloor && z.goodKey() && (z.verb != 0 || known && z.token == "")
}

// futureByToken: a page of a revision to come.
func (z fuzzed) futureByToken() bool {
	_, at, err := storage.DecodeContinue(z.token, "/pods/")
	return z.verb == 0 && err == nil && at > fuzzFloor && !z.single && z.match == "" && (z.rv == "" || z.rv == "0") && z.goodKey()
}

// refusedOnPurpose is where section 5 departs from stock: a Watch from a revision
// that does not exist yet, from which stock drops the events up to it. (With initial
// events stock refuses it as well, after 3 s.)
func (z fuzzed) refusedOnPurpose() bool { return z.verb == 2 && z.futureByNumber() }

// newest: the call asks for the newest data, and section 5 promises it.
func (z fuzzed) newest() bool {
	n, ok := z.number()
	return ok && n == 0 && (z.rv == "" || z.policy&2 == 0) && z.goodKey()
}

// tokenIgnored: upstream's cache looks at no token beside this match, and its storage
// at none of a single object.
func (z fuzzed) tokenIgnored() bool { return z.single || z.match == string(notOlderThan) }

// floored: its answer is a list that carries a revision at or above the floor.
func (z fuzzed) floored() bool {
	if z.verb != 0 || !z.newest() {
		return false
	}
	if z.token == "" || z.tokenIgnored() {
		return true
	}
	_, at, err := storage.DecodeContinue(z.token, "/pods/")
	return err == nil && at < 0
}

// truth is what the answer must be where it is of the newest data: what the storage
// says.
func (z fuzzed) truth(t *testing.T, r *rig) (state, bool) {
	t.Helper()
	opts := z.options()
	opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	switch z.verb {
	case 0:
		if !z.floored() {
			return nil, false
		}
		if z.rv == "0" && z.match != string(exactly) || z.limit < 0 {
			opts.Predicate.Limit = 0 // ignored; exactly 0 is a list of the storage's, and is not
		}
		if z.tokenIgnored() {
			opts.Predicate.Continue = ""
		}
	case 1:
		if !z.newest() {
			return nil, false
		}
		opts = everything("")
		opts.Recursive = false
	case 2:
		fromState := opts.SendInitialEvents == nil || *opts.SendInitialEvents
		if !z.newest() || !fromState || z.single { // what one key covers in a cache is more than the key
			return nil, false
		}
		opts.Predicate.Limit, opts.Predicate.Continue = 0, ""
	}
	pods, err := listUnder(t.Context(), r.writer, z.key, opts)
	if err != nil {
		t.Fatalf("%+v: the storage itself says %v", z, err)
	}
	return stateOf(pods), true
}

// class is what a client makes of an error.
func class(err error) string {
	switch {
	case err == nil:
		return "ok"
	case storage.IsTooLargeResourceVersion(err):
		return "too large"
	case apierrors.IsResourceExpired(err):
		return "expired"
	case storage.IsNotFound(err):
		return "not found"
	case apierrors.IsBadRequest(err), storage.IsInvalidError(err):
		return "bad request"
	}
	if status, ok := err.(apierrors.APIStatus); ok {
		return fmt.Sprint("status ", status.Status().Code)
	}
	return "other"
}
