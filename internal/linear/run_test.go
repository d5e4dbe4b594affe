package linear

import "testing"

// worlds are how many simulated runs a property is tried on.
const worlds = 40

// TestRightRunsPass is the property that nothing is found where nothing is wrong.
func TestRightRunsPass(t *testing.T) {
	for seed := range uint64(worlds) {
		w := newWorld(seed)
		w.run(usual, 0)
		if seed%2 == 1 {
			w.restore(w.rng.Uint64N(w.now() + 1))
			w.run(usual, w.end()+20)
		}
		cfg := Config{SecondOpinion: []string{"/a/1", "/b/2"}}
		if err := w.play(t, cfg, seed%3 != 0).Err(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
