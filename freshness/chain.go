package freshness

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// MaxChain is how many links of a chain are kept, the newest ones. At the
// default pulse of a minute they reach back four hours, or less by as many
// times as there are API servers: a reader that was away for longer cannot tell
// from the chain alone. The whole chain travels with each read of a floor; at
// this length it takes about 3 KiB.
const MaxChain = 256

// Link is one step of a Chain.
type Link struct {
	// Nonce is random. Who has seen it once knows the history that holds it.
	Nonce uint64
	// Prev is the revision of the sentinel that this link was appended to, or 0
	// where the link began the sentinel. So the link is younger than Prev.
	Prev uint64
}

// Chain is the value of the sentinel: the oldest kept link first. A reader
// remembers the last link that it saw. Finding it again (Has) proves that the
// history is the one it knows; missing it proves that it is not, unless the link
// was cut off meanwhile (Lost).
//
// Its encoding is the 7 bytes "rvfloor", a byte that holds the version, 1, and
// for each link 8 bytes of nonce, big-endian, and Prev as a uvarint (as
// encoding/binary writes it, in the fewest bytes). There is one encoding for
// each chain.
type Chain []Link

const (
	chainMagic   = "rvfloor"
	chainVersion = 1
	nonceLen     = 8
)

var (
	// ErrNotAChain is in the error for a value that rvfloor did not write, or
	// that was damaged since.
	ErrNotAChain = errors.New("not a chain of rvfloor's")
	// ErrChainVersion is in the error for a chain that another version of
	// rvfloor wrote.
	ErrChainVersion = errors.New("a chain in another version's encoding")
)

// Encode returns the chain as the value of the sentinel.
func (c Chain) Encode() []byte {
	// 5 bytes of varint are a revision of up to 34 billion.
	value := make([]byte, 0, len(chainMagic)+1+len(c)*(nonceLen+5))
	value = append(value, chainMagic...)
	value = append(value, chainVersion)
	for _, link := range c {
		value = binary.BigEndian.AppendUint64(value, link.Nonce)
		value = binary.AppendUvarint(value, link.Prev)
	}
	return value
}

// ParseChain reads what Encode wrote. Its error wraps ErrNotAChain or
// ErrChainVersion, and says where the value goes wrong.
func ParseChain(value []byte) (Chain, error) {
	if err := checkOurs(value); err != nil {
		return nil, err
	}
	if version := value[len(chainMagic)]; version != chainVersion {
		return nil, fmt.Errorf("%w: it is %d, and this one reads %d", ErrChainVersion, version, chainVersion)
	}
	chain := Chain{}
	for rest := value[len(chainMagic)+1:]; len(rest) > 0; {
		at := len(value) - len(rest)
		if len(chain) == MaxChain {
			return nil, fmt.Errorf("%w: more than %d links", ErrNotAChain, MaxChain)
		}
		if len(rest) < nonceLen {
			return nil, fmt.Errorf("%w: cut off in the nonce at byte %d", ErrNotAChain, at)
		}
		nonce := binary.BigEndian.Uint64(rest)
		rest = rest[nonceLen:]
		prev, n := binary.Uvarint(rest)
		if n <= 0 || n > 1 && rest[n-1] == 0 {
			return nil, fmt.Errorf("%w: no revision at byte %d", ErrNotAChain, at+nonceLen)
		}
		rest = rest[n:]
		chain = append(chain, Link{Nonce: nonce, Prev: prev})
	}
	return chain, nil
}

// checkOurs tells whether value was written by any version of rvfloor.
func checkOurs(value []byte) error {
	if len(value) <= len(chainMagic) || string(value[:len(chainMagic)]) != chainMagic {
		return fmt.Errorf("%w: it does not begin with %q and a version", ErrNotAChain, chainMagic)
	}
	return nil
}

// Has tells whether the chain holds a link with this nonce.
func (c Chain) Has(nonce uint64) bool {
	return slices.ContainsFunc(c, func(link Link) bool { return link.Nonce == nonce })
}

// Lost tells whether the chain proves that seen, once its last link, is no part
// of its history. Where Has and Lost are both false so many links came since
// that nothing can be said: seen's successors were appended to revisions above
// seen.Prev, and they alone fill the chain.
func (c Chain) Lost(seen Link) bool {
	cutOff := len(c) == MaxChain && c[0].Prev > seen.Prev
	return !cutOff && !c.Has(seen.Nonce)
}

// extended returns the chain with a new link at its end, which is appended to
// the sentinel at revision prev.
func (c Chain) extended(prev uint64) Chain {
	var nonce [nonceLen]byte
	_, _ = rand.Read(nonce[:]) // never fails
	kept := c[max(0, len(c)+1-MaxChain):]
	return append(slices.Clone(kept), Link{Nonce: binary.BigEndian.Uint64(nonce[:]), Prev: prev})
}
