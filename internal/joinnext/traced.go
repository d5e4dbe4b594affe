package joinnext

import "slices"

// Traced is a Companion whose caller may be traced: the call is told of those who are.
type Traced interface {
	Companion
	// Traced is asked once for each Do, and must not block.
	Traced() bool
}

// Traced returns the Companions of the callers who are traced, also of some who have
// gone since; none, at no cost, where nobody is.
func (c Call) Traced() []Companion {
	if c.traced == nil {
		return nil
	}
	return slices.Concat(c.traced.moved, c.traced.firsts)
}

// traced is apart from its batch, as mostly there is none.
type traced struct {
	firsts []Companion // came to this batch first
	moved  []Companion // came from one that failed, and move no more
}

// traceLocked notes a caller of b who is traced.
func (b *batch[T]) traceLocked(beside Companion) {
	if t, ok := beside.(Traced); ok && t.Traced() {
		who := b.sent.whoIsTraced()
		who.firsts = append(who.firsts, beside)
	}
}

// moveTraced takes over those who move from a call that failed. No others ever do:
// the one in flight is the only one whose callers come here.
func (c *Call) moveTraced(failed Call) {
	if failed.traced != nil {
		c.whoIsTraced().moved = failed.traced.firsts
	}
}

func (c *Call) whoIsTraced() *traced {
	if c.traced == nil {
		c.traced = &traced{}
	}
	return c.traced
}
