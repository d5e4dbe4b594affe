package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// shown is what --json prints, as its readers decode it.
type shown struct {
	OK     bool
	Cores  int
	Scenes []struct {
		Name, Title, Claim, Verdict string
		Seen                        bool
		Rows                        []struct {
			Side, Error string
			Figures     map[string]float64
		}
	}
}

// TestScenes plays all scenes and looks at their figures anew, with counts and
// loose ratios.
func TestScenes(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), options{json: true, sizes: quickSizes}, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	awaitEnd(t, before)

	var got shown
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	if !got.OK || got.Cores < 1 || len(got.Scenes) != 5 {
		t.Fatalf("ok %v, cores %d, %d scenes", got.OK, got.Cores, len(got.Scenes))
	}
	if lines := strings.Count(stderr.String(), "\n"); lines != 5 {
		t.Errorf("%d lines on stderr, want one for each scene:\n%s", lines, stderr.String())
	}
	for i, name := range []string{"elsewhere", "storm", "lease", "future", "deadline"} {
		scene := got.Scenes[i]
		if scene.Name != name || !scene.Seen || scene.Title == "" || scene.Claim == "" || scene.Verdict == "" {
			t.Errorf("scene %d is %+v, want %s, seen", i+1, scene, name)
		}
		if scene.Rows[0].Side != "stock" || scene.Rows[1].Side != "rvfloor" {
			t.Fatalf("%s: rows of %s and %s", name, scene.Rows[0].Side, scene.Rows[1].Side)
		}
	}
	// expect compares a figure of two rows of a scene.
	expect := func(scene int, figure string, ok func(stock, ours float64) bool) {
		t.Helper()
		rows := got.Scenes[scene].Rows
		stock, there := rows[0].Figures[figure]
		ours, too := rows[1].Figures[figure]
		if !there || !too || !ok(stock, ours) {
			t.Errorf("%s: %s is %v with stock and %v with rvfloor", got.Scenes[scene].Name, figure, stock, ours)
		}
	}
	sooner := func(stock, ours float64) bool { return 0 < ours && ours < stock/5 }
	none := func(stock, ours float64) bool { return stock == 0 && ours == 0 }
	expect(0, "p50_seconds", sooner)
	expect(0, "stale", none)
	if old := got.Scenes[0].Rows[2].Figures["stale"]; old < 1 || old > float64(quickSizes.elsewhere) {
		t.Errorf("%v of %d unverified answers were too old", old, quickSizes.elsewhere)
	}
	expect(1, "range_requests", func(stock, ours float64) bool {
		return stock >= float64(quickSizes.storm) && 1 <= ours && ours <= 10
	})
	expect(1, "progress_requests", func(_, ours float64) bool { return ours <= 10 })
	expect(1, "stale", none)
	expect(2, "lists_with_deleted", func(stock, ours float64) bool { return stock >= 1 && ours == 0 })
	expect(2, "most_deleted", func(stock, ours float64) bool { return 1 <= stock && stock < leasedPods && ours == 0 })
	expect(3, "returned_seconds", sooner)
	expect(4, "returned_seconds", sooner)
	for scene, texts := range map[int][2]string{
		3: {"Too large resource version", "Too large resource version"},
		4: {"", "did not become fresh in time"},
	} {
		for i, part := range texts {
			if message := got.Scenes[scene].Rows[i].Error; message == "" || !strings.Contains(message, part) {
				t.Errorf("%s: row %d failed with %q, want %q", got.Scenes[scene].Name, i, message, part)
			}
		}
	}
}

// awaitEnd waits until only the goroutines from before are left. Upstream's
// CacheDelegator leaves one for each consistent list, for three seconds.
func awaitEnd(t *testing.T, before goleak.Option) {
	t.Helper()
	var err error
	for range 20 {
		if err = goleak.Find(before); err == nil { // waits some time itself
			return
		}
	}
	t.Error(err)
}

func TestVerdict(t *testing.T) {
	r := report{Scenes: []result{{Name: "one", Seen: true}, {Name: "two", Claim: "it flies"}, {Name: "three", Claim: "it swims"}}}
	err := r.verdict()
	if err == nil {
		t.Fatal("no error where two scenes were not as claimed")
	}
	for _, part := range []string{"scene 2, two", "it flies", "scene 3, three", "it swims"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %q", part, err)
		}
	}
	if strings.Contains(err.Error(), "one") {
		t.Errorf("the scene that was as claimed is in %q", err)
	}
	r.Scenes = r.Scenes[:1]
	if err := r.verdict(); err != nil {
		t.Error(err)
	}
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--colour": "--help",
		"fast":     `"fast"`,
	} {
		var stderr bytes.Buffer
		if _, err := parse([]string{args}, &stderr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s in it", args, err, want)
		}
	}
	o, err := parse([]string{"--json", "--plain", "--quick"}, nil)
	if err != nil || !o.json || !o.plain || o.sizes != quickSizes {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = parse(nil, nil); err != nil || o.json || o.plain || o.sizes != fullSizes {
		t.Errorf("%+v, %v", o, err)
	}
}
