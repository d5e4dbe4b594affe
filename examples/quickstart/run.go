package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// report is what --json prints.
type report struct {
	// OK: each scene was seen as claimed.
	OK      bool     `json:"ok"`
	Go      string   `json:"go"`
	Cores   int      `json:"cores"`   // GOMAXPROCS
	Seconds float64  `json:"seconds"` // of the whole program
	Scenes  []result `json:"scenes"`
}

// run plays the scenes and shows them. The page or the JSON goes to stdout. The
// error says what went wrong, or which scenes were not as claimed.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	began := time.Now()
	p := newPage(o, stdout, stderr)
	r := &report{Go: runtime.Version(), Cores: runtime.GOMAXPROCS(0)}
	p.head(r.Cores)
	err := play(ctx, o.sizes, p, r)
	p.status("") // also after an error: what follows is a line of its own
	if err != nil {
		return err
	}
	r.Seconds = time.Since(began).Seconds()
	p.foot()
	if o.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return r.verdict()
}

// play opens both sides, plays all scenes, and closes all again.
func play(ctx context.Context, size sizes, p *page, r *report) (err error) {
	p.status("starting etcd and both storages")
	s, err := openStage(ctx, size, p.status)
	if err != nil {
		return err
	}
	defer func() {
		p.status("closing both storages and etcd")
		err = errors.Join(err, s.close())
	}()
	r.OK = true
	for i, scene := range scenes(size) {
		p.scene(i+1, scene.title)
		seen, err := scene.play(ctx, s)
		if err != nil {
			return fmt.Errorf("quickstart: scene %d, %s: %w", i+1, scene.name, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		seen.Name, seen.Title, seen.Claim = scene.name, scene.title, scene.claim
		r.Scenes = append(r.Scenes, seen)
		r.OK = r.OK && seen.Seen
		p.result(seen)
	}
	return nil
}

// verdict is an error that names the scenes that were not as claimed.
func (r *report) verdict() error {
	var wrong []string
	for i, scene := range r.Scenes {
		if !scene.Seen {
			wrong = append(wrong, fmt.Sprintf("quickstart: scene %d, %s, was not as claimed: %s", i+1, scene.Name, scene.Claim))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "\n"))
}
