package decorator

import (
	"fmt"
	"slices"
)

// Mode is what becomes of the reads of a Backend. It can be changed at any time; a
// read follows the mode that it met when it arrived.
type Mode string

const (
	// ModeVerify holds reads until the cache is fresh. The default.
	ModeVerify Mode = "verify"
	// ModeShadow verifies and counts every read and changes no answer.
	ModeShadow Mode = "shadow"
	// ModeOff leaves every call to the inner storage, whose answers may be stale.
	ModeOff Mode = "off"
)

// modes are numbered for Backend.mode, whose zero value is the default.
var modes = []Mode{ModeVerify, ModeShadow, ModeOff}

// SetMode changes the mode of all Stores of the Backend, those that are still to
// come too. It returns an error, and changes nothing, when m is none of the three.
func (b *Backend) SetMode(m Mode) error {
	n := slices.Index(modes, m)
	if n < 0 {
		return fmt.Errorf("decorator: mode %q: use one of %q", string(m), modes)
	}
	b.mode.Store(uint32(n))
	return nil
}

// Mode is the present one.
func (b *Backend) Mode() Mode { return modes[b.mode.Load()] }
