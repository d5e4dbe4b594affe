package progress

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// TestKickPanics: a kick that panics is one that failed, and is tried again.
func TestKickPanics(t *testing.T) {
	for _, now := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var s *Stream
			kicks, panicked := 0, 0
			cfg := StreamConfig{
				Kick: func(context.Context) error {
					if kicks++; kicks == 1 {
						panic("boom")
					}
					s.Applied(5)
					return nil
				},
				Kicked: func(err error) {
					if _, ok := errors.AsType[*guard.PanicError](err); ok {
						panicked++
					}
				},
			}
			if now {
				cfg.KickNow = func() bool { panic("boom") }
			}
			s = NewCoordinator(Config{}).NewStream(cfg)
			if err := s.Wait(t.Context(), 5); err != nil {
				t.Error(err)
			}
			s.Close()
			if kicks != 2 || panicked != 1 || s.Waiters() != 0 {
				t.Errorf("%d kicks, %d told as panicked, %d wait", kicks, panicked, s.Waiters())
			}
		})
	}
}
