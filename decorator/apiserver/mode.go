package apiserver

import (
	"errors"

	"github.com/rvfloor/rvfloor/decorator"
)

// errNotWired is the answer to who wants to switch on what was left out when the server started.
var errNotWired = errors.New("apiserver: the server was started with --verified-reads=false, so its storages are stock; restart it without the flag")

// SetMode changes what becomes of the reads of all resources, at once and without a restart: see decorator.Mode. It holds
// until it is changed again or the process ends. Its error says what to use instead of a mode that is unknown.
func (b *Backends) SetMode(mode decorator.Mode) error {
	if err := mode.Validate(); err != nil {
		return err
	}
	if b.notWired && mode != decorator.ModeOff {
		return errNotWired
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = mode
	for _, t := range b.transports {
		if t.connected.Load() {
			_ = t.backend.SetMode(mode) // it is valid
		}
	}
	return nil
}

// Mode is the present one.
func (b *Backends) Mode() decorator.Mode {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mode
}

// adoptMode gives a transport that was being connected the mode that was set meanwhile.
func (b *Backends) adoptMode(t *transport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = t.backend.SetMode(b.mode) // it is valid
}
