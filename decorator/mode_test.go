package decorator

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestMode switches a Backend whose floors cannot be read: each read follows the mode
// that it met, and off nothing is read but the cache.
func TestMode(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.failFloors(errors.New("no quorum"))
		for _, step := range []struct {
			mode   Mode
			fails  bool
			counts float64 // lists that came to no floor until then
		}{
			{ModeVerify, true, 1}, {ModeShadow, false, 2}, {ModeOff, false, 2}, {ModeVerify, true, 3},
		} {
			if err := r.backend.SetMode(step.mode); err != nil {
				t.Fatal(err)
			}
			if got := r.backend.Mode(); got != step.mode {
				t.Errorf("the mode is %q, want %q", got, step.mode)
			}
			before := r.floorReads()
			_, err := list(t.Context(), r.store, everything("0"))
			if (err != nil) != step.fails {
				t.Errorf("%s: got %v", step.mode, err)
			}
			time.Sleep(cacherTimers) // what shadow does beside the call
			if n := r.reads(verbList, routeFloor, outcomeNoFloor); n != step.counts {
				t.Errorf("%s: %v lists were counted, want %v", step.mode, n, step.counts)
			}
			if read := r.floorReads() != before; read != (step.mode != ModeOff) {
				t.Errorf("%s: a floor was read: %t", step.mode, read)
			}
			if err := r.backend.Check(t.Context()); (err != nil) != step.fails {
				t.Errorf("%s: Check says %v", step.mode, err)
			}
		}
	})
}

// TestOffIsStock: where no answer is to be changed the cache's own consistent read works
// without a floor of ours, also after a rewind, which fails all floors.
func TestOffIsStock(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.cached.Hold()
		r.restore()
		if _, err := list(t.Context(), r.store, everything("")); err == nil {
			t.Fatal("a list after a rewind was answered")
		}
		for _, mode := range []Mode{ModeOff, ModeShadow} {
			if err := r.backend.SetMode(mode); err != nil {
				t.Fatal(err)
			}
			if _, err := list(t.Context(), r.store, everything("")); err != nil {
				t.Errorf("%s: %v", mode, err)
			}
		}
	})
}

func TestSetModeRefuses(t *testing.T) {
	bubble(t, setup{cfg: Config{Shadow: true}}, func(t *testing.T, r *rig) {
		for _, wrong := range []Mode{"", "Off", "on"} {
			if err := r.backend.SetMode(wrong); err == nil || !strings.Contains(err.Error(), `"verify" "shadow" "off"`) {
				t.Errorf("mode %q: got %v, want the three to use", wrong, err)
			}
		}
		if got := r.backend.Mode(); got != ModeShadow {
			t.Errorf("the mode is %q, want that of Config.Shadow", got)
		}
	})
}
