package linear

import (
	"fmt"
	"math"
	"strconv"
	"sync"
)

// Client records the operations of one client. Its name stands in the reports. It
// may be used by several goroutines; each Write and Read by one.
type Client struct {
	run  *Run
	name string

	mu  sync.Mutex
	ops []*op
}

// Client returns a new client of the Run.
func (r *Run) Client(name string) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Client{run: r, name: name}
	r.clients = append(r.clients, c)
	return c
}

// WriteKind is what a write was meant to do.
type WriteKind uint8

// The kinds of writes. LeaseEnd is the end of a lease, asked for or by its time: it
// deletes those of its keys that are still there, and so does a Txn.
const (
	Create WriteKind = iota
	Update
	Delete
	Txn
	LeaseEnd
)

var writeKinds = [...]string{"create", "update", "delete", "txn", "lease end"}

func (k WriteKind) String() string { return writeKinds[k] }

// forever is the end of an operation that may still take effect.
const forever = math.MaxInt64

type opKind uint8

const (
	list opKind = iota
	get
	watch
	write
)

type outcome uint8

const (
	open outcome = iota // nobody knows: a write may take effect at any time after it began
	done
	failed
	lost // acknowledged, and not in the truth
)

// op is one operation. A million of them are kept, so it is small, and what was read
// is not in it.
type op struct {
	client     *Client
	begin, end int64
	revision   uint64 // of the list, of the object (0: none), of the write (0: not known)
	asked      uint64 // the lowest revision that the reader was content with
	point      uint64 // where it stands in the order, once that is judged
	target     string // prefix or key
	write      *written
	phase      uint16
	kind       opKind
	outcome    outcome
	fresh      bool // the reader asked for the newest
	zero       bool // by resourceVersion "0"
	exact      bool // the reader asked for that revision and no other
	wrong      bool // a violation was found in it
}

type written struct {
	kind    WriteKind
	changes []Change
}

func (c *Client) begin(o *op) {
	r := c.run
	r.mu.Lock()
	o.phase = uint16(len(r.phases) - 1)
	r.mu.Unlock()
	o.client, o.end = c, forever
	c.mu.Lock()
	c.ops = append(c.ops, o)
	c.mu.Unlock()
	o.begin = r.now()
}

// Write is a write that began. One that is neither Acknowledged nor Failed may take
// effect at any later time, or never: so do not settle one that timed out.
type Write struct{ op }

// Write records that a write begins, which is to make these changes. The value of a
// change must be new to its key.
func (c *Client) Write(kind WriteKind, changes ...Change) *Write {
	w := &Write{op{kind: write, write: &written{kind, changes}}}
	c.begin(&w.op)
	return w
}

// Acknowledged records that the backend took the write, at the revision. Where a
// Delete, Create or Update does not tell its revision, it is 0.
func (w *Write) Acknowledged(revision uint64) {
	w.end, w.outcome, w.revision = w.client.run.now(), done, revision
}

// Failed records that the write had no effect and will have none.
func (w *Write) Failed() { w.end, w.outcome = w.client.run.now(), failed }

// Read is a LIST or a GET that began. One that never ends counts as failed.
type Read struct{ op }

// Item is an object as it was read: its key, its value, and the revision of its last
// write.
type Item struct {
	Key, Value string
	Revision   uint64
}

// List records that a LIST of all keys below the prefix begins. resourceVersion is as
// in the API: "" asks for the newest, "0" too (see Config), N for N or newer.
func (c *Client) List(prefix, resourceVersion string) *Read {
	return c.read(list, prefix, resourceVersion)
}

// ListExact records that a LIST of the state at just that revision begins.
func (c *Client) ListExact(prefix string, revision uint64) *Read {
	r := &Read{op{kind: list, target: prefix, asked: revision, exact: true}}
	c.begin(&r.op)
	return r
}

// Get records that a GET of the key begins. resourceVersion is as for List.
func (c *Client) Get(key, resourceVersion string) *Read {
	return c.read(get, key, resourceVersion)
}

func (c *Client) read(kind opKind, target, resourceVersion string) *Read {
	o := op{kind: kind, target: target, fresh: resourceVersion == ""}
	if !o.fresh {
		var err error
		if o.asked, err = strconv.ParseUint(resourceVersion, 10, 64); err != nil {
			panic(fmt.Sprintf("linear: resourceVersion %q: %v", resourceVersion, err))
		}
		o.zero = o.asked == 0
		o.fresh = o.zero && !c.run.cfg.ZeroMayBeOld
	}
	r := &Read{o}
	c.begin(&r.op)
	return r
}

// Answered records the answer. A LIST has the revision of the list and all its items,
// of all its pages. A GET has one item, or none where the key was not found: that is
// an answer too; its revision is not looked at. The items must not be changed any more;
// they are let go when the truth has come to their revision, and bears them out.
func (r *Read) Answered(revision uint64, items ...Item) {
	run := r.client.run
	r.end, r.outcome, r.revision = run.now(), done, revision
	if r.kind == get {
		r.revision = 0
		for _, item := range items {
			r.revision = item.Revision
		}
	}
	run.answered(held{op: &r.op, items: items, sum: sum(run.seed, items)})
}

// Failed records that the read ended without an answer.
func (r *Read) Failed() { r.end, r.outcome = r.client.run.now(), failed }
