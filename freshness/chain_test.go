package freshness

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// grown returns a chain after n appends, at the revisions 10, 20 and so on.
func grown(n int) Chain {
	chain := Chain{}
	for i := range n {
		chain = chain.extended(uint64(i) * 10)
	}
	return chain
}

func TestChainEncoding(t *testing.T) {
	// Written out: what is in the backends of others must stay readable.
	chain := Chain{{Nonce: 0x0102030405060708, Prev: 0}, {Nonce: math.MaxUint64, Prev: 300}}
	value := []byte("rvfloor\x01" + "\x01\x02\x03\x04\x05\x06\x07\x08" + "\x00" + "\xff\xff\xff\xff\xff\xff\xff\xff" + "\xac\x02")
	if got := chain.Encode(); !bytes.Equal(got, value) {
		t.Errorf("encoded as %q", got)
	}
	if got, err := ParseChain(value); err != nil || !slices.Equal(got, chain) {
		t.Errorf("parsed as %v, %v", got, err)
	}
	if n := len(grown(MaxChain).Encode()); n > 4096 {
		t.Errorf("a full chain takes %d bytes, on each read", n)
	}
}

func TestChainKeepsTheNewest(t *testing.T) {
	chain := grown(MaxChain)
	longer := chain.extended(5000)
	if len(longer) != MaxChain || !slices.Equal(longer[:MaxChain-1], chain[1:]) || longer[MaxChain-1].Prev != 5000 {
		t.Errorf("%d links, the last %v", len(longer), longer[len(longer)-1])
	}
	if got, err := ParseChain(longer.Encode()); err != nil || !slices.Equal(got, longer) {
		t.Errorf("parsed: %v", err)
	}
}

func TestChainTellsHistoriesApart(t *testing.T) {
	snapshot := grown(3)
	lost := snapshot.extended(30) // after the snapshot, so a restore loses it
	seen := lost[3]

	after := func(chain Chain, appends int) Chain {
		for i := range appends {
			chain = chain.extended(uint64(len(chain)+i) * 1000)
		}
		return chain
	}
	for _, test := range []struct {
		name      string
		chain     Chain
		has, lost bool
	}{
		{"the same", lost, true, false},
		{"gone on", after(lost, 100), true, false},
		{"as long as can be", after(lost, MaxChain-1), true, false},
		{"cut off by its successors", after(lost, MaxChain), false, false},
		{"restored", snapshot, false, true},
		{"restored and gone on", after(snapshot, 100), false, true},
		{"restored and full", after(snapshot, MaxChain-len(snapshot)), false, true},
		{"another sentinel", after(Chain{}, 1), false, true},
		{"emptied", Chain{}, false, true},
	} {
		if has, lost := test.chain.Has(seen.Nonce), test.chain.Lost(seen); has != test.has || lost != test.lost {
			t.Errorf("%s: Has %v, Lost %v", test.name, has, lost)
		}
	}
}

func TestParseChainSaysWhatIsWrong(t *testing.T) {
	whole := string(grown(2).Encode())
	for _, test := range []struct {
		name, value string
		want        error
		says        string
	}{
		{"nothing", "", ErrNotAChain, `"rvfloor"`},
		{"something else", "leader=a", ErrNotAChain, `"rvfloor"`},
		{"no version", "rvfloor", ErrNotAChain, `"rvfloor"`},
		{"a newer one", "rvfloor\x02anything", ErrChainVersion, "it is 2, and this one reads 1"},
		{"half a nonce", whole + "abc", ErrNotAChain, "byte 26"},
		{"no revision", whole + "12345678", ErrNotAChain, "byte 34"},
		{"an endless revision", whole + "12345678" + strings.Repeat("\x80", 11), ErrNotAChain, "byte 34"},
		{"a revision in more bytes than it takes", whole + "12345678\x80\x00", ErrNotAChain, "byte 34"},
		{"too long", whole + strings.Repeat("12345678\x00", MaxChain-1), ErrNotAChain, "256"},
	} {
		chain, err := ParseChain([]byte(test.value))
		if chain != nil || !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, %v", test.name, chain, err)
		}
	}
}

// FuzzParseChain: no value makes the parser fail in another way than by its
// error, and each value that it takes is the one encoding of its chain.
func FuzzParseChain(f *testing.F) {
	for _, seed := range []Chain{{}, grown(1), grown(3), grown(MaxChain), {{Nonce: 1, Prev: math.MaxUint64}}} {
		f.Add(seed.Encode())
	}
	f.Add([]byte("rvfloor\x02"))
	f.Add([]byte("rvfloor\x01" + "12345678" + "\x80\x00"))
	f.Fuzz(func(t *testing.T, value []byte) {
		chain, err := ParseChain(value)
		if err != nil {
			if chain != nil || !errors.Is(err, ErrNotAChain) && !errors.Is(err, ErrChainVersion) {
				t.Fatalf("%v, %v", chain, err)
			}
			return
		}
		if again := chain.Encode(); !bytes.Equal(again, value) {
			t.Fatalf("%q was read as %v, which is written as %q", value, chain, again)
		}
		longer, err := ParseChain(chain.extended(7).Encode())
		if err != nil || len(longer) != min(len(chain)+1, MaxChain) {
			t.Fatalf("extended: %d links after %d, %v", len(longer), len(chain), err)
		}
	})
}
