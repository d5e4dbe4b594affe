package etcdlab

// Link is the wire that carries all that member from tells member to: its streams
// of messages, whichever of the two dialed, its posts, and its questions. The other
// direction is another wire, so a partition may be one-sided. It panics where from
// is to.
func (c *Processes) Link(from, to int) *Wire {
	wire, ok := c.peers.wires[[2]int{from, to}]
	if !ok {
		panic("etcdlab: no member has a link to itself")
	}
	return wire
}

// CutPeer partitions member i from the others, both ways. Its clients stay connected
// to it. MendPeer ends it.
func (c *Processes) CutPeer(i int) { c.links(i, (*Wire).Cut) }

// MendPeer heals all links of member i.
func (c *Processes) MendPeer(i int) { c.links(i, (*Wire).Heal) }

func (c *Processes) links(i int, act func(*Wire)) {
	for j := range c.cfg.Members {
		if j != i {
			act(c.Link(i, j))
			act(c.Link(j, i))
		}
	}
}
