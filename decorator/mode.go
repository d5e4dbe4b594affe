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
	// ModeOff leaves every call to the inner storage, whose answers may be stale; but for
	// exact reads, and watches, from what StrategyRangeProof has passed over before.
	ModeOff Mode = "off"
)

// modes are numbered for Backend.mode, whose zero value is the default.
var modes = []Mode{ModeVerify, ModeShadow, ModeOff}

// Validate returns an error that says what to use, when m is none of the three.
func (m Mode) Validate() error {
	if !slices.Contains(modes, m) {
		return fmt.Errorf("decorator: mode %q: use one of %q", string(m), modes)
	}
	return nil
}

// SetMode changes the mode of all Stores of the Backend, those that are still to
// come too. Its error is that of Validate, and changes nothing.
func (b *Backend) SetMode(m Mode) error {
	if err := m.Validate(); err != nil {
		return err
	}
	b.mode.Store(uint32(slices.Index(modes, m)))
	return nil
}

// Mode is the present one.
func (b *Backend) Mode() Mode { return modes[b.mode.Load()] }
